// Grants on their way back: whatever dies or is away in between, each is given back once, and none that somebody lives on.
// Several instances on a real database; the provider counts. The due times are the database's clock: rows are made older.
import assert from "node:assert/strict";
import { afterEach, before, beforeEach, test } from "node:test";
import { systemClock } from "../../src/clock.js";
import { createKeyRing } from "../../src/crypto/keyring.js";
import { rewrapDataKeys } from "../../src/crypto/rotate.js";
import type { Database } from "../../src/db/client.js";
import { asIdentifier } from "../../src/ids.js";
import { abandonKeys } from "../../src/vault/abandon.js";
import { type AwkwardProvider, awkwardProviderForTests } from "../support/awkwardProvider.js";
import { eachDatabase } from "../support/database.js";
import { dumpDatabase } from "../support/rawDatabase.js";
import { type Granted, masterKey, PUBLIC_URL, SYSTEM, type VaultRig, vaultRig } from "../support/vaultRig.js";

const REVOKE = "POST /google/revoke";
const DOWN = { match: REVOKE, times: 1_000, status: 503, body: "down" };

eachDatabase("grants on their way back", (open) => {
  let db: Database;
  let provider: AwkwardProvider;
  let rig: VaultRig;
  before(async () => {
    provider = await awkwardProviderForTests({ publicUrl: PUBLIC_URL });
  });
  beforeEach(async () => {
    db = await open();
    provider.clearFaults();
    provider.revokeAll();
    rig = await vaultRig({ db, provider, clock: systemClock });
    provider.resetCounts();
  });
  afterEach(() => rig.close());

  const rows = () => db.prisma.farewell.findMany({ orderBy: { createdAt: "asc" } });
  const told = async () =>
    (await db.prisma.auditEntry.findMany({ where: { action: "grant.revoked_upstream" }, orderBy: { id: "asc" } })).map(({ outcome, reason }) => (reason === null ? outcome : `${outcome}/${reason}`));
  const live = (): number => provider.grants.google.live().length;
  const asked = (): number => provider.count(REVOKE);
  /** As if so much time had gone by, of which the row was due at the end. */
  const age = (seconds: number) => db.prisma.$executeRaw`update farewell set created_at = created_at - make_interval(secs => ${seconds}::float8), due_at = now() - interval '1 second'`;
  const disconnect = ({ id }: { id: string }, options = {}) => rig.vault.accounts.disconnect(SYSTEM, id, options);
  async function until(what: () => Promise<boolean>, title: string): Promise<void> {
    for (let n = 0; !(await what()); n += 1) {
      assert.ok(n < 400, `never: ${title}`);
      await systemClock.sleep(25);
    }
  }
  /** Disconnected while the provider was down. */
  async function left(identifier: string, options: Parameters<VaultRig["put"]>[1] = {}): Promise<Granted> {
    const account = await rig.put(identifier, options);
    provider.fault(DOWN);
    assert.equal((await disconnect(account)).status, "REVOKED");
    provider.clearFaults();
    provider.resetCounts();
    return account;
  }

  test("the tokens stand sealed in a row from the disconnect's commit to the provider's answer, in the clear nowhere; then the row is gone", async () => {
    const account = await rig.put("ann");
    const held = provider.hold(REVOKE);
    const leaving = disconnect(account);
    await held.arrived;
    const [row] = await rows();
    assert.deepEqual([row?.accountId, row?.identifier, (await rows()).length], [account.id, "ann", 1]);
    const { status, accessSealed, refreshSealed } = await db.prisma.connectedAccount.findUniqueOrThrow({ where: { id: account.id } });
    assert.deepEqual([status, accessSealed, refreshSealed], ["REVOKED", null, null]);
    const dump = await dumpDatabase(db);
    assert.ok(dump.some(({ name, text }) => name === "farewell" && text.includes(account.id)), "the dump sees the row");
    for (const token of [account.access, account.refresh]) for (const { name, text } of dump) assert.ok(!text.includes(token), `a token in ${name}`);
    held.release();
    await leaving;
    assert.deepEqual([await rows(), await told(), asked(), live()], [[], ["ok"], 1, 0]);
    await rig.vault.sweep();
    assert.equal(asked(), 1);
  });

  test("killed between the commit and the provider's answer: another instance gives it back, once, when the first try's time is over", async () => {
    const account = await rig.put("ann");
    const dying = await rig.instance({ oauth: (real) => ({ ...real, revoke: () => new Promise(() => undefined) }) });
    void dying.accounts.disconnect(SYSTEM, account.id);
    await until(async () => (await rows()).length === 1, "committed");
    const other = await rig.instance();
    await other.sweep();
    assert.deepEqual([asked(), live()], [0, 1], "the first try is still the other's");
    await age(60);
    await other.sweep();
    assert.deepEqual([await rows(), await told(), asked(), live()], [[], ["ok"], 1, 0]);
  });

  test("a disconnect that does not come about puts nothing down, and one with nothing to give back neither", async () => {
    const account = await rig.put("ann");
    await Promise.all([disconnect(account), disconnect(account), disconnect(account)]);
    assert.deepEqual([await rows(), asked()], [[], 1]);
    assert.deepEqual((await told()).filter((outcome) => outcome === "ok").length, 1);
  });

  test("a provider that is down for a while: told, tried at doubling intervals and not before, given back when it is up", async () => {
    const account = await rig.put("ann");
    provider.fault(DOWN);
    assert.equal((await disconnect(account)).status, "REVOKED");
    assert.deepEqual([asked(), await told()], [1, ["failed/will_be_tried_again"]]);
    await rig.vault.sweep();
    assert.equal(asked(), 1);
    const pauses: number[] = [];
    for (const seconds of [60, 60, 120, 240]) {
      await age(seconds);
      await rig.vault.sweep();
      const [row] = await rows();
      pauses.push(Math.round((Number(row?.dueAt) - Date.now()) / 60_000));
    }
    assert.deepEqual([asked(), pauses], [5, [1, 2, 4, 8]]);
    provider.clearFaults();
    await rig.vault.sweep();
    assert.deepEqual([asked(), live()], [5, 1], "not due");
    await age(480);
    await rig.vault.sweep();
    assert.deepEqual([asked(), live(), await rows(), await told()], [6, 0, [], ["failed/will_be_tried_again", "ok"]]);
  });

  test("given up after a day of failures, with an audit row that says so and how often it was tried", async () => {
    await left("ann");
    provider.fault(DOWN);
    let tries = 0;
    // In one go, from try to try, as the row's own due times say.
    for (; (await rows()).length === 1; tries += 1) {
      assert.ok(tries < 30, "never given up");
      const [row] = await rows();
      await age(Math.max(1, (Number(row?.dueAt) - Date.now()) / 1000));
      await rig.vault.sweep();
    }
    assert.ok(tries >= 10 && tries <= 14, `${tries} tries`);
    assert.deepEqual([asked(), await told()], [tries, ["failed/will_be_tried_again", "failed/given_up"]]);
    const last = await db.prisma.auditEntry.findFirstOrThrow({ where: { reason: "given_up" } });
    assert.deepEqual([last.detail, last.identifier, last.connectionName], [{ tries }, "ann", "gmail"]);
    const account = await db.prisma.connectedAccount.findFirstOrThrow();
    assert.equal(account.status, "REVOKED");
  });

  test("four instances at once, two grants: one request for each", async () => {
    await left("ann");
    await left("tom", { person: "Tomás" });
    await age(60);
    const others = await Promise.all([rig.instance(), rig.instance(), rig.instance()]);
    await Promise.all([rig.vault, ...others].map((one) => one.sweep()));
    assert.deepEqual([asked(), live(), await rows()], [2, 0, []]);
  });

  test("a provider that is down holds up no other's: its rows wait for the next pass", async () => {
    const { clientId, clientSecret, endpoints } = provider.google;
    const dead = { ...(endpoints as Record<string, string>), revocation: `${endpoints.revocation}?dead` };
    await rig.vault.connections.create(SYSTEM, { name: "dead", connector: "gmail", clientId, clientSecret: clientSecret.reveal(), endpoints: dead });
    for (let n = 0; n < 20; n += 1) await left(`ann-${n}`, { connection: "dead" });
    await age(60);
    await left("tom", { person: "Tomás" });
    await db.prisma.farewell.updateMany({ where: { identifier: "tom" }, data: { dueAt: new Date() } });
    let failures = 0;
    const other = await rig.instance({
      oauth: (real) => ({
        ...real,
        async revoke(target, tokens) {
          if (target.endpoints.revocation !== dead.revocation) return real.revoke(target, tokens);
          failures += 1;
          return "failed";
        },
      }),
    });
    await other.sweep();
    assert.deepEqual([asked(), (await rows()).length], [1, 20]);
    assert.ok(failures >= 8 && failures < 8 + 4, `${failures} failures`);
    await other.sweep();
    assert.ok(failures >= 16 && failures <= 20, "those that were not reached are due in the next pass");
  });

  test("connected anew in between, by the same person or by another one on the same upstream account: left alone", async () => {
    for (const [again, options] of [["ann", {}], ["ann", { label: "work" }], ["bob", {}]] as const) {
      await left("ann");
      const next = await rig.put(again, options);
      await age(60);
      await rig.vault.sweep();
      assert.deepEqual([asked(), await rows(), (await told()).at(-1)], [0, [], "kept_shared"], `${again} ${JSON.stringify(options)}`);
      await disconnect(next, { purge: true });
      provider.revokeAll();
    }
    // Another upstream person's next grant is none of its business.
    await left("ann");
    await rig.put("ann", { person: "Tomás" });
    await age(60);
    await rig.vault.sweep();
    assert.deepEqual([asked(), live(), (await told()).at(-1)], [1, 1, "ok"]);
  });

  test("connected anew where nobody knows whose it is upstream: left alone as well", async () => {
    for (const [identifier, label] of [["ann", ""], ["ann", "work"]] as const) {
      await left("ann");
      await db.prisma.farewell.updateMany({ data: { externalId: null } });
      const next = await rig.put(identifier, { label, person: "Tomás" });
      await age(60);
      await rig.vault.sweep();
      assert.deepEqual([asked(), await rows(), (await told()).at(-1)], [0, [], "kept_shared"], label);
      await disconnect(next, { purge: true });
    }
    await left("ann");
    await db.prisma.farewell.updateMany({ data: { externalId: null } });
    await rig.put("bob", { person: "Tomás" });
    await age(60);
    await rig.vault.sweep();
    assert.deepEqual([asked(), (await told()).at(-1)], [1, "ok"], "another person here is no reason");
  });

  test("while the person's new consent is being exchanged nothing is asked; afterwards it counts", async () => {
    await left("ann");
    const link = await rig.began("ann");
    const held = provider.hold("POST /google/token");
    const end = link.finish();
    await held.arrived;
    await age(60);
    await rig.vault.sweep();
    assert.deepEqual([asked(), (await rows()).length], [0, 1]);
    held.release();
    assert.equal((await end).kind, "connected");
    await age(60);
    await rig.vault.sweep();
    assert.deepEqual([asked(), await rows(), (await told()).at(-1)], [0, [], "kept_shared"]);
  });

  test("a purge does not take the grant with it", async () => {
    const account = await rig.put("ann");
    provider.fault(DOWN);
    await disconnect(account, { purge: true });
    provider.clearFaults();
    assert.equal(await db.prisma.connectedAccount.count(), 0);
    assert.equal((await rows()).length, 1);
    await age(60);
    await rig.vault.sweep();
    assert.deepEqual([live(), await rows()], [0, []]);
  });

  test("tokens moved to another row do not open there: nothing is asked with them, and the audit says that it could not be", async () => {
    await left("ann");
    await left("tom", { person: "Tomás" });
    const [one, two] = await rows();
    assert.ok(one && two);
    await db.prisma.farewell.update({ where: { id: one.id }, data: { tokensSealed: two.tokensSealed } });
    await db.prisma.farewell.update({ where: { id: two.id }, data: { tokensSealed: one.tokensSealed } });
    await age(60);
    await rig.vault.sweep();
    assert.deepEqual([asked(), live(), await rows(), (await told()).slice(-2)], [0, 2, [], ["not_possible", "not_possible"]]);
  });

  test("a connection that is deleted, or becomes another client's, takes what it could not give back with it, and the audit says so", async () => {
    await left("ann");
    await rig.vault.connections.update(SYSTEM, "gmail", { clientId: "another-client" }, { reset: true });
    assert.deepEqual([await rows(), (await told()).at(-1)], [[], "failed/connection_changed"]);
    await rig.vault.connections.update(SYSTEM, "gmail", { clientId: provider.google.clientId }, { reset: true });
    await left("ann");
    const account = await rig.put("tom", { person: "Tomás" });
    provider.fault(DOWN);
    await rig.vault.connections.remove(SYSTEM, "gmail", { disconnect: true });
    assert.deepEqual(await rows(), []);
    assert.deepEqual((await told()).slice(-3), ["failed/will_be_tried_again", "failed/connection_deleted", "failed/connection_deleted"]);
    assert.equal(await db.prisma.dataKey.count({ where: { scope: { startsWith: "conn_" } } }), 0);
    assert.equal(await db.prisma.connectedAccount.count({ where: { id: account.id } }), 0);
  });

  test("a master key that is changed in between does not matter; one that is abandoned takes the rows with it", async () => {
    await left("ann");
    const both = await createKeyRing({ current: masterKey("the next one"), previous: [masterKey("vault rig")] });
    await rewrapDataKeys({ ring: both, db });
    const next = await rig.instance({ ring: await createKeyRing({ current: masterKey("the next one"), previous: [] }) });
    await age(60);
    await next.sweep();
    assert.deepEqual([asked(), live(), await rows()], [1, 0, []]);

    const account = await rig.put("ann");
    provider.fault(DOWN);
    await next.accounts.disconnect(SYSTEM, account.id);
    await abandonKeys({ db, clock: systemClock });
    assert.deepEqual(await rows(), []);
    const abandoned = await db.prisma.auditEntry.findFirstOrThrow({ where: { action: "keys.abandoned" } });
    assert.equal((abandoned.detail as { farewells?: number }).farewells, 1);
  });

  test("a grant that no account took, and whose provider is down when it should be given back, is given back later", async () => {
    const link = await rig.began("ann", { answers: { untick: ["https://www.googleapis.com/auth/gmail.readonly"] } });
    provider.fault(DOWN);
    const end = await link.finish();
    assert.deepEqual([end.kind, end.kind === "failed" && end.failure], ["failed", "scope_missing"]);
    assert.deepEqual([asked(), (await rows()).length, await told()], [1, 1, ["failed/will_be_tried_again"]]);
    provider.clearFaults();
    await age(60);
    await rig.vault.sweep();
    assert.deepEqual([live(), await rows(), (await told()).at(-1)], [0, [], "ok"]);
  });

  test("a refresh that lost to a disconnect, with the provider's revocation down: both grants go back later", async () => {
    const account = await rig.put("ann");
    const held = provider.hold("POST /google/token", { at: "after" });
    const refresh = rig.vault.accounts.refresh(SYSTEM, account.id);
    await held.arrived;
    provider.fault(DOWN);
    await disconnect(account);
    held.release();
    await refresh;
    await until(async () => (await rows()).length === 2, "the loser's tokens put down");
    provider.clearFaults();
    await age(60);
    await rig.vault.sweep();
    assert.deepEqual([live(), await rows()], [0, []]);
  });

  test("a person's end: what waited for their app goes back later too", async () => {
    const link = await rig.began("ann", { verification: "app" });
    assert.equal((await link.finish()).kind, "awaits_app");
    provider.fault(DOWN);
    await rig.vault.links.endOf(SYSTEM, asIdentifier("ann"));
    assert.equal((await rows()).length, 1);
    assert.equal((await db.prisma.authorizationLink.findUniqueOrThrow({ where: { id: link.id } })).grantSealed, null);
    provider.clearFaults();
    await age(60);
    await rig.vault.sweep();
    assert.deepEqual([live(), await rows()], [0, []]);
  });
});
