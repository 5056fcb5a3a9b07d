import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { framed, plain, plainJson, plainLine } from "../../src/cli/plain.js";

const HARMFUL: [name: string, text: string, left: string][] = [
  ["colours", "\u001b[31mred\u001b[0m", "red"],
  ["a cursor jump", "a\u001b[2J\u001b[Hb", "ab"],
  ["a clipboard write (OSC 52)", "x\u001b]52;c;ZXZpbA==\u0007y", "xy"],
  ["a hyperlink that hides its target (OSC 8)", "\u001b]8;;https://evil.example\u001b\\bank\u001b]8;;\u001b\\", "bank"],
  ["a window title", "\u001b]0;title\u0007z", "z"],
  ["an unterminated sequence, whose text stays visible", "\u001b]52;c;abc", "52;c;abc"],
  ["one-byte C1 introducers", "a\u009b31mb\u009d0;t\u009cc", "abc"],
  ["a device string", "a\u001bP1$r0m\u001b\\b", "ab"],
  ["a terminal reset", "a\u001bcb", "ab"],
  ["backspaces and bells", "pass\b\b\b\bword\u0007", "password"],
  ["a carriage return that would overwrite the line", "evil\rgood", "evil\ngood"],
  ["direction overrides", "\u202eelpmaxe.live\u202c", "elpmaxe.live"],
  ["isolates and marks", "\u2066a\u2069\u200e\u200f\u061cb", "ab"],
  ["zero-width and tag characters", "a\u200bb\ufeffc\u{e0041}d", "abcd"],
  ["unicode line ends", "a\u2028b\u2029c\u0085d", "a\nb\nc\nd"],
];

describe("text of others in a terminal", () => {
  for (const [name, text, left] of HARMFUL) {
    test(`${name}: nothing that acts is left`, () => {
      assert.equal(plain(text), left);
      assert.doesNotMatch(plain(text), /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/);
    });
  }

  test("ordinary text of any script, tabs and emoji stay as they are", () => {
    const text = "Grüße\t日本語\nשלום 👩‍💻 ñ";
    assert.equal(plain(text), text);
  });

  test("a value in a sentence stays on one line and within its length", () => {
    assert.equal(plainLine(" a\n\n b\tc "), "a b c");
    assert.equal(plainLine("x".repeat(300)).length, 200);
  });

  test("text in a frame has its mark on every line, also where a long line would wrap", () => {
    const lines = framed(`short\n${"y".repeat(100)}`, { columns: 43 }).split("\n");
    assert.deepEqual(lines, ["| short", `| ${"y".repeat(40)}`, `| ${"y".repeat(40)}`, `| ${"y".repeat(20)}`]);
  });

  test("lines break between words where they can, and not at all on a screen that says it has no width", () => {
    const text = "one two three four five six seven eight nine ten eleven";
    assert.equal(framed(text, { columns: 43 }), "| one two three four five six seven eight\n| nine ten eleven");
    assert.equal(framed(text, { columns: 0 }), `| ${text}`);
  });

  test("a frame shows how much it leaves out", () => {
    assert.equal(framed("1\n2\n3\n4", { linesMax: 2 }), "| 1\n| 2\n| … (2 more lines)");
  });

  test("JSON keeps the value and holds nothing that acts", () => {
    const value = { text: "\u001b[31m\u009b\u202ex\u{e0041}\u2028" };
    const json = plainJson(value);
    assert.deepEqual(JSON.parse(json), value);
    assert.equal(plain(json), json);
  });

  test("a hundred thousand introducers take no time to speak of", () => {
    const started = performance.now();
    plain("\u001b]".repeat(100_000));
    plain("\u001b[".repeat(100_000));
    plain(`\u001b[${"1;".repeat(100_000)}`);
    assert.ok(performance.now() - started < 2_000);
  });
});
