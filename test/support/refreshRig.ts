// The refresh on a real database, without the program around it: several instances side by side, clocks that run fast or
// wrong, and a provider in memory that rotates, ends a family on reuse, and does what a test scripts.
import type { Clock } from "../../src/clock.js";
import { systemClock } from "../../src/clock.js";
import { OAuthFailure } from "../../src/connectors/methods/oauthFailures.js";
import type { OAuthClient, OAuthTarget, TokenAnswer } from "../../src/connectors/methods/oauth.js";
import { type Sealer, UnreadableError } from "../../src/crypto/seal.js";
import { Secret } from "../../src/crypto/secret.js";
import type { Database } from "../../src/db/client.js";
import type { CredentialBox } from "../../src/vault/credential.js";
import { createRefresher, type Refresher } from "../../src/vault/refresh.js";
import { createRevoker } from "../../src/vault/revoke.js";
import type { AccountRow } from "../../src/vault/store.js";
import { silentLog } from "./silentLog.js";

export interface FastClock extends Clock {
  /** Sets the wall clock ahead. */
  forward(ms: number): void;
  /** Sets the durations ahead, as a process finds that was frozen. */
  freeze(ms: number): void;
}

/** Waits pass `speed` times faster than they say; the wall clock is off by `skewMs`. The database keeps its own time. */
export function fastClock({ speed = 4, skewMs = 0 }: { speed?: number; skewMs?: number } = {}): FastClock {
  let offMs = skewMs;
  let frozenMs = 0;
  return {
    ...systemClock,
    now: () => systemClock.now() + offMs,
    date: () => new Date(systemClock.now() + offMs),
    monotonic: () => systemClock.monotonic() * speed + frozenMs,
    sleep: (ms, signal) => systemClock.sleep(ms / speed, signal),
    forward(ms) {
      offMs += ms;
    },
    freeze(ms) {
      frozenMs += ms;
    },
  };
}

/** What happens to one token request: before it leaves, at the provider, and to its answer. */
export interface Script {
  beforeSend?: () => Promise<void> | void;
  atProvider?: () => Promise<void> | void;
  /** Gives or throws something else than the provider would. The request has done its work. */
  instead?: (answer: TokenAnswer | OAuthFailure) => Promise<TokenAnswer> | TokenAnswer;
  /** The same, without the request having done anything. */
  fail?: OAuthFailure;
}

export interface MemoryProvider {
  oauth: Pick<OAuthClient, "refresh" | "revoke">;
  issue(): { access: Secret; refresh: Secret };
  /** For the next requests, in order. */
  script(...steps: Script[]): void;
  /** Refresh tokens that arrived. */
  sent: string[];
  revoked: string[];
  reuses: number;
  rotates: boolean;
  expiresInS: number | null;
}

export function memoryProvider(): MemoryProvider {
  const families = new Map<string, { live: boolean; current: string }>();
  const scripts: Script[] = [];
  let made = 0;
  const provider: MemoryProvider = {
    sent: [],
    revoked: [],
    reuses: 0,
    rotates: true,
    expiresInS: 3600,
    script: (...steps) => void scripts.push(...steps),
    issue() {
      made += 1;
      const refresh = `rt-${made}.1`;
      families.set(`rt-${made}`, { live: true, current: refresh });
      return { access: new Secret(`at-${made}.1`), refresh: new Secret(refresh) };
    },
    oauth: {
      async refresh(_target, token, options) {
        const step = scripts.shift() ?? {};
        await step.beforeSend?.();
        if (options?.maySend?.() === false) throw new OAuthFailure("transient", "too_late");
        provider.sent.push(token.reveal());
        await step.atProvider?.();
        if (step.fail) throw step.fail;
        const answer = serve(token.reveal());
        if (step.instead) return step.instead(answer);
        if (answer instanceof OAuthFailure) throw answer;
        return answer;
      },
      async revoke(_target, tokens) {
        provider.revoked.push(tokens.refresh?.reveal() ?? tokens.access?.reveal() ?? "");
        return "done";
      },
    },
  };

  function serve(token: string): TokenAnswer | OAuthFailure {
    const name = token.split(".")[0] ?? "";
    const family = families.get(name);
    if (!family?.live) return new OAuthFailure("invalid_grant", "invalid_grant");
    if (family.current !== token) {
      provider.reuses += 1;
      family.live = false;
      return new OAuthFailure("invalid_grant", "invalid_grant");
    }
    const next = Number(token.split(".")[1]) + 1;
    if (provider.rotates) family.current = `${name}.${next}`;
    return answerOf(`at${name.slice(2)}.${next}`, provider.rotates ? family.current : null, provider.expiresInS);
  }
  return provider;
}

export function answerOf(access: string, refresh: string | null, expiresInS: number | null = 3600): TokenAnswer {
  return { access: new Secret(access), refresh: refresh === null ? null : new Secret(refresh), expiresInS, scopes: null, tokenType: "bearer", subject: null };
}

/** Not sealed: what is looked at here is what is kept, not how. */
export function plainBox(): CredentialBox & { trouble: (() => void) | null } {
  const bytes = (text: string): Uint8Array<ArrayBuffer> => new Uint8Array(Buffer.from(text));
  const box: CredentialBox & { trouble: (() => void) | null } = {
    trouble: null,
    async seal(_account, { access, refresh }, facts) {
      box.trouble?.();
      return { accessSealed: bytes(access.kind === "oauth" ? access.token.reveal() : ""), refreshSealed: refresh && bytes(refresh.reveal()), ...facts };
    },
    openAccess: async (account) => (account.accessSealed ? { kind: "oauth", token: opened(account.accessSealed) } : null),
    openRefresh: async (account) => (account.refreshSealed ? opened(account.refreshSealed) : null),
  };
  return box;
}

