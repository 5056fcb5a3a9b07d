// Random commands, given to the real vault on a real database and to the model; every answer and every row is compared.
// The provider is an object in memory that answers what the command says; time is moved, never waited for.
import assert from "node:assert/strict";
import { GMAIL_READ, GMAIL_SEND } from "../../src/connectors/gmail/scopes.js";
import { type OAuthClient, OAuthFailure, type TokenAnswer } from "../../src/connectors/methods/oauth.js";
import { createRegistry } from "../../src/connectors/registry.js";
import { systemClock } from "../../src/clock.js";
import { createSealer } from "../../src/crypto/dataKeys.js";
import { createKeyRing } from "../../src/crypto/keyring.js";
import { Secret } from "../../src/crypto/secret.js";
import type { Database } from "../../src/db/client.js";
import { OutbandError } from "../../src/errors.js";
import { asIdentifier } from "../../src/ids.js";
import type { BrowserPrincipal } from "../../src/identity/principal.js";
import type { Egress } from "../../src/net/egress.js";
import { createCredentialBox } from "../../src/vault/credential.js";
import type { LinkOutcome } from "../../src/vault/front.js";
import { createVault } from "../../src/vault/vault.js";
import { randomFrom } from "../support/random.js";
import { silentLog } from "../support/silentLog.js";
import { type Consent, Model, type ModelAccount, type ModelLink, type Renewal } from "./model.js";

const TTL_S = 600;
const MASTER_KEY = Buffer.from("0123456789abcdef0123456789abcdef").toString("base64");
const PEOPLE = ["ann", "bob", "Ann", "a+b/%2F"];
const LABELS = ["", "work", "home", "Über"];
const CLIENTS = ["client-one", "client-two"];
const EXTERNALS = ["google-A", "google-B", null];
const SCOPES = [GMAIL_READ, GMAIL_SEND, "openid", "email"];
const BROWSER = "the-browser";
const CHECK_ALL_EVERY = 250;
/** A settled link that was compared is not looked at by every command again. */
const LINKS_KEPT = 60;

export interface Run {
  commands: number;
  counts: Record<string, number>;
  /** How often each answer was given: a model that is never contradicted because nothing happens would show here. */
  answers: Record<string, number>;
}

