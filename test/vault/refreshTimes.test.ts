// When a token is renewed: lifetimes of every kind, clocks that differ, back-off that is told and kept.
// Faults of the field: F01, F02, F17.
import assert from "node:assert/strict";
import { test } from "node:test";
import { OAuthFailure } from "../../src/connectors/methods/oauthFailures.js";
import { systemClock } from "../../src/clock.js";
import { dueAtMs, expiryOf } from "../../src/vault/tokenLife.js";
import { eachDatabase } from "../support/database.js";
import { type FastClock, fastClock, type Rig, refreshRig } from "../support/refreshRig.js";

const NOW = 1_800_000_000_000;
const MINUTE_MS = 60_000;
const at = (ms: number) => new Date(NOW + ms);
const held = { refreshSealed: new Uint8Array([1]), createdAt: at(0), lastRefreshedAt: at(0) };

test("renewed a minute before the end, a tenth of the lifetime where that is shorter, and not sooner than ten seconds after the last time", () => {
  for (const [lifeS, dueS] of [
    [3600, 3540],
    [600, 540],
    [300, 270],
    [30, 27],
    [11, 10],
    [5, 10],
    [1, 10],
  ] as const) {
    assert.equal(dueAtMs({ ...held, tokenExpiresAt: at(lifeS * 1000) }), NOW + dueS * 1000, `${lifeS} s`);
  }
});

test("a token that was over when it was put in is renewed before its first call; one without an end never by the clock", () => {
  assert.equal(dueAtMs({ ...held, tokenExpiresAt: at(-1000) }), NOW - 1000);
  assert.equal(dueAtMs({ ...held, tokenExpiresAt: null }), null);
});

test("a token that cannot be renewed has run out by the clock ten minutes after its end: two clocks may differ so much", () => {
  assert.equal(dueAtMs({ ...held, refreshSealed: null, tokenExpiresAt: at(3600_000) }), NOW + 3600_000 + 10 * MINUTE_MS);
});

test("expires_in is counted from our clock; absent, 0, negative and not a number mean not known; huge is ten years", () => {
  const clock = { ...systemClock, now: () => NOW };
  for (const [given, expected] of [
    [30, NOW + 30_000],
    [0, null],
    [-5, null],
    [null, null],
    [Number.NaN, null],
    [Number.POSITIVE_INFINITY, null],
    [9e15, NOW + 10 * 365 * 24 * 3600 * 1000],
  ] as const) {
    assert.equal(expiryOf(clock, given)?.getTime() ?? null, expected, String(given));
  }
});

eachDatabase("refresh, times", (open) => {
  /** Calls that come one after the other, each on an instance with a clock of its own, as access.ts makes them. */
  async function callsOver(rig: Rig, clocks: FastClock[], id: string, calls: number): Promise<void> {
    const instances = clocks.map((clock) => rig.instance({ clock }));
    for (let n = 0; n < calls; n += 1) {
      const refresher = instances[n % instances.length];
      const account = await rig.row(id);
      if (refresher?.isDue(account)) assert.equal((await refresher.refresh(account)).kind, "fresh");
    }
  }

  for (const skews of [[5], [-5], [5, -5], [5, 0, -5]]) {
    test(`clocks that are off by ${skews.join(", ")} minutes: an hour's token is asked for once`, async () => {
      const rig = await refreshRig(await open());
      const account = await rig.account({ tokenExpiresAt: new Date(Date.now() - 20 * MINUTE_MS) });
      const clocks = skews.map((minutes) => fastClock({ skewMs: minutes * MINUTE_MS }));
      await callsOver(rig, clocks, account.id, 30);
      assert.deepEqual(rig.provider.sent, ["rt-1.1"]);
    });
  }

  test("five minutes' tokens and clocks ten minutes apart: no instance asks again for what it asked for itself", async () => {
    const rig = await refreshRig(await open());
    rig.provider.expiresInS = 300;
    const account = await rig.account({ tokenExpiresAt: new Date(Date.now() - 20 * MINUTE_MS) });
    await callsOver(rig, [fastClock({ skewMs: -5 * MINUTE_MS }), fastClock({ skewMs: 5 * MINUTE_MS })], account.id, 30);
    // The one that is ahead takes the other's token for run out, once; its own is good for both.
    assert.ok(rig.provider.sent.length <= 2, rig.provider.sent.join(" "));
  });

  for (const expiresInS of [1, 5, 0.5, null]) {
    test(`expires_in ${expiresInS}: thirty calls in a row are one token request`, async () => {
      const rig = await refreshRig(await open());
      rig.provider.expiresInS = expiresInS;
      const account = await rig.account();
      await callsOver(rig, [fastClock()], account.id, 30);
      assert.deepEqual(rig.provider.sent, ["rt-1.1"]);
    });
  }

  test("an account that failed is not hammered: within its back-off no call asks, on any instance, whatever its clock says", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    rig.provider.script({ fail: new OAuthFailure("transient", "status_429", { retryAfterS: 30 }) });
    const first = await rig.instance({ clock: fastClock({ skewMs: 5 * MINUTE_MS }) }).refresh(account);
    assert.deepEqual([first.kind, first.kind === "transient" && first.retryAfterS], ["transient", 30]);
    for (const minutes of [0, 5, -5]) {
      const refresher = rig.instance({ clock: fastClock({ skewMs: minutes * MINUTE_MS }) });
      for (const end of await Promise.all(Array.from({ length: 20 }, () => refresher.refresh(account)))) {
        assert.equal(end.kind, "transient");
        const told = end.kind === "transient" ? end.retryAfterS : 0;
        assert.ok(told > 20 && told <= 30, `${minutes}: ${told} s`);
      }
    }
    assert.equal(rig.provider.sent.length, 1);
    assert.deepEqual([(await rig.row(account.id)).status, await rig.events(account.id)], ["ACTIVE", ["token_refresh_failed"]]);
  });

  test("the back-off doubles from a second to a minute, a longer Retry-After counts up to an hour, and a success ends it", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    const refresher = rig.instance();
    const told: number[] = [];
    const fail = (retryAfterS?: number) => rig.provider.script({ fail: new OAuthFailure("transient", "status_503", { retryAfterS }) });
    for (const retryAfterS of [undefined, undefined, undefined, undefined, undefined, undefined, undefined, undefined, 120, 86_400]) {
      fail(retryAfterS);
      const end = await refresher.refresh(account);
      told.push(end.kind === "transient" ? end.retryAfterS : 0);
      await rig.db.prisma.connectedAccount.update({ where: { id: account.id }, data: { retryAt: null } });
    }
    const most = [1, 2, 4, 8, 16, 32, 60, 60, 120, 3600];
    for (const [n, seconds] of told.entries()) assert.ok(seconds <= (most[n] ?? 0) && seconds >= Math.floor((most[n] ?? 0) * 0.8), `${n}: ${seconds} s`);
    assert.deepEqual(told.slice(-2), [120, 3600]);
    assert.equal((await rig.row(account.id)).failureCount, 10);
    const end = await refresher.refresh(account);
    assert.deepEqual([end.kind, end.account.failureCount, end.account.failureReason, end.account.retryAt], ["fresh", 0, null, null]);
  });
});
