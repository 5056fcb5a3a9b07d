// The data keys: one per scope, wrapped in the database, open in memory while in use. Must never happen: two instances
// sealing one scope under two keys (the scope is unique, the loser reads the winner's key), or a key made by opening.
import type { Clock } from "../clock.js";
import type { PrismaClient } from "../db/generated/client.js";
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
      const key = known ? remember(scope, known) : await load(scope, false);
      if (key === null) throw new UnreadableError();
      return openText(key.key, scope, place, blob);
    },
    forget: (scope) => {
      cached.delete(scope);
    },
  };
}

async function readDataKey(deps: SealerDeps, scope: string, make: boolean): Promise<OpenDataKey | null> {
  const table = deps.db.prisma.dataKey;
  const find = () => table.findUnique({ where: { scope }, select: { id: true, wrapped: true } });
  let row = await find();
  if (row === null && make) {
    const id = newId(deps.clock, "dk");
    const { kid, wrapped } = await deps.ring.wrap(deps.clock.randomBytes(DATA_KEY_BYTES), dataKeyContext(scope, id));
    // ON CONFLICT DO NOTHING: of two instances one wins, and both go on with the row that is there.
    await table.createMany({ data: [{ id, scope, kid, wrapped }], skipDuplicates: true });
    row = await find();
  }
  return row === null ? null : unwrapRow(deps.ring, scope, row);
}

async function unwrapRow(ring: KeyRing, scope: string, row: DataKeyRow): Promise<OpenDataKey> {
  try {
    return { id: row.id, key: await ring.unwrap(row.wrapped, dataKeyContext(scope, row.id)) };
  } catch (error) {
    if (error instanceof UnwrapError) throw new UnreadableError();
    throw error;
  }
}

/** A wrapped key moved to another scope or row does not open. */
export function dataKeyContext(scope: string, id: string): string {
  return `data_key:${id}:${scope}`;
}
