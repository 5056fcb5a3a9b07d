// Third-party text is cleaned and capped (contract 6.1.8).
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { mapBounded } from "../../src/connectors/bounded.js";
import { pick } from "../../src/connectors/json.js";
import { capText, cleanBlock, cleanLine } from "../../src/connectors/untrusted.js";

const FORBIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\p{Surrogate}]|[\u{e0000}-\u{e007f}]/u;

test("control, bidirectional and smuggling characters are gone from any text, whatever it holds", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 400 }), (value) => {
      assert.doesNotMatch(cleanLine(value, 100), FORBIDDEN);
      assert.doesNotMatch(cleanBlock(value, { charsMax: 1_000 }).text, FORBIDDEN);
      assert.doesNotMatch(cleanLine(value, 100), /[\n\t]/);
      assert.ok(cleanLine(value, 100).length <= 100);
    }),
  );
});

test("a right-to-left override, a hidden tag text and an escape sequence are taken out; words, emojis and joiners stay", () => {
  const hidden = [..."ignore"].map((char) => String.fromCodePoint(0xe0000 + (char.codePointAt(0) ?? 0))).join("");
  assert.equal(cleanLine(`pay \u202egnp.exe\u202c \u001b[31mred ${hidden}now`, 100), "pay gnp.exe [31mred now");
  assert.equal(cleanLine("👨‍👩‍👧 ok می‌خواهم", 100), "👨‍👩‍👧 ok می‌خواهم");
  assert.equal(cleanLine("a\r\nb\u2028c\u0000d", 100), "a b c d");
});

test("lines are kept in a block, empty ones at most one in a row, and a cut is told with the whole length", () => {
  assert.deepEqual(cleanBlock("a \r\n\r\n\r\n\r\nb\rc\n", { charsMax: 100 }), { text: "a\n\nb\nc", truncated: false, charsTotal: 6 });
  const cut = cleanBlock("é".repeat(50), { charsMax: 100, bytesMax: 21 });
  assert.deepEqual([cut.text, cut.truncated, cut.charsTotal], ["é".repeat(10), true, 50]);
});

test("a cut never splits a character", () => {
  assert.deepEqual(capText("ab😀", 3), { text: "ab", truncated: true });
  assert.deepEqual(capText("ab😀", 4), { text: "ab😀", truncated: false });
  assert.equal(cleanLine("😀".repeat(10), 5).length <= 5, true);
});

test("paths into foreign JSON reach own members only", () => {
  assert.equal(pick({ a: [{ b: 1 }] }, "a.0.b"), 1);
  for (const path of ["__proto__", "constructor.name", "a.length.x", "toString"]) assert.equal(pick({ a: "x" }, path), undefined, path);
});

test("bounded work: never more than the limit at once, in order, and a failure begins nothing more", async () => {
  let running = 0;
  let most = 0;
  const results = await mapBounded([1, 2, 3, 4, 5, 6, 7], 3, async (item) => {
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setImmediate(resolve));
    running -= 1;
    return item * 2;
  });
  assert.deepEqual(results, [2, 4, 6, 8, 10, 12, 14]);
  assert.equal(most, 3);
  const begun: number[] = [];
  await assert.rejects(
    mapBounded([1, 2, 3, 4, 5, 6], 2, async (item) => {
      begun.push(item);
      await new Promise((resolve) => setImmediate(resolve));
      if (item === 1) throw new Error("no");
    }),
    /no/,
  );
  assert.deepEqual(begun, [1, 2]);
});
