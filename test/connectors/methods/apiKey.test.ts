// Keys as people paste them, and where they go (F14, F15).
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { ApiKeyMethod, KeyPlacement } from "../../../src/connectors/connector.js";
import { applyKey, cleanField } from "../../../src/connectors/methods/apiKey.js";
import { Secret } from "../../../src/crypto/secret.js";

test("F15: white space and BOM at the ends are trimmed, everything odd inside is refused", () => {
  assert.deepEqual(cleanField(" \ufeffkey-1\r\n"), { ok: true, value: "key-1" });
  assert.deepEqual(cleanField("\ufeff key \ufeff"), { ok: true, value: "key" });
  for (const bad of ["ke\ny", "ke\r\ny", "ke\ty\u0000", "ke\u200by", "kéy", "", "  ", "\ufeff", "k".repeat(8_193)]) {
    const result = cleanField(bad);
    assert.equal(result.ok, false, JSON.stringify(bad).slice(0, 40));
  }
});

test("F14: a refusal never repeats any six characters of the value", () => {
  fc.assert(
    fc.property(fc.string({ minLength: 8, maxLength: 60, unit: "binary" }), (value) => {
      const result = cleanField(`${value}\n${value}`);
      if (result.ok) return;
      for (let at = 0; at + 6 <= value.length; at += 1) assert.equal(result.problem.includes(value.slice(at, at + 6)), false);
    }),
  );
});

function method(placement: KeyPlacement, names: string[] = ["api_key"]): ApiKeyMethod {
  return {
    kind: "api_key",
    fields: names.map((name) => ({ name, title: name, secret: name !== "username" })),
    placement,
    probe: null,
    identity: null,
  };
}

test("a key goes into the header, the query or Basic, and nowhere else", () => {
  const fields = { api_key: new Secret("k-1") };
  assert.deepEqual(applyKey(method({ in: "header", name: "Authorization", prefix: "Bearer " }), fields), {
    headers: { authorization: "Bearer k-1" },
    query: {},
  });
  assert.deepEqual(applyKey(method({ in: "header", name: "X-Api-Key", prefix: "" }), fields), {
    headers: { "x-api-key": "k-1" },
    query: {},
  });
  assert.deepEqual(applyKey(method({ in: "query", name: "key" }), fields), { headers: {}, query: { key: "k-1" } });
  assert.deepEqual(
    applyKey(method({ in: "basic" }, ["username", "password"]), { username: new Secret("ann"), password: new Secret("p:w") }),
    {
      headers: { authorization: `Basic ${Buffer.from("ann:p:w").toString("base64")}` },
      query: {},
    },
  );
  assert.deepEqual(applyKey(method({ in: "basic" }), fields), {
    headers: { authorization: `Basic ${Buffer.from("k-1:").toString("base64")}` },
    query: {},
  });
});

test("a key that a header cannot carry fails in words that do not hold it", () => {
  assert.throws(
    () => applyKey(method({ in: "header", name: "X", prefix: "" }), { api_key: new Secret("canary\r\nX-Evil: 1") }),
    (thrown: Error) => !thrown.message.includes("canary"),
  );
});
