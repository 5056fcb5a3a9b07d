// A rotation of a generated key that ends behind its first step, behind its second one, and so on: each time the next start
// must open everything, and the next run must end the rotation. A step is an act on the key files or a statement on the key
// tables. In one process the run stands still for ever there, which is quick; in a process of its own it dies with -9.
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import fsp, { type FileHandle } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { systemClock } from "../../src/clock.js";
import { createSealer, kidsInUse } from "../../src/crypto/dataKeys.js";
import { inspectKeys } from "../../src/crypto/inspect.js";
import { kidOfMasterKey } from "../../src/crypto/keyring.js";
import { type KeyTables, openKeyRing } from "../../src/crypto/masterKey.js";
import { createRotation } from "../../src/crypto/rotate.js";
import { secret } from "../../src/crypto/secret.js";
import { type Database, openDatabase } from "../../src/db/client.js";
import { silentLog } from "./silentLog.js";

const STEP_PROCESS = fileURLToPath(new URL("./rotationStepProcess.ts", import.meta.url));
const SCOPES = ["installation", "conn_a", "conn_b", "conn_c"];
const place = { table: "connected_account", row: "ca_1", field: "access", generation: 1 };

/** As a start without MASTER_KEY: the key is the program's own, wherever the rows are. */
const generatedIn = (dataDir: string) => ({ databaseUrl: null, dataDir, masterKey: null, masterKeysPrevious: [] });

export interface StepOrder {
  databaseUrl: string | null;
  dataDir: string;
  dieAfter: number;
}

export type WithDatabase = <T>(run: (db: Database) => Promise<T>) => Promise<T>;

export const openedAt = (where: { databaseUrl: string | null; dataDir: string }): WithDatabase => async (run) => {
  const databaseUrl = where.databaseUrl === null ? null : secret(where.databaseUrl);
  const db = await openDatabase({ databaseUrl, dataDir: where.dataDir, log: silentLog, clock: systemClock, poolMax: 2 });
  try {
    return await run(db);
  } finally {
    await db.close();
  }
};

/** Begins one rotation; `behind` is waited for behind each step and given the names so far. `stop` lets go of the files. */
export async function steppedRotation(db: Database, dataDir: string, behind: (names: readonly string[]) => Promise<void> | void): Promise<{ names: string[]; done: Promise<void>; stop(): Promise<void> }> {
  const settings = generatedIn(dataDir);
  const keys = await openKeyRing({ settings, db, clock: systemClock });
  const names: string[] = [];
  const step = async <T>(name: string, value: T): Promise<T> => {
    names.push(name);
    await behind(names);
    return value;
  };
  const stop = watchFiles(dataDir, step);
  const prisma = { dataKey: watched("data_key", db.prisma.dataKey, step), installation: watched("installation", db.prisma.installation, step) } as KeyTables;
  const done = createRotation({ settings, keys, db: { prisma }, clock: systemClock })
    .rotate()
    .then(() => {});
  return { names, done, stop };
}

type Step = <T>(name: string, value: T) => Promise<T>;

function watched<T extends object>(table: string, delegate: T, step: Step): T {
  return new Proxy(delegate, {
    get: (target, name) => {
      const method = Reflect.get(target, name) as unknown;
      if (typeof method !== "function") return method;
      return async (...args: unknown[]) => step(`${table} ${String(name)}`, await (method as (...given: unknown[]) => Promise<unknown>).apply(target, args));
    },
  });
}

/** The acts of keyFiles.ts alone: what the database does with its own files is its own matter. */
function watchFiles(dataDir: string, step: Step): () => Promise<void> {
  const isOurs = (path: unknown): path is string => typeof path === "string" && (path === dataDir || path.startsWith(join(dataDir, "master.key")));
  const { open, rename } = fsp;
  const closers = new Set<() => Promise<void>>();
  fsp.rename = async (from, to) => {
    const done = await rename(from, to);
    return isOurs(to) ? step(`rename ${basename(to)}`, done) : done;
  };
  fsp.open = async (path, ...rest) => {
    const handle = await open(path, ...rest);
    if (!isOurs(path)) return handle;
    const name = path === dataDir ? "folder" : basename(path);
    const close = handle.close.bind(handle);
    closers.add(close);
    const acts = ["chmod", "writeFile", "sync", "close"] as const satisfies (keyof FileHandle)[];
    for (const act of acts) {
      const run = handle[act].bind(handle) as (...args: unknown[]) => Promise<unknown>;
      Object.assign(handle, { [act]: async (...args: unknown[]) => step(`${act} ${name}`, await run(...args)) });
    }
    return step(`open ${name}`, handle);
  };
  syncBuiltinESMExports();
  return async () => {
    Object.assign(fsp, { open, rename });
    syncBuiltinESMExports();
    // As the system does for a dead process.
    for (const close of closers) await close();
  };
}

