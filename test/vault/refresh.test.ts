// One token request per account and expiry, whoever asks; leases whose owner died, froze or came back; refusals.
// Faults of the field: F01, F02, F04.
import assert from "node:assert/strict";
import { test } from "node:test";
import { OAuthFailure } from "../../src/connectors/methods/oauthFailures.js";
import { UnreadableError } from "../../src/crypto/seal.js";
import { systemClock } from "../../src/clock.js";
import { transition } from "../../src/vault/account.js";
import { eachDatabase } from "../support/database.js";
import { fastClock, gate, type Rig, refreshRig, UNREADABLE } from "../support/refreshRig.js";

const lost = (reason: string) => new OAuthFailure("transient", reason, { maybeConsumed: true });
const notSent = (reason: string) => new OAuthFailure("transient", reason);

eachDatabase("refresh", (open) => {
  /** Lets the back-off be over: it is counted by the database's clock, which no test moves. */
  const rested = (rig: Rig, id: string) => rig.db.prisma.connectedAccount.update({ where: { id }, data: { retryAt: null } });

  async function disconnect(rig: Rig, id: string): Promise<void> {
    const done = await rig.db.transaction(async (tx) =>
      transition(tx, {
        account: await tx.connectedAccount.findUniqueOrThrow({ where: { id } }),
        act: "disconnected",
        reason: "disconnected_by_user",
        audit: { category: "authorization", action: "account.disconnected", actor: { kind: "system" }, outcome: "ok" },
      }),
    );
    assert.equal(done?.status, "REVOKED");
  }

  /** The same account, on a new grant. */
  async function reconnect(rig: Rig, id: string, externalId: string | null): Promise<string> {
    const grant = rig.provider.issue();
    const account = await rig.row(id);
    const credential = await rig.box.seal(account, { access: { kind: "oauth", token: grant.access }, refresh: grant.refresh }, { scopes: [], tokenExpiresAt: null });
    const audit = { category: "authorization", action: "account.connected", actor: { kind: "system" }, outcome: "ok" } as const;
    const done = await rig.db.transaction((tx) => transition(tx, { account, act: "connected", reason: null, credential, also: { externalId }, audit }));
    assert.equal(done?.status, "ACTIVE");
    return grant.refresh.reveal();
  }

  test("F01: three instances with ten callers each: one token request, thirty new tokens", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    rig.provider.script({ atProvider: () => systemClock.sleep(100) });
    const instances = [rig.instance(), rig.instance(), rig.instance()];
    const ends = await Promise.all(Array.from({ length: 30 }, (_, n) => instances[n % 3]?.refresh(account)));
    assert.deepEqual(new Set(ends.map((end) => `${end?.kind} ${end?.account.generation}`)), new Set(["fresh 2"]));
    assert.deepEqual([rig.provider.sent, rig.provider.reuses], [["rt-1.1"], 0]);
    assert.deepEqual(await rig.events(account.id), ["token_refreshed"]);
  });

  test("F01: a caller who read the account before the refresh gets the token that is there, without a request", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    await rig.instance().refresh(account);
    const end = await rig.instance().refresh(account);
    assert.deepEqual([end.kind, end.account.generation, rig.provider.sent.length], ["fresh", 2, 1]);
  });

  test("a caller who joins a run that began from an older grant gets a token newer than their own", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    const held = gate();
    rig.provider.script({ atProvider: held.pass });
    const refresher = rig.instance();
    const first = refresher.refresh(account);
    await held.reached;
    const newer = await reconnect(rig, account.id, null);
    const second = refresher.refresh(await rig.row(account.id));
    held.open();
    assert.deepEqual([(await first).kind, (await first).account.generation], ["fresh", 2]);
    assert.deepEqual([(await second).kind, (await second).account.generation], ["fresh", 3]);
    assert.deepEqual(rig.provider.sent, ["rt-1.1", newer]);
  });

  test("F01: a refresh that throws leaves nothing locked: the next call refreshes", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    let broken = true;
    const target = (await Promise.resolve({})) as never;
    const refresher = rig.instance({
      targetOf: async () => {
        if (broken) throw new Error("a fault of ours");
        return target;
      },
    });
    await assert.rejects(refresher.refresh(account));
    broken = false;
    assert.equal((await refresher.refresh(account)).kind, "fresh");
  });

  test("an owner that died with the answer: its lease is taken over, and the refusal is told as unknown, once", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    rig.provider.script({ instead: () => Promise.reject(lost("network")) });
    await rig.provider.oauth.refresh({} as never, (await rig.box.openRefresh(account)) as never).catch(() => undefined);
    await rig.leaveLease(account.id, -0.1);
    const ends = await Promise.all([rig.instance(), rig.instance()].map((refresher) => refresher.refresh(account)));
    assert.deepEqual(ends.map((end) => [end.kind, end.account.status, end.account.statusReason]), Array(2).fill(["unusable", "EXPIRED", "refresh_outcome_unknown"]));
    assert.equal(rig.provider.sent.length, 2);
    assert.deepEqual(await rig.events(account.id), ["status_updated EXPIRED/refresh_outcome_unknown"]);
  });

  test("an owner that died before its request: the takeover succeeds, and a later refusal is certain again", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    await rig.leaveLease(account.id, -0.1);
    const end = await rig.instance().refresh(account);
    assert.deepEqual([end.kind, end.account.failureReason, rig.provider.sent], ["fresh", null, ["rt-1.1"]]);
    rig.provider.script({ fail: new OAuthFailure("invalid_grant", "invalid_grant") });
    const next = await rig.instance().refresh(end.account);
    assert.deepEqual([next.account.status, next.account.statusReason], ["EXPIRED", "refresh_rejected"]);
  });

  test("a lapsed lease is left alone for two seconds: an owner that lives through an outage stores its token first", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    await rig.leaveLease(account.id, -0.1);
    const clock = fastClock();
    const began = clock.monotonic();
    await rig.instance({ clock }).refresh(account);
    assert.ok(clock.monotonic() - began >= 2_000);
  });

  test("a lease that is held elsewhere: the caller leaves within 15 s as transient, sends nothing, and no other account waits", async () => {
    const rig = await refreshRig(await open());
    const [account, other] = [await rig.account(), await rig.account()];
    await rig.leaveLease(account.id, 60);
    const clock = fastClock({ speed: 10 });
    const refresher = rig.instance({ clock });
    const began = clock.monotonic();
    const waiting = refresher.refresh(account);
    assert.equal((await refresher.refresh(other)).kind, "fresh");
    const end = await waiting;
    assert.equal(end.kind, "transient");
    assert.ok(clock.monotonic() - began <= 15_000, `${clock.monotonic() - began} ms`);
    assert.deepEqual(rig.provider.sent, ["rt-2.1"]);
    await refresher.close();
  });

  test("a process that was frozen between the lease and the request sends nothing when it wakes", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    const clock = fastClock();
    rig.provider.script({ beforeSend: () => clock.freeze(9_000) });
    const end = await rig.instance({ clock }).refresh(account);
    assert.deepEqual([end.kind, rig.provider.sent], ["transient", []]);
    await rested(rig, account.id);
    const next = await rig.instance().refresh(account);
    assert.deepEqual([next.kind, next.account.failureReason], ["fresh", null]);
  });

  for (const rotates of [true, false]) {
    test(`an owner frozen at the provider past its lease does no harm when it comes back (${rotates ? "rotation with reuse detection" : "no rotation"})`, async () => {
      const rig = await refreshRig(await open());
      rig.provider.rotates = rotates;
      const account = await rig.account({ externalId: "upstream" });
      const frozen = gate();
      rig.provider.script({
        instead: async (answer) => {
          await frozen.pass();
          if (answer instanceof OAuthFailure) throw answer;
          return answer;
        },
      });
      const late = rig.instance().refresh(account, { patienceMs: 60_000 });
      await frozen.reached;
      await rig.db.prisma.$executeRaw`update connected_account set lease_until = now() - interval '1 second' where id = ${account.id}`;
      const takeover = await rig.instance().refresh(account);
      const between = await rig.tokens(account.id);
      frozen.open();
      await late;
      assert.equal(rig.provider.sent.length, 2);
      if (rotates) {
        // Nobody could save this one: the provider had rotated, and the takeover could not know.
        assert.deepEqual([takeover.account.status, takeover.account.statusReason], ["EXPIRED", "refresh_outcome_unknown"]);
        assert.deepEqual(await rig.events(account.id), ["status_updated EXPIRED/refresh_outcome_unknown"]);
      } else {
        assert.equal(takeover.kind, "fresh");
        assert.equal((await late).kind, "fresh");
        assert.deepEqual(rig.provider.revoked, []);
        assert.deepEqual(await rig.events(account.id), ["token_refreshed"]);
      }
      assert.deepEqual(await rig.tokens(account.id), between);
    });
  }

  test("an owner that comes back with a rotated token while another asks with the old one: the rotated token is kept", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    const [slow, second] = [gate(), gate()];
    rig.provider.script(
      {
        instead: async (answer) => {
          await slow.pass();
          if (answer instanceof OAuthFailure) throw answer;
          return answer;
        },
      },
      { fail: new OAuthFailure("invalid_grant", "invalid_grant"), atProvider: second.pass },
    );
    const first = rig.instance().refresh(account, { patienceMs: 60_000 });
    await slow.reached;
    await rig.db.prisma.$executeRaw`update connected_account set lease_until = now() - interval '1 second' where id = ${account.id}`;
    const takeover = rig.instance().refresh(account, { patienceMs: 60_000 });
    await second.reached;
    slow.open();
    assert.deepEqual([(await first).kind, (await rig.tokens(account.id)).refresh], ["fresh", "rt-1.2"]);
    second.open();
    assert.deepEqual([(await takeover).kind, (await takeover).account.generation], ["fresh", 2]);
    assert.deepEqual([(await rig.row(account.id)).status, rig.provider.revoked], ["ACTIVE", []]);
    assert.deepEqual(await rig.events(account.id), ["token_refreshed"]);
  });

  test("a refusal that comes back after the lease was lost changes nothing: the other's outcome counts", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    const slow = gate();
    rig.provider.script({ atProvider: slow.pass, fail: new OAuthFailure("invalid_grant", "invalid_grant") });
    const first = rig.instance().refresh(account, { patienceMs: 60_000 });
    await slow.reached;
    await rig.db.prisma.$executeRaw`update connected_account set lease_until = now() - interval '1 second' where id = ${account.id}`;
    assert.equal((await rig.instance().refresh(account)).kind, "fresh");
    slow.open();
    assert.deepEqual([(await first).kind, (await rig.row(account.id)).status], ["fresh", "ACTIVE"]);
  });

  test("a refusal that comes back while another holds the lease is not written: the other's outcome is waited for", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    const [slow, second] = [gate(), gate()];
    rig.provider.script({ atProvider: slow.pass, fail: new OAuthFailure("invalid_grant", "invalid_grant") }, { atProvider: second.pass });
    const first = rig.instance().refresh(account, { patienceMs: 60_000 });
    await slow.reached;
    await rig.db.prisma.$executeRaw`update connected_account set lease_until = now() - interval '1 second' where id = ${account.id}`;
    const other = rig.instance().refresh(account, { patienceMs: 60_000 });
    await second.reached;
    slow.open();
    await systemClock.sleep(100);
    assert.equal((await rig.row(account.id)).status, "ACTIVE");
    second.open();
    assert.deepEqual([(await first).kind, (await other).kind, await rig.events(account.id)], ["fresh", "fresh", ["token_refreshed"]]);
  });

  test("F02: an answer that may be lost, then other troubles, then a refusal: told as unknown", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    rig.provider.script({ instead: () => Promise.reject(lost("status_504")) }, { fail: new OAuthFailure("transient", "status_429", { retryAfterS: 7 }) });
    const refresher = rig.instance();
    for (const retryAfterS of [1, 7]) {
      const end = await refresher.refresh(account);
      assert.deepEqual([end.kind, end.kind === "transient" && end.retryAfterS], ["transient", retryAfterS]);
      await rested(rig, account.id);
    }
    const end = await refresher.refresh(account);
    assert.deepEqual([end.account.status, end.account.statusReason], ["EXPIRED", "refresh_outcome_unknown"]);
    assert.deepEqual(await rig.events(account.id), ["token_refresh_failed", "token_refresh_failed", "status_updated EXPIRED/refresh_outcome_unknown"]);
  });

  test("F02: invalid_request once is a hiccup; twice in a row it ends in ERROR/misconfigured with the grant kept", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    const refresher = rig.instance();
    const invalid = { fail: notSent("invalid_request") };
    const outcomes: string[] = [];
    rig.provider.script(invalid, { fail: notSent("status_429") }, invalid, invalid);
    for (let n = 0; n < 4; n += 1) {
      const end = await refresher.refresh(account);
      outcomes.push(`${end.kind} ${end.account.status}`);
      await rested(rig, account.id);
    }
    assert.deepEqual(outcomes, ["transient ACTIVE", "transient ACTIVE", "transient ACTIVE", "unusable ERROR"]);
    const row = await rig.row(account.id);
    assert.deepEqual([row.statusReason, row.failureReason, (await rig.tokens(account.id)).refresh], ["misconfigured", null, "rt-1.1"]);
    assert.deepEqual((await rig.events(account.id)).slice(-1), ["status_updated ERROR/misconfigured"]);
    assert.equal((await refresher.refresh(row)).kind, "unusable");
    assert.equal(rig.provider.sent.length, 4);
  });

  test("F02: invalid_request twice after a lost answer is a spent token: EXPIRED/refresh_outcome_unknown", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    const refresher = rig.instance();
    rig.provider.script({ instead: () => Promise.reject(lost("timeout")) }, { fail: notSent("invalid_request") }, { fail: notSent("invalid_request") });
    for (let n = 0; n < 3; n += 1) {
      await refresher.refresh(account);
      await rested(rig, account.id);
    }
    const row = await rig.row(account.id);
    assert.deepEqual([row.status, row.statusReason], ["EXPIRED", "refresh_outcome_unknown"]);
  });

  test("a disconnect wins over a refresh in flight: REVOKED stays, nothing is kept, the new token is given back", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account({ externalId: "upstream" });
    const held = gate();
    rig.provider.script({ atProvider: held.pass });
    const refresher = rig.instance();
    const late = refresher.refresh(account);
    await held.reached;
    await disconnect(rig, account.id);
    held.open();
    assert.deepEqual([(await late).kind, (await late).account.status], ["unusable", "REVOKED"]);
    await refresher.close();
    assert.deepEqual([await rig.tokens(account.id), rig.provider.revoked], [{ access: null, refresh: null }, ["rt-1.2"]]);
  });

  test("a disconnect while another account lives on the same upstream person: the loser's token is not given back", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account({ externalId: "same person" });
    await rig.account({ externalId: "same person" });
    const held = gate();
    rig.provider.script({ atProvider: held.pass });
    const refresher = rig.instance();
    const late = refresher.refresh(account);
    await held.reached;
    await disconnect(rig, account.id);
    held.open();
    assert.equal((await late).kind, "unusable");
    await refresher.close();
    assert.deepEqual(rig.provider.revoked, []);
  });

  for (const [title, before, after, revoked] of [
    ["as another upstream person: the old grant's new token is given back", "upstream-1", "upstream-2", ["rt-1.2"]],
    ["as the same upstream person: the grant is shared, nothing is given back", "upstream-1", "upstream-1", []],
    ["with nobody known upstream: it may be the same person's, nothing is given back", null, null, []],
  ] as const) {
    test(`a reconnect wins over a refresh in flight, ${title}`, async () => {
      const rig = await refreshRig(await open());
      const account = await rig.account({ externalId: before });
      const held = gate();
      rig.provider.script({ atProvider: held.pass });
      const refresher = rig.instance();
      const late = refresher.refresh(account);
      await held.reached;
      await disconnect(rig, account.id);
      const newer = await reconnect(rig, account.id, after);
      held.open();
      assert.equal((await late).kind, "fresh");
      await refresher.close();
      assert.deepEqual([(await rig.tokens(account.id)).refresh, rig.provider.revoked], [newer, revoked]);
    });
  }

  test("F15: a refresh token that does not open puts its account in ERROR/unreadable_credential and no other", async () => {
    const rig = await refreshRig(await open());
    const [broken, sound] = [await rig.account(), await rig.account()];
    await rig.db.prisma.connectedAccount.update({ where: { id: broken.id }, data: { refreshSealed: new Uint8Array(Buffer.from(UNREADABLE)) } });
    const refresher = rig.instance();
    const end = await refresher.refresh(broken);
    assert.deepEqual([end.kind, end.account.status, end.account.statusReason], ["unusable", "ERROR", "unreadable_credential"]);
    assert.equal((await refresher.refresh(sound)).kind, "fresh");
  });

  test("a client secret that does not open is the operator's matter: ERROR/misconfigured, and nothing is sent", async () => {
    const rig = await refreshRig(await open());
    for (const failure of [new UnreadableError(), new OAuthFailure("misconfigured", "client_secret_unreadable")]) {
      const account = await rig.account();
      const end = await rig.instance({ targetOf: () => Promise.reject(failure) }).refresh(account);
      assert.deepEqual([end.account.status, end.account.statusReason], ["ERROR", "misconfigured"]);
    }
    assert.deepEqual(rig.provider.sent, []);
  });

  test("an account that is purged while it is refreshed: the caller is told, the new token is given back", async () => {
    const rig = await refreshRig(await open());
    const account = await rig.account();
    const held = gate();
    rig.provider.script({ atProvider: held.pass });
    const refresher = rig.instance();
    const late = refresher.refresh(account);
    await held.reached;
    await rig.db.prisma.connectedAccount.delete({ where: { id: account.id } });
    held.open();
    assert.deepEqual([(await late).kind, (await late).account.status], ["unusable", "REVOKED"]);
    await refresher.close();
    assert.deepEqual(rig.provider.revoked, ["rt-1.2"]);
  });
});
