// A rotated token is never lost in silence: what the provider gave is stored, however long the database will not take it,
// and until then the old token is not sent. Faults of the field: F03, F17.
import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "../../src/clock.js";
import type { Database } from "../../src/db/client.js";
import { transition } from "../../src/vault/account.js";
import { eachDatabase } from "../support/database.js";
import { answerOf, fastClock, type Rig, refreshRig } from "../support/refreshRig.js";

/** A database that a test takes away and gives back; `writes` alone: it can be read. */
function troubled(db: Database): { db: Database; trouble: (what: "none" | "writes" | "everything") => void } {
  let now = "none";
  const gone = () => Promise.reject(new Error("the database is gone"));
  const prisma = new Proxy(db.prisma, {
    get: (target, name) => {
      const part = Reflect.get(target, name) as unknown;
      if (name !== "connectedAccount") return part;
      return new Proxy(part as object, { get: (model, method) => (now === "everything" ? gone : Reflect.get(model, method)) });
    },
  });
  return {
    db: {
      ...db,
      prisma,
      transaction: (run) => (now === "none" ? db.transaction(run) : gone()),
      query: <Row>(statement: { name: string; text: string }, values: unknown[]) => (now === "everything" ? gone() : db.query<Row>(statement, values)),
    },
    trouble: (what) => {
      now = what;
    },
  };
}

async function until(what: () => Promise<boolean>, title: string): Promise<void> {
  const startedMs = systemClock.monotonic();
  while (!(await what())) {
    assert.ok(systemClock.monotonic() - startedMs < 20_000, `never: ${title}`);
    await systemClock.sleep(20);
  }
}

