// Rotation of the master key: a key that the program made itself is replaced, and the data keys are wrapped anew under the
// current key; sealed rows stay untouched. Safe to kill and to start again at any point: the new key is used only once both
// files are on the disk, and each row changes by itself, on the condition that nobody changed it meanwhile. Must never
// happen: a second new key while the first one's rotation is unfinished; a damaged data key that stops the others.
import type { Clock } from "../clock.js";
import type { PrismaClient } from "../db/generated/client.js";
import { OutbandError } from "../errors.js";
import { dataKeyContext, IN_USE, kidsInUse } from "./dataKeys.js";
import { keyFilesIn } from "./keyFiles.js";
import { kidOfMasterKey, UnwrapError, type KeyRing } from "./keyring.js";
import { currentSince, isGenerated, MasterKeyRefusal, newMasterKey, recordKeyCheck, type KeyTables, type MasterKeySettings, type OpenedKeys } from "./masterKey.js";

const BATCH_ROWS = 100;
/** Another instance may make a data key under a former master key while a pass runs. */
const PASSES_MAX = 3;

export interface Rotated {
  rewrapped: number;
  /** Data keys in use that are not under the current master key; while there are any, the former keys must stay. */
  remaining: number;
  /** Whether this run made a new master key. */
  isNewKey: boolean;
}

export interface Rotation {
  /** One at a time in a process: who asks meanwhile gets the same outcome. */
  rotate(): Promise<Rotated>;
}

export interface RotationDeps {
  settings: MasterKeySettings;
  keys: OpenedKeys;
  db: { prisma: KeyTables };
  clock: Pick<Clock, "randomBytes">;
  /** Ends a run between two rows: the next one goes on. */
  stopping?: AbortSignal;
}

export function createRotation(deps: RotationDeps): Rotation {
  let running: Promise<Rotated> | null = null;
  return {
    rotate: () => {
      running ??= rotateOnce(deps).finally(() => {
        running = null;
      });
      return running;
    },
  };
}

async function rotateOnce(deps: RotationDeps): Promise<Rotated> {
  const { keys, db } = deps;
  const isNewKey = isGenerated(deps.settings) && (await replaceKey(deps));
  const { rewrapped, remaining } = await rewrapDataKeys({ ring: keys.ring, db, ...(deps.stopping ? { signal: deps.stopping } : {}) });
  return { rewrapped, remaining, isNewKey };
}

/** False: an earlier run was cut off behind this step, and is to be finished first. */
async function replaceKey({ settings, keys, db, clock }: RotationDeps): Promise<boolean> {
  const files = keyFilesIn(settings.dataDir);
  try {
    // What is on the disk decides: a run that failed half-way may have got further than this process knows.
    await keys.reload();
    if ((await currentSince(db.prisma, keys.ring)) === null) return false;
    const current = await files.readCurrent();
    if (current === null || kidOfMasterKey(current) !== keys.ring.currentKid) throw new MasterKeyRefusal("The key file changed meanwhile.");
    const needed = await kidsInUse(db.prisma);
    const former = (await files.readFormer()).keys.filter((key) => needed.includes(kidOfMasterKey(key)));
    // In this order: a key that the other file does not hold yet is never overwritten.
    await files.writeFormer([current, ...former.filter((key) => kidOfMasterKey(key) !== keys.ring.currentKid)]);
    await files.writeCurrent(newMasterKey(clock));
    await keys.reload();
    return true;
  } catch (cause) {
    if (!isAboutFiles(cause)) throw cause;
    throw new OutbandError("unavailable", { reason: "key_file", message: "The key files in DATA_DIR cannot be used now. Nothing was lost; the log says more.", cause });
  }
}

function isAboutFiles(thrown: unknown): boolean {
  return thrown instanceof MasterKeyRefusal || (thrown as NodeJS.ErrnoException | null)?.syscall !== undefined;
}

export interface Rewrapped {
  rewrapped: number;
  remaining: number;
  /** Ids of data keys that did not open: told, and left alone. */
  unreadable: string[];
}

export async function rewrapDataKeys(deps: { ring: KeyRing; db: { prisma: KeyTables }; signal?: AbortSignal }): Promise<Rewrapped> {
  const { ring } = deps;
  const { prisma } = deps.db;
  const isStopped = (): boolean => deps.signal?.aborted ?? false;
  let rewrapped = 0;
  let unreadable: string[] = [];
  for (let pass = 1; pass <= PASSES_MAX && !isStopped(); pass += 1) {
    const done = await rewrapAll(prisma, ring, isStopped);
    rewrapped += done.rewrapped;
    unreadable = done.unreadable;
    if (done.rewrapped === 0) break;
  }
  if (!isStopped()) await recordKeyCheck(prisma, ring);
  const remaining = await prisma.dataKey.count({ where: behind(ring) });
  return { rewrapped, remaining, unreadable };
}

async function rewrapAll(prisma: Pick<PrismaClient, "dataKey">, ring: KeyRing, isStopped: () => boolean): Promise<Omit<Rewrapped, "remaining">> {
  const unreadable: string[] = [];
  let rewrapped = 0;
  let after = "";
  while (!isStopped()) {
    const rows = await prisma.dataKey.findMany({
      where: { ...behind(ring), id: { gt: after } },
      orderBy: { id: "asc" },
      take: BATCH_ROWS,
      select: { id: true, scope: true, wrapped: true },
    });
    const last = rows.at(-1);
    if (last === undefined) break;
    after = last.id;
    for (const row of rows) {
      if (isStopped()) break;
      const moved = await rewrap(ring, row);
      if (moved === null) {
        unreadable.push(row.id);
        continue;
      }
      const { count } = await prisma.dataKey.updateMany({ where: { id: row.id, wrapped: row.wrapped }, data: moved });
      rewrapped += count;
    }
  }
  return { rewrapped, unreadable };
}

function behind(ring: KeyRing) {
  return { ...IN_USE, kid: { not: ring.currentKid } };
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
