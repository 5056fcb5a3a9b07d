// The key pair that signs tokens (ES256), shared by all instances. Must never happen: the private half anywhere but sealed
// in its row and in memory; two instances that start at once and sign with two keys.
import { calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type CryptoKey, type JWK } from "jose";
import type { Clock } from "../clock.js";
import { UnreadableError, type Sealer } from "../crypto/seal.js";
import type { Database } from "../db/client.js";

export const SIGNING_ALGORITHM = "ES256";

export interface SigningKey {
  kid: string;
  privateKey: CryptoKey;
  publicKey: CryptoKey;
  /** For the authorization server, which signs with the same keys. */
  privateJwk: JWK;
  publicJwk: JWK;
}

export interface SigningKeys {
  current(): SigningKey;
  /** Null: no key of ours. */
  find(kid: string): SigningKey | null;
  /** Signing keys first, then retired ones that are still published. */
  all(): readonly SigningKey[];
}

export interface SigningKeyDeps {
  db: Pick<Database, "prisma">;
  sealer: Sealer;
  clock: Clock;
  onDamaged?(id: string): void;
}

/** Every installation begins with this row; the unique id lets one of several first starters win. */
const FIRST_ID = "signing_1";

export async function createSigningKeys(deps: SigningKeyDeps): Promise<SigningKeys> {
  const { db } = deps;
  const rows = () => db.prisma.signingKey.findMany({ orderBy: { createdAt: "desc" } });
  let stored = await rows();
  // A damaged key can sign nothing and prove nothing: everybody signs in again, which is better than a start that fails for good.
  for (const row of stored) {
    if (await opens(deps, row)) continue;
    await db.prisma.signingKey.deleteMany({ where: { id: row.id, privateSealed: row.privateSealed } });
    deps.onDamaged?.(row.id);
  }
  stored = await rows();
  if (stored.length === 0) {
    await db.prisma.signingKey.createMany({ data: [await newRow(deps)], skipDuplicates: true });
    stored = await rows();
  }
  const keys = await Promise.all(stored.map((row) => openRow(deps, row)));
  const signing = keys.filter((_key, index) => stored[index]?.retiredAt === null);
  const current = signing[0];
  if (!current) throw new Error("There is no key to sign with.");
  const all = [...signing, ...keys.filter((key) => !signing.includes(key))];
  return { current: () => current, find: (kid) => all.find((key) => key.kid === kid) ?? null, all: () => all };
}

interface KeyRow {
  id: string;
  algorithm: string;
  privateSealed: Uint8Array;
}

async function newRow(deps: SigningKeyDeps) {
  const pair = await generateKeyPair(SIGNING_ALGORITHM, { extractable: true });
  const publicJwk = await exportJWK(pair.publicKey);
  const kid = await calculateJwkThumbprint(publicJwk);
  const marks = { kid, alg: SIGNING_ALGORITHM, use: "sig" };
  const privateJwk = { ...(await exportJWK(pair.privateKey)), ...marks };
  return {
    id: FIRST_ID,
    algorithm: SIGNING_ALGORITHM,
    publicJwk: JSON.parse(JSON.stringify({ ...publicJwk, ...marks })) as Record<string, string>,
    privateSealed: await deps.sealer.seal("installation", placeOf(FIRST_ID), JSON.stringify(privateJwk)),
    createdAt: deps.clock.date(),
  };
}

async function opens(deps: SigningKeyDeps, row: KeyRow): Promise<boolean> {
  try {
    await openRow(deps, row);
    return true;
  } catch (error) {
    if (error instanceof UnreadableError) return false;
    throw error;
  }
}

/** The public half is taken out of the private one: what the seal protects decides, not the column beside it. */
async function openRow(deps: SigningKeyDeps, row: KeyRow): Promise<SigningKey> {
  const clear = await deps.sealer.open("installation", placeOf(row.id), row.privateSealed);
  const privateJwk = JSON.parse(clear.reveal()) as JWK & { kid: string };
  const { d: _private, ...publicJwk } = privateJwk;
  const [privateKey, publicKey] = await Promise.all([importJWK(privateJwk, row.algorithm), importJWK(publicJwk, row.algorithm)]);
  if (privateKey instanceof Uint8Array || publicKey instanceof Uint8Array) throw new TypeError("A signing key must be a key pair.");
  return { kid: privateJwk.kid, privateKey, publicKey, privateJwk, publicJwk };
}

function placeOf(id: string) {
  return { table: "signing_key", row: id, field: "private", generation: 0 };
}
