// Real databases for tests, quickly: the embedded one from a template directory, PostgreSQL (TEST_DATABASE_URL: a server
// and a user that may create databases) from a template database. Both templates are made once per set of migrations.
// Must never happen: two tests on one database at the same time.
import { createHash, randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { cp, mkdtemp, readdir, readFile, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, describe, test } from "node:test";
import pg from "pg";
import { systemClock } from "../../src/clock.js";
import { secret } from "../../src/crypto/secret.js";
import { type Database, openDatabase } from "../../src/db/client.js";
import { MIGRATIONS_DIRECTORY } from "../../src/db/migrate.js";
import { silentLog } from "./silentLog.js";

export { silentLog };

/** Raise it when the templates are made differently. */
const TEMPLATE_VERSION = 1;
const POSTGRES = process.env.TEST_DATABASE_URL;

type Kind = Database["kind"];

/** Databases that a finished test gave back, wiped. Opening one costs half a second, wiping one some milliseconds. */
const idle: Record<Kind, Database[]> = { embedded: [], postgresql: [] };
const engines = new Set<Database>();
const directories = new Set<string>();
const databases = new Set<string>();

after(async () => {
  for (const database of engines) await database.close();
  for (const name of databases) await onServer((client) => client.query(`DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`));
  for (const directory of directories) await rm(directory, { recursive: true, force: true });
});

/**
 * Registers the tests of `define` twice: on the embedded database and on PostgreSQL. `open` gives an empty, migrated
 * database; one that is opened inside a test (or beforeEach) is closed after it, one opened in `before` after all of them.
 */
export function eachDatabase(title: string, define: (open: () => Promise<Database>, kind: Kind) => void): void {
  describe(`${title} (embedded)`, () => defineOn("embedded", define));
  if (POSTGRES) describe(`${title} (PostgreSQL)`, () => defineOn("postgresql", define));
  else test(`${title} (PostgreSQL)`, { skip: "TEST_DATABASE_URL is not set" }, () => {});
}

function defineOn(kind: Kind, define: (open: () => Promise<Database>, kind: Kind) => void): void {
  const openInSuite = new Set<Database>();
  const openInTest = new Set<Database>();
  let isInTest = false;
  const closeAll = async (opened: Set<Database>): Promise<void> => {
    for (const database of opened) await database.close();
    opened.clear();
  };
  before(() => {
    isInTest = false;
  });
  beforeEach(() => {
    isInTest = true;
  });
  define(async () => {
    const database = await borrow(kind);
    (isInTest ? openInTest : openInSuite).add(database);
    return database;
  }, kind);
  // Registered last, so that a test's own hooks still have their database.
  afterEach(async () => {
    isInTest = false;
    await closeAll(openInTest);
  });
  after(() => closeAll(openInSuite));
}

/** A database whose `close` gives the engine back for the next test. */
async function borrow(kind: Kind): Promise<Database> {
  const engine = idle[kind].pop() ?? (await openEngine(kind));
  const stops: (() => void)[] = [];
  let isClosed = false;
  return {
    ...engine,
    listen: (channel, handler) => {
      const stop = engine.listen(channel, handler);
      stops.push(stop);
      return stop;
    },
    isReady: async () => !isClosed && (await engine.isReady()),
    close: async () => {
      if (isClosed) return;
      isClosed = true;
      for (const stop of stops) stop();
      await wipe(engine);
      idle[kind].push(engine);
    },
  };
}

async function openEngine(kind: Kind): Promise<Database> {
  const url = kind === "postgresql" ? await freshPostgresUrl() : null;
  const dataDir = url ? tmpdir() : await freshEmbeddedDir();
  const engine = await openDatabase({ databaseUrl: url ? secret(url) : null, dataDir, log: silentLog, clock: systemClock, poolMax: 6 });
  engines.add(engine);
  return engine;
}

/** By DELETE, which is quicker than TRUNCATE on small tables; tables whose rows are still referred to come again later. */
async function wipe(database: Database): Promise<void> {
  await database.prisma.$executeRawUnsafe(`DO $$
    DECLARE
      todo text[] := ARRAY(SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' AND tablename <> '_prisma_migrations');
      later text[];
      name text;
    BEGIN
      WHILE cardinality(todo) > 0 LOOP
        later := '{}';
        FOREACH name IN ARRAY todo LOOP
          BEGIN
            EXECUTE format('DELETE FROM public.%I', name);
          EXCEPTION WHEN foreign_key_violation OR restrict_violation THEN
            later := later || name;
          END;
        END LOOP;
        IF cardinality(later) = cardinality(todo) THEN RAISE EXCEPTION 'cannot empty %', later; END IF;
        todo := later;
      END LOOP;
      PERFORM setval(format('public.%I', sequencename)::regclass, 1, false) FROM pg_sequences WHERE schemaname = 'public';
    END $$`);
}

/** A data directory of its own with a migrated, empty embedded database: for tests that start processes. */
export async function freshEmbeddedDir(): Promise<string> {
  const template = await embeddedTemplate();
  const directory = await freshEmptyDir();
  await cp(template, directory, { recursive: true });
  return directory;
}

/** An empty directory with a short path, removed at the end. */
export async function freshEmptyDir(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "ob-"));
  directories.add(directory);
  return directory;
}

