import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { systemClock } from "../../src/clock.js";
import { createSealer, UnreadableError, type SealedPlace } from "../../src/crypto/dataKeys.js";
import { createKeyRing, type KeyRing } from "../../src/crypto/keyring.js";
import { rewrapDataKeys } from "../../src/crypto/rotate.js";
import { secret } from "../../src/crypto/secret.js";
import type { Database } from "../../src/db/client.js";
import { OutbandError } from "../../src/errors.js";
import { eachDatabase } from "../support/database.js";

const newKey = () => randomBytes(32).toString("base64");
const ringOf = (current: string, ...previous: string[]) => createKeyRing({ current: secret(current), previous: previous.map(secret) });
const sealerOf = (ring: KeyRing, db: Database) => createSealer({ ring, db, clock: systemClock });
/** The data may be whole: nothing is said of it, and nothing is written. */
const masterKeyMissing = (error: unknown): boolean => error instanceof OutbandError && error.code === "unavailable" && error.reason === "master_key_missing";
const place: SealedPlace = { table: "connected_account", row: "ca_1", field: "access", generation: 1 };

eachDatabase("data keys", (open) => {
  test("a sealed field opens on another instance with the same master key, and on none with another", async () => {
    const db = await open();
    const key = newKey();
    const blob = await sealerOf(await ringOf(key), db).seal("conn_1", place, "a token");
    assert.equal((await sealerOf(await ringOf(key), db).open("conn_1", place, blob)).reveal(), "a token");
    await assert.rejects(sealerOf(await ringOf(newKey()), db).open("conn_1", place, blob), masterKeyMissing);
  });

  test("an instance without the master key answers `unavailable`: it calls no credential damaged and makes no data key, neither by opening nor by sealing", async () => {
    const db = await open();
    const key = newKey();
    const blob = await sealerOf(await ringOf(key), db).seal("conn_1", place, "a token");
    const before = await db.prisma.dataKey.findMany();
    const blind = sealerOf(await ringOf(newKey()), db);
    await assert.rejects(blind.open("conn_1", place, blob), masterKeyMissing);
    await assert.rejects(blind.seal("conn_1", place, "another"), masterKeyMissing);
    await assert.rejects(blind.prepare("conn_1"), masterKeyMissing);
    assert.deepEqual(await db.prisma.dataKey.findMany(), before);
  });

  test("a damaged data key opens nothing and is left alone by opening; sealing puts it aside and goes on under a new one", async () => {
    const db = await open();
    const ring = await ringOf(newKey());
    const blob = await sealerOf(ring, db).seal("conn_1", place, "before");
    await sealerOf(ring, db).prepare("conn_2");
    const good = await db.prisma.dataKey.findUniqueOrThrow({ where: { scope: "conn_1" } });
    const other = await db.prisma.dataKey.findUniqueOrThrow({ where: { scope: "conn_2" } });
    // Whole, and misplaced: as a repair by hand may leave it.
    await db.prisma.dataKey.update({ where: { id: good.id }, data: { wrapped: other.wrapped } });
    const told: string[][] = [];
    const sealer = createSealer({ ring, db, clock: systemClock, onAside: (...what) => told.push(what) });
    await assert.rejects(sealer.open("conn_1", place, blob), UnreadableError);
    assert.equal((await db.prisma.dataKey.findUniqueOrThrow({ where: { scope: "conn_1" } })).id, good.id);
    const next = await sealer.seal("conn_1", place, "after");
    assert.deepEqual(told, [["conn_1", good.id]]);
    assert.equal((await sealerOf(ring, db).open("conn_1", place, next)).reveal(), "after");
    await assert.rejects(sealer.open("conn_1", place, blob), UnreadableError);
    const aside = await db.prisma.dataKey.findUniqueOrThrow({ where: { id: good.id } });
    assert.equal(aside.scope, `aside:${good.id}:conn_1`);
    // Put back by hand, it opens what it sealed.
    await db.prisma.dataKey.delete({ where: { scope: "conn_1" } });
    await db.prisma.dataKey.update({ where: { id: good.id }, data: { scope: "conn_1", wrapped: good.wrapped } });
    assert.equal((await sealerOf(ring, db).open("conn_1", place, blob)).reveal(), "before");
  });

  test("instances that find a damaged data key at the same moment go on with one new one, and one that had the old key in memory follows", async () => {
    const db = await open();
    const ring = await ringOf(newKey());
    const remembers = sealerOf(ring, db);
    await remembers.seal("conn_1", place, "before");
    const row = await db.prisma.dataKey.findUniqueOrThrow({ where: { scope: "conn_1" } });
    await db.prisma.dataKey.update({ where: { id: row.id }, data: { wrapped: `${row.wrapped.slice(0, -8)}AAAAAAAA` } });
    const sealers = Array.from({ length: 6 }, () => sealerOf(ring, db));
    const blobs = await Promise.all(sealers.map((sealer, index) => sealer.seal("conn_1", place, `text ${index}`)));
    assert.equal(await db.prisma.dataKey.count({ where: { scope: "conn_1" } }), 1);
    for (const reader of [sealerOf(ring, db), remembers, ...sealers]) {
      for (const [index, blob] of blobs.entries()) assert.equal((await reader.open("conn_1", place, blob)).reveal(), `text ${index}`);
    }
  });

  test("each scope has one data key of its own, and no field opens in another scope", async () => {
    const db = await open();
    const sealer = sealerOf(await ringOf(newKey()), db);
    const blob = await sealer.seal("conn_1", place, "one");
    await sealer.prepare("conn_2");
    await assert.rejects(sealer.open("conn_2", place, blob), UnreadableError);
    await sealer.seal("conn_1", place, "again");
    const rows = await db.prisma.dataKey.findMany({ orderBy: { scope: "asc" } });
    assert.deepEqual(
      rows.map((row) => row.scope),
      ["conn_1", "conn_2"],
    );
    for (const row of rows) assert.match(row.id, /^dk_/);
  });

  test("instances that make a scope's data key at the same moment go on with one and the same", async () => {
    const db = await open();
    const ring = await ringOf(newKey());
    const sealers = Array.from({ length: 8 }, () => sealerOf(ring, db));
    const blobs = await Promise.all(sealers.flatMap((sealer, index) => [0, 1].map(() => sealer.seal("conn_1", place, `text ${index}`))));
    assert.equal(await db.prisma.dataKey.count(), 1);
    const reader = sealerOf(ring, db);
    for (const [index, blob] of blobs.entries())
      assert.equal((await reader.open("conn_1", place, blob)).reveal(), `text ${Math.floor(index / 2)}`);
  });

  test("opening never makes a data key", async () => {
    const db = await open();
    const sealer = sealerOf(await ringOf(newKey()), db);
    await assert.rejects(sealer.open("conn_1", place, new Uint8Array(40).fill(1)), UnreadableError);
    assert.equal(await db.prisma.dataKey.count(), 0);
  });

  test("after prepare a field is sealed and opened inside a transaction without another query on the database", async () => {
    const db = await open();
    const sealer = sealerOf(await ringOf(newKey()), db);
    await sealer.prepare("conn_1");
    await db.transaction(async (tx) => {
      await tx.installation.create({ data: { name: "inside", value: "x" } });
      const blob = await sealer.seal("conn_1", place, "inside");
      assert.equal((await sealer.open("conn_1", place, blob)).reveal(), "inside");
    });
  });

  test("with its row the data key is gone: after forget nothing of the scope opens, also if the row's content is moved to another scope", async () => {
    const db = await open();
    const sealer = sealerOf(await ringOf(newKey()), db);
    const blob = await sealer.seal("conn_1", place, "shredded");
    const row = await db.prisma.dataKey.findUniqueOrThrow({ where: { scope: "conn_1" } });
    await db.prisma.dataKey.delete({ where: { scope: "conn_1" } });
    sealer.forget("conn_1");
    await assert.rejects(sealer.open("conn_1", place, blob), UnreadableError);
    await db.prisma.dataKey.create({ data: { ...row, scope: "conn_2" } });
    await assert.rejects(sealer.open("conn_2", place, blob), UnreadableError);
    await db.prisma.dataKey.update({ where: { scope: "conn_2" }, data: { scope: "conn_1" } });
    assert.equal((await sealer.open("conn_1", place, blob)).reveal(), "shredded");
  });

  test("the database holds neither the data key nor the text", async () => {
    const db = await open();
    const blob = await sealerOf(await ringOf(newKey()), db).seal("conn_1", place, "CANARY-text");
    const rows = JSON.stringify(await db.prisma.dataKey.findMany());
    assert.ok(!rows.includes("CANARY") && !Buffer.from(blob).toString("latin1").includes("CANARY"));
  });
});

