// Rotation of the master key: wraps the data keys anew under the current key; sealed rows stay untouched. Safe to kill and
// to start again: each row changes by itself, on the condition that nobody changed it meanwhile. One data key that does not
// open is told and left alone; it must not stop the others.
import type { PrismaClient } from "../db/generated/client.js";
import { dataKeyContext } from "./dataKeys.js";
import { UnwrapError, type KeyRing } from "./keyring.js";
import { recordKeyCheck } from "./masterKey.js";

const BATCH_ROWS = 100;

export interface RewrapOutcome {
  rewrapped: number;
  /** Ids of data keys that did not open. While there are any, the former master key must stay in MASTER_KEY_PREVIOUS. */
  unreadable: string[];
  /** Whether every data key is now under the current master key, and the former ones may go. */
  complete: boolean;
}

export async function rewrapDataKeys(deps: {
  ring: KeyRing;
  db: { prisma: Pick<PrismaClient, "dataKey" | "installation"> };
  signal?: AbortSignal;
}): Promise<RewrapOutcome> {
  const { ring } = deps;
  const { prisma } = deps.db;
  const outcome: RewrapOutcome = { rewrapped: 0, unreadable: [], complete: false };
  const behind = { kid: { not: ring.currentKid } };
  let after = "";
  while (deps.signal?.aborted !== true) {
    const rows = await prisma.dataKey.findMany({
      where: { ...behind, id: { gt: after } },
      orderBy: { id: "asc" },
      take: BATCH_ROWS,
      select: { id: true, scope: true, wrapped: true },
    });
    const last = rows.at(-1);
    if (last === undefined) break;
    after = last.id;
    for (const row of rows) {
      const moved = await rewrap(ring, row);
      if (moved === null) {
        outcome.unreadable.push(row.id);
        continue;
      }
      const { count } = await prisma.dataKey.updateMany({ where: { id: row.id, wrapped: row.wrapped }, data: moved });
      outcome.rewrapped += count;
    }
  }
  outcome.complete = (await prisma.dataKey.count({ where: behind })) === 0;
  if (outcome.complete) await recordKeyCheck(prisma, ring);
  return outcome;
}

async function rewrap(
  ring: KeyRing,
  row: { id: string; scope: string; wrapped: string },
): Promise<{ kid: string; wrapped: string } | null> {
  const context = dataKeyContext(row.scope, row.id);
  try {
    return await ring.wrap(await ring.unwrap(row.wrapped, context), context);
  } catch (error) {
    if (error instanceof UnwrapError) return null;
    throw error;
  }
}
