// Mail as it leaves: encoded, threaded, and with no header that an argument brought in (F12).
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import PostalMime from "postal-mime";
import { isAddress, parseRecipient } from "../../../src/connectors/gmail/addresses.js";
import { composeMail, type Draft, replyHeaders, subjectHeader } from "../../../src/connectors/gmail/mimeWrite.js";
import { sendMessage } from "../../../src/connectors/gmail/sendTool.js";
import { NOW_MS } from "../support.js";

function draft(more: Partial<Draft> = {}): Draft {
  return {
    to: [{ name: "", address: "to@x.test" }],
    cc: [],
    bcc: [],
    subject: "Hello",
    body: "text",
    htmlBody: undefined,
    date: new Date(NOW_MS),
    messageId: "<once-1@outband.invalid>",
    onceToken: "once-1",
    reply: null,
    ...more,
  };
}

async function compose(more: Partial<Draft> = {}): Promise<{ raw: string; head: string; names: string[] }> {
  const raw = (await composeMail(draft(more))).toString("latin1");
  const head = raw.slice(0, raw.indexOf("\r\n\r\n"));
  const names = head
    .replace(/\r\n[ \t]/g, " ")
    .split("\r\n")
    .map((line) => line.slice(0, line.indexOf(":")).toLowerCase());
  return { raw, head, names };
}

const subjectOf = async (raw: string) => (await PostalMime.parse(Buffer.from(raw, "latin1"))).subject;

test("F12: a subject outside ASCII goes out as encoded words that decode to exactly it; an ASCII one unchanged", async () => {
  const { raw, head } = await compose({ subject: "Gmail 晨报｜2026" });
  assert.match(head, /^Subject: =\?UTF-8\?B\?[A-Za-z0-9+/=]+\?=$/m);
  assert.equal(await subjectOf(raw), "Gmail 晨报｜2026");
  assert.match((await compose({ subject: "Quarterly report (final), v2" })).head, /^Subject: Quarterly report \(final\), v2$/m);
});

test("F12: 200 emoji: every encoded word at most 75 characters, and each decodes alone", async () => {
  const { raw } = await compose({ subject: "😀".repeat(200) });
  const words = raw.match(/=\?UTF-8\?B\?[^?]+\?=/g) ?? [];
  assert.ok(words.length > 10);
  for (const word of words) {
    assert.ok(word.length <= 75);
    const alone = Buffer.from(word.slice(10, -2), "base64").toString();
    assert.match(alone, /^😀+$/u);
  }
  assert.equal(await subjectOf(raw), "😀".repeat(200));
});

test("F12: an ASCII subject that looks like an encoded word is encoded, so that it is read as it was written", async () => {
  const subject = "see =?utf-8?q?hello?= now";
  const { raw, head } = await compose({ subject });
  assert.doesNotMatch(head, /=\?utf-8\?q\?hello/);
  assert.equal(await subjectOf(raw), subject);
});

test("any subject comes back as it went, in lines of at most 998 bytes", async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: "grapheme", maxLength: 300 }), async (text) => {
      const subject = text.replace(/[\p{C}\p{Zl}\p{Zp}\s]+/gu, " ").trim();
      const { raw } = await compose({ subject });
      assert.equal((await subjectOf(raw)) ?? "", subject);
      for (const line of raw.split("\r\n")) assert.ok(line.length <= 998);
    }),
    { numRuns: 150 },
  );
});

test("F12: a body's line feeds leave as CR LF, none bare; a lone dot and `From ` stay as they are", async () => {
  const { raw } = await compose({ body: "a\nb\r\nc\n.\nFrom me\n" });
  assert.match(raw, /\r\n\r\na\r\nb\r\nc\r\n\.\r\nFrom me/);
  assert.doesNotMatch(raw, /(?<!\r)\n/);
  const read = await PostalMime.parse(Buffer.from(raw, "latin1"));
  assert.equal(read.text?.trimEnd(), "a\nb\nc\n.\nFrom me");
});

test("text and HTML go side by side, both whole, in any script", async () => {
  const { raw } = await compose({ body: "Grüße 你好", htmlBody: "<p>Grüße <b>你好</b></p>" });
  const read = await PostalMime.parse(Buffer.from(raw, "latin1"));
  assert.equal(read.text?.trim(), "Grüße 你好");
  assert.equal(read.html?.trim(), "<p>Grüße <b>你好</b></p>");
});

test("F12: `Doe, John <j@x.test>` is one recipient; Bcc is among the headers, for Gmail reads the recipients there", async () => {
  const to = ["Doe, John <j@x.test>", "René <r@x.test>", "plain@x.test"].map((value) => parseRecipient(value) ?? assert.fail(value));
  const { raw, head } = await compose({ to, bcc: [{ name: "", address: "hidden@x.test" }] });
  const read = await PostalMime.parse(Buffer.from(raw, "latin1"));
  assert.deepEqual(
    read.to?.map((one) => [one.name, one.address]),
    [
      ["Doe, John", "j@x.test"],
      ["René", "r@x.test"],
      ["", "plain@x.test"],
    ],
  );
  assert.match(head, /^Bcc: hidden@x\.test$/m);
});

test("F12: threading stands in the headers, date and id are ours, and there is no From to fake", async () => {
  const reply = replyHeaders({ messageId: "<orig@x.test>", references: "<a@x> <b@x>\r\n <orig@x.test>" });
  const { head, names } = await compose({ reply });
  assert.match(head, /^In-Reply-To: <orig@x\.test>$/m);
  assert.match(head.replace(/\r\n /g, " "), /^References: <a@x> <b@x> <orig@x\.test>$/m);
  assert.match(head, /^Message-ID: <once-1@outband\.invalid>$/m);
  assert.match(head, /^Date: Tue, 01 Dec 2026 12:00:00 \+0000$/m);
  assert.match(head, /^X-Outband-Once: once-1$/m);
  assert.equal(names.includes("from"), false);
});

