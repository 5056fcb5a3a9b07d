// The state table against the contract's own words, written down here a second time, and random acts against that model.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { Database } from "../../src/db/client.js";
import { type Act, RULES, type SealedCredential, transition } from "../../src/vault/account.js";
import type { AccountStatus, StatusReason } from "../../src/vault/types.js";
import { eachDatabase } from "../support/database.js";

/** Contract section 2: act → from which states → to which state, and whether a credential remains. */
const MODEL: Record<Act, { from: AccountStatus[]; to: AccountStatus; holds: "new" | "none" | "same" }> = {
  connected: { from: ["PENDING", "ACTIVE", "EXPIRED", "REVOKED", "ERROR"], to: "ACTIVE", holds: "new" },
  try_failed: { from: ["PENDING"], to: "PENDING", holds: "same" },
  awaits_app: { from: ["PENDING"], to: "PENDING", holds: "same" },
  refreshed: { from: ["ACTIVE"], to: "ACTIVE", holds: "new" },
  refresh_rejected: { from: ["ACTIVE"], to: "EXPIRED", holds: "none" },
  ran_out: { from: ["ACTIVE"], to: "EXPIRED", holds: "none" },
  token_rejected: { from: ["ACTIVE"], to: "EXPIRED", holds: "none" },
  client_rejected: { from: ["ACTIVE"], to: "ERROR", holds: "same" },
  client_mended: { from: ["ERROR"], to: "ACTIVE", holds: "same" },
  unreadable: { from: ["ACTIVE"], to: "ERROR", holds: "same" },
  disconnected: { from: ["PENDING", "ACTIVE", "EXPIRED", "ERROR"], to: "REVOKED", holds: "none" },
  revoked_at_provider: { from: ["ACTIVE", "EXPIRED"], to: "REVOKED", holds: "none" },
  connection_changed: { from: ["ACTIVE", "ERROR"], to: "EXPIRED", holds: "none" },
  key_lost: { from: ["ACTIVE", "ERROR"], to: "EXPIRED", holds: "none" },
};

test("the table says what the contract says, and REVOKED is left by a new consent alone", () => {
  for (const [act, rule] of Object.entries(RULES) as [Act, (typeof RULES)[Act]][]) {
    assert.deepEqual([...rule.from].sort(), [...MODEL[act].from].sort(), act);
    assert.equal(rule.to, MODEL[act].to, act);
  }
  const leavers = (Object.keys(RULES) as Act[]).filter((act) => RULES[act].from.includes("REVOKED"));
  assert.deepEqual(leavers, ["connected"]);
});

const CREDENTIAL: SealedCredential = {
  accessSealed: new Uint8Array([1, 2, 3]),
  refreshSealed: new Uint8Array([4]),
  scopes: ["mail"],
  tokenExpiresAt: new Date(2_000_000_000_000),
};

eachDatabase("transition", (open) => {
  test("random acts never differ from the model, and each change leaves one event and one audit row", async () => {
    const db = await open();
    await fc.assert(
      fc.asyncProperty(fc.array(fc.constantFrom(...(Object.keys(RULES) as Act[])), { minLength: 1, maxLength: 12 }), async (acts) => {
        const id = await newAccount(db);
        const model: { status: AccountStatus; generation: number; holds: boolean; changes: number } = { status: "PENDING", generation: 0, holds: false, changes: 0 };
        for (const act of acts) {
          const reason = RULES[act].reasons[0] as StatusReason | null;
          const row = await db.transaction((tx) =>
            transition(tx, {
              account: { id, generation: model.generation },
              act,
              reason,
              ...(RULES[act].credential === "replaces" ? { credential: CREDENTIAL } : {}),
              audit: { category: "token_lifecycle", action: "test", actor: { kind: "system" }, outcome: "ok" },
            }),
          );
          const may = MODEL[act].from.includes(model.status);
          assert.equal(row !== null, may, `${act} from ${model.status}`);
          if (!may) continue;
          model.status = MODEL[act].to;
          model.changes += 1;
          if (MODEL[act].holds !== "same") model.generation += 1;
          if (MODEL[act].holds !== "same") model.holds = MODEL[act].holds === "new";
          assert.deepEqual({ status: row?.status, reason: row?.statusReason, generation: row?.generation, holds: row?.accessSealed !== null, events: row?.sequence }, {
            status: model.status,
            reason,
            generation: model.generation,
            holds: model.holds,
            events: BigInt(model.changes),
          });
        }
        assert.equal(await db.prisma.event.count({ where: { accountId: id } }), model.changes);
        assert.equal(await db.prisma.auditEntry.count({ where: { accountId: id } }), model.changes);
      }),
      { numRuns: 20 },
    );
  });

  test("an act on an older generation writes nothing: a refresh in flight never brings a disconnected account back", async () => {
    const db = await open();
    const id = await newAccount(db);
    const act = (name: Act, generation: number, more: object = {}) =>
      db.transaction((tx) =>
        transition(tx, {
          account: { id, generation },
          act: name,
          reason: RULES[name].reasons[0] as StatusReason | null,
          audit: { category: "token_lifecycle", action: "test", actor: { kind: "system" }, outcome: "ok" },
          ...more,
        }),
      );
    assert.equal((await act("connected", 0, { credential: CREDENTIAL }))?.generation, 1);
    assert.equal((await act("disconnected", 1))?.status, "REVOKED");
    const before = await db.prisma.event.count();
    assert.equal(await act("refreshed", 1, { credential: CREDENTIAL }), null);
    const row = await db.prisma.connectedAccount.findUniqueOrThrow({ where: { id } });
    assert.deepEqual([row.status, row.accessSealed, row.refreshSealed], ["REVOKED", null, null]);
    assert.equal(await db.prisma.event.count(), before);
  });

  test("a refresh that lost its lease writes nothing", async () => {
    const db = await open();
    const id = await newAccount(db);
    const audit = { category: "token_lifecycle" as const, action: "test", actor: { kind: "system" as const }, outcome: "ok" };
    await db.transaction((tx) => transition(tx, { account: { id, generation: 0 }, act: "connected", reason: null, credential: CREDENTIAL, audit }));
    await db.prisma.connectedAccount.update({ where: { id }, data: { leaseOwner: "somebody else" } });
    const late = await db.transaction((tx) => transition(tx, { account: { id, generation: 1 }, act: "refreshed", reason: null, credential: CREDENTIAL, leaseOwner: "me", audit }));
    assert.equal(late, null);
    assert.equal((await db.prisma.connectedAccount.findUniqueOrThrow({ where: { id } })).leaseOwner, "somebody else");
  });
});

let made = 0;
async function newAccount(db: Database): Promise<string> {
  made += 1;
  const connection = await db.prisma.connection.upsert({
    where: { name: "mail" },
    create: { id: "conn_test", name: "mail", connector: "generic-oauth", title: "Mail" },
    update: {},
  });
  const account = await db.prisma.connectedAccount.create({ data: { id: `ca_${made}`, connectionId: connection.id, identifier: `person ${made}` } });
  return account.id;
}
