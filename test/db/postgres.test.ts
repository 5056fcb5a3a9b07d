import assert from "node:assert/strict";
import { after, test } from "node:test";
import pg from "pg";
import { systemClock } from "../../src/clock.js";
import { secret } from "../../src/crypto/secret.js";
import { type Database, DatabaseRefusal, openDatabase } from "../../src/db/client.js";
import { freshPostgresUrl, silentLog } from "../support/database.js";

const options = { skip: process.env["TEST_DATABASE_URL"] ? false : "TEST_DATABASE_URL is not set" };

async function freshUrl(): Promise<string> {
  const url = await freshPostgresUrl();
  assert.ok(url);
  return url;
}

const opened: Database[] = [];
// Also after a failed test: an open pool would keep the process from ending.
after(() => Promise.all(opened.map((db) => db.close())));

async function open(url: string): Promise<Database> {
  const db = await openDatabase({ databaseUrl: secret(url), dataDir: "unused", log: silentLog, clock: systemClock, poolMax: 4 });
  opened.push(db);
  return db;
}

async function onDatabase(url: string, run: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await run(client);
  await client.end();
}

for (const parameters of ["", "?options=-c%20timezone%3DAsia/Tokyo%20-c%20work_mem%3D8MB"]) {
  test(`times keep their instant on a server of another zone${parameters && ", whatever the URL asks for"}`, options, async () => {
    const url = await freshUrl();
    const name = new URL(url).pathname.slice(1);
    await onDatabase(url, (client) => client.query(`ALTER DATABASE "${name}" SET timezone = 'America/New_York'`));
    const db = await open(url + parameters);
    const instant = new Date("2026-03-08T07:30:15.123Z");
    await db.prisma.oneTimeLink.create({ data: { tokenHash: "h", purpose: "setup", expiresAt: instant } });
    const row = await db.prisma.oneTimeLink.findUniqueOrThrow({ where: { tokenHash: "h" } });
    assert.equal(row.expiresAt.toISOString(), instant.toISOString());
    const near = (value: Date): void => assert.ok(Math.abs(value.getTime() - Date.now()) < 60_000, value.toISOString());
    near(row.createdAt);
    const [raw] = await db.prisma.$queryRaw<{ now: Date; kept: Date }[]>`SELECT now() AS now, expires_at AS kept FROM one_time_link`;
    assert.ok(raw);
    near(raw.now);
    assert.equal(raw.kept.toISOString(), instant.toISOString());
    const [prepared] = await db.query<{ kept: Date; text: string; found: number }>(
      {
        name: "link_time",
        text: "SELECT expires_at AS kept, expires_at::text AS text, (expires_at = $1)::int AS found FROM one_time_link",
      },
      [instant],
    );
    assert.deepEqual(prepared, { kept: instant, text: "2026-03-08 07:30:15.123+00", found: 1 });
    if (parameters) assert.deepEqual(await db.query({ name: "work_mem", text: "SHOW work_mem" }, []), [{ work_mem: "8MB" }]);
    await db.close();
  });
}

test("when the server drops every connection, calls fail, the process lives, and the next calls work", options, async () => {
  const url = await freshUrl();
  const db = await open(url);
  const drop = (): Promise<void> =>
    onDatabase(url, (client) =>
      client.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"),
    );
  const untilItWorks = async (): Promise<void> => {
    for (let attempt = 0; attempt < 20; attempt += 1) {
      if (await db.isReady()) return;
    }
    assert.fail("the pool did not recover");
  };

  await Promise.all([db.isReady(), db.isReady(), db.isReady()]);
  await drop();
  await untilItWorks();

  const sleeping = db.query({ name: "sleep", text: "SELECT pg_sleep(30)" }, []).then(
    () => "done",
    () => "failed",
  );
  await untilQuery(url, "pg_sleep");
  await drop();
  assert.equal(await sleeping, "failed");
  await untilItWorks();

  const cut = db.transaction(async (tx) => {
    await tx.installation.create({ data: { name: "half", value: "1" } });
    await drop();
    await tx.installation.create({ data: { name: "other half", value: "1" } });
  });
  await assert.rejects(cut);
  await untilItWorks();
  assert.equal(await db.prisma.installation.count(), 0);
  await db.close();
});

async function untilQuery(url: string, text: string): Promise<void> {
  await onDatabase(url, async (client) => {
    const sql = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE $1 AND pid <> pg_backend_pid()";
    while ((await client.query(sql, [`%${text}%`])).rowCount === 0);
  });
}

test("a server that is not there is not ready, and opening says so without the password", async () => {
  let now = 0;
  // The half minute of patience passes at once.
  const sleep = async (): Promise<void> => {
    now += 60_000;
  };
  const clock = { ...systemClock, monotonic: () => now, sleep };
  const url = secret("postgresql://ann:canary-password@127.0.0.1:1/none");
  await assert.rejects(openDatabase({ databaseUrl: url, dataDir: "unused", log: silentLog, clock }), (error: unknown) => {
    assert.ok(error instanceof DatabaseRefusal);
    assert.equal(error.message, "PostgreSQL at 127.0.0.1:1 cannot be used: check DATABASE_URL.");
    assert.ok(!JSON.stringify([error.message, error.stack, String(error.cause)]).includes("canary-password"));
    return true;
  });
});

test("a database that does not exist, and a schema other than public, are refused in plain words", options, async () => {
  const url = new URL(await freshUrl());
  await assert.rejects(open(`${url.href}?schema=other`), /asks for a schema other than public/);
  url.pathname = "/outband_no_such_database";
  await assert.rejects(open(url.href), /^DatabaseRefusal: The database that DATABASE_URL names does not exist\.$/);
});

test("three instances that start at once on an empty database are all ready", options, async () => {
  const url = await freshPostgresUrl({ migrated: false });
  assert.ok(url);
  const instances = await Promise.all([open(url), open(url), open(url)]);
  for (const db of instances) assert.equal(await db.prisma.installation.count(), 0);
  await Promise.all(instances.map((db) => db.close()));
});
