// What can be said of the keys without telling anything of them: which there are, where each comes from, and what is wrapped
// under it. Changes nothing.
import type { PrismaClient } from "../db/generated/client.js";
import { dataKeyContext, IN_USE, kidsInUse } from "./dataKeys.js";
import { type KeyRing, UnwrapError } from "./keyring.js";
import { currentSince, type KeySource, type KeyTables, type OpenedKeys } from "./masterKey.js";

const BATCH_ROWS = 500;

export interface KeysSeen {
  current: string;
  /** Null: a rotation to the current key has not come to its end. */
  currentSince: Date | null;
  /** The ring, current first, then master keys that only the database knows. */
  keys: {
    kid: string;
    /** Null: this program does not have the key; what is wrapped under it does not open. */
    source: KeySource | null;
    dataKeys: number;
  }[];
  /** Data keys that are not under the current master key. */
  remaining: number;
  /** Data keys that do not open, although their master key is here. */
  damaged: { scope: string; kid: string }[];
}

export async function inspectKeys(keys: Pick<OpenedKeys, "ring" | "sourceOf">, prisma: KeyTables): Promise<KeysSeen> {
  const { ring } = keys;
  const groups = await prisma.dataKey.groupBy({ by: ["kid"], where: IN_USE, _count: { _all: true }, orderBy: { kid: "asc" } });
  const counts = new Map(groups.map(({ kid, _count }) => [kid, _count._all]));
  const kids = [...ring.kids, ...[...counts.keys()].filter((kid) => !ring.kids.includes(kid))];
  return {
    current: ring.currentKid,
    currentSince: await currentSince(prisma, ring),
    keys: kids.map((kid) => ({ kid, source: keys.sourceOf(kid), dataKeys: counts.get(kid) ?? 0 })),
    remaining: [...counts].filter(([kid]) => kid !== ring.currentKid).reduce((sum, [, count]) => sum + count, 0),
    damaged: await damagedKeys(ring, prisma),
  };
}

/** False: another instance has wrapped data keys under a master key that this one was not given. */
export async function hasEveryKey(ring: KeyRing, prisma: Pick<PrismaClient, "dataKey">): Promise<boolean> {
  return (await kidsInUse(prisma)).every((kid) => ring.kids.includes(kid));
}

async function damagedKeys(ring: KeyRing, prisma: Pick<PrismaClient, "dataKey">): Promise<KeysSeen["damaged"]> {
  const damaged: KeysSeen["damaged"] = [];
  for (let after = ""; ; ) {
    const rows = await prisma.dataKey.findMany({
      where: { ...IN_USE, id: { gt: after }, kid: { in: [...ring.kids] } },
      orderBy: { id: "asc" },
      take: BATCH_ROWS,
      select: { id: true, scope: true, kid: true, wrapped: true },
    });
    for (const { id, scope, kid, wrapped } of rows) {
      const opens = await ring.unwrap(wrapped, dataKeyContext(scope, id)).then(
        () => true,
        (error: unknown) => {
          if (error instanceof UnwrapError) return false;
          throw error;
        },
      );
      if (!opens) damaged.push({ scope, kid });
    }
    const last = rows.at(-1);
    if (last === undefined) return damaged;
    after = last.id;
  }
}
