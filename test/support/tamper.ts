// Ciphertexts changed or moved in every way that an owner of the database could think of, against the real sealer, key ring
// and requestState. Must never happen: an attack that changes nothing counted as refused.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { systemClock } from "../../src/clock.js";
import { createSealer, type SealedPlace, type Sealer, UnreadableError } from "../../src/crypto/dataKeys.js";
import { createKeyRing, type KeyRing, UnwrapError } from "../../src/crypto/keyring.js";
import { secret } from "../../src/crypto/secret.js";
import { createStateCodec, FIRST_ROUND, type Binding, type StateCodec, StateRefused } from "../../src/mcp/requestState.js";
import { type Random, randomFrom } from "./random.js";

export interface TamperOutcome {
  attacks: number;
  /** By family: all of them were refused, or the run has failed. */
  refused: Record<string, number>;
  /** Untouched ones in between, which must open. */
  controls: number;
}

const SCOPES = 8;
const ROWS = 25;
const CONTROL_EVERY = 50;
const TABLES = ["connected_account", "connection", "authorization_link", "browser_session", "tool_execution"];
const FIELDS = ["access", "refresh", "client_secret", "token", "flow", "result"];

interface Sealed {
  scope: string;
  place: SealedPlace;
  text: string;
  blob: Uint8Array;
}

export async function tamper(options: { attacks: number; seed: number; told?: (done: number) => void }): Promise<TamperOutcome> {
  const random = randomFrom(options.seed);
  const world = await makeWorld(random);
  const outcome: TamperOutcome = { attacks: 0, refused: {}, controls: 0 };
  while (outcome.attacks < options.attacks) {
    const turn = outcome.attacks % 100;
    // Fields are what a thief wants; wrapped keys cost twenty times as much to try.
    const family = turn < 80 ? await attackField(world, random) : turn < 95 ? await attackWrapped(world, random) : attackState(world, random);
    outcome.refused[family] = (outcome.refused[family] ?? 0) + 1;
    outcome.attacks += 1;
    if (outcome.attacks % CONTROL_EVERY === 0) {
      await control(world, random);
      outcome.controls += 1;
    }
    if (outcome.attacks % 50_000 === 0) options.told?.(outcome.attacks);
  }
  return outcome;
}

interface World {
  sealer: Sealer;
  fields: Sealed[];
  /** Sealers of the same scopes under other data keys. */
  stranger: Sealer;
  ring: KeyRing;
  strangerRing: KeyRing;
  wrapped: { context: string; text: string; key: Buffer }[];
  codec: StateCodec;
  strangerCodec: StateCodec;
  states: { binding: Binding; text: string }[];
}

async function makeWorld(random: Random): Promise<World> {
  const ring = await newRing();
  const strangerRing = await newRing();
  const sealer = sealerOn(ring);
  const fields: Sealed[] = [];
  for (let s = 0; s < SCOPES; s += 1) {
    for (let r = 0; r < ROWS; r += 1) {
      const scope = `conn_${s}`;
      // Row ids meet over the scopes, so that a blob moved to another connection's row differs in nothing else.
      const place = { table: random.pick(TABLES), row: `ca_${r}`, field: random.pick(FIELDS), generation: random.int(4) };
      const text = randomBytes(random.int(3) === 0 ? random.int(600) : 20 + random.int(60)).toString("base64url");
      fields.push({ scope, place, text, blob: await sealer.seal(scope, place, text) });
    }
  }
  const wrapped = await Promise.all(
    Array.from({ length: 40 }, async (_, n) => {
      const key = randomBytes(32);
      const context = `data_key:dk_${n}:conn_${n % SCOPES}`;
      return { context, key, text: (await ring.wrap(key, context)).wrapped };
    }),
  );
  const codecOf = (of: KeyRing) => createStateCodec({ ring: of, clock: systemClock, linkTtlS: 86_400 });
  const codec = codecOf(ring);
  const states = Array.from({ length: 40 }, (_, n) => {
    const binding = { person: `person-${n % 7}`, client: `client-${n % 3}`, endpoint: n % 2 ? "/mcp" : "/mcp/meta", tool: `tool_${n % 5}`, argumentsDigest: String(n) };
    return { binding, text: codec.mint({ ...FIRST_ROUND, chain: `chain-${n}`, round: n }, binding) };
  });
  return { sealer, fields, stranger: sealerOn(strangerRing), ring, strangerRing, wrapped, codec, strangerCodec: codecOf(strangerRing), states };
}

/** The current key and a former one: an attack may name either. */
async function newRing(): Promise<KeyRing> {
  const key = () => secret(randomBytes(32).toString("base64"));
  return createKeyRing({ current: key(), previous: [key()] });
}