eachDatabase("rotation", (open) => {
  async function sealedBy(db: Database, ring: KeyRing, scopes: number): Promise<Map<string, Uint8Array>> {
    const sealer = sealerOf(ring, db);
    const blobs = new Map<string, Uint8Array>();
    for (let n = 0; n < scopes; n += 1) blobs.set(`conn_${n}`, await sealer.seal(`conn_${n}`, place, `text of ${n}`));
    return blobs;
  }

  async function assertAllOpen(db: Database, ring: KeyRing, blobs: Map<string, Uint8Array>): Promise<void> {
    const sealer = sealerOf(ring, db);
    for (const [scope, blob] of blobs) assert.equal((await sealer.open(scope, place, blob)).reveal(), `text of ${scope.slice(5)}`);
  }

  test("after re-wrapping, the former master key is no longer needed; the sealed rows are untouched", async () => {
    const db = await open();
    const [first, second] = [newKey(), newKey()];
    const blobs = await sealedBy(db, await ringOf(first), 3);
    const both = await ringOf(second, first);
    await assertAllOpen(db, both, blobs);
    assert.deepEqual(await rewrapDataKeys({ ring: both, db }), { rewrapped: 3, remaining: 0, unreadable: [] });
    await assertAllOpen(db, await ringOf(second), blobs);
    await assert.rejects(assertAllOpen(db, await ringOf(first), blobs), masterKeyMissing);
    assert.deepEqual(await rewrapDataKeys({ ring: both, db }), { rewrapped: 0, remaining: 0, unreadable: [] });
  });

  test("stopped in the middle, everything opens with both keys, and the next run ends it", async () => {
    const db = await open();
    const [first, second] = [newKey(), newKey()];
    const blobs = await sealedBy(db, await ringOf(first), 4);
    const both = await ringOf(second, first);
    let wraps = 0;
    const wrap: KeyRing["wrap"] = async (key, context) => {
      wraps += 1;
      if (wraps > 2) throw new Error("killed");
      return both.wrap(key, context);
    };
    const dying: KeyRing = { ...both, wrap };
    await assert.rejects(rewrapDataKeys({ ring: dying, db }), /killed/);
    assert.equal(await db.prisma.dataKey.count({ where: { kid: both.currentKid } }), 2);
    assert.equal(await db.prisma.installation.count(), 0);
    await assertAllOpen(db, both, blobs);
    assert.deepEqual(await rewrapDataKeys({ ring: both, db }), { rewrapped: 2, remaining: 0, unreadable: [] });
  });

  test("one data key that does not open is told and left alone; the others are moved", async () => {
    const db = await open();
    const [first, second] = [newKey(), newKey()];
    const blobs = await sealedBy(db, await ringOf(first), 4);
    const broken = await db.prisma.dataKey.findUniqueOrThrow({ where: { scope: "conn_2" } });
    const damaged = broken.wrapped.slice(0, -4) + (broken.wrapped.endsWith("AAAA") ? "BBBB" : "AAAA");
    await db.prisma.dataKey.update({ where: { id: broken.id }, data: { wrapped: damaged } });
    const both = await ringOf(second, first);
    assert.deepEqual(await rewrapDataKeys({ ring: both, db }), { rewrapped: 3, remaining: 1, unreadable: [broken.id] });
    assert.equal((await db.prisma.dataKey.findUniqueOrThrow({ where: { id: broken.id } })).wrapped, damaged);
    blobs.delete("conn_2");
    await assertAllOpen(db, await ringOf(second), blobs);
  });

  test("a data key that was put aside holds nothing up: it is not counted, and no former master key is kept for it", async () => {
    const db = await open();
    const [first, second] = [newKey(), newKey()];
    const blobs = await sealedBy(db, await ringOf(first), 2);
    const row = await db.prisma.dataKey.findUniqueOrThrow({ where: { scope: "conn_1" } });
    await db.prisma.dataKey.update({ where: { id: row.id }, data: { scope: `aside:${row.id}:conn_1` } });
    const both = await ringOf(second, first);
    assert.deepEqual(await rewrapDataKeys({ ring: both, db }), { rewrapped: 1, remaining: 0, unreadable: [] });
    blobs.delete("conn_1");
    await assertAllOpen(db, await ringOf(second), blobs);
  });

  test("told to stop, a run ends between two rows without calling itself done, and the next one goes on", async () => {
    const db = await open();
    const [first, second] = [newKey(), newKey()];
    await sealedBy(db, await ringOf(first), 4);
    const both = await ringOf(second, first);
    const stop = new AbortController();
    const stopping: KeyRing = {
      ...both,
      wrap: (key, context) => {
        stop.abort();
        return both.wrap(key, context);
      },
    };
    assert.deepEqual(await rewrapDataKeys({ ring: stopping, db, signal: stop.signal }), { rewrapped: 1, remaining: 3, unreadable: [] });
    assert.equal(await db.prisma.installation.count(), 0);
    assert.deepEqual(await rewrapDataKeys({ ring: both, db }), { rewrapped: 3, remaining: 0, unreadable: [] });
    assert.equal(await db.prisma.installation.count(), 1);
  });

  test("two runs at once and a row that changes under them do no harm", async () => {
    const db = await open();
    const [first, second] = [newKey(), newKey()];
    const blobs = await sealedBy(db, await ringOf(first), 6);
    const both = await ringOf(second, first);
    const runs = await Promise.all([rewrapDataKeys({ ring: both, db }), rewrapDataKeys({ ring: both, db })]);
    assert.equal(runs[0].rewrapped + runs[1].rewrapped, 6);
    await assertAllOpen(db, await ringOf(second), blobs);
  });
});
