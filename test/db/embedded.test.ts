import assert from "node:assert/strict";
import fs, { existsSync, mkdirSync, promises, statSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { after, mock, test } from "node:test";
import { systemClock } from "../../src/clock.js";
import { type Database, DatabaseRefusal, openDatabase } from "../../src/db/client.js";
import { openEngine } from "../../src/db/embedded.js";
import { freshEmbeddedDir, freshEmptyDir, silentLog } from "../support/database.js";

const opened: Database[] = [];
// Also after a failed test.
after(() => Promise.all(opened.map((db) => db.close())));

async function open(dataDir: string): Promise<Database> {
  const db = await openDatabase({ databaseUrl: null, dataDir, log: silentLog, clock: systemClock });
  opened.push(db);
  return db;
}

test("every commit is on the disk before it is answered, and a read costs no write", async () => {
  const fsync = mock.method(fs, "fsyncSync");
  syncBuiltinESMExports();
  try {
    const { lite, files } = await openEngine(join(await freshEmbeddedDir(), "database"));
    await lite.exec("CREATE TABLE probe (n int)");
    const calls = (): number => fsync.mock.callCount();
    for (let n = 0; n < 5; n += 1) {
      const before = calls();
      await lite.query("INSERT INTO probe VALUES ($1)", [n]);
      assert.ok(calls() > before, "an insert was answered without fsync");
    }
    const before = calls();
    await lite.query("SELECT * FROM probe");
    assert.equal(calls(), before);
    assert.ok(files.syncs > 0);
    await lite.close();
  } finally {
    fsync.mock.restore();
    syncBuiltinESMExports();
  }
});

test("after a crash every file is put on the disk at the start, but waited for only once", async () => {
  const place = join(await freshEmbeddedDir(), "database");
  const first = await openEngine(place);
  await first.lite.exec("CREATE TABLE probe (n int); INSERT INTO probe VALUES (1)");
  // As a kill leaves it: a copy of the files while the engine runs.
  const copy = join(await freshEmptyDir(), "database");
  fs.cpSync(place, copy, { recursive: true });
  await first.lite.close();
  const inodes = new Map(fs.readdirSync(copy, { recursive: true, encoding: "utf8" }).map((name) => [fs.statSync(join(copy, name)).ino, name]));
  const synced = new Set<number>();
  const fsyncSync = fs.fsyncSync;
  const fsync = mock.method(fs, "fsyncSync", (descriptor: number) => {
    synced.add(fs.fstatSync(descriptor).ino);
    fsyncSync(descriptor);
  });
  syncBuiltinESMExports();
  try {
    const { lite, files } = await openEngine(copy);
    const missed = [...inodes].filter(([inode]) => !synced.has(inode)).map(([, name]) => name);
    // Written anew at each start, never read after a crash, or gone before the engine looks.
    assert.deepEqual(missed.filter((name) => !/^postmaster|^pg_internal|pgsql_tmp/.test(name)), []);
    assert.ok(files.waits > 0.9 * inodes.size && files.waits < 1.3 * inodes.size, `${files.waits} waits for ${inodes.size} files`);
    assert.ok(files.syncs > 1.8 * files.waits, `${files.syncs} asked, ${files.waits} waited: without the memory it would be the same`);
    assert.deepEqual((await lite.query("SELECT n FROM probe")).rows, [{ n: 1 }]);
    await lite.close();
  } finally {
    fsync.mock.restore();
    syncBuiltinESMExports();
  }
});

test("the data directory becomes readable by its owner alone", async () => {
  const dataDir = await freshEmbeddedDir();
  fs.chmodSync(dataDir, 0o755);
  const db = await open(dataDir);
  assert.equal(statSync(dataDir).mode & 0o777, 0o700);
  await db.close();
});

test("a second start on the same directory is refused in one sentence, and the first goes on", async () => {
  const dataDir = await freshEmbeddedDir();
  const db = await open(dataDir);
  await assert.rejects(open(dataDir), (error: unknown) => {
    assert.ok(error instanceof DatabaseRefusal);
    assert.match(error.message, /^Another Outband process uses the data directory .*: stop it first, or set DATABASE_URL/);
    assert.ok(!error.message.includes("\n"));
    return true;
  });
  await db.prisma.installation.create({ data: { name: "a", value: "1" } });
  await db.close();
});

test("what was written is there after a close and a second start", async () => {
  const dataDir = await freshEmbeddedDir();
  const first = await open(dataDir);
  await first.prisma.installation.create({ data: { name: "a", value: "1" } });
  await first.close();
  await first.close();
  assert.equal(await first.isReady(), false);
  const second = await open(dataDir);
  assert.equal((await second.prisma.installation.findUniqueOrThrow({ where: { name: "a" } })).value, "1");
  await second.close();
});

test("a path that is too long for a socket is refused before anything is written", async () => {
  const dataDir = join(await freshEmptyDir(), "d".repeat(90));
  await assert.rejects(open(dataDir), /DATA_DIR is longer than 90 bytes/);
  assert.equal(existsSync(dataDir), false);
});

test("the rest of a first start that was cut is replaced by a whole database", async () => {
  const dataDir = await freshEmptyDir();
  mkdirSync(join(dataDir, "database.new"));
  writeFileSync(join(dataDir, "database.new", "PG_VERSION"), "18\n");
  const db = await open(dataDir);
  assert.equal(await db.prisma.installation.count(), 0);
  assert.equal(existsSync(join(dataDir, "database.new")), false);
  await db.close();
});

test("a long queue of queries leaves room for timers", async () => {
  const db = await open(await freshEmbeddedDir());
  let ticks = 0;
  const timer = setInterval(() => {
    ticks += 1;
  }, 1);
  await Promise.all(Array.from({ length: 500 }, () => db.query({ name: "one", text: "SELECT 1" }, [])));
  clearInterval(timer);
  assert.ok(ticks >= 5, `${ticks} ticks`);
  await db.close();
});

test("a session that broke off leaves nothing for the next one", async () => {
  const db = await open(await freshEmbeddedDir());
  // An error makes the pool drop its connection, prepared statements and all.
  await db.query({ name: "same_name", text: "SELECT 1 AS n" }, []);
  await assert.rejects(db.query({ name: "bad", text: "SELECT 1 / $1::int" }, [0]));
  assert.deepEqual(await db.query({ name: "same_name", text: "SELECT 1 AS n" }, []), [{ n: 1 }]);
  await assert.rejects(
    db.transaction(async (tx) => {
      await tx.installation.create({ data: { name: "half", value: "1" } });
      throw new Error("no");
    }),
    /^Error: no$/,
  );
  assert.equal(await db.prisma.installation.count(), 0);
  await db.close();
});

test("a DATA_DIR that cannot be used is told by what is wrong with it", async () => {
  const folder = await freshEmptyDir();
  const file = join(folder, "file");
  writeFileSync(file, "");
  const refused = async (dataDir: string, sentence: string): Promise<void> => {
    await assert.rejects(open(dataDir), (error) => error instanceof DatabaseRefusal && error.message === `DATA_DIR ${sentence} (${dataDir}).`);
  };
  await refused(file, "is not a directory");
  await refused(join(file, "below"), "is not a directory");
  const { mkdir, chmod, access } = promises;
  const fails = (code: string) => async (): Promise<never> => {
    throw Object.assign(new Error(code), { code });
  };
  try {
    for (const [call, code, sentence] of [
      ["mkdir", "EACCES", "cannot be written by this user"],
      ["mkdir", "EROFS", "cannot be written by this user"],
      ["mkdir", "ENOSPC", "cannot be made: ENOSPC"],
      ["access", "EACCES", "cannot be written by this user"],
      ["chmod", "EPERM", "cannot be made private to this user"],
    ] as const) {
      Object.assign(promises, { mkdir, chmod, access, [call]: fails(code) });
      syncBuiltinESMExports();
      await refused(folder, sentence);
    }
  } finally {
    Object.assign(promises, { mkdir, chmod, access });
    syncBuiltinESMExports();
  }
});
