// Rotation of a key that the program made itself: two files, one ring that is exchanged while it is in use.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { systemClock } from "../../src/clock.js";
import { createSealer } from "../../src/crypto/dataKeys.js";
import { hasEveryKey, inspectKeys } from "../../src/crypto/inspect.js";
import { createKeyRing, kidOfMasterKey } from "../../src/crypto/keyring.js";
import { MasterKeyRefusal, openKeyRing, type MasterKeySettings } from "../../src/crypto/masterKey.js";
import { createRotation } from "../../src/crypto/rotate.js";
import { secret } from "../../src/crypto/secret.js";
import type { Database } from "../../src/db/client.js";
import { OutbandError } from "../../src/errors.js";
import { eachDatabase } from "../support/database.js";

const newKey = () => randomBytes(32).toString("base64");
const kidOf = (text: string) => kidOfMasterKey(secret(text));
let dataDir = "";
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "outband-rotate-"));
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

const file = () => join(dataDir, "master.key");
const former = () => join(dataDir, "master.key.previous");
const keyIn = (path: string) => readFileSync(path, "utf8").trim();
const place = { table: "connected_account", row: "ca_1", field: "access", generation: 1 };

function settingsOf(keys: { masterKey?: string; previous?: string[] } = {}): MasterKeySettings {
  return { dataDir, masterKey: keys.masterKey === undefined ? null : secret(keys.masterKey), masterKeysPrevious: (keys.previous ?? []).map(secret), databaseUrl: null };
}

/** What a start of the program makes of it. */
async function started(db: Database, settings = settingsOf()) {
  const notes: string[] = [];
  const keys = await openKeyRing({ settings, db, clock: systemClock, note: (sentence) => notes.push(sentence) });
  const rotation = createRotation({ settings, keys, db, clock: systemClock });
  return { keys, notes, rotation, sealer: createSealer({ ring: keys.ring, db, clock: systemClock }), seen: () => inspectKeys(keys, db.prisma) };
}

async function sealed(sealer: ReturnType<typeof createSealer>, scopes: number): Promise<Map<string, Uint8Array>> {
  const blobs = new Map<string, Uint8Array>();
  for (let n = 0; n < scopes; n += 1) blobs.set(`conn_${n}`, await sealer.seal(`conn_${n}`, place, `text of conn_${n}`));
  return blobs;
}

async function assertAllOpen(sealer: ReturnType<typeof createSealer>, blobs: Map<string, Uint8Array>): Promise<void> {
  for (const [scope, blob] of blobs) assert.equal((await sealer.open(scope, place, blob)).reveal(), `text of ${scope}`);
}

