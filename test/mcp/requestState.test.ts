import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type Clock, systemClock } from "../../src/clock.js";
import { createKeyRing } from "../../src/crypto/keyring.js";
import { Secret } from "../../src/crypto/secret.js";
import {
  type Binding,
  createStateCodec,
  FIRST_ROUND as EMPTY_ROUND,
  type RoundState,
  STATE_BYTES_MADE_MAX,
  STATE_BYTES_READ_MAX,
  StateRefused,
  StateTooLarge,
} from "../../src/mcp/requestState.js";

const FIRST_ROUND = { ...EMPTY_ROUND, chain: "chain-of-this-test" };
const keyOf = (letter: string): Secret => new Secret(Buffer.from(letter.repeat(16) + letter.toUpperCase().repeat(16)).toString("base64"));
const ring = await createKeyRing({ current: keyOf("a"), previous: [] });
const BINDING: Binding = { person: "alice", client: "app", endpoint: "/mcp", tool: "summarize_inbox", argumentsDigest: "d".repeat(64) };

function movable(): Clock & { move(ms: number): void } {
  let ahead = 0;
  return { ...systemClock, now: () => systemClock.now() + ahead, move: (ms) => (ahead += ms) };
}

const text = fc.string({ unit: "binary", maxLength: 20 });
const anyState: fc.Arbitrary<RoundState> = fc.record({
  chain: text,
  round: fc.nat(100),
  questions: fc.nat(10),
  reasked: fc.boolean(),
  waitedMs: fc.nat(200_000),
  answers: fc.dictionary(
    text.filter((key) => key !== "__proto__"),
    fc.dictionary(
      text.filter((key) => key !== "__proto__"),
      text,
      { maxKeys: 2 },
    ),
    { maxKeys: 2 },
  ),
  pending: fc.oneof(
    fc.constant(null),
    fc.record({
      kind: fc.constant("link" as const),
      key: text,
      elicitation: text,
      link: text,
      account: text,
      connection: text,
      accepted: fc.boolean(),
    }),
    fc.record({
      kind: fc.constant("form" as const),
      key: text,
      elicitation: text,
      fields: fc.array(fc.record({ name: text, required: fc.boolean(), choices: fc.oneof(fc.constant(null), text) }), { maxLength: 3 }),
    }),
  ),
});
const anyBinding: fc.Arbitrary<Binding> = fc.record({ person: text, client: text, endpoint: text, tool: text, argumentsDigest: text });

test("every state opens to itself under its own binding, and stays within 4 KB", () => {
  const codec = createStateCodec({ ring, clock: systemClock, linkTtlS: 600 });
  fc.assert(
    fc.property(anyState, anyBinding, (state, binding) => {
      const sealed = codec.mint(state, binding);
      assert.ok(sealed.length <= STATE_BYTES_MADE_MAX);
      assert.deepEqual(JSON.parse(JSON.stringify(codec.open(sealed, binding))), JSON.parse(JSON.stringify(state)));
    }),
  );
});

test("a state opens for no other person, client, endpoint, tool or arguments (MRTR-08, MRTR-10)", () => {
  const codec = createStateCodec({ ring, clock: systemClock, linkTtlS: 600 });
  fc.assert(
    fc.property(anyBinding, anyBinding, (one, other) => {
      fc.pre(JSON.stringify(one) !== JSON.stringify(other));
      assert.throws(() => codec.open(codec.mint(FIRST_ROUND, one), other), StateRefused);
    }),
  );
  for (const field of ["person", "client", "endpoint", "tool", "argumentsDigest"] as const) {
    assert.throws(() => codec.open(codec.mint(FIRST_ROUND, BINDING), { ...BINDING, [field]: `${BINDING[field]}x` }), StateRefused, field);
  }
  // Moving a piece from one field to the next is another binding, not the same bytes.
  assert.throws(() => codec.open(codec.mint(FIRST_ROUND, BINDING), { ...BINDING, person: "alicea", client: "pp" }), StateRefused);
});

