import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { PGlite } from "@electric-sql/pglite";
import pg from "pg";
import { EmbeddedSocket } from "../../src/db/embeddedSocket.js";
import { applyMigrations, MIGRATIONS_DIRECTORY } from "../../src/db/migrate.js";
import { DatabaseRefusal } from "../../src/db/refusal.js";
import type { Log } from "../../src/log.js";
import { freshEmptyDir, freshPostgresUrl, silentLog } from "../support/database.js";

interface SchemaEngine {
  applyMigrations(input: unknown): Promise<{ appliedMigrationNames: string[] }>;
  diagnose(input: unknown): Promise<{ editedMigrationNames: string[]; failedMigrationNames: string[]; history: unknown }>;
  close(): Promise<void>;
}

/** Prisma's own engine, on our database. */
async function prismaEngine(openPool: () => pg.Pool): Promise<SchemaEngine> {
  const script = new URL("../../scripts/schema-engine.mjs", import.meta.url).href;
  const module = (await import(script)) as { openSchemaEngine(files: unknown[], options: unknown): Promise<SchemaEngine> };
  const schema = { path: "schema.prisma", content: 'datasource db {\n  provider = "postgresql"\n}\n' };
  return module.openSchemaEngine([schema], { openPool });
}

/** An empty database that was never migrated, as a pool whose `close` takes it away. */
interface Empty {
  pool: pg.Pool;
  close(): Promise<void>;
}

/** One engine for all tests: making one takes seconds, emptying it none. */
let engine: Promise<Empty> | null = null;

async function openEngine(): Promise<Empty> {
  const lite = await PGlite.create();
  const pool = new pg.Pool({ max: 1, stream: () => new EmbeddedSocket(lite), user: "postgres", database: "postgres", ssl: false });
  return {
    pool,
    close: async () => {
      await pool.end();
      await lite.close();
    },
  };
}

async function emptyEmbedded(): Promise<Empty> {
  engine ??= openEngine();
  const { pool } = await engine;
  await pool.query("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
  return { pool, close: async () => {} };
}

after(async () => {
  await (await engine)?.close();
});

async function emptyPostgres(): Promise<Empty> {
  const url = await freshPostgresUrl({ migrated: false });
  assert.ok(url);
  const pool = new pg.Pool({ connectionString: url, max: 5 });
  return { pool, close: () => pool.end() };
}

/** Runs on one connection, as the program does. */
async function apply(pool: pg.Pool, directory: string, log: Log = silentLog): Promise<string[]> {
  const client = await pool.connect();
  try {
    return await applyMigrations(client, log, directory);
  } finally {
    client.release();
  }
}

async function migrationsOf(files: Record<string, string>): Promise<string> {
  const directory = await freshEmptyDir();
  for (const [name, sql] of Object.entries(files)) put(directory, name, sql);
  return directory;
}

function put(directory: string, name: string, sql: string): void {
  mkdirSync(join(directory, name), { recursive: true });
  writeFileSync(join(directory, name, "migration.sql"), sql);
}

const ONE = "CREATE TABLE one (n int);\nINSERT INTO one VALUES (1); -- a ; in a comment\n";
const TWO = "ALTER TABLE one ADD COLUMN m int;\nDO $$ BEGIN PERFORM 1; END $$;\n";

async function rowsOf(pool: pg.Pool): Promise<Record<string, unknown>[]> {
  return (await pool.query(`SELECT * FROM "_prisma_migrations" ORDER BY migration_name`)).rows;
}

function refused(pattern: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof DatabaseRefusal, String(error));
    assert.match(error.message, pattern);
    assert.ok(!error.message.includes("\n"));
    return true;
  };
}