/** Null: it stands still there. Else it was through with fewer steps, whose names these are. */
export async function standingStill(db: Database, dataDir: string, after: number): Promise<string[] | null> {
  let stand = (): void => {};
  const stood = new Promise<void>((resolve) => {
    stand = resolve;
  });
  const run = await steppedRotation(db, dataDir, async (names) => {
    if (names.length < after) return;
    stand();
    await new Promise<never>(() => {});
  });
  try {
    return await Promise.race([stood.then(() => null), run.done.then(() => run.names)]);
  } finally {
    await run.stop();
  }
}

/** The same in a process of its own that is killed. */
export async function killed(order: StepOrder): Promise<string[] | null> {
  const child = fork(STEP_PROCESS, [JSON.stringify(order)], { execArgv: ["--import", import.meta.resolve("tsx")], stdio: ["ignore", "ignore", "inherit", "ipc"] });
  let names: string[] | null = null;
  child.on("message", (said: string[]) => {
    names = said;
  });
  const [code, signal] = (await once(child, "exit")) as [number | null, NodeJS.Signals | null];
  assert.ok(signal === "SIGKILL" || code === 0, `ended with ${code ?? signal}`);
  return signal === "SIGKILL" ? null : names;
}

/**
 * Ends a rotation behind each of these steps, and looks each time at what is left. Without steps: behind every one there is.
 * Answers the names of the steps of a whole rotation, or an empty list where none was whole.
 */
export async function endedBehindSteps(options: {
  dataDir: string;
  withDatabase: WithDatabase;
  end: (after: number) => Promise<string[] | null>;
  steps?: readonly number[];
  told?: (after: number) => void;
}): Promise<{ names: string[]; ends: number }> {
  const { dataDir, withDatabase } = options;
  const settings = generatedIn(dataDir);
  const everSeen = new Set<string>();
  const blobs = new Map<string, Uint8Array>();

  function keysOnDisk(): string[] {
    const files = ["master.key", "master.key.previous"].map((name) => join(dataDir, name)).filter((file) => existsSync(file));
    const keys = files.flatMap((file) => readFileSync(file, "utf8").trim().split("\n"));
    for (const key of keys) everSeen.add(key);
    return keys;
  }

  /** What a start finds there, and the run that ends the rotation. */
  async function recovered(db: Database, behind: string): Promise<void> {
    const keys = await openKeyRing({ settings, db, clock: systemClock });
    const opened = async (): Promise<void> => {
      const sealer = createSealer({ ring: keys.ring, db, clock: systemClock });
      for (const [scope, blob] of blobs) assert.equal((await sealer.open(scope, place, blob)).reveal(), `text of ${scope}`, behind);
    };
    const onDisk = keysOnDisk().map((key) => kidOfMasterKey(secret(key)));
    assert.deepEqual((await kidsInUse(db.prisma)).filter((kid) => !onDisk.includes(kid)), [], behind);
    await opened();
    const wasBegun = (await inspectKeys(keys, db.prisma)).currentSince === null;
    const ended = await createRotation({ settings, keys, db, clock: systemClock }).rotate();
    assert.deepEqual([ended.remaining, ended.isNewKey], [0, !wasBegun], behind);
    await opened();
    keysOnDisk();
  }

  await withDatabase(async (db) => {
    const { ring } = await openKeyRing({ settings, db, clock: systemClock });
    const sealer = createSealer({ ring, db, clock: systemClock });
    for (const scope of SCOPES) blobs.set(scope, await sealer.seal(scope, place, `text of ${scope}`));
  });
  let ends = 0;
  for (let turn = 0; ; turn += 1) {
    const after = options.steps === undefined ? turn + 1 : options.steps[turn];
    if (after === undefined) return { names: [], ends };
    const before = everSeen.size;
    const names = await options.end(after);
    keysOnDisk();
    await withDatabase((db) => recovered(db, `behind step ${after}`));
    assert.ok(everSeen.size - before <= 2, "one key of the run that ended at most, and one of the run after it");
    if (names !== null) return { names, ends };
    ends += 1;
    options.told?.(after);
  }
}