/** The URL of a migrated, empty database of its own; null when there is no PostgreSQL to test on. */
export async function freshPostgresUrl(options: { migrated?: boolean } = {}): Promise<string | null> {
  if (!POSTGRES) return null;
  const template = options.migrated === false ? "template1" : await postgresTemplate();
  const name = `outband_test_${randomBytes(6).toString("hex")}`;
  await onServer((client) => client.query(`CREATE DATABASE "${name}" TEMPLATE "${template}"`));
  databases.add(name);
  return urlOf(name);
}

function urlOf(database: string): string {
  const url = new URL(POSTGRES ?? "");
  url.pathname = `/${database}`;
  return url.href;
}

async function onServer<T>(run: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: POSTGRES });
  await client.connect();
  try {
    return await run(client);
  } finally {
    await client.end();
  }
}

let hash: Promise<string> | null = null;

function migrationsHash(): Promise<string> {
  hash ??= (async () => {
    const digest = createHash("sha256").update(`${TEMPLATE_VERSION}`);
    const entries = await readdir(MIGRATIONS_DIRECTORY, { withFileTypes: true });
    for (const { name } of entries.filter((entry) => entry.isDirectory()).sort((a, b) => (a.name < b.name ? -1 : 1))) {
      digest.update(name).update(await readFile(join(MIGRATIONS_DIRECTORY, name, "migration.sql")));
    }
    return digest.digest("hex").slice(0, 12);
  })();
  return hash;
}

/** Made aside and moved there whole: test files run in processes of their own, and the first ones start together. */
async function embeddedTemplate(): Promise<string> {
  const place = join(tmpdir(), `outband-test-template-${await migrationsHash()}`);
  if (existsSync(place)) return place;
  const draft = await mkdtemp(join(tmpdir(), "ob-"));
  const database = await openDatabase({ databaseUrl: null, dataDir: draft, log: silentLog, clock: systemClock });
  await database.close();
  await rename(draft, place).catch(async () => {
    // Another process was faster.
    await rm(draft, { recursive: true, force: true });
  });
  return place;
}

const TEMPLATE_LOCK = 5_521_201;

async function postgresTemplate(): Promise<string> {
  const name = `outband_test_template_${await migrationsHash()}`;
  await onServer(async (client) => {
    await client.query("SELECT pg_advisory_lock($1)", [TEMPLATE_LOCK]);
    const found = await client.query("SELECT 1 FROM pg_database WHERE datname = $1", [name]);
    if (found.rowCount) return;
    const draft = `outband_test_draft_${randomBytes(6).toString("hex")}`;
    await client.query(`CREATE DATABASE "${draft}" TEMPLATE template1`);
    const database = await openDatabase({
      databaseUrl: secret(urlOf(draft)),
      dataDir: tmpdir(),
      log: silentLog,
      clock: systemClock,
    });
    await database.close();
    await client.query(`ALTER DATABASE "${draft}" RENAME TO "${name}"`);
  });
  return name;
}
