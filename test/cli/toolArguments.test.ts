import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { readToolArguments } from "../../src/cli/toolArguments.js";

const SCHEMA = {
  type: "object",
  properties: {
    max: { type: "integer" },
    share: { anyOf: [{ type: "number" }, { type: "null" }] },
    text: { type: "string" },
    maybe: { type: ["string", "null"] },
    flag: { type: "boolean" },
    to: { type: "array", items: { type: "string" } },
    counts: { type: "array", items: { type: "integer" } },
    more: { type: "object" },
    either: { anyOf: [{ type: "string" }, { type: "integer" }] },
  },
};

describe("--arg", () => {
  test("is read by the tool's schema", () => {
    const given = [
      "max=5",
      "share=0.5",
      "text=007",
      "maybe=null",
      "flag=true",
      "to=a@x.example",
      "to=b@x.example",
      "counts=1",
      'more={"a":1}',
      "either=5",
    ];
    assert.deepEqual(readToolArguments(SCHEMA, given, undefined), {
      max: 5,
      share: 0.5,
      text: "007",
      maybe: "null",
      flag: true,
      to: ["a@x.example", "b@x.example"],
      counts: [1],
      more: { a: 1 },
      either: "5",
    });
  });

  test("keeps everything behind the first =, and takes a JSON list for a list", () => {
    assert.deepEqual(readToolArguments(SCHEMA, ["text=a=b=", 'to=["a","b"]'], undefined), { text: "a=b=", to: ["a", "b"] });
  });

  test("replaces what --args-json says of the same name", () => {
    assert.deepEqual(readToolArguments(SCHEMA, ["max=2"], '{"max": 1, "text": "x"}'), { max: 2, text: "x" });
  });

  test("takes any name where the tool says so itself", () => {
    assert.deepEqual(readToolArguments({ ...SCHEMA, additionalProperties: {} }, ["unknown=5"], undefined), { unknown: "5" });
    assert.throws(() => readToolArguments({ type: "object" }, ["unknown=5"], undefined), { exitCode: 64 });
  });

  for (const [name, given, json] of [
    ["an argument that the tool does not have", ["unknown=5"], undefined],
    ["the same in JSON", [], '{"unknown": 5}'],
    ["a number that is none", ["max=many"], undefined],
    ["an empty number", ["max="], undefined],
    ["a flag that is neither true nor false", ["flag=1"], undefined],
    ["no =", ["text"], undefined],
    ["no name", ["=x"], undefined],
    ["one value given twice", ["text=a", "text=b"], undefined],
    ["JSON that is a list", [], "[1]"],
    ["JSON that is none", [], "{"],
  ] as const) {
    test(`${name} is a usage error`, () => {
      assert.throws(() => readToolArguments(SCHEMA, given, json), { name: "CliError", exitCode: 64 });
    });
  }
});
