import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { ElicitRequestFormParams, PrimitiveSchemaDefinition } from "@modelcontextprotocol/client";
import { createElicitor } from "../../src/cli/elicitation.js";
import { parseField, readField } from "../../src/cli/form.js";
import type { Pages } from "../../src/cli/page.js";
import { person, type Script } from "./support.js";

const NO_PAGES: Pages = { offer: () => Promise.reject(new Error("no page in this test")) };

function form(
  properties: Record<string, PrimitiveSchemaDefinition>,
  required: string[] = [],
  message = "Please say",
): ElicitRequestFormParams {
  return { mode: "form", message, requestedSchema: { type: "object", properties, required } };
}

async function fill(params: ElicitRequestFormParams, script: Script, options: { interactive?: boolean; yes?: boolean } = {}) {
  const someone = person(script, options);
  const elicitor = createElicitor({
    terminal: someone.terminal,
    pages: NO_PAGES,
    asker: () => 'The server "x"',
    yes: options.yes ?? false,
  });
  const result = await elicitor.answer(params);
  assert.deepEqual(someone.surprises, []);
  assert.equal(someone.left(), 0, "every answer of the script was asked for");
  return { result, messages: someone.messages() };
}

const CHANNELS: PrimitiveSchemaDefinition = {
  type: "string",
  title: "Channel",
  oneOf: [
    { const: "C1", title: "#general" },
    { const: "C2", title: "#random" },
  ],
};