/** The table of data keys in memory: a million attacks ask it a million times. */
function sealerOn(ring: KeyRing): Sealer {
  const rows = new Map<string, { id: string; scope: string; kid: string; wrapped: string }>();
  const dataKey = {
    findUnique: async ({ where }: { where: { scope: string } }) => rows.get(where.scope) ?? null,
    createMany: async ({ data }: { data: { id: string; scope: string; kid: string; wrapped: string }[] }) => {
      for (const row of data) if (!rows.has(row.scope)) rows.set(row.scope, row);
      return { count: data.length };
    },
  };
  return createSealer({ ring, clock: systemClock, db: { prisma: { dataKey } } as unknown as Parameters<typeof createSealer>[0]["db"] });
}

async function attackField({ sealer, stranger, fields }: World, random: Random): Promise<string> {
  const victim = random.pick(fields);
  const other = random.pick(fields);
  const { scope, place, blob } = victim;
  const at = (change: Partial<SealedPlace>, inScope = scope) => sealer.open(inScope, { ...place, ...change }, blob);
  const attacks: Record<string, () => Promise<unknown> | null> = {
    "field: bits flipped": () => sealer.open(scope, place, flip(blob, random)),
    "field: byte replaced": () => changedOnly(blob, replaceByte(blob, random), (bytes) => sealer.open(scope, place, bytes)),
    "field: truncated": () => sealer.open(scope, place, blob.subarray(0, random.int(blob.length))),
    "field: head cut off": () => sealer.open(scope, place, blob.subarray(1 + random.int(blob.length))),
    "field: extended": () => sealer.open(scope, place, joined(blob, randomBytes(1 + random.int(40)))),
    "field: extended in front": () => sealer.open(scope, place, joined(randomBytes(1 + random.int(40)), blob)),
    "field: another blob": () => (other === victim ? null : sealer.open(scope, place, other.blob)),
    "field: other row": () => at({ row: random.pick([`${place.row}0`, place.row.slice(0, -1), "", "ca_none", `ca_${ROWS + random.int(1000)}`]) }),
    "field: other field": () => at({ field: random.pick([...FIELDS.filter((name) => name !== place.field), "", `${place.field} `]) }),
    "field: other generation": () => at({ generation: place.generation + 1 + random.int(5) }),
    "field: older generation": () => (place.generation === 0 ? null : at({ generation: random.int(place.generation) })),
    "field: other table": () => at({ table: random.pick([...TABLES.filter((name) => name !== place.table), ""]) }),
    "field: other connection": () => at({}, random.pick(["conn_0", "conn_1", "conn_2", "conn_3"].filter((name) => name !== scope))),
    "field: parts shifted": () => at({ table: `${place.table}${place.row[0]}`, row: place.row.slice(1) }),
    "field: other data key": async () => sealer.open(scope, place, await stranger.seal(scope, place, victim.text)),
    "field: iv of another": () => (other === victim ? null : sealer.open(scope, place, joined(blob.subarray(0, 1), other.blob.subarray(1, 13), blob.subarray(13)))),
    "field: tag of another": () => (other === victim ? null : sealer.open(scope, place, joined(blob.subarray(0, 13), other.blob.subarray(13, 29), blob.subarray(29)))),
    "field: short tag": () => sealer.open(scope, place, joined(blob.subarray(0, 13 + 4), blob.subarray(29))),
    "field: other version": () => sealer.open(scope, place, joined(Uint8Array.of(random.pick([0, 2, 3, 255])), blob.subarray(1))),
  };
  return refusedBy(attacks, random, UnreadableError);
}

async function attackWrapped({ ring, strangerRing, wrapped }: World, random: Random): Promise<string> {
  const victim = random.pick(wrapped);
  const other = random.pick(wrapped);
  const parts = victim.text.split(".");
  const header = JSON.parse(Buffer.from(parts[0] ?? "", "base64url").toString()) as Record<string, unknown>;
  const withHeader = (change: Record<string, unknown>) => ring.unwrap([Buffer.from(JSON.stringify({ ...header, ...change })).toString("base64url"), ...parts.slice(1)].join("."), victim.context);
  const attacks: Record<string, () => Promise<unknown> | null> = {
    "wrapped key: letter changed": () => changedText(victim.text, random, (text) => ring.unwrap(text, victim.context)),
    "wrapped key: moved": () => (other === victim ? null : ring.unwrap(victim.text, other.context)),
    "wrapped key: moved with its context": () => (other === victim ? null : withHeaderOf(victim.text, { ...header, ctx: `outband.wrap.v1:${other.context}` }, (text) => ring.unwrap(text, other.context))),
    "wrapped key: other kid of the ring": () => withHeader({ kid: ring.kids[1] }),
    "wrapped key: unknown kid": () => withHeader({ kid: `mk_${randomBytes(9).toString("base64url")}` }),
    "wrapped key: other master key": async () => strangerRing.unwrap(victim.text, victim.context),
    "wrapped key: other master key under our kid": async () => {
      const { wrapped: made } = await strangerRing.wrap(randomBytes(32), victim.context);
      return withHeaderOf(made, header, (text) => ring.unwrap(text, victim.context));
    },
    "wrapped key: parts of another": () => {
      if (other === victim) return null;
      const index = 2 + random.int(3);
      return ring.unwrap(parts.map((part, n) => (n === index ? (other.text.split(".")[n] ?? "") : part)).join("."), victim.context);
    },
    "wrapped key: truncated": () => ring.unwrap(victim.text.slice(0, random.int(victim.text.length)), victim.context),
    "wrapped key: extended": () => ring.unwrap(victim.text + random.pick(["A", "=", ".", "AAAA", "\n"]), victim.context),
    "wrapped key: other algorithm": () => withHeader(random.pick([{ alg: "A256KW" }, { alg: "none" }, { enc: "A128GCM" }, { zip: "DEF" }, { crit: ["exp"] }, { p2c: 1 }])),
  };
  return refusedBy(attacks, random, UnwrapError);
}

