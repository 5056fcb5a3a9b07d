import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { systemClock } from "../../src/clock.js";
import { createSealer } from "../../src/crypto/dataKeys.js";
import { loadMasterKey, MasterKeyRefusal, openKeyRing, type MasterKeySettings } from "../../src/crypto/masterKey.js";
import { rewrapDataKeys } from "../../src/crypto/rotate.js";
import type { LiveKeyRing } from "../../src/crypto/keyring.js";
import { secret } from "../../src/crypto/secret.js";
import type { Database } from "../../src/db/client.js";
import { eachDatabase } from "../support/database.js";

const newKey = () => randomBytes(32).toString("base64");
let dataDir = "";
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "outband-key-"));
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

function settingsOf(keys: { masterKey?: string; previous?: string[]; databaseUrl?: string } = {}): MasterKeySettings {
  return {
    dataDir,
    masterKey: keys.masterKey === undefined ? null : secret(keys.masterKey),
    masterKeysPrevious: (keys.previous ?? []).map(secret),
    databaseUrl: keys.databaseUrl === undefined ? null : secret(keys.databaseUrl),
  };
}

const file = () => join(dataDir, "master.key");
const load = (settings: MasterKeySettings, hasData: boolean) => loadMasterKey({ settings, hasData, clock: systemClock });
const ringOf = async (settings: MasterKeySettings, db: Database, note?: (sentence: string) => void): Promise<LiveKeyRing> =>
  (await openKeyRing({ settings, db, clock: systemClock, ...(note ? { note } : {}) })).ring;

/** Refused with a sentence that names the setting and the way out, and holds no value. */
async function refused(run: Promise<unknown>, about: RegExp, ...values: string[]): Promise<void> {
  await assert.rejects(run, (error) => {
    assert.ok(error instanceof MasterKeyRefusal);
    assert.match(error.message, about);
    assert.match(error.message, /MASTER_KEY/);
    for (const value of values) assert.ok(!error.message.includes(value.slice(0, 8)));
    return true;
  });
}

test("the first embedded start makes a key of 32 random bytes, mode 0600, and the next start uses it", async () => {
  const made = await load(settingsOf(), false);
  assert.equal(Buffer.from(made.current.secret.reveal(), "base64").length, 32);
  assert.equal(statSync(file()).mode & 0o777, 0o600);
  assert.equal(readFileSync(file(), "utf8").trim(), made.current.secret.reveal());
  assert.deepEqual(readdirSync(dataDir), ["master.key"]);
  assert.match(made.notes.join(), /Keep a copy/);
  const again = await load(settingsOf(), true);
  assert.equal(again.current.secret.reveal(), made.current.secret.reveal());
  assert.deepEqual(again.notes, []);
});

test("a key made by another start is never overwritten, and a draft left by a crash is no key", async () => {
  writeFileSync(`${file()}.new`, "half", { mode: 0o644 });
  const made = await load(settingsOf(), false);
  assert.equal(statSync(file()).mode & 0o777, 0o600);
  assert.equal((await load(settingsOf(), false)).current.secret.reveal(), made.current.secret.reveal());
});

test("MASTER_KEY wins over the file, and none is written", async () => {
  const key = newKey();
  assert.equal((await load(settingsOf({ masterKey: key }), false)).current.secret.reveal(), key);
  assert.equal(existsSync(file()), false);
});

test("with data and no key the start is refused, and no key is made", async () => {
  await refused(load(settingsOf(), true), /MASTER_KEY is not set and DATA_DIR\/master\.key is gone.*outband keys abandon/);
  assert.deepEqual(readdirSync(dataDir), []);
});

test("with DATABASE_URL no key is ever made", async () => {
  await refused(load(settingsOf({ databaseUrl: "postgresql://u:hunter22@h/d" }), false), /required/, "hunter22");
  await refused(load(settingsOf({ databaseUrl: "postgresql://u:hunter22@h/d" }), true), /outband keys abandon/, "hunter22");
  assert.deepEqual(readdirSync(dataDir), []);
});

test("a key file with a newline or a byte order mark is the same key; one with anything else is refused and left alone", async () => {
  const key = newKey();
  for (const text of [key, `${key}\n`, `${key}\r\n`, `\ufeff${key}`]) {
    writeFileSync(file(), text, { mode: 0o600 });
    assert.equal((await load(settingsOf(), true)).current.secret.reveal(), key);
  }
  for (const text of ["", "CANARY-not-a-key", key.slice(0, 20)]) {
    writeFileSync(file(), text, { mode: 0o600 });
    await refused(load(settingsOf(), true), /does not hold 32 bytes.*outband keys abandon/, key, "CANARY-not");
    // After `keys abandon` it must not be named as the way out once more.
    await refused(load(settingsOf(), false), /does not hold 32 bytes.*Nothing is sealed with it: delete it/, key, "CANARY-not");
    assert.equal(readFileSync(file(), "utf8"), text);
  }
});