test("an original whose Message-ID is an attack or nonsense makes no header; a flood of references is cut to the last", () => {
  for (const messageId of ["<a@x>\r\nBcc: e@evil.test", "<a b@x>", "no brackets", "", undefined, "<a@x><b@x>", `<${"x".repeat(400)}@x>`]) {
    assert.equal(replyHeaders({ messageId, references: undefined }), null, JSON.stringify(messageId));
  }
  const many = Array.from({ length: 500 }, (_one, index) => `<${index}@x>`).join(" ");
  const reply = replyHeaders({ messageId: "<me@x>", references: `${many} junk <bad id@x>` });
  assert.equal(reply?.references.length, 20);
  assert.equal(reply?.references.at(-1), "<me@x>");
});

const ALLOWED = new Set([
  "to",
  "cc",
  "bcc",
  "in-reply-to",
  "references",
  "subject",
  "message-id",
  "x-outband-once",
  "date",
  "mime-version",
  "content-type",
  "content-transfer-encoding",
]);

test("F12: header injection: whatever the arguments, they are refused, or the mail has only our headers and only the named recipients", async () => {
  const evil = fc.oneof(
    fc.constantFrom(
      "\r\nBcc: e@evil.test",
      "\nBcc: e@evil.test",
      "\rBcc: e@evil.test",
      "\u2028Bcc: e@evil.test",
      "\u0085Bcc: e@evil.test",
      "=?utf-8?q?=0d=0aBcc:_e@evil.test?=",
      '", e@evil.test',
      "<e@evil.test>, ",
      "\u0000",
      " (c) ",
      ";",
      ",",
    ),
    fc.string({ unit: "binary", maxLength: 12 }),
  );
  const mixed = fc.array(fc.oneof(evil, fc.string({ maxLength: 10 })), { maxLength: 4 }).map((parts) => parts.join(""));
  await fc.assert(
    fc.asyncProperty(mixed, mixed, mixed, mixed, async (subject, name, address, body) => {
      const args = { to: [`${name} <a${address}@x.test>`], cc: [address], bcc: [name], subject, body };
      for (const one of [args, { ...args, cc: undefined, bcc: undefined }, { ...args, to: ["ok@x.test"], cc: undefined, bcc: undefined }]) {
        const parsed = sendMessage.input.safeParse(JSON.parse(JSON.stringify(one)));
        if (!parsed.success) continue;
        const given = parsed.data as { to: string[]; cc?: string[]; bcc?: string[]; subject: string; body: string };
        const recipients = (values: string[] | undefined) => (values ?? []).map((value) => parseRecipient(value) ?? assert.fail());
        const named = { to: recipients(given.to), cc: recipients(given.cc), bcc: recipients(given.bcc) };
        const { raw, names } = await compose({ ...named, subject: given.subject, body: given.body });
        assert.deepEqual(
          names.filter((header) => !ALLOWED.has(header)),
          [],
        );
        assert.equal(new Set(names).size, names.length, "no header twice");
        const read = await PostalMime.parse(Buffer.from(raw, "latin1"));
        for (const list of ["to", "cc", "bcc"] as const) {
          assert.deepEqual(
            (read[list] ?? []).map((box) => box.address),
            named[list].map((box) => box.address),
          );
        }
      }
    }),
    { numRuns: 400 },
  );
});

test("below the schemas nothing with a control character is composed at all", async () => {
  for (const bad of [
    { subject: "a\r\nBcc: e@evil.test" },
    { subject: "a\u0000" },
    { to: [{ name: "a\nb", address: "a@x.test" }] },
    { messageId: "<a@x>\r\nX: y" },
  ]) {
    await assert.rejects(compose(bad), /control characters/);
  }
  assert.equal(subjectHeader("plain"), "plain");
});

test("F18: addresses are decided at once: floods, missing parts, lookalikes", () => {
  const began = performance.now();
  for (const bad of [
    "<".repeat(50_000),
    `${"a.".repeat(50_000)}@`,
    ".".repeat(60),
    ".".repeat(50_000),
    `a@${"x.".repeat(25_000)}test`,
    "x".repeat(321),
  ])
    assert.equal(parseRecipient(bad), null);
  assert.ok(performance.now() - began < 100);
  for (const bad of [
    "",
    "a",
    "@x.test",
    "a@",
    "a@x",
    "a@x..test",
    "a@-x.test",
    "a b@x.test",
    "a@x.test, b@x.test",
    "a@x.test;b@x.test",
    "a@b@x.test",
    '"a"@x.test',
    "A <a@x.test> <b@x.test>",
    "A <a@x.test",
    "a@[127.0.0.1]",
    "a\u202e@x.test",
    ".a@x.test",
    "a..b@x.test",
    "=?utf-8?q?x?= <a@x.test>",
  ]) {
    assert.equal(parseRecipient(bad), null, bad);
  }
  for (const good of ["a@x.test", "first.last+tag@sub.x.test", "müller@bücher.test", "o'brien@x.test", `${"l".repeat(64)}@x.test`])
    assert.equal(isAddress(good), true, good);
  assert.deepEqual(parseRecipient('"Doe, \\"JD\\" John" <j@x.test>'), { name: 'Doe, "JD" John', address: "j@x.test" });
});