function attackState({ codec, strangerCodec, states }: World, random: Random): string {
  const victim = random.pick(states);
  const { binding, text } = victim;
  const bound = (change: Partial<Binding>) => codec.open(text, { ...binding, ...change });
  const bytes = Buffer.from(text.slice(3), "base64url");
  const again = (changed: Uint8Array) => codec.open(`v1.${Buffer.from(changed).toString("base64url")}`, binding);
  const attacks: [string, () => unknown][] = [
    ["state: bits flipped", () => again(flip(bytes, random))],
    ["state: truncated", () => again(bytes.subarray(0, random.int(bytes.length)))],
    ["state: extended", () => again(joined(bytes, randomBytes(1 + random.int(20))))],
    ["state: other person", () => bound({ person: `${binding.person}x` })],
    ["state: other client", () => bound({ client: "another" })],
    ["state: other endpoint", () => bound({ endpoint: "/mcp/servers/x" })],
    ["state: other tool", () => bound({ tool: "gmail_send_message" })],
    ["state: other arguments", () => bound({ argumentsDigest: `${binding.argumentsDigest}0` })],
    ["state: other master key", () => strangerCodec.open(text, binding)],
    ["state: other spelling", () => codec.open(`${text}=`, binding)],
  ];
  const [name, run] = random.pick(attacks);
  assert.throws(run, StateRefused, name);
  return name;
}

async function control({ sealer, fields, ring, wrapped, codec, states }: World, random: Random): Promise<void> {
  const field = random.pick(fields);
  assert.equal((await sealer.open(field.scope, field.place, field.blob)).reveal(), field.text);
  const key = random.pick(wrapped);
  assert.deepEqual(await ring.unwrap(key.text, key.context), key.key);
  const state = random.pick(states);
  assert.equal(codec.open(state.text, state.binding).questions, 0);
}

/** Picks attacks until one changes something, and wants exactly this error. */
async function refusedBy(attacks: Record<string, () => Promise<unknown> | null>, random: Random, kind: new () => Error): Promise<string> {
  for (;;) {
    const name = random.pick(Object.keys(attacks));
    const attempt = attacks[name]?.() ?? null;
    if (attempt === null) continue;
    const end: unknown = await attempt.then(
      () => "opened",
      (error: unknown) => error,
    );
    if (!(end instanceof kind)) throw new Error(`${name}: ${end === "opened" ? "it opened" : String(end)}`);
    return name;
  }
}

/** One to three different bits. */
function flip(bytes: Uint8Array, random: Random): Uint8Array {
  const copy = Uint8Array.from(bytes);
  const bits = new Set(Array.from({ length: 1 + random.int(3) }, () => random.int(bytes.length * 8)));
  for (const bit of bits) copy[bit >> 3] = (copy[bit >> 3] ?? 0) ^ (1 << (bit & 7));
  return copy;
}

function replaceByte(bytes: Uint8Array, random: Random): Uint8Array {
  const copy = Uint8Array.from(bytes);
  copy[random.int(bytes.length)] = random.int(256);
  return copy;
}

function changedOnly(before: Uint8Array, after: Uint8Array, run: (bytes: Uint8Array) => Promise<unknown>): Promise<unknown> | null {
  return Buffer.compare(before, after) === 0 ? null : run(after);
}

/** The last letter of a base64url part has spare bits: another letter there may be the same bytes, and is no attack. */
function changedText(text: string, random: Random, run: (text: string) => Promise<unknown>): Promise<unknown> | null {
  const at = random.int(text.length);
  const changed = text.slice(0, at) + random.pick([..."ABab09-_.=!"]) + text.slice(at + 1);
  const bytesOf = (of: string) => of.split(".").map((part) => Buffer.from(part, "base64url").toString("hex")).join(".");
  return bytesOf(changed) === bytesOf(text) && changed.split(".")[0] === text.split(".")[0] ? null : run(changed);
}

function withHeaderOf(text: string, header: Record<string, unknown>, run: (text: string) => Promise<unknown>): Promise<unknown> {
  return run([Buffer.from(JSON.stringify(header)).toString("base64url"), ...text.split(".").slice(1)].join("."));
}

function joined(...parts: Uint8Array[]): Uint8Array {
  return Uint8Array.from(Buffer.concat(parts));
}
