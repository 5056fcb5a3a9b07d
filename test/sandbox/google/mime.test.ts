// Parsing of mail that anybody may send: the same tree for the same bytes, and never more work than the bytes are worth.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { allParts, decodeWords, headerOf, parseMime, textOf } from "../../../src/sandbox/google/mime.js";

test("whatever the bytes are, parsing ends and gives a part", () => {
  const piece = fc.constantFrom(
    "Content-Type: multipart/mixed; boundary=b\r\n",
    "\r\n",
    "--b",
    "--b--",
    "--b\n",
    "x",
    "=?utf-8?B?",
    "?=",
    ';a="',
    " \t",
    "message/rfc822",
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(piece, fc.string()), { maxLength: 60 }), (pieces) => {
      const part = parseMime(Buffer.from(pieces.join("")));
      assert.ok(allParts(part).length <= 201);
      assert.equal(typeof textOf(part), "string");
    }),
    { numRuns: 300 },
  );
});

const HARD: [string, string][] = [
  ["a parameter that never ends", `Content-Type: text/plain${';a="'.repeat(400_000)}\r\n\r\nx`],
  ["boundaries without end", `Content-Type: multipart/mixed; boundary=b\r\n\r\n${"--b\r\n\r\nx\r\n".repeat(100_000)}`],
  [
    "nesting without end",
    Array.from({ length: 5_000 }, (_, at) => `Content-Type: multipart/mixed; boundary=b${at}\r\n\r\n--b${at}\r\n`).join(""),
  ],
  ["tags that never close", `Content-Type: text/html\r\n\r\n${"<style".repeat(300_000)}`],
  ["encoded words that never close", `Subject: ${"=?utf-8?B?".repeat(200_000)}\r\n\r\nx`],
  ["folds without end", `Subject: a${"\r\n b".repeat(300_000)}\r\n\r\nx`],
  ["blanks in quoted-printable", `Content-Transfer-Encoding: quoted-printable\r\n\r\n${" ".repeat(2_000_000)}x`],
];
for (const [what, text] of HARD) {
  test(`${what}: done within a second of work`, () => {
    const bytes = Buffer.from(text);
    const before = process.cpuUsage();
    const part = parseMime(bytes);
    textOf(part);
    decodeWords(headerOf(part, "subject") ?? "");
    // Of this process, not of the clock on the wall: other work on the machine is not the parser's.
    assert.ok(process.cpuUsage(before).user < 1_000_000);
  });
}

test("header names fold case, long lines unfold, and the first of two counts", () => {
  const part = parseMime(Buffer.from("SUBJECT: one\r\n two\r\nsubject: three\r\n\r\n"));
  assert.equal(headerOf(part, "Subject"), "one two");
});

test("file names: plain, quoted, extended, in pieces, in encoded words", () => {
  const name = (field: string) => parseMime(Buffer.from(`Content-Disposition: attachment; ${field}\r\n\r\nx`)).filename;
  assert.equal(name("filename=a.txt"), "a.txt");
  assert.equal(name('filename="a; b \\"c\\".txt"'), 'a; b "c".txt');
  assert.equal(name("filename*=UTF-8''f%C3%BCr.pdf"), "für.pdf");
  assert.equal(name('filename*0="long "; filename*1="name.txt"'), "long name.txt");
  assert.equal(name('filename="=?utf-8?Q?f=C3=BCr.pdf?="'), "für.pdf");
});

test("an unknown charset never throws", () => {
  const part = parseMime(Buffer.from("Content-Type: text/plain; charset=x-nonsense\r\n\r\ncaf\u00e9"));
  assert.equal(textOf(part), "café");
});
