// The app check below its HTTP: what stands in the row at each step, what the sweeper does, and who wins when several act at
// once. Real database, real exchange with the awkward provider; the invariant throughout is that a grant upstream is either
// an account's, or waits, or is given back.
import assert from "node:assert/strict";
import { before, beforeEach, test } from "node:test";
import { createOAuthClient } from "../../src/connectors/methods/oauth.js";
import { createRegistry } from "../../src/connectors/registry.js";
import { createSealer } from "../../src/crypto/dataKeys.js";
import { createKeyRing } from "../../src/crypto/keyring.js";
import { secret } from "../../src/crypto/secret.js";
import { hashToken } from "../../src/crypto/tokens.js";
import type { Database } from "../../src/db/client.js";
import { OutbandError } from "../../src/errors.js";
import { asIdentifier } from "../../src/ids.js";
import type { ApiKeyPrincipal, BrowserPrincipal } from "../../src/identity/principal.js";
import { createEgress } from "../../src/net/egress.js";
import { abandonKeys } from "../../src/vault/abandon.js";
import type { LinkOutcome } from "../../src/vault/front.js";
import { type BuiltVault, createVault } from "../../src/vault/vault.js";
import { authorizeAs } from "../support/awkwardPerson.js";
import { type AwkwardProvider, awkwardProviderForTests } from "../support/awkwardProvider.js";
import { eachDatabase, silentLog } from "../support/database.js";
import { createShiftedClock, type ShiftedClock } from "../support/shiftedClock.js";

const PUBLIC_URL = "http://localhost:3000";
const KEY: ApiKeyPrincipal = { kind: "api_key", keyId: "key_app", scopes: new Set(["execute"]), returnToOrigins: ["https://app.example"] };
const ANN: BrowserPrincipal = { kind: "browser", sub: asIdentifier("ann"), role: "user" };
const TOKEN = "POST /google/token";
const REVOKE = "POST /google/revoke";
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 3600_000;

