import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import fc from "fast-check";
import jose from "node-jose";
import { createKeyRing, keyCheckOf, UnwrapError, type KeyRing } from "../../src/crypto/keyring.js";
import { readMasterKey } from "../../src/crypto/keyText.js";
import { secret } from "../../src/crypto/secret.js";

const newKey = () => randomBytes(32).toString("base64");
const ringOf = (current: string, ...previous: string[]) => createKeyRing({ current: secret(current), previous: previous.map(secret) });
const refusedBy = (ring: KeyRing, wrapped: string, context = "a") => assert.rejects(ring.unwrap(wrapped, context), UnwrapError);
const encode = (value: unknown) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");

function headerOf(wrapped: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(wrapped.split(".")[0] ?? "", "base64url").toString()) as Record<string, unknown>;
}

function withHeader(wrapped: string, change: (header: Record<string, unknown>) => unknown): string {
  return [encode(change(headerOf(wrapped))), ...wrapped.split(".").slice(1)].join(".");
}

test("a data key comes back under its own context, as a JWE with dir and A256GCM", async () => {
  const ring = await ringOf(newKey());
  const dataKey = randomBytes(32);
  const { kid, wrapped } = await ring.wrap(dataKey, "data_key:dk_1:conn_1");
  assert.deepEqual(headerOf(wrapped), { alg: "dir", ctx: "outband.wrap.v1:data_key:dk_1:conn_1", enc: "A256GCM", kid });
  assert.deepEqual(await ring.unwrap(wrapped, "data_key:dk_1:conn_1"), dataKey);
  assert.ok(!wrapped.includes(dataKey.toString("base64url")));
});

test("a wrapped key moved to another context is refused", async () => {
  const ring = await ringOf(newKey());
  const { wrapped } = await ring.wrap(randomBytes(32), "a");
  await refusedBy(ring, wrapped, "b");
  await refusedBy(
    ring,
    withHeader(wrapped, (header) => ({ ...header, ctx: "outband.wrap.v1:b" })),
    "b",
  );
});

test("compressed, password-based, embedded-key, critical and unknown headers are refused before node-jose sees them", async () => {
  const ring = await ringOf(newKey());
  const { wrapped } = await ring.wrap(randomBytes(32), "a");
  const changes: ((header: Record<string, unknown>) => unknown)[] = [
    (header) => ({ ...header, zip: "DEF" }),
    (header) => ({ ...header, alg: "PBES2-HS256+A128KW", p2c: 5_000_000, p2s: "AAAA" }),
    (header) => ({ ...header, alg: "A256KW" }),
    (header) => ({ ...header, alg: "none" }),
    (header) => ({ ...header, enc: "A128GCM" }),
    (header) => ({ ...header, enc: "A256CBC-HS512" }),
    (header) => ({ ...header, jwk: { kty: "oct", k: "AAAA" } }),
    (header) => ({ ...header, crit: ["exp"] }),
    ({ kid: _, ...header }) => header,
    (header) => ({ ...header, kid: 7 }),
    (header) => [header],
    () => null,
    () => "text",
  ];
  for (const change of changes) {
    const started = performance.now();
    await refusedBy(ring, withHeader(wrapped, change));
    assert.ok(performance.now() - started < 200);
  }
});

test("a real zip bomb and a real PBES2 JWE made with the ring's own tools are refused quickly", async () => {
  const ring = await ringOf(newKey());
  const { kid } = await ring.wrap(randomBytes(32), "a");
  const fields = { alg: "dir", kid, ctx: "outband.wrap.v1:a" };
  const store = jose.JWK.createKeyStore();
  const key = await store.add({
    kty: "oct",
    kid,
    use: "enc",
    alg: "A256GCM",
    k: randomBytes(32).toString("base64url"),
  } as unknown as jose.JWK.RawKey);
  const bomb = await jose.JWE.createEncrypt({ format: "compact", contentAlg: "A256GCM", zip: true, fields }, key)
    .update(Buffer.alloc(20_000_000))
    .final();
  const password = await store.add({ kty: "oct", kid: "pw", k: randomBytes(16).toString("base64url") } as unknown as jose.JWK.RawKey);
  const rounds = await jose.JWE.createEncrypt(
    { format: "compact", contentAlg: "A256GCM", fields: { alg: "PBES2-HS256+A128KW", p2c: 1000, ctx: "outband.wrap.v1:a" } },
    password,
  )
    .update(randomBytes(32))
    .final();
  for (const wrapped of [bomb, rounds]) {
    const started = performance.now();
    await refusedBy(ring, wrapped);
    assert.ok(performance.now() - started < 200);
  }
});

