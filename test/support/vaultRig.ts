// Vaults on one database, as several instances of the program hold them, with the awkward provider's Google behind their
// connection and without HTTP around them.
import assert from "node:assert/strict";
import { createOAuthClient, type OAuthClient } from "../../src/connectors/methods/oauth.js";
import { createRegistry } from "../../src/connectors/registry.js";
import { createSealer } from "../../src/crypto/dataKeys.js";
import { createKeyRing, type KeyRing } from "../../src/crypto/keyring.js";
import { type Secret, secret } from "../../src/crypto/secret.js";
import type { Database } from "../../src/db/client.js";
import { asIdentifier } from "../../src/ids.js";
import type { ApiKeyPrincipal, BrowserPrincipal, Principal } from "../../src/identity/principal.js";
import { createEgress } from "../../src/net/egress.js";
import { MARA, TOMAS } from "../../src/sandbox/people.js";
import type { LinkOutcome } from "../../src/vault/front.js";
import { type BuiltVault, createVault } from "../../src/vault/vault.js";
import { authorizeAs, type PersonAnswers } from "./awkwardPerson.js";
import type { AwkwardProvider } from "./awkwardProvider.js";
import type { Clock } from "../../src/clock.js";
import { silentLog } from "./silentLog.js";

export const PUBLIC_URL = "http://localhost:3000";
export const SYSTEM: Principal = { kind: "system" };
const KEY: ApiKeyPrincipal = { kind: "api_key", keyId: "key_rig", scopes: new Set(["execute"]), returnToOrigins: ["https://app.example"] };
export const GOOGLE_SCOPES = ["openid", "email", "https://www.googleapis.com/auth/userinfo.email", "https://www.googleapis.com/auth/gmail.readonly"];

export interface VaultRig {
  vault: BuiltVault;
  /** One more instance. */
  instance(options?: { db?: Database; ring?: KeyRing; oauth?: (real: OAuthClient) => OAuthClient }): Promise<BuiltVault>;
  /** An account on a new grant. */
  put(identifier: string, options?: { person?: "Mara" | "Tomás"; label?: string; connection?: string }): Promise<Granted>;
  /** To the provider's answer, not yet delivered. */
  began(identifier: string, options?: { verification?: "sign_in" | "app"; by?: BuiltVault; answers?: PersonAnswers }): Promise<{ id: string; accountId: string; finish(): Promise<LinkOutcome> }>;
  close(): Promise<void>;
}

export interface Granted {
  id: string;
  access: string;
  refresh: string;
}

export const masterKey = (name: string): Secret => secret(Buffer.alloc(32, name).toString("base64"));

export async function vaultRig({ db, provider, clock }: { db: Database; provider: AwkwardProvider; clock: Clock }): Promise<VaultRig> {
  const open: BuiltVault[] = [];
  const instance: VaultRig["instance"] = async (options = {}) => {
    const { db: seen = db, ring = await createKeyRing({ current: masterKey("vault rig"), previous: [] }), oauth = (real) => real } = options;
    const egress = createEgress({ allowPrivateNetwork: true, clock });
    const made = createVault({
      db: seen,
      clock,
      log: silentLog,
      sealer: createSealer({ ring, db: seen, clock }),
      egress,
      oauth: oauth(createOAuthClient({ egress, clock })),
      registry: createRegistry(),
      publicUrl: PUBLIC_URL,
      linkTtlS: 600,
      retention: { executionDays: 7, eventDays: 30, auditDays: 400 },
      sandboxOrigin: () => null,
      knowsPerson: async () => true,
      isShutOut: async () => false,
      instance: `rig-${open.length}`,
    });
    open.push(made);
    return made;
  };
  const vault = await instance();
  const { clientId, clientSecret, endpoints } = provider.google;
  await vault.connections.create(SYSTEM, { name: "gmail", connector: "gmail", clientId, clientSecret: clientSecret.reveal(), endpoints: endpoints as Record<string, string> });

  return {
    vault,
    instance,
    async put(identifier, { person = "Mara", label = "", connection = "gmail" } = {}) {
      const { access, refresh } = provider.grants.google.issue({ person: (person === "Mara" ? MARA : TOMAS).sub, kind: "google", scopes: GOOGLE_SCOPES, withRefresh: true });
      assert.ok(refresh);
      const credential = { type: "oauth" as const, access_token: access, refresh_token: refresh, scopes: GOOGLE_SCOPES };
      const account = await vault.accounts.put(SYSTEM, { connectionName: connection, identifier: asIdentifier(identifier), label, credential });
      return { id: account.id, access, refresh };
    },
    async began(identifier, { verification = "sign_in", by = vault, answers = {} } = {}) {
      const made = await by.links.create(KEY, { connectionName: "gmail", identifier: asIdentifier(identifier), label: "", askedBy: "api", clientId: "key", clientName: "App", tool: null, returnTo: "https://app.example/back", verification });
      assert.ok(made !== "asked_too_often");
      const person: BrowserPrincipal | null = verification === "app" ? null : { kind: "browser", sub: asIdentifier(identifier), role: "user" };
      const browser = clock.randomBytes(32).toString("base64url");
      const started = await by.links.start({ token: made.url.split("/").at(-1) ?? "", person, browser });
      assert.ok(started.kind === "redirect", JSON.stringify(started));
      const url = await authorizeAs(started.url, answers);
      return { id: made.id, accountId: made.accountId, finish: () => by.links.callback({ connectionName: "gmail", url, person, browser }) };
    },
    async close() {
      for (const one of open) await one.close();
    },
  };
}

/** A database that can go away for one instance alone, at once or at its next transaction. */
export function leavingDatabase(db: Database): { db: Database; leave(): void; leaveAtTransaction(): void; comeBack(): void } {
  let isAway = false;
  let leavesAtTransaction = false;
  const refuse = (): Promise<never> => Promise.reject(Object.assign(new Error("Connection terminated unexpectedly"), { code: "ECONNREFUSED" }));
  /** Models, and their methods: whatever is called is refused. */
  const guarded = (target: object): object =>
    new Proxy(target, {
      get(from, name) {
        const value: unknown = Reflect.get(from, name, from);
        if (typeof value === "function") return (...given: unknown[]) => (isAway ? refuse() : Reflect.apply(value, from, given));
        return typeof value === "object" && value !== null ? guarded(value) : value;
      },
    });
  return {
    db: {
      ...db,
      prisma: guarded(db.prisma) as Database["prisma"],
      query: (statement, values) => (isAway ? refuse() : db.query(statement, values)),
      notify: (channel, payload) => (isAway ? refuse() : db.notify(channel, payload)),
      transaction: (run) => {
        if (leavesAtTransaction) isAway = true;
        return isAway ? refuse() : db.transaction(run);
      },
    },
    leave() {
      isAway = true;
    },
    leaveAtTransaction() {
      leavesAtTransaction = true;
    },
    comeBack() {
      isAway = false;
      leavesAtTransaction = false;
    },
  };
}