eachDatabase("the app check in the vault", (open, kind) => {
  let db: Database;
  let clock: ShiftedClock;
  let provider: AwkwardProvider;
  let vault: BuiltVault;
  let shutOut: Set<string>;
  before(async () => {
    provider = await awkwardProviderForTests({ publicUrl: PUBLIC_URL });
  });
  beforeEach(async () => {
    db = await open();
    clock = createShiftedClock();
    shutOut = new Set();
    provider.clearFaults();
    provider.revokeAll();
    vault = await newVault(db);
    const { clientId, clientSecret, endpoints } = provider.google;
    await vault.connections.create({ kind: "system" }, { name: "gmail", connector: "gmail", clientId, clientSecret: clientSecret.reveal(), endpoints: endpoints as Record<string, string> });
    provider.resetCounts();
  });

  async function newVault(on: Database): Promise<BuiltVault> {
    const ring = await createKeyRing({ current: secret(Buffer.alloc(32, "app check").toString("base64")), previous: [] });
    const egress = createEgress({ allowPrivateNetwork: true, clock });
    return createVault({
      db: on,
      clock,
      log: silentLog,
      sealer: createSealer({ ring, db: on, clock }),
      egress,
      oauth: createOAuthClient({ egress, clock }),
      registry: createRegistry(),
      publicUrl: PUBLIC_URL,
      linkTtlS: 600,
      retention: { executionDays: 7, eventDays: 30, auditDays: 400 },
      sandboxOrigin: () => null,
      knowsPerson: async (identifier) => identifier === "ann",
      isShutOut: async (identifier) => shutOut.has(identifier),
      instance: "test",
    });
  }

  interface Began {
    id: string;
    accountId: string;
    finish(): Promise<LinkOutcome>;
  }

  /** To the provider's answer, not yet delivered. */
  async function began(identifier: string, options: { verification?: "sign_in" | "app"; person?: string; by?: BuiltVault } = {}): Promise<Began> {
    const { verification = "app", by = vault } = options;
    const made = await by.links.create(KEY, { connectionName: "gmail", identifier: asIdentifier(identifier), label: "", askedBy: "api", clientId: "key", clientName: "App", tool: null, returnTo: "https://app.example/back", verification });
    assert.ok(made !== "asked_too_often");
    const person = verification === "app" ? null : ANN;
    const browser = clock.randomBytes(32).toString("base64url");
    const started = await by.links.start({ token: made.url.split("/").at(-1) ?? "", person, browser });
    assert.ok(started.kind === "redirect", JSON.stringify(started));
    const url = await authorizeAs(started.url, { person: options.person ?? "Tomás" });
    return { id: made.id, accountId: made.accountId, finish: () => by.links.callback({ connectionName: "gmail", url, person, browser }) };
  }

  async function waiting(identifier: string, options: Parameters<typeof began>[1] = {}): Promise<{ id: string; accountId: string; code: string }> {
    const link = await began(identifier, options);
    const end = await link.finish();
    assert.equal(end.kind, "awaits_app");
    return { id: link.id, accountId: link.accountId, code: end.kind === "awaits_app" ? end.code.reveal() : "" };
  }

  const verify = (link: { id: string; code: string }, identifier: string, by = vault): Promise<string> =>
    by.links.verify(KEY, link.id, { code: link.code, identifier: asIdentifier(identifier) }).then(
      (view) => view.status,
      (thrown: unknown) => (thrown instanceof OutbandError ? `${thrown.code}/${thrown.reason ?? ""}` : assert.fail(String(thrown))),
    );
  const rowOf = (id: string) => db.prisma.authorizationLink.findUniqueOrThrow({ where: { id } });
  const accountOf = async (id: string) => {
    const { status, statusReason } = await db.prisma.connectedAccount.findUniqueOrThrow({ where: { id } });
    return [status, statusReason];
  };
  const live = (): number => provider.grants.google.live().length;
  const gone = { grantSealed: null, grantExternalId: null, grantDueAt: null, codeHash: null, flowSealed: null, tokenSealed: null };
  const kept = (row: Awaited<ReturnType<typeof rowOf>>) => Object.fromEntries(Object.keys(gone).map((name) => [name, row[name as keyof typeof row]]));

  test("while it waits the row holds the sealed grant and the code's hash, never the code; after each end neither", async () => {
    const link = await waiting("one");
    const row = await rowOf(link.id);
    assert.equal(row.codeHash, hashToken(link.code));
    assert.deepEqual([row.flowSealed, row.tokenSealed, row.settledAt, row.status, row.reason], [null, null, null, "started", "awaiting_verification"]);
    assert.equal(Number(row.grantDueAt) > clock.now() + 4 * MINUTE_MS && Number(row.grantDueAt) <= clock.now() + 5 * MINUTE_MS, true);
    const stored = JSON.stringify(await Promise.all([db.prisma.authorizationLink.findMany(), db.prisma.event.findMany(), db.prisma.auditEntry.findMany()]), (_, value) => (typeof value === "bigint" ? String(value) : value));
    assert.equal(stored.includes(link.code), false);
    assert.equal(Buffer.from(row.grantSealed ?? []).toString("latin1").includes("ya29"), false);

    assert.equal(await verify(link, "one"), "completed");
    assert.deepEqual(kept(await rowOf(link.id)), gone);
    const ends: Record<string, (other: Awaited<ReturnType<typeof waiting>>) => Promise<unknown>> = {
      answered: (other) => verify(other, "another"),
      unanswered: () => {
        clock.advance(5 * MINUTE_MS);
        return vault.sweep();
      },
      disconnected: ({ accountId }) => vault.accounts.disconnect({ kind: "system" }, accountId),
    };
    for (const [identifier, end] of Object.entries(ends)) {
      const other = await waiting(identifier, { person: "Mara" });
      await end(other);
      const ended = await rowOf(other.id);
      assert.deepEqual([ended.status, kept(ended)], ["failed", gone], identifier);
    }
    assert.equal(live(), 1);
  });

  test("each step leaves its audit row, with the key that answered, and no code", async () => {
    const link = await waiting("audited");
    await verify({ ...link, code: "wrong" }, "audited");
    await verify(link, "audited");
    const lost = await waiting("audited-2", { person: "Mara" });
    await verify(lost, "another");
    const rows = await db.prisma.auditEntry.findMany({ where: { linkId: { in: [link.id, lost.id] } }, orderBy: { id: "asc" } });
    assert.deepEqual(
      rows.map(({ action, outcome, actorKind, apiKeyId }) => [action, outcome, actorKind, apiKeyId]),
      [
        ["link.created", "ok", "api_key", "key_app"],
        ["link.awaits_verification", "ok", "system", null],
        ["link.verification_refused", "wrong_code", "api_key", "key_app"],
        ["account.connected", "ok", "api_key", "key_app"],
        ["link.verified", "ok", "api_key", "key_app"],
        ["link.created", "ok", "api_key", "key_app"],
        ["link.awaits_verification", "ok", "system", null],
        ["link.failed", "not_verified", "api_key", "key_app"],
        ["account.try_failed", "not_verified", "api_key", "key_app"],
      ],
    );
    const given = await db.prisma.auditEntry.findMany({ where: { action: "grant.revoked_upstream" } });
    assert.deepEqual(given.map(({ accountId, outcome }) => [accountId, outcome]), [[lost.accountId, "ok"]]);
  });

  test("a waiting grant moved to another link does not open there: nobody gets it, and the link ends", async () => {
    const [victim, thief] = [await waiting("victim"), await waiting("thief", { person: "Mara" })];
    const stolen = await rowOf(victim.id);
    await db.prisma.authorizationLink.update({ where: { id: thief.id }, data: { grantSealed: stolen.grantSealed, grantExternalId: stolen.grantExternalId } });
    assert.equal(await verify(thief, "thief"), "link_gone/not_verified");
    assert.deepEqual(await accountOf(thief.accountId), ["PENDING", "awaiting_user"]);
    assert.equal(await verify(victim, "victim"), "completed");
  });

  test("given back with the provider down: the link is rid of it, and it goes the way of every grant that is given back", async () => {
    const link = await waiting("outage");
    provider.fault({ match: REVOKE, times: 1_000, status: 503, body: "down" });
    await verify(link, "another");
    assert.deepEqual([provider.count(REVOKE), kept(await rowOf(link.id))], [1, gone]);
    assert.deepEqual((await db.prisma.farewell.findMany()).map(({ accountId }) => accountId), [link.accountId]);
    provider.clearFaults();
    await db.prisma.$executeRaw`update farewell set due_at = now() - interval '1 second'`;
    const other = await newVault(db);
    await Promise.all([vault.sweep(), other.sweep()]);
    assert.deepEqual([provider.count(REVOKE), live(), await db.prisma.farewell.count()], [2, 0, 0]);
    await other.close();
  });

  test("a crash between the end and the give-back loses nothing: the next sweep gives back", async () => {
    const link = await waiting("crashed");
    const due = clock.date();
    await db.prisma.authorizationLink.update({ where: { id: link.id }, data: { status: "failed", reason: "not_verified:no_answer", settledAt: due, grantDueAt: due, codeHash: null } });
    await vault.sweep();
    assert.deepEqual([live(), kept(await rowOf(link.id))], [0, gone]);
  });

  test("the sweeper's minute for an exchange that died does not end a grant that waits", async () => {
    const link = await waiting("unhurried");
    clock.advance(2 * MINUTE_MS);
    await vault.sweep();
    assert.equal((await rowOf(link.id)).settledAt, null);
    assert.equal(await verify(link, "unhurried"), "completed");
    const died = await began("died");
    await db.prisma.$executeRaw`update authorization_link set exchanged_at = now() where id = ${died.id}`;
    clock.advance(5 * MINUTE_MS);
    await vault.sweep();
    assert.equal((await rowOf(died.id)).settledAt, null, "an instance whose clock is ahead ends nobody's exchange");
    await db.prisma.$executeRaw`update authorization_link set exchanged_at = now() - interval '61 seconds' where id = ${died.id}`;
    await vault.sweep();
    assert.deepEqual([(await rowOf(died.id)).status, (await rowOf(died.id)).reason], ["failed", "not_stored"]);
  });

  test("an account that was never usable can be swept away under a grant that is still to be given back: it is given back all the same", async () => {
    const link = await waiting("old");
    provider.fault({ match: REVOKE, times: 1, status: 503, body: "down" });
    await verify(link, "another");
    await db.prisma.connectedAccount.updateMany({ where: { id: link.accountId }, data: { updatedAt: new Date(clock.now() - 8 * DAY_MS) } });
    await vault.sweep();
    assert.deepEqual([live(), await db.prisma.connectedAccount.count({ where: { id: link.accountId } })], [1, 0]);
    await db.prisma.$executeRaw`update farewell set due_at = now() - interval '1 second'`;
    await vault.sweep();
    assert.deepEqual([live(), await db.prisma.farewell.count()], [0, 0]);
  });

  test("one that waits is not swept away with its account", async () => {
    const link = await waiting("waits");
    await db.prisma.connectedAccount.updateMany({ where: { id: link.accountId }, data: { updatedAt: new Date(clock.now() - 8 * DAY_MS) } });
    await vault.sweep();
    assert.equal(await verify(link, "waits"), "completed");
  });

  test("a disconnect while a callback is under way wins, whoever verifies: what the exchange brought is given back", async () => {
    for (const verification of ["app", "sign_in"] as const) {
      const identifier = "ann";
      const link = await began(identifier, { verification });
      const held = provider.hold(TOKEN, { at: "after" });
      const callback = link.finish();
      await held.arrived;
      await vault.accounts.disconnect({ kind: "system" }, link.accountId);
      held.release();
      const end = await callback;
      assert.deepEqual([end.kind, end.kind === "failed" && end.failure], ["failed", "disconnected"], verification);
      assert.deepEqual([await accountOf(link.accountId), live()], [["REVOKED", "disconnected_by_admin"], 0], verification);
      assert.deepEqual(kept(await rowOf(link.id)), gone);
    }
  });

  test("a person who is shut out between the consent and the answer connects nothing, and no link is made for them", async () => {
    const link = await waiting("expelled");
    shutOut.add("expelled");
    assert.equal(await verify(link, "expelled"), "unknown_identifier/");
    assert.deepEqual([await accountOf(link.accountId), live()], [["PENDING", "awaiting_user"], 0]);
    await assert.rejects(began("expelled"), (thrown: OutbandError) => thrown.code === "unknown_identifier");
  });

  test("a disabled connection: the answer is refused, and the grant waits on", async () => {
    const link = await waiting("paused");
    await vault.connections.update({ kind: "system" }, "gmail", { enabled: false });
    assert.equal(await verify(link, "paused"), "forbidden/connection_disabled");
    await vault.connections.update({ kind: "system" }, "gmail", { enabled: true });
    assert.equal(await verify(link, "paused"), "completed");
  });

  test("two grants wait for one account: the end of one leaves the other waiting", async () => {
    const [first, second] = [await waiting("twice"), await waiting("twice", { person: "Mara" })];
    assert.equal(first.accountId, second.accountId);
    await verify(first, "another");
    assert.deepEqual(await accountOf(first.accountId), ["PENDING", "awaiting_verification"]);
    await verify(second, "another");
    assert.deepEqual([await accountOf(first.accountId), live()], [["PENDING", "awaiting_user"], 0]);
  });

  test("a database that fails while the grant is put aside: the grant goes back, and the page says that it was not kept", async () => {
    let failures = 0;
    const failing = await newVault({
      ...db,
      transaction: (run) =>
        db.transaction(async (tx) => {
          const result = await run(tx);
          if ((await tx.authorizationLink.count({ where: { grantSealed: { not: null } } })) === 0) return result;
          failures += 1;
          throw new Error("the disk is full");
        }),
    });
    const link = await began("unstored", { by: failing });
    const end = await link.finish();
    assert.deepEqual([end.kind, end.kind === "failed" && end.failure, failures], ["failed", "not_stored", 4]);
    assert.deepEqual([live(), await accountOf(link.accountId)], [0, ["PENDING", "awaiting_user"]]);
    await failing.close();
  });

  test("abandoned keys leave no waiting grant and no account that waits for one", async () => {
    const link = await waiting("abandoned");
    await abandonKeys({ db, clock });
    const row = await rowOf(link.id);
    assert.deepEqual([row.status, row.reason, kept(row)], ["expired", "key_lost", gone]);
    assert.deepEqual(await accountOf(link.accountId), ["PENDING", "awaiting_user"]);
    assert.equal(await verify(link, "abandoned"), "link_gone/key_lost");
  });

  test("right and wrong answers, a disconnect and two sweepers at once: one end, and upstream lives what an account holds, nothing else", async () => {
    const other = await newVault(db);
    const ends = new Map<string, number>();
    const rounds = kind === "postgresql" ? 40 : 15;
    for (let round = 0; round < rounds; round += 1) {
      const link = await waiting(`raced-${round}`);
      clock.advance(round % 3 === 0 ? 5 * MINUTE_MS : MINUTE_MS);
      const acts: (() => Promise<unknown>)[] = [
        () => verify(link, `raced-${round}`),
        () => verify(link, `raced-${round}`, other),
        () => verify(link, "another", other),
        () => verify({ ...link, code: "wrong" }, "another"),
        () => vault.sweep(),
        () => other.sweep(),
        ...(round % 2 === 0 ? [() => vault.accounts.disconnect({ kind: "system" }, link.accountId)] : []),
      ];
      // Every round begins with another act.
      const answers = await Promise.all([...acts.slice(round % acts.length), ...acts.slice(0, round % acts.length)].map((act) => act()));
      assert.ok(answers.filter((answer) => answer === "completed").length <= 1, String(answers));
      const [status] = await accountOf(link.accountId);
      const row = await rowOf(link.id);
      assert.notEqual(row.settledAt, null, `${round}`);
      assert.deepEqual(kept(row), gone, `${round}: ${row.status} ${row.reason}`);
      assert.equal(live(), status === "ACTIVE" ? 1 : 0, `${round}: ${status} ${row.status} ${row.reason}`);
      ends.set(`${row.status} ${status}`, (ends.get(`${row.status} ${status}`) ?? 0) + 1);
      if (status === "ACTIVE") await vault.accounts.disconnect({ kind: "system" }, link.accountId);
    }
    assert.ok(ends.size >= 2, [...ends].join(" · "));
    await other.close();
  });
});