eachDatabase("refresh, storing", (open) => {
  const refreshOf = async (rig: Rig, id: string) => (await rig.tokens(id)).refresh;

  test("F03: a save that fails once is tried again: the caller has the new token, and the next refresh sends RT2", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    const { db, trouble } = troubled(rig.db);
    rig.provider.script({ atProvider: () => trouble("writes") });
    const refresher = rig.instance({ db });
    const end = refresher.refresh(account);
    await until(async () => rig.provider.sent.length === 1, "the request");
    await systemClock.sleep(20);
    trouble("none");
    assert.equal((await end).kind, "fresh");
    await refresher.refresh((await end).account);
    assert.deepEqual([rig.provider.sent, rig.provider.reuses], [["rt-1.1", "rt-1.2"], 0]);
  });

  test("F03: an outage of ten seconds: callers are told transient meanwhile, the old token is not sent, the new one is stored at last", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    const { db, trouble } = troubled(rig.db);
    const clock = fastClock();
    rig.provider.script({ atProvider: () => trouble("everything") });
    const refresher = rig.instance({ db, clock });
    const first = await refresher.refresh(account);
    assert.deepEqual([first.kind, first.kind === "transient" && first.retryAfterS > 0], ["transient", true]);
    const began = clock.monotonic();
    while (clock.monotonic() - began < 10_000) {
      const asked = clock.monotonic();
      assert.equal((await refresher.refresh(account)).kind, "transient");
      // Once it is known that the save takes longer, nobody waits for it.
      assert.ok(clock.monotonic() - asked < 2_000);
      await clock.sleep(1_000);
    }
    assert.equal(await refreshOf(rig, account.id), "rt-1.1");
    trouble("none");
    await until(async () => (await refreshOf(rig, account.id)) === "rt-1.2", "stored");
    assert.deepEqual([(await refresher.refresh(account)).kind, rig.provider.sent], ["fresh", ["rt-1.1"]]);
    assert.deepEqual([(await rig.row(account.id)).status, await rig.events(account.id)], ["ACTIVE", ["token_refreshed"]]);
  });

  test("while a save is tried again its lease is kept: another instance does not take over, however long it lasts", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    const { db, trouble } = troubled(rig.db);
    const clock = fastClock();
    rig.provider.script({ atProvider: () => trouble("writes") });
    const refresher = rig.instance({ db, clock });
    await refresher.refresh(account);
    // As after 25 s: the lease would have lapsed if it were not extended.
    await rig.db.prisma.$executeRaw`update connected_account set lease_until = lease_until - interval '25 seconds' where id = ${account.id}`;
    const other = await rig.instance({ clock }).refresh(account);
    assert.deepEqual([other.kind, rig.provider.sent], ["transient", ["rt-1.1"]]);
    trouble("none");
    await until(async () => (await refreshOf(rig, account.id)) === "rt-1.2", "stored");
    assert.equal((await rig.row(account.id)).leaseOwner, null);
  });

  test("an outage that ends while the lease has lapsed: the owner that lives stores its token before another may ask", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    const { db, trouble } = troubled(rig.db);
    rig.provider.script({ atProvider: () => trouble("everything") });
    const refresher = rig.instance({ db });
    await refresher.refresh(account);
    await rig.db.prisma.$executeRaw`update connected_account set lease_until = now() - interval '1 second' where id = ${account.id}`;
    const other = rig.instance().refresh(account);
    trouble("none");
    assert.deepEqual([(await other).kind, rig.provider.sent, rig.provider.reuses], ["fresh", ["rt-1.1"], 0]);
  });

  test("F03: a token that can never be stored: after a minute EXPIRED/refresh_outcome_unknown, one event, the new grant given back", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    const clock = fastClock({ speed: 60 });
    rig.box.trouble = () => {
      throw new Error("cannot be sealed");
    };
    const refresher = rig.instance({ clock });
    const began = clock.monotonic();
    assert.equal((await refresher.refresh(account, { patienceMs: 600_000 })).kind, "transient");
    await until(async () => (await rig.row(account.id)).status === "EXPIRED", "told");
    assert.ok(clock.monotonic() - began >= 60_000);
    rig.box.trouble = null;
    const end = await refresher.refresh(account);
    assert.deepEqual([end.kind, end.account.statusReason, rig.provider.sent], ["unusable", "refresh_outcome_unknown", ["rt-1.1"]]);
    assert.deepEqual(await rig.events(account.id), ["status_updated EXPIRED/refresh_outcome_unknown"]);
    await refresher.close();
    assert.deepEqual(rig.provider.revoked, ["rt-1.2"]);
  });

  test("an outage of two minutes is no reason to give the token up: it is stored when the database is back", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    const { db, trouble } = troubled(rig.db);
    const clock = fastClock({ speed: 100 });
    rig.provider.script({ atProvider: () => trouble("everything") });
    const refresher = rig.instance({ db, clock });
    await refresher.refresh(account);
    await clock.sleep(120_000);
    trouble("none");
    await until(async () => (await refreshOf(rig, account.id)) === "rt-1.2", "stored");
    assert.deepEqual([(await rig.row(account.id)).status, rig.provider.revoked], ["ACTIVE", []]);
  });

  test("a graceful stop waits for a token that is not stored yet", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    const { db, trouble } = troubled(rig.db);
    rig.provider.script({ atProvider: () => trouble("everything") });
    const refresher = rig.instance({ db });
    await refresher.refresh(account);
    let stopped = false;
    const stop = refresher.close().then(() => {
      stopped = true;
    });
    await systemClock.sleep(300);
    assert.equal(stopped, false);
    trouble("none");
    await stop;
    assert.equal(await refreshOf(rig, account.id), "rt-1.2");
  });

  test("a graceful stop does not wait for ever, nor for a lease that another holds", async () => {
    const rig = await refreshRig(await open());
    const [account, waiting] = [await rig.account(), await rig.account()];
    const { db, trouble } = troubled(rig.db);
    const clock = fastClock({ speed: 60 });
    const refresher = rig.instance({ db, clock });
    await rig.leaveLease(waiting.id, 60);
    const left = refresher.refresh(waiting);
    await systemClock.sleep(50);
    const began = clock.monotonic();
    await refresher.close();
    assert.ok(clock.monotonic() - began < 30_000, "waited for another's lease");
    assert.equal((await left).kind, "transient");
    rig.provider.script({ atProvider: () => trouble("everything") });
    const second = rig.instance({ db, clock });
    await second.refresh(account);
    await second.close();
    trouble("none");
    await until(async () => (await refreshOf(rig, account.id)) === "rt-1.2", "stored");
  });

  test("a disconnect while the new token waits to be stored: REVOKED stays, and the new token is given back", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    const { db, trouble } = troubled(rig.db);
    rig.provider.script({ atProvider: () => trouble("writes") });
    const refresher = rig.instance({ db });
    await refresher.refresh(account);
    const audit = { category: "authorization", action: "account.disconnected", actor: { kind: "system" }, outcome: "ok" } as const;
    await rig.db.transaction((tx) => transition(tx, { account, act: "disconnected", reason: "disconnected_by_user", audit }));
    trouble("none");
    await until(async () => rig.provider.revoked.length === 1, "given back");
    assert.deepEqual([(await rig.row(account.id)).status, await rig.tokens(account.id), rig.provider.revoked], ["REVOKED", { access: null, refresh: null }, ["rt-1.2"]]);
    await refresher.close();
  });

  test("F03: an answer without a refresh token keeps the old one, and the next refresh works with it", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    rig.provider.rotates = false;
    const refresher = rig.instance();
    const first = await refresher.refresh(account);
    assert.deepEqual(await rig.tokens(account.id), { access: "at-1.2", refresh: "rt-1.1" });
    assert.equal((await refresher.refresh(first.account)).kind, "fresh");
  });

  test("F03: three expiries in a row send RT1, RT2, RT3; scopes that an answer does not name stay as they were", async () => {
    const rig = await refreshRig(await open());
    let account = await rig.account();
    await rig.db.prisma.connectedAccount.update({ where: { id: account.id }, data: { scopes: ["mail"] } });
    const refresher = rig.instance();
    for (let round = 0; round < 3; round += 1) account = (await refresher.refresh(account)).account;
    assert.deepEqual([rig.provider.sent, account.scopes], [["rt-1.1", "rt-1.2", "rt-1.3"], ["mail"]]);
  });

  test("a refusal that cannot be written down at once is tried again: it stays certain", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    const { db, trouble } = troubled(rig.db);
    rig.provider.issue();
    rig.provider.script({ instead: () => answerOf("at-x", "rt-gone.1") });
    const spent = await rig.instance().refresh(account);
    rig.provider.script({ atProvider: () => trouble("writes") });
    const refresher = rig.instance({ db });
    const end = refresher.refresh(spent.account);
    await until(async () => rig.provider.sent.length === 2, "the request");
    trouble("none");
    assert.deepEqual([(await end).account.status, (await end).account.statusReason], ["EXPIRED", "refresh_rejected"]);
  });
});
