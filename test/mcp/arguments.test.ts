import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { z } from "zod";
import { argumentsDigest, canonicalJson, problemsOf, problemsText } from "../../src/mcp/arguments.js";

test("the digest knows the arguments, not the order they were written in", () => {
  assert.equal(argumentsDigest({ a: 1, b: { d: [1, 2], c: "x" } }), argumentsDigest({ b: { c: "x", d: [1, 2] }, a: 1 }));
  assert.notEqual(argumentsDigest({ d: [1, 2] }), argumentsDigest({ d: [2, 1] }));
  assert.notEqual(argumentsDigest({ a: "1" }), argumentsDigest({ a: 1 }));
  assert.notEqual(argumentsDigest({}), argumentsDigest({ a: null }));
  assert.notEqual(argumentsDigest(JSON.parse('{"__proto__":1}')), argumentsDigest({}));
});

test("canonical JSON is the same JSON", () => {
  fc.assert(fc.property(fc.jsonValue(), (value) => assert.deepEqual(JSON.parse(canonicalJson(value)), JSON.parse(JSON.stringify(value)))));
});

test("a problem names the place and what is wrong, and repeats nothing that was sent", () => {
  const schema = z.strictObject({
    to: z.array(z.email().max(320)).min(1),
    count: z.int().min(1).max(50),
    mode: z.enum(["fast", "slow"]),
    labels: z.record(z.string(), z.string()).optional(),
    id: z.string().regex(/^[a-z]+$/),
  });
  const sent = { to: ["CANARY"], count: 900, mode: "CANARY", labels: { "CANARY key": 5 }, id: "CANARY", CANARY: 1 };
  const parsed = schema.safeParse(sent);
  const text = problemsText(problemsOf(parsed.error?.issues ?? [], sent));
  assert.doesNotMatch(text, /CANARY|900/);
  assert.match(text, /to\[0\] is not a valid email/);
  assert.match(text, /count must be at most 50/);
  assert.match(text, /mode must be one of "fast", "slow"/);
  assert.match(text, /an argument must be a string/);
  assert.match(text, /the arguments must not hold fields that this tool does not know/);
  const empty = problemsText(problemsOf(schema.safeParse({ to: [] }).error?.issues ?? [], { to: [] }));
  assert.match(empty, /to must have at least 1 item; count is required; mode must be one of/);
});
