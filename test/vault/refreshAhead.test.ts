// Tokens renewed in the background: which, by whom, and what trouble does. Design section 3.
import assert from "node:assert/strict";
import { test } from "node:test";
import { OAuthFailure } from "../../src/connectors/methods/oauthFailures.js";
import { systemClock } from "../../src/clock.js";
import { createRefreshAhead } from "../../src/vault/refreshAhead.js";
import { eachDatabase } from "../support/database.js";
import { fastClock, type Rig, refreshRig } from "../support/refreshRig.js";
import { silentLog } from "../support/silentLog.js";

const DAY_MS = 24 * 3600_000;
const inMs = (ms: number) => new Date(Date.now() + ms);
/** An hour's token with two minutes left, used a minute ago. */
const DUE = { tokenExpiresAt: inMs(120_000), lastRefreshedAt: inMs(-3_480_000), lastUsedAt: inMs(-60_000) };
const running = new AbortController().signal;

eachDatabase("refresh ahead", (open) => {
  const pass = (rig: Rig, clock = fastClock()) =>
    createRefreshAhead({
      db: rig.db,
      clock,
      log: silentLog,
      refresher: rig.instance({ clock }),
      reread: (id) => rig.db.prisma.connectedAccount.findUnique({ where: { id }, include: { connection: true } }),
    });

  test("what is about to run out on an account used this week is renewed; everything else is left alone", async () => {
    const rig = await refreshRig(await open());
    const due = await rig.account(DUE);
    const shortLived = await rig.account({ tokenExpiresAt: inMs(20_000), lastRefreshedAt: inMs(-80_000), lastUsedAt: inMs(-1_000) });
    const disabled = await rig.db.prisma.connection.create({ data: { id: `conn_off_${rig.db.kind}`, name: "off", connector: "generic-oauth", title: "Off", enabled: false } });
    const others = [
      await rig.account({ ...DUE, lastUsedAt: inMs(-8 * DAY_MS) }),
      await rig.account({ ...DUE, lastUsedAt: null }),
      await rig.account({ ...DUE, tokenExpiresAt: inMs(7 * 60_000) }),
      await rig.account({ ...DUE, tokenExpiresAt: inMs(-1_000) }),
      await rig.account({ ...DUE, tokenExpiresAt: null }),
      // Five minutes ahead would be at once, and again at each pass: a quarter of the lifetime counts.
      await rig.account({ tokenExpiresAt: inMs(200_000), lastRefreshedAt: inMs(-100_000), lastUsedAt: inMs(-1_000) }),
      await rig.account({ ...DUE, connectionId: disabled.id }),
    ];
    await rig.db.prisma.connectedAccount.update({ where: { id: others[0]?.id ?? "" }, data: {} });
    await pass(rig)(running);
    assert.deepEqual([(await rig.row(due.id)).generation, (await rig.row(shortLived.id)).generation], [2, 2]);
    for (const other of others) assert.equal((await rig.row(other.id)).generation, 1);
    assert.equal(rig.provider.sent.length, 2);
  });

  test("three instances at once on forty accounts: forty token requests", async () => {
    const rig = await refreshRig(await open());
    for (let n = 0; n < 40; n += 1) await rig.account(DUE);
    await Promise.all([pass(rig), pass(rig), pass(rig)].map((once) => once(running)));
    assert.deepEqual([rig.provider.sent.length, new Set(rig.provider.sent).size, rig.provider.reuses], [40, 40, 0]);
    assert.equal(await rig.db.prisma.connectedAccount.count({ where: { generation: 2 } }), 40);
  });

  test("an account whose refresh is held elsewhere or backed off is passed over without waiting", async () => {
    const rig = await refreshRig(await open());
    const [leased, resting, free] = [await rig.account(DUE), await rig.account(DUE), await rig.account(DUE)];
    await rig.leaveLease(leased.id, 60);
    await rig.db.prisma.$executeRaw`update connected_account set retry_at = now() + interval '1 minute' where id = ${resting.id}`;
    const clock = fastClock();
    const began = clock.monotonic();
    await pass(rig, clock)(running);
    assert.ok(clock.monotonic() - began < 10_000);
    assert.deepEqual(await Promise.all([leased, resting, free].map(async ({ id }) => (await rig.row(id)).generation)), [1, 1, 2]);
  });

  test("a provider in trouble is left alone for the rest of the pass: its accounts stay ACTIVE, those of others are renewed", async () => {
    const db = await open();
    const [well, sick] = [await refreshRig(db), await refreshRig(db)];
    for (let n = 0; n < 5; n += 1) await well.account(DUE);
    const inTrouble = new Set<string>();
    for (let n = 0; n < 30; n += 1) {
      inTrouble.add((await sick.account(DUE)).id);
      sick.provider.script({ fail: new OAuthFailure("transient", "timeout", { maybeConsumed: true }) });
    }
    const [healthy, ailing] = [well.instance(), sick.instance()];
    await createRefreshAhead({
      db,
      clock: fastClock(),
      log: silentLog,
      reread: (id) => db.prisma.connectedAccount.findUnique({ where: { id }, include: { connection: true } }),
      refresher: { ...healthy, refreshIfFree: (account) => (inTrouble.has(account.id) ? ailing : healthy).refreshIfFree(account) },
    })(running);
    // Four side by side may have begun before the first trouble was known.
    assert.ok(sick.provider.sent.length <= 4, `${sick.provider.sent.length} of 30 asked`);
    assert.equal(await db.prisma.connectedAccount.count({ where: { id: { in: [...inTrouble] }, status: "ACTIVE" } }), 30);
    assert.equal(await db.prisma.connectedAccount.count({ where: { generation: 2 } }), 5);
  });

  test("a stop ends the pass: what has begun is finished, nothing new is begun", async () => {
    const rig = await refreshRig(await open());
    for (let n = 0; n < 20; n += 1) await rig.account(DUE);
    const stop = new AbortController();
    for (let n = 0; n < 20; n += 1) rig.provider.script({ atProvider: () => systemClock.sleep(50) });
    const ended = pass(rig)(stop.signal);
    while (rig.provider.sent.length === 0) await systemClock.sleep(5);
    stop.abort();
    await ended;
    assert.ok(rig.provider.sent.length <= 8, `${rig.provider.sent.length}`);
    assert.equal(await rig.db.prisma.connectedAccount.count({ where: { generation: 2 } }), rig.provider.sent.length);
  });

  test("a token that cannot be renewed and ran out: EXPIRED/no_refresh_token without a call, one event, no request", async () => {
    const rig = await refreshRig(await open());
    const [over, justOver] = [await rig.account({ tokenExpiresAt: inMs(-11 * 60_000) }), await rig.account({ tokenExpiresAt: inMs(-9 * 60_000) })];
    await rig.db.prisma.connectedAccount.updateMany({ data: { refreshSealed: null } });
    await pass(rig)(running);
    await pass(rig)(running);
    assert.deepEqual(await rig.events(over.id), ["status_updated EXPIRED/no_refresh_token"]);
    assert.equal((await rig.row(justOver.id)).status, "ACTIVE");
    assert.deepEqual(rig.provider.sent, []);
  });
});
