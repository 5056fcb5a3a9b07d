// The ring of master keys. It wraps data keys as JWEs (node-jose) and derives the keys of cookies and requestState (HKDF).
// node-jose inflates compressed JWEs and runs any number of PBES2 rounds, so it must never see a JWE that was not checked
// here first: alg, enc, no zip, known kid, exact lengths. Master keys leave this file only as what is derived from them.
import { hkdfSync } from "node:crypto";
import jose from "node-jose";
import { readMasterKey } from "./keyText.js";
import { DATA_KEY_BYTES } from "./seal.js";
import type { Secret } from "./secret.js";
import { sameText } from "./tokens.js";

export interface KeyRing {
  /** The id of the key that wraps; derived from the key, so every instance names it alike. */
  currentKid: string;
  /** The current key first. */
  kids: readonly string[];
  /** `context` says what the key is for; a wrapped key opens under its own context alone. */
  wrap(key: Buffer, context: string): Promise<{ kid: string; wrapped: string }>;
  /** Throws UnwrapError. */
  unwrap(wrapped: string, context: string): Promise<Buffer>;
  /** Keys for one purpose (`request_state`, `cookies`), current first: sign with the first, accept any. To be asked for at each use. */
  derive(purpose: string): readonly DerivedKey[];
}

export interface DerivedKey {
  kid: string;
  key: Buffer;
}

/** The ring of a running program: whoever holds it works with the new keys from the moment they are put in. */
export interface LiveKeyRing extends KeyRing {
  replace(next: KeyRing): void;
}

/** A wrapped key did not open: unknown master key, another context, or changed. */
export class UnwrapError extends Error {
  /** The master key of this id is not in the ring; null: something else is wrong. */
  readonly missingKid: string | null;

  constructor(missingKid: string | null = null) {
    super("A wrapped key cannot be opened.");
    this.name = "UnwrapError";
    this.missingKid = missingKid;
  }
}

/** The keys are base64 of 32 bytes, checked before (config, masterKey). A previous key that is the current one too is ignored. */
export async function createKeyRing(keys: { current: Secret; previous: Secret[] }): Promise<KeyRing> {
  const masters = new Map<string, Buffer>();
  for (const text of [keys.current, ...keys.previous]) {
    const bytes = bytesOf(text);
    const kid = kidOf(bytes);
    if (!masters.has(kid)) masters.set(kid, bytes);
  }
  const kids = [...masters.keys()];
  const currentKid = kids[0];
  if (currentKid === undefined) throw new RangeError("A ring needs a key.");
  const store = jose.JWK.createKeyStore();
  for (const [kid, bytes] of masters) {
    await store.add(jwkOf(kid, bytes) as unknown as jose.JWK.RawKey);
  }
  const current = store.get(currentKid);
  /** By purpose: a few fixed words. Deriving costs 16 µs a key, and every request with a cookie asks. */
  const derivedKeys = new Map<string, DerivedKey[]>();

  return {
    currentKid,
    kids,
    wrap: async (key, context) => {
      if (key.length !== DATA_KEY_BYTES) throw new RangeError("A data key must have 32 bytes.");
      const options = { format: "compact", contentAlg: "A256GCM", zip: false, fields: { alg: "dir", ctx: contextOf(context) } } as const;
      const wrapped = await jose.JWE.createEncrypt(options, current).update(key).final();
      // What we would not open ourselves must not be stored.
      checkWrapped(wrapped, context, kids);
      return { kid: currentKid, wrapped };
    },
    unwrap: async (wrapped, context) => {
      checkWrapped(wrapped, context, kids);
      try {
        const opened = await jose.JWE.createDecrypt(store, { algorithms: ["dir", "A256GCM"] }).decrypt(wrapped);
        return Buffer.from(opened.payload);
      } catch {
        throw new UnwrapError();
      }
    },
    derive: (purpose) => {
      const keys = derivedKeys.get(purpose) ?? [...masters].map(([kid, bytes]) => ({ kid, key: derived(bytes, `derive:${purpose}`, 32) }));
      derivedKeys.set(purpose, keys);
      return keys;
    },
  };
}

export function createLiveKeyRing(first: KeyRing): LiveKeyRing {
  let ring = first;
  return {
    get currentKid() {
      return ring.currentKid;
    },
    get kids() {
      return ring.kids;
    },
    wrap: (key, context) => ring.wrap(key, context),
    unwrap: (wrapped, context) => ring.unwrap(wrapped, context),
    derive: (purpose) => ring.derive(purpose),
    replace: (next) => {
      ring = next;
    },
  };
}

/** The name of a master key: what rows, lists and messages may show of it. */
export function kidOfMasterKey(text: Secret): string {
  return kidOf(bytesOf(text));
}

/** Proof that a key is the one that was used before, without telling anything of it: stored in the installation row. */
export function keyCheckOf(ring: KeyRing, kid: string): string | null {
  const found = ring.derive("key_check").find((candidate) => candidate.kid === kid);
  return found === undefined ? null : `v1.${kid}.${found.key.subarray(0, 16).toString("base64url")}`;
}

function bytesOf(text: Secret): Buffer {
  const bytes = readMasterKey(text.reveal());
  if (bytes === null) throw new RangeError("A master key must be 32 bytes in base64.");
  return bytes;
}

function kidOf(master: Buffer): string {
  return `mk_${derived(master, "kid", 9).toString("base64url")}`;
}

function derived(master: Buffer, info: string, length: number): Buffer {
  return Buffer.from(hkdfSync("sha256", master, Buffer.alloc(0), `outband.v1:${info}`, length));
}

function jwkOf(kid: string, master: Buffer): Record<string, string> {
  // The ring's key is derived too: the bytes of a master key are never used by two algorithms.
  return { kty: "oct", kid, use: "enc", alg: "A256GCM", k: derived(master, "wrap", 32).toString("base64url") };
}

function contextOf(context: string): string {
  return `outband.wrap.v1:${context}`;
}

/** Header (b64) . "" . iv (12 bytes) . ciphertext (32 bytes) . tag (16 bytes) */
const WRAPPED_SHAPE = /^([A-Za-z0-9_-]{1,800})\.\.[A-Za-z0-9_-]{16}\.[A-Za-z0-9_-]{43}\.[A-Za-z0-9_-]{22}$/;
const HEADER_MEMBERS = ["alg", "ctx", "enc", "kid"];

function checkWrapped(wrapped: string, context: string, kids: readonly string[]): void {
  const header = headerOf(WRAPPED_SHAPE.exec(wrapped)?.[1] ?? "");
  if (header === null) throw new UnwrapError();
  // The list is closed: no zip (a bomb), no p2c (rounds without end), no jwk, no crit.
  if (Object.keys(header).sort().join(" ") !== HEADER_MEMBERS.join(" ")) throw new UnwrapError();
  if (header["alg"] !== "dir" || header["enc"] !== "A256GCM") throw new UnwrapError();
  if (typeof header["ctx"] !== "string" || !sameText(header["ctx"], contextOf(context))) throw new UnwrapError();
  const kid = header["kid"];
  if (typeof kid !== "string") throw new UnwrapError();
  if (!kids.includes(kid)) throw new UnwrapError(kid);
}

function headerOf(encoded: string): Record<string, unknown> | null {
  try {
    const header: unknown = JSON.parse(Buffer.from(encoded, "base64url").toString("utf8"));
    return typeof header === "object" && header !== null && !Array.isArray(header) ? (header as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