test("one changed, missing or added character is refused, at every place (MRTR-07)", () => {
  const codec = createStateCodec({ ring, clock: systemClock, linkTtlS: 600 });
  const sealed = codec.mint({ ...FIRST_ROUND, answers: { pick: { channel: "C1" } } }, BINDING);
  for (let at = 0; at < sealed.length; at++) {
    const swapped = sealed[at] === "A" ? "B" : "A";
    assert.throws(() => codec.open(sealed.slice(0, at) + swapped + sealed.slice(at + 1), BINDING), StateRefused, `changed at ${at}`);
    assert.throws(() => codec.open(sealed.slice(0, at), BINDING), StateRefused, `cut at ${at}`);
  }
  for (const end of ["A", "=", "==", "\n", " ", ".", "-TAMPERED"])
    assert.throws(() => codec.open(sealed + end, BINDING), StateRefused, JSON.stringify(end));
});

test("nothing that was not minted opens, and every refusal is the same", () => {
  const codec = createStateCodec({ ring, clock: systemClock, linkTtlS: 600 });
  const messages = new Set<string>();
  const refused = (value: string): void => {
    try {
      codec.open(value, BINDING);
      assert.fail("opened");
    } catch (thrown) {
      assert.ok(thrown instanceof StateRefused);
      messages.add(thrown.message);
    }
  };
  fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 400 }), refused));
  fc.assert(fc.property(fc.uint8Array({ maxLength: 400 }), (bytes) => refused(`v1.${Buffer.from(bytes).toString("base64url")}`)));
  for (const value of ["", "v1.", "v2.AAAA", "eyJhbGciOiJub25lIn0.e30.", "x".repeat(1024 * 1024), `v1.${"A".repeat(STATE_BYTES_READ_MAX)}`])
    refused(value);
  assert.equal(messages.size, 1);
});

test("a state ends LINK_TTL_S and five minutes after it was made (MRTR-09)", () => {
  const clock = movable();
  const codec = createStateCodec({ ring, clock, linkTtlS: 600 });
  const sealed = codec.mint(FIRST_ROUND, BINDING);
  clock.move(899_000);
  assert.deepEqual(codec.open(sealed, BINDING), FIRST_ROUND);
  clock.move(2_000);
  assert.throws(() => codec.open(sealed, BINDING), StateRefused);
});

test("a rotated key still opens while it is in the ring, and no longer", async () => {
  const before = createStateCodec({ ring, clock: systemClock, linkTtlS: 600 });
  const sealed = before.mint(FIRST_ROUND, BINDING);
  const rotated = await createKeyRing({ current: keyOf("b"), previous: [keyOf("a")] });
  const dropped = await createKeyRing({ current: keyOf("b"), previous: [] });
  const after = createStateCodec({ ring: rotated, clock: systemClock, linkTtlS: 600 });
  assert.deepEqual(after.open(sealed, BINDING), FIRST_ROUND);
  assert.throws(() => createStateCodec({ ring: dropped, clock: systemClock, linkTtlS: 600 }).open(sealed, BINDING), StateRefused);
  assert.throws(() => before.open(after.mint(FIRST_ROUND, BINDING), BINDING), StateRefused, "the current key mints");
});

test("what would not fit into 4 KB is not made", () => {
  const codec = createStateCodec({ ring, clock: systemClock, linkTtlS: 600 });
  assert.throws(() => codec.mint({ ...FIRST_ROUND, answers: { long: { text: "x".repeat(4_000) } } }, BINDING), StateTooLarge);
});

test("the sealed text holds nothing in clear, and two states of one content differ", () => {
  const codec = createStateCodec({ ring, clock: systemClock, linkTtlS: 600 });
  const state = { ...FIRST_ROUND, answers: { pick_channel: { channel: "CANARY123" } } };
  const sealed = codec.mint(state, BINDING);
  const bytes = Buffer.from(sealed.slice(3), "base64url").toString("latin1");
  for (const word of ["CANARY123", "alice", "summarize", "pick_channel", "answers"])
    assert.ok(!bytes.includes(word) && !sealed.includes(word), word);
  const again = codec.mint(state, BINDING);
  assert.notEqual(sealed, again);
  assert.notEqual(sealed, again);
});
