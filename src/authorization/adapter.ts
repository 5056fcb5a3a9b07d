// Where oidc-provider keeps its records: the table oauth_record. Ids are hashed, payloads sealed. Must never happen: a
// code or refresh token in clear in the database; a code redeemed twice, however many try at once (a plain UPDATE let
// 5 of 5 parallel tries through).
import type { Clock } from "../clock.js";
import { UnreadableError, type Sealer } from "../crypto/seal.js";
import { hashToken } from "../crypto/tokens.js";
import type { Database } from "../db/client.js";
import { InvalidGrant, type Adapter, type AdapterFactory, type AdapterPayload } from "./oidcProvider.js";

/**
 * For so long a rotated refresh token still works: a client that refreshes twice at once, or lost the answer, keeps its
 * grant (8 rounds of 6 parallel refreshes: 8 of 48 ok without it, 48 of 48 with it). Later, reuse revokes the family.
 */
export const REFRESH_LEEWAY_MS = 10_000;

/** Whoever has the id has the right: it must not be in the payload either. All three are only ever found by their id. */
const BEARERS = new Set(["AccessToken", "AuthorizationCode", "RefreshToken"]);

export interface AdapterDeps {
  db: Pick<Database, "prisma">;
  sealer: Sealer;
  clock: Clock;
}

interface Row {
  type: string;
  idHash: string;
  payload: Uint8Array;
  consumedAt: Date | null;
}

export function createAdapter(deps: AdapterDeps): AdapterFactory {
  return (type) => adapterOf(type, deps);
}

function adapterOf(type: string, deps: AdapterDeps): Adapter {
  const { db, sealer, clock } = deps;
  const records = db.prisma.oAuthRecord;
  const byId = (id: string) => ({ type_idHash: { type, idHash: hashToken(id) } });

  async function read(row: Row | null, id?: string): Promise<AdapterPayload | undefined> {
    const payload = row === null ? null : await openPayload(sealer, row);
    if (row === null || payload === null) return undefined;
    if (id !== undefined && BEARERS.has(type)) payload.jti = id;
    if (row.consumedAt !== null && !isInLeeway(row.consumedAt)) payload.consumed = Math.floor(row.consumedAt.getTime() / 1000);
    return payload;
  }

  function isInLeeway(consumedAt: Date): boolean {
    return type === "RefreshToken" && clock.now() - consumedAt.getTime() < REFRESH_LEEWAY_MS;
  }

  return {
    upsert: async (id, payload, expiresIn) => {
      const idHash = hashToken(id);
      const { jti, ...rest } = payload;
      const kept = BEARERS.has(type) ? rest : { ...rest, jti };
      const data = {
        payload: await sealer.seal("installation", placeOf(type, idHash), JSON.stringify(kept)),
        grantId: BEARERS.has(type) && payload.grantId ? hashToken(payload.grantId) : null,
        uidHash: secondKey(type, payload),
        sub: payload.accountId ?? null,
        expiresAt: expiresIn === undefined ? null : new Date(clock.now() + expiresIn * 1000),
      };
      await records.upsert({ where: byId(id), create: { type, idHash, createdAt: clock.date(), ...data }, update: data, select: { idHash: true } });
    },
    find: async (id) => read(await records.findUnique({ where: byId(id) }), id),
    findByUid: async (uid) => read(await records.findFirst({ where: { type, uidHash: hashToken(uid) } })),
    findByUserCode: async () => undefined,
    consume: async (id) => {
      const { type_idHash } = byId(id);
      const marked = await records.updateMany({ where: { ...type_idHash, consumedAt: null }, data: { consumedAt: clock.date() } });
      if (marked.count === 1) return;
      const row = await records.findUnique({ where: byId(id), select: { consumedAt: true } });
      if (row?.consumedAt && isInLeeway(row.consumedAt)) return;
      throw new InvalidGrant("already consumed");
    },
    destroy: async (id) => {
      await records.deleteMany({ where: byId(id).type_idHash });
    },
    revokeByGrantId: async (grantId) => {
      await records.deleteMany({ where: { type, grantId: hashToken(grantId) } });
    },
  };
}

/** Null: its key is gone (keys abandoned), which for the library is a record that is not there. */
export async function openPayload(sealer: Sealer, row: Pick<Row, "type" | "idHash" | "payload">): Promise<AdapterPayload | null> {
  try {
    const clear = await sealer.open("installation", placeOf(row.type, row.idHash), row.payload);
    return JSON.parse(clear.reveal()) as AdapterPayload;
  } catch (error) {
    if (error instanceof UnreadableError) return null;
    throw error;
  }
}

/** What a record is found by besides its id: a session by its uid, a person's grants by the client. */
function secondKey(type: string, payload: AdapterPayload): string | null {
  if (type === "Session" && payload.uid) return hashToken(payload.uid);
  if (type === "Grant" && payload.clientId) return hashToken(payload.clientId);
  return null;
}

function placeOf(type: string, idHash: string) {
  return { table: "oauth_record", row: `${type}:${idHash}`, field: "payload", generation: 0 };
}