test("any changed character and any wrong length is refused", async () => {
  const ring = await ringOf(newKey());
  const { wrapped } = await ring.wrap(randomBytes(32), "a");
  await fc.assert(
    fc.asyncProperty(fc.nat(wrapped.length - 1), fc.constantFrom("A", "b", "7", ".", "=", "!"), async (index, letter) => {
      const changed = wrapped.slice(0, index) + letter + wrapped.slice(index + 1);
      fc.pre(!sameBytes(changed, wrapped));
      await refusedBy(ring, changed);
    }),
    { numRuns: 200 },
  );
  for (const odd of ["", ".", "....", wrapped.slice(0, -1), `${wrapped}A`, `${wrapped}\n`, "a".repeat(100_000)]) await refusedBy(ring, odd);
});

/** The last character of a base64url part has spare bits: another letter may be the same bytes. */
function sameBytes(a: string, b: string): boolean {
  const bytes = (text: string) =>
    text
      .split(".")
      .map((part) => Buffer.from(part, "base64url").toString("hex"))
      .join(".");
  return bytes(a) === bytes(b) && a.split(".")[0] === b.split(".")[0];
}

test("only a key of 32 bytes is wrapped", async () => {
  const ring = await ringOf(newKey());
  for (const length of [0, 16, 31, 33, 64]) await assert.rejects(ring.wrap(Buffer.alloc(length, 1), "a"), RangeError);
});

test("a retired key opens and never wraps; without it the error names the missing key", async () => {
  const [first, second] = [newKey(), newKey()];
  const before = await ringOf(first);
  const both = await ringOf(second, first);
  const after = await ringOf(second);
  const dataKey = randomBytes(32);
  const old = await before.wrap(dataKey, "a");
  assert.deepEqual(await both.unwrap(old.wrapped, "a"), dataKey);
  const moved = await both.wrap(dataKey, "a");
  assert.equal(moved.kid, after.currentKid);
  assert.deepEqual(await after.unwrap(moved.wrapped, "a"), dataKey);
  await assert.rejects(after.unwrap(old.wrapped, "a"), (error) => error instanceof UnwrapError && error.missingKid === before.currentKid);
  // Rolling upgrade: an instance that still wraps with the first key reads what the second one wrote.
  assert.deepEqual(await (await ringOf(first, second)).unwrap(moved.wrapped, "a"), dataKey);
});

test("two instances with one key name it alike, and the name tells nothing of the key", async () => {
  const key = newKey();
  const [a, b] = [await ringOf(key), await ringOf(`\ufeff${key}\n`)];
  assert.equal(a.currentKid, b.currentKid);
  assert.match(a.currentKid, /^mk_[A-Za-z0-9_-]{12}$/);
  assert.notEqual(a.currentKid, (await ringOf(newKey())).currentKid);
});

test("derived keys differ by purpose and by master key, the current one first, and are the same on every instance", async () => {
  const [first, second] = [newKey(), newKey()];
  const ring = await ringOf(second, first, second);
  const again = await ringOf(second, first);
  assert.equal(ring.kids.length, 2);
  const state = ring.derive("request_state");
  assert.deepEqual(state, again.derive("request_state"));
  assert.deepEqual(
    state.map((entry) => entry.kid),
    ring.kids,
  );
  const all = [...state, ...ring.derive("cookies")].map((entry) => entry.key.toString("hex"));
  assert.equal(new Set(all).size, 4);
  for (const entry of state) assert.equal(entry.key.length, 32);
});

test("the key check tells two keys apart and exists for the ring's own keys only", async () => {
  const [first, second] = [newKey(), newKey()];
  const ring = await ringOf(second, first);
  const old = await ringOf(first);
  assert.equal(keyCheckOf(ring, old.currentKid), keyCheckOf(old, old.currentKid));
  assert.notEqual(keyCheckOf(ring, ring.currentKid), keyCheckOf(old, old.currentKid));
  assert.equal(keyCheckOf(old, ring.currentKid), null);
});

test("a master key is 32 bytes in base64 or base64url, white space around it dropped; anything else is not a key", () => {
  const bytes = randomBytes(32);
  for (const text of [
    bytes.toString("base64"),
    bytes.toString("base64url"),
    ` ${bytes.toString("base64")}\r\n`,
    `\ufeff${bytes.toString("base64")}`,
  ]) {
    assert.deepEqual(readMasterKey(text), bytes);
  }
  for (const text of [
    "",
    "short",
    randomBytes(31).toString("base64"),
    randomBytes(33).toString("base64"),
    bytes.toString("hex"),
    "A".repeat(43),
    Buffer.alloc(32, 9).toString("base64"),
    "not base64 at all, but 44 characters long!!!",
  ]) {
    assert.equal(readMasterKey(text), null);
  }
});