export const UNREADABLE = "unreadable";

function opened(sealed: Uint8Array): Secret {
  const text = Buffer.from(sealed).toString();
  if (text === UNREADABLE) throw new UnreadableError();
  return new Secret(text);
}

export interface Rig {
  db: Database;
  provider: MemoryProvider;
  box: ReturnType<typeof plainBox>;
  /** A new ACTIVE account on a grant of the provider, its token about to run out. */
  account(more?: Partial<Pick<AccountRow, "tokenExpiresAt" | "lastRefreshedAt" | "lastUsedAt" | "externalId" | "connectionId">>): Promise<AccountRow>;
  /** One more instance. `db`: what it sees of the database. */
  instance(options?: { clock?: Clock; db?: Database; targetOf?: () => Promise<OAuthTarget> }): Refresher;
  row(id: string): Promise<AccountRow>;
  tokens(id: string): Promise<{ access: string | null; refresh: string | null }>;
  /** Types of the account's events, in order, with the status they tell. */
  events(id: string): Promise<string[]>;
  /** A lease whose owner is gone, taken `heldS` from now; negative: it has lapsed. */
  leaveLease(id: string, heldS: number): Promise<void>;
}

const TARGET = { connector: { method: { kind: "oauth", revoke: { style: "rfc7009" } } } } as unknown as OAuthTarget;
const PLAIN_SEALER: Sealer = {
  seal: async (_scope, _place, text) => new Uint8Array(Buffer.from(text)),
  open: async (_scope, _place, blob) => new Secret(Buffer.from(blob).toString()),
  prepare: async () => undefined,
  forget: () => undefined,
};
let made = 0;

export async function refreshRig(db: Database): Promise<Rig> {
  const provider = memoryProvider();
  const box = plainBox();
  const connection = await db.prisma.connection.create({ data: { id: `conn_rig_${++made}`, name: `rig${made}`, connector: "generic-oauth", title: "Rig" } });
  const reread = (id: string) => db.prisma.connectedAccount.findUnique({ where: { id }, include: { connection: true } });
  const row = async (id: string): Promise<AccountRow> => {
    const found = await reread(id);
    if (!found) throw new Error("the account is gone");
    return found;
  };

  return {
    db,
    provider,
    box,
    async account(more = {}) {
      const { access, refresh } = provider.issue();
      const id = `ca_rig_${++made}`;
      await db.prisma.connectedAccount.create({
        data: {
          id,
          connectionId: connection.id,
          identifier: id,
          status: "ACTIVE",
          generation: 1,
          accessSealed: new Uint8Array(Buffer.from(access.reveal())),
          refreshSealed: new Uint8Array(Buffer.from(refresh.reveal())),
          tokenExpiresAt: new Date(Date.now() + 1_000),
          lastRefreshedAt: new Date(Date.now() - 3_600_000),
          ...more,
        },
      });
      return row(id);
    },
    instance({ clock = fastClock(), db: seen = db, targetOf = async () => TARGET } = {}) {
      const oauth = provider.oauth as OAuthClient;
      const revoker = createRevoker({ db, clock, log: silentLog, sealer: PLAIN_SEALER, oauth, targets: { connectorOf: () => TARGET.connector, targetOf: async () => TARGET } });
      return createRefresher({
        db: seen,
        clock,
        log: silentLog,
        oauth,
        box,
        targetOf,
        reread: (id) => seen.prisma.connectedAccount.findUnique({ where: { id }, include: { connection: true } }),
        revokeQuietly: async (account, answer) => void (await revoker.revoke({ kind: "system" }, account, answer, account.externalId)),
        instance: `instance-${++made}`,
      });
    },
    row,
    async tokens(id) {
      const { accessSealed, refreshSealed } = await row(id);
      const text = (bytes: Uint8Array | null) => (bytes === null ? null : Buffer.from(bytes).toString());
      return { access: text(accessSealed), refresh: text(refreshSealed) };
    },
    async events(id) {
      const rows = await db.prisma.event.findMany({ where: { accountId: id }, orderBy: { accountSequence: "asc" } });
      return rows.map(({ type, data }) => {
        const { status, status_reason } = data as { status?: string; status_reason?: string | null };
        const short = type.replace("connected_account.", "");
        return short === "status_updated" ? `${short} ${status}/${status_reason}` : short;
      });
    },
    async leaveLease(id, heldS) {
      await db.prisma.$executeRaw`update connected_account set lease_owner = 'somebody who died', lease_until = now() + make_interval(secs => ${heldS}::float8) where id = ${id}`;
    },
  };
}

/** Something that a test lets happen when it wants. */
export function gate(): { reached: Promise<void>; open: () => void; pass: () => Promise<void> } {
  let reach = (): void => undefined;
  let open = (): void => undefined;
  const reached = new Promise<void>((resolve) => {
    reach = resolve;
  });
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return {
    reached,
    open: () => open(),
    pass: async () => {
      reach();
      await opened;
    },
  };
}
