// Whose a claim of a write is, and for how long: a process that lives keeps it, one that died loses it within 25 s, and
// then the word is "not known". Clocks of the instances differ by minutes; only the database's counts.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Clock, systemClock } from "../../src/clock.js";
import { secret } from "../../src/crypto/secret.js";
import type { Sealer } from "../../src/crypto/seal.js";
import type { Database } from "../../src/db/client.js";
import { asIdentifier } from "../../src/ids.js";
import { createOnceOnly } from "../../src/vault/onceOnly.js";
import { eachDatabase } from "../support/database.js";
import { silentLog } from "../support/silentLog.js";

const KEY = { identifier: asIdentifier("p"), clientId: "c", tool: "gmail_send_message", accountId: "ca_1", key: "key:once" };
const DIGEST = "d";
const RESULT = { structured: { id: "m1" } } as never;
/** Contract and issue: an honest word within this time after a process died. */
const DEAD_WITHIN_S = 25;

/** An instance with a clock of its own; `beat` is the moment at which it says that it lives. */
function instance(db: Database, skewMs = 0) {
  const beats = new Set<() => void>();
  const clock: Clock = {
    ...systemClock,
    now: () => systemClock.now() + skewMs,
    date: () => new Date(systemClock.now() + skewMs),
    every: (_ms, run) => {
      beats.add(run);
      return () => beats.delete(run);
    },
  };
  const sealer = { seal: async (_scope: string, _place: unknown, text: string) => Buffer.from(text), open: async (_scope: string, _place: unknown, sealed: Buffer) => secret(Buffer.from(sealed).toString()) } as unknown as Sealer;
  const once = createOnceOnly({ db, clock, log: silentLog, sealer, scopeOf: async () => "conn" });
  const beat = async (): Promise<void> => {
    for (const run of beats) run();
    // A connection of its own may carry it: until it is there.
    await systemClock.sleep(50);
  };
  return { ...once, beat, beating: () => beats.size > 0, kind: async () => (await once.claim(KEY, DIGEST)).kind };
}

async function heldForS(db: Database): Promise<number> {
  const [row] = await db.query<{ left: number }>({ name: "test_left", text: "select extract(epoch from held_until - now())::float8 as left from tool_execution" }, []);
  return row?.left ?? Number.NaN;
}

/** So many seconds go by for the claim. */
const later = (db: Database, seconds: number) => db.prisma.$executeRaw`update tool_execution set held_until = held_until - make_interval(secs => ${seconds}::float8)`;

eachDatabase("a write's claim", (open) => {
  test("is one instance's, whatever the clocks say; the others wait", async () => {
    const db = await open();
    assert.equal(await instance(db).kind(), "yours");
    for (const skewMs of [0, 5 * 60_000, -5 * 60_000]) assert.equal(await instance(db, skewMs).kind(), "running", `${skewMs}`);
  });

  test("of a process that died is not known within 25 s, and never anybody's again", async () => {
    const db = await open();
    const other = instance(db);
    assert.equal(await instance(db, 5 * 60_000).kind(), "yours");
    const left = await heldForS(db);
    assert.ok(left > 5 && left < DEAD_WITHIN_S, `${left}`);
    await later(db, left - 1);
    assert.equal(await other.kind(), "running");
    await later(db, 2);
    assert.equal(await other.kind(), "unknown");
    assert.equal(await other.kind(), "unknown");
    assert.equal((await other.claim(KEY, "others")).kind, "other_arguments");
  });

  test("of a process that lives is put off as long as the call takes, and no longer", async () => {
    const db = await open();
    const [mine, other] = [instance(db), instance(db)];
    const claim = await mine.claim(KEY, DIGEST);
    assert.ok(claim.kind === "yours");
    for (let n = 0; n < 3; n += 1) {
      await later(db, 14);
      await mine.beat();
      assert.equal(await other.kind(), "running");
    }
    await mine.done(claim.executionId, "conn", RESULT);
    assert.equal(mine.beating(), false);
    const again = await other.claim(KEY, DIGEST);
    assert.deepEqual(again, { kind: "done", executionId: claim.executionId, result: RESULT });
  });

  test("whose process was silent too long is not known, and its result counts when it comes after all", async () => {
    const db = await open();
    const [mine, other] = [instance(db), instance(db)];
    const claim = await mine.claim(KEY, DIGEST);
    assert.ok(claim.kind === "yours");
    await later(db, DEAD_WITHIN_S);
    assert.equal(await other.kind(), "unknown");
    await mine.done(claim.executionId, "conn", RESULT);
    assert.equal(await other.kind(), "done");
  });

  test("of a call that ended without an outcome is not known at once; one that did nothing is free", async () => {
    const db = await open();
    const [mine, other] = [instance(db), instance(db)];
    const first = await mine.claim(KEY, DIGEST);
    assert.ok(first.kind === "yours");
    await mine.release(first.executionId);
    await mine.letGo(first.executionId);
    const second = await other.claim(KEY, DIGEST);
    assert.ok(second.kind === "yours");
    await other.letGo(second.executionId);
    assert.equal(await mine.kind(), "unknown");
    assert.equal(mine.beating() || other.beating(), false);
  });

  test("of the build before, which had no time, is held as long as its calls could take", async () => {
    const db = await open();
    assert.equal(await instance(db).kind(), "yours");
    await db.prisma.$executeRaw`update tool_execution set held_until = null`;
    assert.equal(await instance(db).kind(), "running");
    await db.prisma.$executeRaw`update tool_execution set created_at = now() - interval '41 seconds'`;
    assert.equal(await instance(db).kind(), "unknown");
  });
});
