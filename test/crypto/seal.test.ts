import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import fc from "fast-check";
import { openText, sealText, SEALED_TEXT_BYTES_MAX, UnreadableError, type SealedPlace } from "../../src/crypto/seal.js";

const key = Buffer.alloc(32, 7);
const place: SealedPlace = { table: "connected_account", row: "ca_1", field: "access", generation: 3 };
const seal = (text: string, at: SealedPlace = place, scope = "conn_1", under: Buffer = key) =>
  sealText(under, randomBytes(12), scope, at, text);

function refused(run: () => unknown): void {
  assert.throws(run, (error) => error instanceof UnreadableError && error.message === "A stored secret cannot be opened.");
}

/** Key 01…, iv 02…, and associated data built by hand from the format's description. */
const PINNED = "01020202020202020202020202f74a07a8d3a760e9430b37abed4450d36fb3a52525";

test("the format is pinned: version 1, iv, tag, ciphertext, under length-prefixed associated data", () => {
  const blob = sealText(Buffer.alloc(32, 1), Buffer.alloc(12, 2), "conn_1", place, "hello");
  assert.equal(Buffer.from(blob).toString("hex"), PINNED);
  assert.equal(openText(Buffer.alloc(32, 1), "conn_1", place, Buffer.from(PINNED, "hex")).reveal(), "hello");
});

test("any text comes back from its own place as it was, in a Secret", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 300 }), (text) => {
      fc.pre(Buffer.from(text, "utf8").toString("utf8") === text);
      const opened = openText(key, "conn_1", place, seal(text));
      assert.equal(opened.reveal(), text);
      assert.equal(String(opened), "[secret]");
    }),
  );
});

test("a ciphertext moved to another scope, table, row, field or generation does not open", () => {
  const part = fc.string({ minLength: 1, maxLength: 12 });
  const anyPlace = fc.record({ scope: part, table: part, row: part, field: part, generation: fc.nat(50) });
  fc.assert(
    fc.property(anyPlace, anyPlace, (from, to) => {
      fc.pre(JSON.stringify(from) !== JSON.stringify(to));
      const blob = seal("value", from, from.scope);
      refused(() => openText(key, to.scope, to, blob));
      assert.equal(openText(key, from.scope, from, blob).reveal(), "value");
    }),
  );
});

test("parts cannot be shifted into one another", () => {
  const blob = seal("value", { table: "ab", row: "c", field: "d", generation: 1 });
  refused(() => openText(key, "conn_1", { table: "a", row: "bc", field: "d", generation: 1 }, blob));
  refused(() => openText(key, "conn_1", { table: "ab", row: "", field: "cd", generation: 1 }, blob));
});

test("any changed bit, any cut and any added byte is refused", () => {
  const blob = seal("a refresh token");
  fc.assert(
    fc.property(fc.nat(blob.length - 1), fc.integer({ min: 1, max: 255 }), (index, flip) => {
      const changed = Uint8Array.from(blob);
      changed[index] = (changed[index] ?? 0) ^ flip;
      refused(() => openText(key, "conn_1", place, changed));
    }),
  );
  for (let length = 0; length < blob.length; length += 1) refused(() => openText(key, "conn_1", place, blob.subarray(0, length)));
  refused(() => openText(key, "conn_1", place, Uint8Array.from([...blob, 0])));
});

test("another key does not open it", () => {
  refused(() => openText(Buffer.alloc(32, 8), "conn_1", place, seal("value")));
});

test("a tag of 4 bytes, which node:crypto would take, is refused", () => {
  const full = seal("");
  const short = Uint8Array.from([...full.subarray(0, 13), ...full.subarray(13, 17)]);
  refused(() => openText(key, "conn_1", place, short));
});

test("a text past the limit, a short iv and a broken generation are refused before anything is sealed", () => {
  assert.throws(() => seal("x".repeat(SEALED_TEXT_BYTES_MAX + 1)), RangeError);
  assert.throws(() => sealText(key, randomBytes(8), "s", place, "x"), RangeError);
  for (const generation of [-1, 1.5, Number.NaN]) assert.throws(() => seal("x", { ...place, generation }), RangeError);
});