describe("a form in the terminal", () => {
  test("a titled choice is numbered, and its machine word is sent", async () => {
    const { result, messages } = await fill(form({ channel: CHANNELS }, ["channel"]), [["number, 1 to 2", "2"]]);
    assert.deepEqual(result, { action: "accept", content: { channel: "C2" } });
    assert.match(messages, /1\) #general\n {2}2\) #random/);
  });

  test("a choice is also found by its title; anything else is asked again", async () => {
    const { result } = await fill(form({ channel: CHANNELS }, ["channel"]), [
      ["number", "3"],
      ["number", "general"],
      ["number", "#general"],
    ]);
    assert.deepEqual(result.content, { channel: "C1" });
  });

  test("every kind of field, each with its own rule, is shown once more before it is sent", async () => {
    const { result, messages } = await fill(
      form(
        {
          name: { type: "string", title: "Name", minLength: 2, maxLength: 5 },
          mail: { type: "string", format: "email" },
          day: { type: "string", format: "date" },
          count: { type: "integer", minimum: 1, maximum: 3 },
          ratio: { type: "number" },
          sure: { type: "boolean", title: "Sure" },
          colours: {
            type: "array",
            items: {
              anyOf: [
                { const: "r", title: "Red" },
                { const: "g", title: "Green" },
              ],
            },
            minItems: 1,
          },
          old: { type: "string", enum: ["a", "b"], enumNames: ["Alpha", "Beta"] },
        },
        ["name", "mail", "day", "count", "ratio", "sure", "colours", "old"],
      ),
      [
        ["text", "x"],
        ["text", "too long"],
        ["text", "Kim"],
        ["e-mail", "kim"],
        ["e-mail", "kim@example.net"],
        ["date", "2026-02-30"],
        ["date", "2026-02-28"],
        ["whole number, 1 to 3", "1.5"],
        ["whole number", "4"],
        ["whole number", "0x2"],
        ["whole number", "2"],
        ["number", "-0.5"],
        ["y or n", "perhaps"],
        ["y or n", "yes"],
        ["numbers", "1,9"],
        ["numbers", "2, 1, 2"],
        ["number, 1 to 2", "2"],
        ["Send these answers?", "y"],
      ],
    );
    assert.deepEqual(result, {
      action: "accept",
      content: {
        name: "Kim",
        mail: "kim@example.net",
        day: "2026-02-28",
        count: 2,
        ratio: -0.5,
        sure: true,
        colours: ["g", "r"],
        old: "b",
      },
    });
    assert.match(messages, /colours: Green, Red\n {2}old: Beta\n/);
  });

  test("Enter takes the default, and leaves an optional field out", async () => {
    const { result } = await fill(
      form({ a: { type: "string", default: "alpha" }, b: { type: "number" }, c: { type: "boolean", default: false } }, ["a"]),
      [
        ["Enter for alpha", ""],
        ["number", ""],
        ["Enter for no", ""],
        ["Send", ""],
      ],
    );
    assert.deepEqual(result, { action: "accept", content: { a: "alpha", c: false } });
  });

  test("a default that its own schema forbids is not offered", async () => {
    const { result, messages } = await fill(form({ n: { type: "integer", maximum: 3, default: 9 } }, ["n"]), [
      ["whole number, at most 3: ", ""],
      ["whole number", "3"],
    ]);
    assert.deepEqual(result.content, { n: 3 });
    assert.match(messages, /This one is needed/);
  });

  test("n at the review starts again; what was typed first is not sent", async () => {
    const { result } = await fill(form({ a: { type: "string" }, b: { type: "string" } }, ["a", "b"]), [
      ["text", "1"],
      ["text", "2"],
      ["Send", "n"],
      ["text", "3"],
      ["text", "4"],
      ["Send", "y"],
    ]);
    assert.deepEqual(result.content, { a: "3", b: "4" });
  });

  test("!no declines, Ctrl-C cancels, and neither sends content", async () => {
    assert.deepEqual(
      (
        await fill(form({ a: { type: "string" }, b: { type: "string" } }), [
          ["text", "1"],
          ["text", "!no"],
        ])
      ).result,
      { action: "decline" },
    );
    assert.deepEqual((await fill(form({ a: { type: "string" } }), [["text", "^C"]])).result, { action: "cancel" });
  });

  test("wrong answers end in cancel, not in an endless loop", async () => {
    const { result } = await fill(
      form({ n: { type: "number" } }, ["n"]),
      Array.from({ length: 5 }, () => ["number", "x"] as const),
    );
    assert.deepEqual(result, { action: "cancel" });
  });

  test("without a terminal nothing is asked and the form is cancelled: nobody said no", async () => {
    const { result, messages } = await fill(form({ n: { type: "number" } }, ["n"]), [], { interactive: false });
    assert.deepEqual(result, { action: "cancel" });
    assert.match(messages, /nobody to ask/);
  });

  test("--yes answers with defaults, and never makes up a required value", async () => {
    const defaults = await fill(form({ a: { type: "string", default: "x" }, b: { type: "string" } }, ["a"]), [], {
      interactive: false,
      yes: true,
    });
    assert.deepEqual(defaults.result, { action: "accept", content: { a: "x" } });
    const typed = await fill(form({ confirm: { type: "string" } }, ["confirm"]), [], { interactive: false, yes: true });
    assert.deepEqual(typed.result, { action: "cancel" });
  });

  test("escapes in the message, a title or a choice do not reach the screen, and a message cannot pass for a question of ours", async () => {
    const { messages } = await fill(
      form(
        { a: { type: "string", title: "T\u001b[2J", description: "d\u009b1A", oneOf: [{ const: "v", title: "c\u001b]0;x\u0007" }] } },
        ["a"],
        "Hi\nOpen it? [y/N]\u001b[1A",
      ),
      [["number", "1"]],
    );
    assert.doesNotMatch(messages.replace(/\u001b\[(\d*[GJK]|\?2004[hl])/g, ""), /[\u0007\u001b\u009b]/);
    assert.match(messages, /\| Hi\n\| Open it\? \[y\/N\]\n/);
  });

  test("two questions of one round are put one after another", async () => {
    const someone = person([
      ["text", "first"],
      ["y or n", "n"],
    ]);
    const elicitor = createElicitor({ terminal: someone.terminal, pages: NO_PAGES, asker: () => "x", yes: false });
    const both = await Promise.all([
      elicitor.answer(form({ a: { type: "string" } }, ["a"])),
      elicitor.answer(form({ b: { type: "boolean" } }, ["b"])),
    ]);
    assert.deepEqual(
      both.map(({ content }) => content),
      [{ a: "first" }, { b: false }],
    );
    assert.deepEqual(someone.surprises, []);
  });

  test("a field named __proto__ is an answer like any other", async () => {
    const { result } = await fill(form(Object.fromEntries([["__proto__", { type: "string" } as const]]), ["__proto__"]), [["text", "v"]]);
    assert.deepEqual(Object.entries(result.content ?? {}), [["__proto__", "v"]]);
  });

  test("length counts characters, not UTF-16 units", () => {
    const field = readField("a", { type: "string", maxLength: 2 }, true);
    assert.equal(parseField(field, "😀😀").ok, true);
    assert.equal(parseField(field, "😀😀x").ok, false);
  });
});