export async function runModel(db: Database, options: { seed: number; commands: number; told?: (done: number) => void }): Promise<Run> {
  const random = randomFrom(options.seed);
  // Stands still between commands, so that the model and the vault read the same time.
  let nowMs = Date.now();
  const clock = { ...systemClock, now: () => nowMs, date: () => new Date(nowMs) };
  const ring = await createKeyRing({ current: new Secret(MASTER_KEY), previous: [] });
  const sealer = createSealer({ ring, db, clock });
  const box = createCredentialBox(sealer);
  const model = new Model(TTL_S * 1000, () => clock.now());
  const seen: ModelLink[] = [];
  const run: Run = { commands: 0, counts: {}, answers: {} };

  let consent: Consent = { kind: "denied" };
  let renewal: Renewal = { kind: "transient" };
  let unread: OAuthFailure | null = null;
  let tokenRequests = 0;
  let lastState = "";
  const owners = new Map<string, string | null>();
  const tokens = (access: string, refresh: string | null, scopes: string[]): TokenAnswer => ({
    access: new Secret(access),
    refresh: refresh === null ? null : new Secret(refresh),
    expiresInS: 3600,
    scopes,
    tokenType: "Bearer",
    subject: null,
  });
  const oauth: OAuthClient = {
    async authorizationUrl(_target, request) {
      lastState = request.state.reveal();
      return new URL(`https://provider.example/authorize?state=${lastState}`);
    },
    async exchange() {
      tokenRequests += 1;
      if (consent.kind === "ok") return tokens(consent.access, consent.refresh, SCOPES);
      if (consent.kind === "narrow") return tokens("narrow", null, ["openid"]);
      throw new OAuthFailure({ denied: "denied", transient: "transient", rejected: "invalid_grant", client: "client_rejected" }[consent.kind] as "denied", "scripted", {});
    },
    async refresh() {
      tokenRequests += 1;
      if (renewal.kind === "ok") return tokens(renewal.access, renewal.refresh, SCOPES);
      if (renewal.kind === "dead") throw new OAuthFailure("invalid_grant", "invalid_grant");
      if (renewal.kind === "client") throw new OAuthFailure("client_rejected", "invalid_client");
      throw new OAuthFailure("transient", "timeout", { maybeConsumed: renewal.kind === "lost" });
    },
    revoke: async () => "done",
    async identify(_target, access) {
      if (unread) throw unread;
      const external = consent.kind === "narrow" ? consent.external : (owners.get(access.reveal()) ?? null);
      return external === null ? null : { id: external, email: `${external}@x.example`, name: external };
    },
  };
  const egress: Egress = {
    send: () => Promise.reject(new Error("nothing here goes into the network")),
    fetchFor: () => () => Promise.reject(new Error("nothing here goes into the network")),
    refuses: () => null,
    close: async () => {},
  };
  const vault = createVault({
    db,
    clock,
    log: silentLog,
    sealer,
    egress,
    oauth,
    registry: createRegistry(),
    publicUrl: "http://localhost:3000",
    linkTtlS: TTL_S,
    retention: { executionDays: 7, eventDays: 30, auditDays: 400 },
    sandboxOrigin: () => null,
    knowsPerson: async () => true,
    ...{ isShutOut: async () => false },
    instance: "model",
  });
  const system = { kind: "system" } as const;
  await vault.connections.create(system, { name: "gmail", connector: "gmail", clientId: "client", clientSecret: "secret" });

  const browserOf = (person: string): BrowserPrincipal => ({ kind: "browser", sub: asIdentifier(person), role: "user" });
  const word = (kind: string): string => `${kind}-${run.commands}-${random.int(1_000_000)}`;
  const anyAccount = (): ModelAccount | undefined => (model.accounts.size === 0 ? undefined : random.pick([...model.accounts]));
  const anyLink = (): ModelLink | undefined => (seen.length === 0 ? undefined : random.pick(seen.slice(-LINKS_KEPT)));
  const someone = (mostly: string): string => (random.int(12) === 0 ? random.pick(PEOPLE) : mostly);

  async function answerOf(act: () => Promise<unknown>): Promise<string> {
    try {
      await act();
      return "ok";
    } catch (thrown) {
      if (thrown instanceof OutbandError) return thrown.code;
      throw thrown;
    }
  }

  function wordOf(outcome: LinkOutcome | { kind: "redirect"; url: string }): string {
    if (outcome.kind === "failed") return outcome.failure + (outcome.repeated ? " again" : "");
    if (outcome.kind === "connected") return outcome.repeated ? "connected again" : "connected";
    return outcome.kind;
  }

  const commands: Record<string, { weight: number; act: () => Promise<[expected: string, got: string] | null> }> = {
    link: {
      weight: 16,
      async act() {
        const [person, label, client] = [random.pick(PEOPLE), random.pick(LABELS), random.pick(CLIENTS)];
        const askedBy = random.pick(["mcp", "mcp", "api"] as const);
        const expected = model.wouldLink(person, label, askedBy, client);
        let got = "";
        try {
          const made = await vault.links.create(system, { connectionName: "gmail", identifier: asIdentifier(person), label, askedBy, clientId: client, clientName: null, tool: null });
          if (made === "asked_too_often") got = made;
          else if (expected.kind === "shared") got = made.id === expected.link.id && made.url.endsWith(expected.link.token) ? "shared" : `another link than ${expected.link.id}`;
          else {
            got = "new";
            if (expected.kind === "new") seen.push(model.addLink({ id: made.id, token: made.url.split("/").at(-1) ?? "", accountId: made.accountId }, person, label, askedBy, client));
          }
        } catch (thrown) {
          if (!(thrown instanceof OutbandError)) throw thrown;
          got = thrown.code;
        }
        return [expected.kind, got];
      },
    },
    start: {
      weight: 16,
      async act() {
        const link = anyLink();
        if (!link) return null;
        const person = someone(link.person);
        const outcome = await vault.links.start({ token: link.token, person: browserOf(person), browser: BROWSER });
        return [model.start(link, person, () => lastState), wordOf(outcome)];
      },
    },
    callback: {
      weight: 20,
      async act() {
        const link = random.int(4) > 0 ? (seen.findLast((one) => one.status === "started" && model.links.has(one)) ?? anyLink()) : anyLink();
        if (!link || link.state === null) return null;
        const given = { state: random.int(15) === 0 ? "a".repeat(43) : link.state, person: someone(link.person), ownBrowser: random.int(15) > 0 };
        const external = random.pick(EXTERNALS);
        const which = random.int(10);
        const access = word("at");
        owners.set(access, external);
        consent =
          which < 5 ? { kind: "ok", external, access, refresh: random.int(3) > 0 ? word("rt") : null } : which === 5 ? { kind: "narrow", external } : { kind: random.pick(["denied", "transient", "rejected", "client"] as const) };
        const url = new URL(`http://localhost:3000/connect/callback/gmail?code=c&state=${given.state}`);
        const outcome = await vault.links.callback({ connectionName: "gmail", url, person: browserOf(given.person), browser: given.ownBrowser ? BROWSER : "another-browser" });
        return [model.callback(link, given, consent), wordOf(outcome)];
      },
    },
    refuse: {
      weight: 3,
      async act() {
        const link = anyLink();
        if (!link) return null;
        const person = someone(link.person);
        return [model.refuse(link, person), wordOf(await vault.links.refuse({ token: link.token, person: browserOf(person) }))];
      },
    },
    answer: {
      weight: 6,
      async act() {
        const link = anyLink();
        if (!link) return null;
        const action = random.pick(["accept", "accept", "decline", "cancel"] as const);
        await vault.links.answered(link.id as Parameters<typeof vault.links.answered>[0], action);
        model.answered(link, action);
        return ["ok", "ok"];
      },
    },
    put: {
      weight: 8,
      async act() {
        const [person, label] = [random.pick(PEOPLE), random.pick(LABELS)];
        const account = model.find(person, label);
        const kind = random.int(8) === 0 ? random.pick(["transient", "invalid_grant"] as const) : null;
        const external = kind ? null : random.pick(EXTERNALS);
        const grant = { access: word("at"), refresh: random.int(3) > 0 ? word("rt") : null, external, unread: kind };
        owners.set(grant.access, external);
        consent = { kind: "denied" };
        unread = kind && new OAuthFailure(kind, "scripted");
        let id = "";
        const got = await answerOf(async () => {
          const view = await vault.accounts.put(system, {
            connectionName: "gmail",
            identifier: asIdentifier(person),
            label,
            credential: { type: "oauth", access_token: grant.access, ...(grant.refresh === null ? {} : { refresh_token: grant.refresh }), scopes: SCOPES },
          });
          id = view.id;
        });
        unread = null;
        const target = account ?? (got === "ok" ? model.addAccount(id, person, label) : null);
        return [model.put(target, grant), got];
      },
    },
    refresh: {
      weight: 14,
      async act() {
        const account = anyAccount();
        if (!account) return null;
        const kind = random.pick(["ok", "ok", "ok", "ok", "ok", "dead", "client", "transient", "lost"] as const);
        renewal = kind === "ok" ? { kind, access: word("at"), refresh: random.int(2) === 0 ? word("rt") : null } : { kind };
        if (renewal.kind === "ok") owners.set(renewal.access, account.external);
        const before = tokenRequests;
        const got = await answerOf(() => vault.accounts.refresh(system, account.id));
        const expected = model.refresh(account, renewal);
        // The back-off is the database's clock, which no test moves: it is over at once.
        if (kind === "transient" || kind === "lost") await db.prisma.connectedAccount.updateMany({ where: { id: account.id }, data: { retryAt: null } });
        return [`${expected.said}, ${expected.asked ? 1 : 0} token requests`, `${got}, ${tokenRequests - before} token requests`];
      },
    },
    rename: {
      weight: 5,
      async act() {
        const account = anyAccount();
        if (!account) return null;
        const label = random.pick(LABELS);
        const got = await answerOf(() => vault.accounts.rename(system, account.id, label));
        return [model.rename(account, label), got];
      },
    },
    disconnect: {
      weight: 5,
      async act() {
        const account = anyAccount();
        if (!account) return null;
        const byOwner = random.int(2) === 0;
        const purge = random.int(5) === 0;
        const got = await answerOf(() => vault.accounts.disconnect(byOwner ? browserOf(account.person) : system, account.id, { purge }));
        return [model.disconnect(account, byOwner, purge), got];
      },
    },
    time: {
      weight: 4,
      async act() {
        nowMs += random.int(random.int(4) === 0 ? 400_000 : 30_000);
        return ["ok", "ok"];
      },
    },
    sweep: {
      weight: 1,
      async act() {
        await vault.sweep();
        model.sweep();
        await compareAll();
        return ["ok", "ok"];
      },
    },
  };
  const bag = Object.entries(commands).flatMap(([name, { weight }]) => Array.from({ length: weight }, () => name));

  async function compareAll(): Promise<void> {
    const rows = await db.prisma.connectedAccount.findMany();
    assert.deepEqual(rows.map((row) => row.id).sort(), [...model.accounts].map((account) => account.id).sort(), "other accounts");
    const byId = new Map(rows.map((row) => [row.id, row]));
    for (const account of model.accounts) {
      const row = byId.get(account.id);
      assert.ok(row);
      const access = await box.openAccess(row as Parameters<typeof box.openAccess>[0]);
      const refresh = await box.openRefresh(row as Parameters<typeof box.openRefresh>[0]);
      const got = { status: row.status, reason: row.statusReason, label: row.label, external: row.externalId, access: access?.kind === "oauth" ? access.token.reveal() : null, refresh: refresh?.reveal() ?? null };
      const { status, reason, label, external } = account;
      assert.deepEqual(got, { status, reason, label, external, access: account.access, refresh: account.refresh });
    }
    const links = seen.slice(-LINKS_KEPT);
    const stored = new Map((await db.prisma.authorizationLink.findMany({ where: { id: { in: links.map(({ id }) => id) } } })).map((row) => [row.id, row]));
    for (const link of links) {
      const row = stored.get(link.id);
      assert.equal(row !== undefined, model.links.has(link), `link ${link.id}`);
      if (row) assert.deepEqual([row.status, row.settledAt !== null, row.expiresAt.getTime()], [link.status, link.settled, link.expiresAt]);
    }
  }

  try {
    for (; run.commands < options.commands; run.commands += 1) {
      const name = random.pick(bag);
      const answers = await commands[name]?.act();
      if (answers) {
        const [expected, got] = answers;
        assert.equal(got, expected, `${name}, command ${run.commands}`);
        run.counts[name] = (run.counts[name] ?? 0) + 1;
        run.answers[`${name}: ${got}`] = (run.answers[`${name}: ${got}`] ?? 0) + 1;
      }
      if (run.commands % CHECK_ALL_EVERY === 0) {
        await compareAll();
        options.told?.(run.commands);
      }
      // Links that no command can reach any more, and that no guard counts.
      if (seen.length > 4 * LINKS_KEPT) for (const old of seen.splice(0, seen.length - 2 * LINKS_KEPT)) if (old.settled && old.createdAt < clock.now() - TTL_S * 1000) model.links.delete(old);
    }
    await compareAll();
  } finally {
    await vault.close();
  }
  return run;
}