function listMigrations(directory: string): unknown {
  const names = readdirSync(directory, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return {
    baseDir: directory,
    lockfile: { path: "migration_lock.toml", content: 'provider = "postgresql"\n' },
    shadowDbInitScript: "",
    migrationDirectories: names.map(({ name }) => ({
      path: name,
      migrationFile: { path: "migration.sql", content: { tag: "ok", value: readFileSync(join(directory, name, "migration.sql"), "utf8") } },
    })),
  };
}

const NO_FILTERS = { externalTables: [], externalEnums: [] };

function define(open: () => Promise<Empty>): void {
  const opened: Empty[] = [];
  const empty = async (): Promise<pg.Pool> => {
    const database = await open();
    opened.push(database);
    return database.pool;
  };
  after(async () => {
    for (const database of opened) await database.close();
  });

  test("files are applied in the order of their names, once, and recorded as Prisma records them", async () => {
    const pool = await empty();
    const directory = await migrationsOf({ "20260102000000_two": TWO, "20260101000000_one": ONE });
    assert.deepEqual(await apply(pool, directory), ["20260101000000_one", "20260102000000_two"]);
    assert.deepEqual(await apply(pool, directory), []);
    assert.deepEqual((await pool.query("SELECT n, m FROM one")).rows, [{ n: 1, m: null }]);
    const [first] = await rowsOf(pool);
    assert.ok(first);
    assert.match(String(first["id"]), /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
    assert.equal(first["checksum"], createHash("sha256").update(ONE).digest("hex"));
    assert.equal(first["applied_steps_count"], 1);
    assert.equal(first["logs"], null);
    assert.equal(first["rolled_back_at"], null);
    assert.ok(first["finished_at"] instanceof Date && first["started_at"] instanceof Date);
  });

  test("a file that fails leaves nothing of itself behind, and those before it stay", async () => {
    const pool = await empty();
    const directory = await migrationsOf({ "20260101000000_one": ONE, "20260102000000_bad": "CREATE TABLE half (n int); SELECT 1/0;" });
    await assert.rejects(apply(pool, directory), refused(/Migration 20260102000000_bad failed and was taken back whole/));
    assert.equal((await rowsOf(pool)).length, 1);
    assert.equal((await pool.query("SELECT to_regclass('half') AS half")).rows[0].half, null);
    put(directory, "20260102000000_bad", TWO);
    assert.deepEqual(await apply(pool, directory), ["20260102000000_bad"]);
  });

  test("an edited file is refused, the same text with other line ends is not", async () => {
    const pool = await empty();
    const directory = await migrationsOf({ "20260101000000_one": ONE });
    await apply(pool, directory);
    put(directory, "20260101000000_one", ONE.replaceAll("\n", "\r\n"));
    assert.deepEqual(await apply(pool, directory), []);
    put(directory, "20260101000000_one", `${ONE}-- edited\n`);
    await assert.rejects(apply(pool, directory), refused(/20260101000000_one .* its file was edited/));
  });

  test("a later migration that this build does not know is a warning, an earlier one is refused", async () => {
    const pool = await empty();
    const directory = await migrationsOf({ "20260101000000_one": ONE, "20260102000000_two": TWO });
    await apply(pool, directory);
    const warnings: unknown[] = [];
    const log: Log = { ...silentLog, warn: (_message, fields) => warnings.push(fields) };
    rmSync(join(directory, "20260102000000_two"), { recursive: true });
    assert.deepEqual(await apply(pool, directory, log), []);
    assert.deepEqual(warnings, [{ migration: "20260102000000_two" }]);
    put(directory, "20260103000000_three", "SELECT 1;");
    await assert.rejects(apply(pool, directory), refused(/lacks \(20260102000000_two\)/));
    assert.equal((await rowsOf(pool)).length, 2);
  });

  test("a database with somebody else's tables is refused untouched", async () => {
    const pool = await empty();
    await pool.query("CREATE TABLE stranger (n int)");
    await assert.rejects(apply(pool, await migrationsOf({ "20260101000000_one": ONE })), refused(/database of its own/));
    assert.equal((await pool.query("SELECT to_regclass('_prisma_migrations') AS found")).rows[0].found, null);
  });

  test("a migration that Prisma started and did not finish is refused until it is resolved", async () => {
    const pool = await empty();
    const directory = await migrationsOf({ "20260101000000_one": ONE });
    await apply(pool, directory);
    await pool.query(`UPDATE "_prisma_migrations" SET finished_at = NULL, logs = 'boom'`);
    await assert.rejects(apply(pool, directory), refused(/did not finish.*prisma migrate resolve/));
    await pool.query(`UPDATE "_prisma_migrations" SET rolled_back_at = now()`);
    await pool.query("DROP TABLE one");
    assert.deepEqual(await apply(pool, directory), ["20260101000000_one"]);
  });

  test("what this program applied, Prisma's engine takes for its own, and the other way round", async () => {
    const pool = await empty();
    const directory = await migrationsOf({ "20260101000000_one": ONE });
    await apply(pool, directory);
    const engine = await prismaEngine(() => pool);
    try {
      const diagnosis = { migrationsList: listMigrations(directory), optInToShadowDatabase: false, filters: NO_FILTERS };
      const found = await engine.diagnose(diagnosis);
      assert.deepEqual([found.editedMigrationNames, found.failedMigrationNames, found.history], [[], [], null]);
      put(directory, "20260102000000_two", TWO);
      const applied = await engine.applyMigrations({ migrationsList: listMigrations(directory), filters: NO_FILTERS });
      assert.deepEqual(applied.appliedMigrationNames, ["20260102000000_two"]);
      assert.deepEqual(await apply(pool, directory), []);
      put(directory, "20260103000000_three", "SELECT 3;\n");
      assert.deepEqual(await apply(pool, directory), ["20260103000000_three"]);
      const edited = { ...diagnosis, migrationsList: listMigrations(await migrationsOf({ "20260101000000_one": "SELECT 1;" })) };
      assert.deepEqual((await engine.diagnose(edited)).editedMigrationNames, ["20260101000000_one"]);
    } finally {
      await engine.close();
    }
  });
}

describe("migrations (embedded)", () => define(emptyEmbedded));

if (process.env["TEST_DATABASE_URL"]) {
  describe("migrations (PostgreSQL)", () => {
    define(emptyPostgres);

    test("three instances that start at once apply each file once", async () => {
      const { pool, close } = await emptyPostgres();
      const directory = await migrationsOf({ "20260101000000_one": `SELECT pg_sleep(0.2);\n${ONE}`, "20260102000000_two": TWO });
      const applied = await Promise.all([apply(pool, directory), apply(pool, directory), apply(pool, directory)]);
      assert.deepEqual(applied.flat().sort(), ["20260101000000_one", "20260102000000_two"]);
      assert.equal((await pool.query("SELECT count(*)::int AS count FROM one")).rows[0].count, 1);
      await close();
    });

    test("it waits for whoever holds Prisma's migration lock", async () => {
      const { pool, close } = await emptyPostgres();
      const holder = await pool.connect();
      await holder.query("SELECT pg_advisory_lock(72707369)");
      let isDone = false;
      const applying = apply(pool, await migrationsOf({ "20260101000000_one": ONE })).then((names) => {
        isDone = true;
        return names;
      });
      const waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 72707369 AND NOT granted";
      while ((await pool.query(waiting)).rowCount === 0) assert.equal(isDone, false);
      await holder.query("SELECT pg_advisory_unlock(72707369)");
      holder.release();
      assert.deepEqual(await applying, ["20260101000000_one"]);
      await close();
    });
  });
} else {
  test("migrations (PostgreSQL)", { skip: "TEST_DATABASE_URL is not set" }, () => {});
}

test("the shipped migrations add up to prisma/schema.prisma", () => {
  const script = fileURLToPath(new URL("../../scripts/migration.mjs", import.meta.url));
  const run = spawnSync(process.execPath, [script, "check"], { encoding: "utf8" });
  assert.equal(run.status, 0, run.stderr);
});

test("the shipped migrations are where the program looks for them", () => {
  assert.ok(readdirSync(MIGRATIONS_DIRECTORY).includes("migration_lock.toml"));
});
