// The front door of the database: one schema on PostgreSQL or on the embedded database, one way in for both. The only
// place that makes a Prisma client. Must never happen: a caller that has to know which of the two it is on.
import { PrismaPg } from "@prisma/adapter-pg";
import type pg from "pg";
import type { Clock } from "../clock.js";
import type { Secret } from "../crypto/secret.js";
import type { Log } from "../log.js";
import { openEmbedded } from "./embedded.js";
import { type Prisma, PrismaClient } from "./generated/client.js";
import { applyMigrations } from "./migrate.js";
import { localNotifications, type Notifications, postgresNotifications } from "./notifications.js";
import { connectFirst, openPool, postgresConfigs } from "./postgres.js";
import { createStatementNames } from "./statementNames.js";

export { DatabaseRefusal } from "./refusal.js";

export type Tx = Prisma.TransactionClient;

export interface Database {
  kind: "embedded" | "postgresql";
  prisma: PrismaClient;
  /** All of it or nothing. The embedded database is serial: inside, use `tx` alone; `prisma` would wait for this to end. */
  transaction<T>(run: (tx: Tx) => Promise<T>): Promise<T>;
  /** A prepared statement. One name, one text. Times are Dates, bytes are Buffers, bigints are strings. */
  query<Row>(statement: { name: string; text: string }, values: unknown[]): Promise<Row[]>;
  /** To be called after the commit. A wake-up, not a message: it may be lost while a connection is down, without an error. */
  notify(channel: string, payload: string): Promise<void>;
  /** The handler is called in every instance, this one included; the returned function ends it. */
  listen(channel: string, handler: (payload: string) => void): () => void;
  isReady(): Promise<boolean>;
  close(): Promise<void>;
}

export interface OpenDatabaseOptions {
  /** Null: the embedded database in `dataDir`. */
  databaseUrl: Secret | null;
  dataDir: string;
  log: Log;
  clock: Clock;
  poolMax?: number;
  /** Leaves the schema as it is: for a look at a database that another build may have to open again. */
  asItIs?: boolean;
}

/**
 * Prisma's own limit sends ROLLBACK between the statements of an operation that is under way, and the rest of that operation
 * then runs outside any transaction: half of an act could be committed. The server's limits (a statement 10 s, idle inside a
 * transaction 30 s) come first and end the whole; this one must stay behind them.
 */
const TRANSACTION_MS = 120_000;
/** For a connection; on the embedded database, for everybody before. */
const TRANSACTION_WAIT_MS = 5_000;
const READY_MS = 2_000;
/** What still runs when the program stops gets this long; then it is left to its own limits. */
const CLOSE_MS = 8_000;

/** Opens, locks and migrates. Throws DatabaseRefusal, with a sentence for the operator, when that cannot be. */
export async function openDatabase(options: OpenDatabaseOptions): Promise<Database> {
  return options.databaseUrl ? openPostgres(options, options.databaseUrl) : openLocal(options);
}

async function openLocal({ dataDir, log, clock, asItIs }: OpenDatabaseOptions): Promise<Database> {
  const { pool, close } = await openEmbedded({ dataDir, log, clock });
  try {
    const client = await pool.connect();
    try {
      if (!asItIs) await applyMigrations(client, log);
    } finally {
      client.release();
    }
  } catch (error) {
    await close();
    throw error;
  }
  return assemble("embedded", pool, localNotifications(log), close, clock);
}

async function openPostgres({ log, clock, poolMax, asItIs }: OpenDatabaseOptions, databaseUrl: Secret): Promise<Database> {
  const configs = postgresConfigs(databaseUrl, poolMax);
  const client = await connectFirst(configs.patient, log, clock);
  try {
    if (!asItIs) await applyMigrations(client, log);
  } finally {
    await client.end();
  }
  const pool = openPool(configs.pool, log);
  const notifications = postgresNotifications({ pool, client: configs.listener, log, clock });
  return assemble("postgresql", pool, notifications, () => pool.end(), clock);
}

function assemble(
  kind: Database["kind"],
  pool: pg.Pool,
  notifications: Notifications,
  closePool: () => Promise<void>,
  clock: Clock,
): Database {
  const prisma = new PrismaClient({
    adapter: new PrismaPg(pool, { statementNameGenerator: createStatementNames() }),
    // Prisma's other formats print a call's arguments into the error.
    errorFormat: "minimal",
    transactionOptions: { maxWait: TRANSACTION_WAIT_MS, timeout: TRANSACTION_MS },
  });
  let closing: Promise<void> | null = null;
  const close = async (): Promise<void> => {
    await notifications.close();
    await prisma.$disconnect();
    await closePool();
  };
  return {
    kind,
    prisma,
    transaction: (run) => prisma.$transaction(run),
    query: async <Row>({ name, text }: { name: string; text: string }, values: unknown[]) =>
      (await pool.query({ name, text, values })).rows as Row[],
    notify: notifications.notify,
    listen: notifications.listen,
    isReady: async () => {
      if (closing) return false;
      const answered = pool.query("SELECT 1").then(
        () => true,
        () => false,
      );
      return within(READY_MS, answered, false, clock);
    },
    close: () => {
      closing ??= within(CLOSE_MS, close(), undefined, clock);
      return closing;
    },
  };
}

/** The outcome, or `late` when it takes longer. */
async function within<T>(ms: number, outcome: Promise<T>, late: T, clock: Clock): Promise<T> {
  const done = new AbortController();
  const timeout = clock.sleep(ms, done.signal).then(
    () => late,
    () => late,
  );
  try {
    return await Promise.race([outcome, timeout]);
  } finally {
    done.abort();
  }
}