eachDatabase("rotation of a generated key", (open) => {
  test("a new key is made, the old one is kept beside it, both 0600; the running ring has both, and a start with the files opens everything", async () => {
    const db = await open();
    const program = await started(db);
    const old = keyIn(file());
    const blobs = await sealed(program.sealer, 3);
    const state = program.keys.ring.derive("request-state");
    assert.deepEqual(await program.rotation.rotate(), { rewrapped: 3, remaining: 0, isNewKey: true });
    const now = keyIn(file());
    assert.notEqual(now, old);
    assert.equal(keyIn(former()), old);
    for (const path of [file(), former()]) assert.equal(statSync(path).mode & 0o777, 0o600);
    assert.deepEqual(readdirSync(dataDir).sort(), ["master.key", "master.key.previous"]);
    assert.deepEqual(program.keys.ring.kids, [kidOf(now), kidOf(old)]);
    assert.equal(program.keys.ring.currentKid, kidOf(now));
    // What was signed or sealed with what is derived from the old key still opens, and the new key comes first.
    assert.deepEqual(program.keys.ring.derive("request-state").slice(1), state);
    await assertAllOpen(program.sealer, blobs);
    await assertAllOpen((await started(db)).sealer, blobs);
    assert.deepEqual((await program.seen()).keys, [
      { kid: kidOf(now), source: "master.key", dataKeys: 3 },
      { kid: kidOf(old), source: "master.key.previous", dataKeys: 0 },
    ]);
    // The old key may go now.
    rmSync(former());
    await assertAllOpen((await started(db)).sealer, blobs);
  });

  test("each rotation makes one new key; a former key goes out with the next rotation once nothing is wrapped under it", async () => {
    const db = await open();
    const program = await started(db);
    const blobs = await sealed(program.sealer, 2);
    const keys = [keyIn(file())];
    for (let n = 0; n < 3; n += 1) {
      assert.deepEqual(await program.rotation.rotate(), { rewrapped: 2, remaining: 0, isNewKey: true });
      keys.unshift(keyIn(file()));
      assert.equal(keyIn(former()), keys[1]);
      assert.equal(program.keys.ring.kids.length, 2);
      await assertAllOpen(program.sealer, blobs);
    }
    assert.equal(new Set(keys).size, 4);
  });

  test("a former key stays as long as something is wrapped under it: a damaged data key holds it, and holds up nothing else", async () => {
    const db = await open();
    const program = await started(db);
    const blobs = await sealed(program.sealer, 3);
    const first = keyIn(file());
    const row = await db.prisma.dataKey.findUniqueOrThrow({ where: { scope: "conn_1" } });
    await db.prisma.dataKey.update({ where: { id: row.id }, data: { wrapped: `${row.wrapped.slice(0, -8)}AAAAAAAA` } });
    blobs.delete("conn_1");
    assert.deepEqual(await program.rotation.rotate(), { rewrapped: 2, remaining: 1, isNewKey: true });
    const second = keyIn(file());
    assert.deepEqual(await program.rotation.rotate(), { rewrapped: 2, remaining: 1, isNewKey: true });
    assert.equal(readFileSync(former(), "utf8"), `${second}\n${first}\n`);
    assert.deepEqual((await program.seen()).damaged, [{ scope: "conn_1", kid: kidOf(first) }]);
    await assertAllOpen(program.sealer, blobs);
    // Mended from a backup of the row, it is moved with the others.
    await db.prisma.dataKey.update({ where: { id: row.id }, data: { wrapped: row.wrapped } });
    assert.equal((await program.rotation.rotate()).remaining, 0);
    assert.equal((await (await started(db)).sealer.open("conn_1", place, await program.sealer.seal("conn_1", place, "x"))).reveal(), "x");
  });

  test("asked twice at once it rotates once, and both get the outcome", async () => {
    const db = await open();
    const program = await started(db);
    await sealed(program.sealer, 5);
    const old = keyIn(file());
    const [one, other] = await Promise.all([program.rotation.rotate(), program.rotation.rotate()]);
    assert.deepEqual(one, { rewrapped: 5, remaining: 0, isNewKey: true });
    assert.deepEqual(other, one);
    assert.equal(keyIn(former()), old);
  });

  test("data keys made while it runs are under a key of the ring, and everything opens before, during and after", async () => {
    const db = await open();
    const program = await started(db);
    const blobs = await sealed(program.sealer, 15);
    let done = false;
    const rotating = program.rotation.rotate().finally(() => {
      done = true;
    });
    for (let n = 0; !done; n += 1) {
      const scope = `late_${n}`;
      blobs.set(scope, await program.sealer.seal(scope, place, `text of ${scope}`));
      await assertAllOpen(createSealer({ ring: program.keys.ring, db, clock: systemClock }), new Map([...blobs].slice(-5)));
    }
    await rotating;
    await assertAllOpen((await started(db)).sealer, blobs);
  });

  test("killed between the files, or before the rows: the next start opens everything, and the next run ends the rotation without another new key", async () => {
    const db = await open();
    const program = await started(db);
    const blobs = await sealed(program.sealer, 3);
    const [old, next] = [keyIn(file()), newKey()];
    // Killed after the first file: the key in use stands in both.
    writeFileSync(former(), `${old}\n`, { mode: 0o600 });
    const between = await started(db);
    assert.deepEqual(between.keys.ring.kids, [kidOf(old)]);
    assert.deepEqual((await between.seen()).keys, [{ kid: kidOf(old), source: "master.key", dataKeys: 3 }]);
    // Killed after the second, with a draft left behind.
    writeFileSync(file(), `${next}\n`, { mode: 0o600 });
    writeFileSync(`${file()}.new`, newKey(), { mode: 0o600 });
    const after = await started(db);
    await assertAllOpen(after.sealer, blobs);
    assert.equal((await after.seen()).remaining, 3);
    assert.deepEqual(await after.rotation.rotate(), { rewrapped: 3, remaining: 0, isNewKey: false });
    assert.deepEqual([keyIn(file()), keyIn(former())], [next, old]);
    // A program that still runs with what it read before sees what is on the disk.
    assert.deepEqual(await program.rotation.rotate(), { rewrapped: 3, remaining: 0, isNewKey: true });
    assert.equal(keyIn(former()), next);
    await assertAllOpen(program.sealer, blobs);
  });

  test("key files that do not fit are not overwritten: the rotation is refused, and everything goes on", async () => {
    const db = await open();
    const program = await started(db);
    const blobs = await sealed(program.sealer, 2);
    const old = keyIn(file());
    const refused = (): Promise<void> =>
      assert.rejects(program.rotation.rotate(), (error) => error instanceof OutbandError && error.code === "unavailable" && error.reason === "key_file" && !error.message.includes(old.slice(0, 8)));
    const stranger = newKey();
    for (const content of [`${stranger}\n`, "not a key", null]) {
      rmSync(file());
      if (content !== null) writeFileSync(file(), content, { mode: 0o600 });
      await refused();
      assert.equal(existsSync(file()) ? readFileSync(file(), "utf8") : null, content);
      assert.equal(existsSync(former()), false);
      if (content === null) writeFileSync(file(), "");
    }
    await assertAllOpen(program.sealer, blobs);
    writeFileSync(file(), `${old}\n`, { mode: 0o600 });
    assert.deepEqual(await program.rotation.rotate(), { rewrapped: 2, remaining: 0, isNewKey: true });
  });

  test("a line in master.key.previous that is no key is told and not used; without a key that is needed the start is refused in words", async () => {
    const db = await open();
    const program = await started(db);
    await sealed(program.sealer, 1);
    const old = keyIn(file());
    writeFileSync(file(), `${newKey()}\n`, { mode: 0o600 });
    writeFileSync(former(), `scribble\n\n  ${old}\r\n`, { mode: 0o644 });
    const { notes } = await started(db);
    assert.match(notes.join("\n"), /master\.key\.previous holds a line that is no key/);
    assert.match(notes.join("\n"), /may read DATA_DIR\/master\.key\.previous\. Run chmod 600/);
    rmSync(former());
    await assert.rejects(started(db), (error) => {
      assert.ok(error instanceof MasterKeyRefusal);
      assert.match(error.message, /DATA_DIR\/master\.key is not the key.*MASTER_KEY_PREVIOUS.*outband keys abandon/);
      return true;
    });
  });

  test("with MASTER_KEY set it wraps anew and makes no file; where the file holds the right key, the refusal says so", async () => {
    const db = await open();
    const program = await started(db);
    const blobs = await sealed(program.sealer, 2);
    const [generated, own] = [keyIn(file()), newKey()];
    await assert.rejects(started(db, settingsOf({ masterKey: own })), (error) => {
      assert.ok(error instanceof MasterKeyRefusal);
      assert.match(error.message, /MASTER_KEY is not the key.*The key in DATA_DIR\/master\.key is: unset MASTER_KEY, or add what that file holds to MASTER_KEY_PREVIOUS/);
      assert.ok(!error.message.includes(generated.slice(0, 8)) && !error.message.includes(own.slice(0, 8)));
      return true;
    });
    const moved = await started(db, settingsOf({ masterKey: own, previous: [generated] }));
    assert.deepEqual(await moved.rotation.rotate(), { rewrapped: 2, remaining: 0, isNewKey: false });
    assert.deepEqual(await moved.rotation.rotate(), { rewrapped: 0, remaining: 0, isNewKey: false });
    assert.deepEqual(readdirSync(dataDir), ["master.key"]);
    assert.deepEqual((await moved.seen()).keys, [
      { kid: kidOf(own), source: "MASTER_KEY", dataKeys: 2 },
      { kid: kidOf(generated), source: "MASTER_KEY_PREVIOUS", dataKeys: 0 },
    ]);
    await assertAllOpen((await started(db, settingsOf({ masterKey: own }))).sealer, blobs);
  });

  test("an instance that was not given the new master key is not ready, and says which key it lacks", async () => {
    const db = await open();
    const [first, second] = [newKey(), newKey()];
    const behind = await started(db, settingsOf({ masterKey: first }));
    await sealed(behind.sealer, 2);
    assert.equal(await hasEveryKey(behind.keys.ring, db.prisma), true);
    const ahead = await started(db, settingsOf({ masterKey: second, previous: [first] }));
    await ahead.rotation.rotate();
    assert.equal(await hasEveryKey(behind.keys.ring, db.prisma), false);
    const seen = await behind.seen();
    assert.deepEqual(seen.keys, [
      { kid: kidOf(first), source: "MASTER_KEY", dataKeys: 0 },
      { kid: kidOf(second), source: null, dataKeys: 2 },
    ]);
    assert.equal(seen.remaining, 2);
    assert.deepEqual(seen.damaged, []);
    assert.equal((await createKeyRing({ current: secret(second), previous: [] })).currentKid, seen.keys[1]?.kid);
  });
});
