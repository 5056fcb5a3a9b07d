// The embedded database: PostgreSQL (PGlite) inside this process, in DATA_DIR/database, behind an ordinary pg.Pool.
// It has no autovacuum, no checkpointer and no lock of its own: all three are here. Must never happen: a second process
// on the directory; a directory that others can read (the engine makes its files world-readable).
import { access, chmod, constants, mkdir, rename, rm, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import pg from "pg";
import type { Clock } from "../clock.js";
import type { Log } from "../log.js";
import { SyncedFiles } from "./embeddedFiles.js";
import { EmbeddedSocket } from "./embeddedSocket.js";
import { acquireLock, DIRECTORY_BYTES_MAX } from "./lock.js";
import { DatabaseRefusal } from "./refusal.js";

/** A start has to replay the log since the last checkpoint: 16 MB took 0.6 s. */
const CHECKPOINT_EVERY_MS = 5 * 60_000;
/** Dead rows come from expiry and retention, which run hourly and daily. */
const VACUUM_EVERY_MS = 6 * 3_600_000;
/** The one session serves everybody in turn: whoever waits longer than this is better told. */
const QUEUE_MS = 15_000;

const START_PARAMETERS = [
  // PGlite's defaults without -F, which turns fsync off.
  ...PGlite.defaultStartParams.filter((parameter) => parameter !== "-F"),
  ...["-c", "fsync=on"],
  // The default, fdatasync, does nothing in Emscripten.
  ...["-c", "wal_sync_method=fsync"],
  // 160 MB of memory at rest instead of 311 with the default of 128 MB.
  ...["-c", "shared_buffers=16MB"],
  ...["-c", "timezone=UTC"],
];

export interface EmbeddedDatabase {
  pool: pg.Pool;
  close(): Promise<void>;
}

export async function openEmbedded(options: { dataDir: string; log: Log; clock: Clock }): Promise<EmbeddedDatabase> {
  const { log, clock } = options;
  const dataDir = await prepareDirectory(options.dataDir);
  const lock = await acquireLock(dataDir, clock);
  try {
    const engine = await openOrCreateEngine(dataDir, log);
    const pool = new pg.Pool({
      stream: () => new EmbeddedSocket(engine.lite),
      max: 1,
      connectionTimeoutMillis: QUEUE_MS,
      idleTimeoutMillis: 0,
      // Named, so that PGHOST, PGSSLMODE and the like, meant for another database, do not reach this one.
      ...{ host: "embedded", user: "postgres", database: "postgres", ssl: false },
    });
    pool.on("error", (error) => log.error("The embedded database dropped its session.", { error }));
    const stopUpkeep = startUpkeep(pool, log, clock);
    return {
      pool,
      close: async () => {
        stopUpkeep();
        await pool.end();
        await engine.lite.close();
        await lock.release();
      },
    };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** The absolute path of the directory, made if need be, and readable by its owner alone. */
async function prepareDirectory(dataDir: string): Promise<string> {
  const directory = resolve(dataDir);
  if (Buffer.byteLength(directory) > DIRECTORY_BYTES_MAX) {
    throw new DatabaseRefusal(`DATA_DIR is longer than ${DIRECTORY_BYTES_MAX} bytes (${directory}): choose a shorter path.`);
  }
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
  } catch (cause) {
    throw new DatabaseRefusal(`DATA_DIR ${whyNotMade(cause)} (${directory}).`, { cause });
  }
  const unkept = await failureOf(chmod(directory, 0o700));
  const unwritten = await failureOf(access(directory, constants.W_OK | constants.X_OK));
  if (unwritten !== null) throw new DatabaseRefusal(`DATA_DIR cannot be written by this user (${directory}).`, { cause: unwritten });
  if (unkept !== null) throw new DatabaseRefusal(`DATA_DIR cannot be made private to this user (${directory}).`, { cause: unkept });
  return directory;
}

/** The path may end in a file (EEXIST), or lead through one (ENOTDIR). */
function whyNotMade(cause: unknown): string {
  const code = String((cause as NodeJS.ErrnoException).code);
  if (code === "EEXIST" || code === "ENOTDIR") return "is not a directory";
  if (code === "EACCES" || code === "EPERM" || code === "EROFS") return "cannot be written by this user";
  return `cannot be made: ${code}`;
}

export interface Engine {
  lite: PGlite;
  files: SyncedFiles;
}

/** A new database is made beside its place and moved there whole, so that a cut during the first start leaves no half. */
async function openOrCreateEngine(dataDir: string, log: Log): Promise<Engine> {
  const place = join(dataDir, "database");
  if (!(await exists(place))) {
    log.info("Creating the embedded database. This takes a few seconds, once.");
    const draft = join(dataDir, "database.new");
    await rm(draft, { recursive: true, force: true });
    const { lite } = await openEngine(draft);
    await lite.close();
    await rename(draft, place);
  }
  return openEngine(place);
}

/** The engine alone, without the lock. */
export async function openEngine(directory: string): Promise<Engine> {
  const files = new SyncedFiles(directory);
  const lite = await PGlite.create({ fs: files, startParams: START_PARAMETERS });
  // Checked on every start, because the hook rests on the insides of PGlite.
  const before = files.waits;
  await lite.exec("CHECKPOINT");
  if (files.waits === before) {
    await lite.close();
    throw new DatabaseRefusal("The embedded database does not reach the disk with this version of PGlite: install the pinned one.");
  }
  return { lite, files };
}

function startUpkeep(pool: pg.Pool, log: Log, clock: Clock): () => void {
  const upkeep = (sql: string) => (): void => {
    pool.query(sql).catch((error: unknown) => log.warn("The upkeep of the embedded database failed; it is tried again.", { sql, error }));
  };
  const stops = [clock.every(CHECKPOINT_EVERY_MS, upkeep("CHECKPOINT")), clock.every(VACUUM_EVERY_MS, upkeep("VACUUM (ANALYZE)"))];
  return () => {
    for (const stop of stops) stop();
  };
}

function failureOf(work: Promise<void>): Promise<unknown> {
  return work.then(
    () => null,
    (error: unknown) => error,
  );
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
