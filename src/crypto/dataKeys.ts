// The data keys: one per scope, wrapped in the database, open in memory while in use. Must never happen: two instances
// sealing one scope under two keys (the scope is unique, the loser reads the winner's key); a key made by opening; a data
// key taken for damaged, and left, because this instance lacks a master key.
import type { Clock } from "../clock.js";
import type { PrismaClient } from "../db/generated/client.js";
import { OutbandError } from "../errors.js";
import { newId } from "../ids.js";
import { UnwrapError, type KeyRing } from "./keyring.js";
import { DATA_KEY_BYTES, openText, sealText, UnreadableError, type Sealer } from "./seal.js";

export type { SealedPlace, Sealer } from "./seal.js";
export { UnreadableError } from "./seal.js";

/** A scope is a connection; operators make them by hand, so a thousand is far away. The oldest use goes first. */
const CACHED_KEYS_MAX = 1_000;
const IV_BYTES = 12;

interface DataKeyRow {
  id: string;
  kid: string;
  wrapped: string;
}

interface OpenDataKey {
  id: string;
  key: Buffer;
}

export interface SealerDeps {
  ring: KeyRing;
  db: { prisma: Pick<PrismaClient, "dataKey"> };
  clock: Clock;
  /** A data key that does not open was put aside, and its scope has a new one: what the old one sealed is lost. */
  onAside?(scope: string, id: string): void;
}

export function createSealer(deps: SealerDeps): Sealer {
  const cached = new Map<string, OpenDataKey>();
  const loading = new Map<string, Promise<OpenDataKey | null>>();

  function remember(scope: string, key: OpenDataKey): OpenDataKey {
    cached.delete(scope);
    cached.set(scope, key);
    const oldest = cached.keys().next().value;
    if (cached.size > CACHED_KEYS_MAX && oldest !== undefined) cached.delete(oldest);
    return key;
  }

  /** One load per scope at a time; null: the scope has no data key and none was to be made. */
  async function load(scope: string, make: boolean): Promise<OpenDataKey | null> {
    const slot = `${make}:${scope}`;
    const running = loading.get(slot) ?? readDataKey(deps, scope, make).finally(() => loading.delete(slot));
    loading.set(slot, running);
    const key = await running;
    return key === null ? null : remember(scope, key);
  }

  async function keyFor(scope: string): Promise<OpenDataKey> {
    const known = cached.get(scope);
    const key = known ? remember(scope, known) : await load(scope, true);
    if (key === null) throw new UnreadableError();
    return key;
  }

  return {
    prepare: async (scope) => {
      await keyFor(scope);
    },
    seal: async (scope, place, text) => {
      const { key } = await keyFor(scope);
      return sealText(key, deps.clock.randomBytes(IV_BYTES), scope, place, text);
    },
    open: async (scope, place, blob) => {
      const known = cached.get(scope);
      if (known) {
        try {
          return openText(remember(scope, known).key, scope, place, blob);
        } catch (error) {
          if (!(error instanceof UnreadableError)) throw error;
        }
        // Only if another instance has given the scope a new data key is there anything to be tried.
        if ((await find(deps, scope))?.id === known.id) throw new UnreadableError();
      }
      const key = await load(scope, false);
      if (key === null) throw new UnreadableError();
      return openText(key.key, scope, place, blob);
    },
    forget: (scope) => {
      cached.delete(scope);
    },
  };
}

async function readDataKey(deps: SealerDeps, scope: string, make: boolean): Promise<OpenDataKey | null> {
  let row = await find(deps, scope);
  if (row === null && make) row = await makeRow(deps, scope);
  if (row === null) return null;
  const key = await unwrapRow(deps.ring, scope, row);
  if (key !== null) return key;
  if (!make) throw new UnreadableError();
  await putAside(deps, scope, row);
  const next = await makeRow(deps, scope);
  const opened = next === null ? null : await unwrapRow(deps.ring, scope, next);
  if (opened === null) throw new UnreadableError();
  return opened;
}

function find({ db }: SealerDeps, scope: string): Promise<DataKeyRow | null> {
  return db.prisma.dataKey.findUnique({ where: { scope }, select: { id: true, kid: true, wrapped: true } });
}

async function makeRow(deps: SealerDeps, scope: string): Promise<DataKeyRow | null> {
  const id = newId(deps.clock, "dk");
  const { kid, wrapped } = await deps.ring.wrap(deps.clock.randomBytes(DATA_KEY_BYTES), dataKeyContext(scope, id));
  // ON CONFLICT DO NOTHING: of two instances one wins, and both go on with the row that is there.
  await deps.db.prisma.dataKey.createMany({ data: [{ id, scope, kid, wrapped }], skipDuplicates: true });
  return find(deps, scope);
}

/** Null: damaged, or not this scope's. The column `kid` says whether the ring should be able to open it; without that key nothing can be judged. */
async function unwrapRow(ring: KeyRing, scope: string, row: DataKeyRow): Promise<OpenDataKey | null> {
  if (!ring.kids.includes(row.kid)) throw new OutbandError("unavailable", { reason: "master_key_missing", cause: new Error(`master key ${row.kid} is not in the ring`) });
  try {
    return { id: row.id, key: await ring.unwrap(row.wrapped, dataKeyContext(scope, row.id)) };
  } catch (error) {
    if (error instanceof UnwrapError) return null;
    throw error;
  }
}

const ASIDE = "aside:";
/** The data keys that are used. */
export const IN_USE = { NOT: { scope: { startsWith: ASIDE } } };

/**
 * A damaged data key must not stop its connection for good: people connect again under a new one. It is kept under another
 * scope, because what looks damaged may have been misplaced by somebody's repair and be put back.
 */
async function putAside(deps: SealerDeps, scope: string, row: DataKeyRow): Promise<void> {
  const where = { id: row.id, scope, wrapped: row.wrapped };
  const { count } = await deps.db.prisma.dataKey.updateMany({ where, data: { scope: `${ASIDE}${row.id}:${scope}` } });
  if (count > 0) deps.onAside?.(scope, row.id);
}

/** The master keys that data keys in use are wrapped under. */
export async function kidsInUse(prisma: Pick<PrismaClient, "dataKey">): Promise<string[]> {
  const rows = await prisma.dataKey.findMany({ where: IN_USE, distinct: ["kid"], select: { kid: true }, orderBy: { kid: "asc" } });
  return rows.map(({ kid }) => kid);
}

/** A wrapped key moved to another scope or row does not open. */
export function dataKeyContext(scope: string, id: string): string {
  return `data_key:${id}:${scope}`;
}
