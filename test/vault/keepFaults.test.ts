// The database goes away while a grant is being stored: the person hears that it was not kept, and the grant is given back,
// unless that could end an account that works.
import assert from "node:assert/strict";
import { afterEach, before, beforeEach, test } from "node:test";
import { systemClock } from "../../src/clock.js";
import type { Database } from "../../src/db/client.js";
import { type AwkwardProvider, awkwardProviderForTests } from "../support/awkwardProvider.js";
import { eachDatabase } from "../support/database.js";
import { createShiftedClock, type ShiftedClock } from "../support/shiftedClock.js";
import { leavingDatabase, PUBLIC_URL, type VaultRig, vaultRig } from "../support/vaultRig.js";
import type { BuiltVault } from "../../src/vault/vault.js";

const REVOKE = "POST /google/revoke";
const TOKEN = "POST /google/token";

eachDatabase("a database that goes away while a grant is stored", (open) => {
  let db: Database;
  let provider: AwkwardProvider;
  let rig: VaultRig;
  let clock: ShiftedClock;
  let leaving: ReturnType<typeof leavingDatabase>;
  let vault: BuiltVault;
  before(async () => {
    provider = await awkwardProviderForTests({ publicUrl: PUBLIC_URL });
  });
  beforeEach(async () => {
    db = await open();
    clock = createShiftedClock();
    provider.clearFaults();
    provider.revokeAll();
    // Pauses between tries are ten times shorter.
    const quick = { ...clock, sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 10, signal) };
    rig = await vaultRig({ db, provider, clock: quick });
    leaving = leavingDatabase(db);
    vault = await rig.instance({ db: leaving.db });
    provider.resetCounts();
  });
  afterEach(() => rig.close());

  const live = (): number => provider.grants.google.live().length;
  const told = async () => (await db.prisma.auditEntry.findMany({ where: { action: "grant.revoked_upstream" }, orderBy: { id: "asc" } })).map(({ outcome }) => outcome);
  /** For an exchange that nobody ended: the database's clock counts. */
  const aMinuteLater = () => db.prisma.$executeRaw`update authorization_link set exchanged_at = now() - interval '61 seconds' where exchanged_at is not null and settled_at is null`;
  const putDown = async (): Promise<void> => {
    for (let n = 0; (await db.prisma.farewell.count()) === 0; n += 1) {
      assert.ok(n < 400, "never put down");
      await systemClock.sleep(25);
    }
    await db.prisma.$executeRaw`update farewell set due_at = now() - interval '1 second'`;
  };

  for (const verification of ["sign_in", "app"] as const) {
    test(`after the look at who else lives on it (${verification}): given back at once, told as not stored, settled by the sweeper`, async () => {
      const link = await rig.began("ann", { verification, by: vault });
      leaving.leaveAtTransaction();
      const end = await link.finish();
      assert.deepEqual([end.kind, end.kind === "failed" && end.failure, end.kind === "failed" && end.link?.id], ["failed", "not_stored", link.id]);
      assert.deepEqual([provider.count(REVOKE), live()], [1, 0]);
      leaving.comeBack();
      await aMinuteLater();
      await vault.sweep();
      const row = await db.prisma.authorizationLink.findUniqueOrThrow({ where: { id: link.id } });
      assert.deepEqual([row.status, row.reason, row.grantSealed], ["failed", "not_stored", null]);
      assert.equal((await db.prisma.connectedAccount.findUniqueOrThrow({ where: { id: link.accountId } })).status, "PENDING");
    });

    test(`before that look (${verification}): told as not stored, and given back once the database can say that nobody lives on it`, async () => {
      const link = await rig.began("ann", { verification, by: vault });
      const held = provider.hold(TOKEN, { at: "after" });
      const ending = link.finish();
      await held.arrived;
      leaving.leave();
      held.release();
      const end = await ending;
      assert.deepEqual([end.kind, end.kind === "failed" && end.failure], ["failed", "not_stored"]);
      assert.deepEqual([provider.count(REVOKE), live(), await db.prisma.farewell.count()], [0, 1, 0]);
      leaving.comeBack();
      await putDown();
      // The link still looks as if it were being exchanged: that is settled first, in the same pass.
      await aMinuteLater();
      await vault.sweep();
      assert.deepEqual([provider.count(REVOKE), live(), await db.prisma.farewell.count(), await told()], [1, 0, 0, ["ok"]]);
    });
  }

  test("an account that lives on the same grant is not ended by what cannot be stored, whether the database could say so or not", async () => {
    await rig.put("bob");
    const seen = await rig.began("ann", { by: vault });
    leaving.leaveAtTransaction();
    assert.equal((await seen.finish()).kind, "failed");
    leaving.comeBack();
    const unseen = await rig.began("cid", { by: vault });
    const held = provider.hold(TOKEN, { at: "after" });
    const ending = unseen.finish();
    await held.arrived;
    leaving.leave();
    held.release();
    assert.equal((await ending).kind, "failed");
    leaving.comeBack();
    await putDown();
    await aMinuteLater();
    await vault.sweep();
    assert.deepEqual([provider.count(REVOKE), await db.prisma.farewell.count(), (await told()).at(-1)], [0, 0, "kept_shared"]);
  });

  test("too few scopes, and the database away: told which, not a bare 503", async () => {
    const link = await rig.began("ann", { by: vault, answers: { untick: ["https://www.googleapis.com/auth/gmail.readonly"] } });
    leaving.leaveAtTransaction();
    const end = await link.finish();
    assert.deepEqual([end.kind, end.kind === "failed" && end.failure, end.kind === "failed" && end.missing.length], ["failed", "scope_missing", 1]);
    assert.deepEqual([provider.count(REVOKE), live()], [1, 0]);
  });

  test("a stop while it is still in memory does not hang", async () => {
    const link = await rig.began("ann", { by: vault });
    const held = provider.hold(TOKEN, { at: "after" });
    const ending = link.finish();
    await held.arrived;
    leaving.leave();
    held.release();
    await ending;
    const startedMs = performance.now();
    await vault.close();
    assert.ok(performance.now() - startedMs < 2_000);
  });
});
