// Applies prisma/migrations at start, on both databases, in Prisma's own table: `prisma migrate deploy` and this may take
// turns. Must never happen: half a migration (each file and its row are one transaction); a file twice (advisory lock);
// going on with a database whose history is not the one this program was built on.
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type pg from "pg";
import type { Log } from "../log.js";
import { DatabaseRefusal } from "./refusal.js";

/** src/ and dist/ both lie one level below the root. */
export const MIGRATIONS_DIRECTORY = fileURLToPath(new URL("../../prisma/migrations", import.meta.url));

/** The key Prisma's engine locks (`pg_advisory_lock(72707369)`): the two exclude each other. */
const LOCK_KEY = 72707369;
/** Another instance may be busy with a migration of a large table. */
const LOCK_WAIT = "10min";

const TABLE = `CREATE TABLE IF NOT EXISTS "_prisma_migrations" (
    "id" VARCHAR(36) PRIMARY KEY NOT NULL,
    "checksum" VARCHAR(64) NOT NULL,
    "finished_at" TIMESTAMPTZ,
    "migration_name" VARCHAR(255) NOT NULL,
    "logs" TEXT,
    "rolled_back_at" TIMESTAMPTZ,
    "started_at" TIMESTAMPTZ NOT NULL DEFAULT now(),
    "applied_steps_count" INTEGER NOT NULL DEFAULT 0
)`;

/** Everything of ours or of a stranger in the schema; what an extension brought along does not count. */
const OBJECTS = `SELECT count(*)::int AS count FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')`;

const APPLIED = `SELECT "migration_name" AS name, "checksum", "finished_at" IS NOT NULL AS "isFinished"
  FROM "_prisma_migrations" WHERE "rolled_back_at" IS NULL ORDER BY "migration_name"`;

const RECORD = `INSERT INTO "_prisma_migrations" ("id", "checksum", "migration_name", "started_at", "finished_at", "applied_steps_count")
  VALUES (gen_random_uuid()::text, $1, $2, now(), clock_timestamp(), 1)`;

interface Migration {
  name: string;
  sql: string;
}

interface AppliedRow {
  name: string;
  checksum: string;
  isFinished: boolean;
}

/** Brings the database up to this build; gives the names it applied. `client` must have no statement time-out. */
export async function applyMigrations(
  client: Pick<pg.ClientBase, "query">,
  log: Log,
  directory: string = MIGRATIONS_DIRECTORY,
): Promise<string[]> {
  const migrations = await readMigrations(directory);
  const done: string[] = [];
  for (;;) {
    const name = await inTransaction(client, () => applyNext(client, migrations, log, done.length === 0));
    if (name === null) return done;
    log.info("Migration applied.", { migration: name });
    done.push(name);
  }
}

async function applyNext(
  client: Pick<pg.ClientBase, "query">,
  migrations: Migration[],
  log: Log,
  isFirstLook: boolean,
): Promise<string | null> {
  await client.query(`SET LOCAL lock_timeout = '${LOCK_WAIT}'`);
  await client.query(`SELECT pg_advisory_xact_lock(${LOCK_KEY})`);
  await ensureTable(client);
  const applied = (await client.query<AppliedRow>(APPLIED)).rows;
  checkHistory(migrations, applied, isFirstLook ? log : null);
  const next = migrations.find(({ name }) => applied.every((row) => row.name !== name));
  if (!next) return null;
  try {
    await client.query(next.sql);
  } catch (cause) {
    throw new DatabaseRefusal(`Migration ${next.name} failed and was taken back whole: the database is as it was before.`, { cause });
  }
  await client.query(RECORD, [checksumOf(next.sql), next.name]);
  return next.name;
}

async function ensureTable(client: Pick<pg.ClientBase, "query">): Promise<void> {
  const found = await client.query<{ exists: boolean }>(`SELECT to_regclass('public._prisma_migrations') IS NOT NULL AS exists`);
  if (found.rows[0]?.exists) return;
  const objects = await client.query<{ count: number }>(OBJECTS);
  if (objects.rows[0]?.count !== 0) {
    throw new DatabaseRefusal("The database holds tables that are not Outband's: give it a database of its own.");
  }
  await client.query(TABLE);
}

/** `log` gets the warnings; null when they were given already. */
function checkHistory(migrations: Migration[], applied: AppliedRow[], log: Log | null): void {
  const last = migrations.at(-1)?.name ?? "";
  for (const row of applied) {
    if (!row.isFinished) {
      throw new DatabaseRefusal(
        `Migration ${row.name} was started by Prisma and did not finish: repair it and run \`prisma migrate resolve\`, then start again.`,
      );
    }
    const migration = migrations.find(({ name }) => name === row.name);
    if (migration) {
      if (!checksumsOf(migration.sql).includes(row.checksum)) {
        throw new DatabaseRefusal(`Migration ${row.name} is not the one this database was made with: its file was edited.`);
      }
    } else if (row.name > last) {
      // A rolling upgrade: an older instance restarts after a newer one has migrated. Migrations only add, so it can serve.
      log?.warn("The database has a later migration that this build does not know. It goes on, as an older instance.", {
        migration: row.name,
      });
    } else {
      throw new DatabaseRefusal(`The database has a migration that this build lacks (${row.name}): it belongs to another program.`);
    }
  }
}

async function inTransaction<T>(client: Pick<pg.ClientBase, "query">, run: () => Promise<T>): Promise<T> {
  await client.query("BEGIN");
  try {
    const result = await run();
    await client.query("COMMIT");
    return result;
  } catch (error) {
    // The first error is the one to tell; on a lost connection the server rolls back by itself.
    await client.query("ROLLBACK").catch(() => {});
    throw error;
  }
}

async function readMigrations(directory: string): Promise<Migration[]> {
  const entries = await readdir(directory, { withFileTypes: true });
  const names = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
  return Promise.all(names.sort().map(async (name) => ({ name, sql: await readFile(join(directory, name, "migration.sql"), "utf8") })));
}

/** As Prisma's engine computes it: the file as it is stored. */
export function checksumOf(sql: string): string {
  return createHash("sha256").update(sql).digest("hex");
}

/** What the engine accepts as well: the same text with the other line ends (a checkout on another system). */
function checksumsOf(sql: string): string[] {
  const unix = sql.replaceAll("\r\n", "\n");
  return [sql, unix, unix.replaceAll("\n", "\r\n")].map(checksumOf);
}