test("a key file that others may read is told", async () => {
  writeFileSync(file(), newKey(), { mode: 0o600 });
  chmodSync(file(), 0o640);
  assert.match((await load(settingsOf(), true)).notes.join(), /chmod 600/);
});

eachDatabase("the key ring at start", (open) => {
  async function seal(db: Database, settings: MasterKeySettings): Promise<void> {
    const ring = await ringOf(settings, db);
    await createSealer({ ring, db, clock: systemClock }).prepare("conn_1");
  }

  async function snapshot(db: Database): Promise<string> {
    return JSON.stringify([await db.prisma.installation.findMany(), await db.prisma.dataKey.findMany(), readdirSync(dataDir)]);
  }

  test("the first start records a check of the key that tells nothing of it; the same key starts again", async () => {
    const db = await open();
    const notes: string[] = [];
    const ring = await ringOf(settingsOf(), db, (sentence) => notes.push(sentence));
    assert.equal(notes.length, 1);
    const row = await db.prisma.installation.findUniqueOrThrow({ where: { name: "key_check" } });
    assert.match(row.value, /^v1\.mk_[\w-]{12}\.[\w-]{22}$/);
    assert.ok(!row.value.includes(readFileSync(file(), "utf8").slice(0, 8)));
    assert.equal((await ringOf(settingsOf(), db)).currentKid, ring.currentKid);
  });

  test("another key is refused from the first start on, before and after something was sealed, and nothing is written", async () => {
    const db = await open();
    const [right, wrong] = [newKey(), newKey()];
    await ringOf(settingsOf({ masterKey: right }), db);
    for (const prepare of [async () => {}, () => seal(db, settingsOf({ masterKey: right }))]) {
      await prepare();
      const before = await snapshot(db);
      await refused(ringOf(settingsOf({ masterKey: wrong }), db), /is not the key.*outband keys abandon/, right, wrong);
      await refused(ringOf(settingsOf(), db), /is not set.*outband keys abandon/, right);
      assert.equal(await snapshot(db), before);
    }
    await ringOf(settingsOf({ masterKey: `${right}\n` }), db);
  });

  test("a key file that vanished is refused, not replaced", async () => {
    const db = await open();
    await ringOf(settingsOf(), db);
    rmSync(file());
    await refused(ringOf(settingsOf(), db), /DATA_DIR\/master\.key is gone/);
    assert.equal(existsSync(file()), false);
  });

  test("data keys without a recorded check count as data", async () => {
    const db = await open();
    await seal(db, settingsOf({ masterKey: newKey() }));
    await db.prisma.installation.deleteMany();
    await refused(ringOf(settingsOf(), db), /is not set/);
    await refused(
      ringOf(settingsOf({ masterKey: newKey() }), db),
      /neither in MASTER_KEY nor in MASTER_KEY_PREVIOUS.*outband keys abandon/,
    );
    assert.equal(await db.prisma.installation.count(), 0);
    assert.equal(existsSync(file()), false);
  });

  test("two instances that first start at once with two keys: one of them is refused", async () => {
    const db = await open();
    const starts = await Promise.allSettled([newKey(), newKey()].map((masterKey) => ringOf(settingsOf({ masterKey }), db)));
    assert.deepEqual(starts.map((start) => start.status).sort(), ["fulfilled", "rejected"]);
  });

  test("rotation: the new key with the former one starts, the new one alone only after re-wrapping, the former one alone no more", async () => {
    const db = await open();
    const [first, second] = [newKey(), newKey()];
    await seal(db, settingsOf({ masterKey: first }));
    const ring = await ringOf(settingsOf({ masterKey: second, previous: [first] }), db);
    await refused(ringOf(settingsOf({ masterKey: second }), db), /MASTER_KEY_PREVIOUS/, first, second);
    // A rolling upgrade: instances with either key as the current one.
    await ringOf(settingsOf({ masterKey: first, previous: [second] }), db);
    assert.equal((await rewrapDataKeys({ ring, db })).remaining, 0);
    await ringOf(settingsOf({ masterKey: second }), db);
    await refused(ringOf(settingsOf({ masterKey: first }), db), /is not the key/, first, second);
  });
});
