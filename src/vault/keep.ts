// How a try ends: the grant is kept and the link completed in one transaction, or the try fails and the account stays as it
// was. Must never happen: a grant that is neither stored nor given back; another upstream identity in an account's place.
import { recordAudit } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import type { ExternalAccount } from "../connectors/connector.js";
import type { Database, Tx } from "../db/client.js";
import type { Principal } from "../identity/principal.js";
import type { Log } from "../log.js";
import { mayTakeIdentity, type SealedCredential, transition } from "./account.js";
import { appendAccountEvent } from "./accountEvents.js";
import type { Credential, CredentialBox } from "./credential.js";
import type { Tokens } from "./farewell.js";
import type { LinkFailure, LinkOutcome } from "./front.js";
import { GRANT_GONE, type LinkBook, type LinkRow } from "./link.js";
import type { Revoker } from "./revoke.js";
import type { Settlement } from "./settlement.js";
import { type AccountRow, accountView } from "./store.js";
import type { Targets } from "./target.js";
import type { LinkStatus, StatusReason } from "./types.js";

/** A conflict means that somebody changed the account in between: read again, decide again. */
const CONFLICTS_AT_MOST = 5;
const STORE_TRIES = 4;

export interface Grant {
  credential: Credential;
  scopes: string[];
  tokenExpiresAt: Date | null;
  external: ExternalAccount | null;
}

export interface Keeper {
  keep(link: LinkRow, actor: Principal, grant: Grant): Promise<LinkOutcome>;
  /** The grant to the account and the link completed, in one transaction; what `also` writes belongs to it. Throws when the database does. */
  store(link: LinkRow, actor: Principal, grant: Grant, also?: (tx: Tx) => Promise<void>): Promise<Stored>;
  settleFailed(link: LinkRow, failure: LinkFailure, reason: string, actor: Principal, missing?: string[]): Promise<LinkOutcome>;
  /** The same for a grant that was given back or lost: the person is told also when the database is away. The sweeper then settles the link. */
  settleUnkept(link: LinkRow, failure: LinkFailure, reason: string, actor: Principal, missing?: string[]): Promise<LinkOutcome>;
  /** What a settled link's row says to a reader who comes later. */
  failureFor(link: Pick<LinkRow, "status" | "reason">): LinkFailure;
  /** The link was settled by somebody else meanwhile: what it says now. */
  lost(link: LinkRow): Promise<LinkOutcome>;
}

export type Stored =
  | { kind: "stored"; account: AccountRow }
  | { kind: "wrong_identity" }
  /** Somebody else was first: the person disconnected, the app said no, the sweeper ended it. */
  | { kind: "settled" }
  | { kind: "conflict" };

export interface KeepDeps {
  db: Database;
  clock: Clock;
  log: Log;
  box: CredentialBox;
  book: LinkBook;
  revoker: Revoker;
  settlement: Settlement;
  targets: Targets;
}

export function createKeeper(deps: KeepDeps): Keeper {
  const { db, clock, log, box, book } = deps;

  async function keep(link: LinkRow, actor: Principal, grant: Grant): Promise<LinkOutcome> {
    // Asked while the database answers: a grant that cannot be stored is to be given back also when it does not any more.
    const before = await deps.revoker.look(link.account, grant.external?.id ?? null);
    const end = await store(link, actor, grant).catch((cause: unknown): Stored => {
      log.error("a grant could not be stored", { link_id: link.id, cause });
      return { kind: "conflict" };
    });
    const now = (await book.byId(link.id).catch(() => null)) ?? link;
    // Completed by nobody but this call: its own commit was done, and only the word of it was lost.
    if (end.kind === "stored" || (end.kind === "settled" && now.status === "completed")) {
      await deps.settlement.announce(link.id, link.accountId);
      return { kind: "connected", link: book.view(now), account: accountView(end.kind === "stored" ? end.account : now.account), repeated: false };
    }
    await deps.revoker.revoke(actor, link.account, tokensOf(grant), grant.external?.id ?? null, before);
    if (end.kind === "settled") return lost(link);
    const failure = end.kind === "wrong_identity" ? "wrong_identity" : "not_stored";
    return settleUnkept(link, failure, failure, actor);
  }

  async function store(link: LinkRow, actor: Principal, grant: Grant, also?: (tx: Tx) => Promise<void>): Promise<Stored> {
    for (let conflict = 0; conflict < CONFLICTS_AT_MOST; conflict += 1) {
      const account = await db.prisma.connectedAccount.findUnique({ where: { id: link.accountId }, include: { connection: true } });
      // With the account its links are gone.
      if (!account) return { kind: "settled" };
      if (!mayTakeIdentity(account, grant.external?.id ?? null)) return { kind: "wrong_identity" };
      const kept = await withKeptRefresh(account, grant);
      const credential = await box.seal(account, kept.credential, { scopes: kept.scopes, tokenExpiresAt: kept.tokenExpiresAt });
      const end = await stored(deps, () => writeGrant(link, account, actor, kept, credential, also));
      if (end.kind !== "conflict") return end;
    }
    return { kind: "conflict" };
  }

  /** Google gives a refresh token only with a fresh consent page; an answer without one must not wipe the stored one of the same person. */
  async function withKeptRefresh(account: AccountRow, grant: Grant): Promise<Grant> {
    const samePerson = account.externalId !== null && account.externalId === grant.external?.id;
    if (grant.credential.refresh || grant.credential.access.kind !== "oauth" || !samePerson || account.status !== "ACTIVE") return grant;
    const refresh = await box.openRefresh(account).catch(() => null);
    return { ...grant, credential: { ...grant.credential, refresh } };
  }

  /** The link first, then the account: every act that changes both takes them in this order, so that no two wait for each other. */
  function writeGrant(link: LinkRow, account: AccountRow, actor: Principal, grant: Grant, credential: SealedCredential, also?: (tx: Tx) => Promise<void>): Promise<Stored> {
    const undo = new Error("the account changed in between");
    return db
      .transaction(async (tx): Promise<Stored> => {
        if (!(await settleRow(tx, link, "completed", null))) return { kind: "settled" };
        const row = await transition(tx, {
          account,
          act: "connected",
          reason: null,
          credential,
          also: {
            externalId: grant.external?.id ?? account.externalId,
            externalEmail: grant.external?.email ?? null,
            externalName: grant.external?.name ?? null,
            lastRefreshedAt: clock.date(),
          },
          audit: { category: "authorization", action: "account.connected", actor, linkId: link.id, outcome: "ok", detail: { scopes: grant.scopes } },
        });
        if (!row) throw undo;
        await also?.(tx);
        return { kind: "stored", account: row };
      })
      .catch((thrown: unknown): Stored => {
        if (thrown === undo) return { kind: "conflict" };
        throw thrown;
      });
  }

  async function settleFailed(link: LinkRow, failure: LinkFailure, reason: string, actor: Principal, missing: string[] = []): Promise<LinkOutcome> {
    const status: LinkStatus = failure === "denied" ? "denied" : failure === "expired" ? "expired" : "failed";
    await db.transaction(async (tx) => {
      if (!(await settleRow(tx, link, status, storedReason(failure, reason)))) return;
      await recordAudit(tx, {
        category: "authorization",
        action: "link.failed",
        actor,
        identifier: link.identifier,
        connectionName: link.account.connection.name,
        accountId: link.accountId,
        linkId: link.id,
        outcome: failure,
        reason: reason === failure ? undefined : reason,
      });
      if (!(await tellPending(tx, link, failure, actor)) && link.grantSealed !== null) {
        await appendAccountEvent(tx, { accountId: link.accountId, type: "connected_account.updated", more: { link_id: link.id, link_status: status, link_reason: failure } });
      }
    });
    await deps.settlement.announce(link.id, link.accountId);
    return failedWith((await book.byId(link.id)) ?? link, failure, missing);
  }

  async function settleUnkept(link: LinkRow, failure: LinkFailure, reason: string, actor: Principal, missing: string[] = []): Promise<LinkOutcome> {
    return settleFailed(link, failure, reason, actor, missing).catch((cause: unknown) => {
      log.error("a link could not be settled", { link_id: link.id, cause });
      return failedWith(link, failure, missing);
    });
  }

  function failedWith(link: LinkRow, failure: LinkFailure, missing: string[]): LinkOutcome {
    const titles = new Map(deps.targets.connectorOf(link.account.connection).scopes.map((scope) => [scope.name, scope.title]));
    return { kind: "failed", link: book.view(link), failure, missing: missing.map((name) => ({ name, title: titles.get(name) ?? name })), repeated: false };
  }

  async function lost(link: LinkRow): Promise<LinkOutcome> {
    const now = (await book.byId(link.id)) ?? link;
    return { kind: "failed", link: book.view(now), failure: keeper.failureFor(now), missing: [], repeated: false };
  }

  async function settleRow(tx: Tx, link: LinkRow, status: LinkStatus, reason: string | null): Promise<boolean> {
    const settled = await tx.authorizationLink.updateMany({
      where: { id: link.id, settledAt: null },
      data: { status, reason, settledAt: clock.date(), flowSealed: null, tokenSealed: null, codeHash: null, ...(status === "completed" ? GRANT_GONE : link.grantSealed ? { grantDueAt: clock.date() } : {}) },
    });
    return settled.count === 1;
  }

  const keeper: Keeper = {
    keep,
    store,
    settleFailed,
    settleUnkept,
    lost,
    failureFor(link) {
      if (link.status === "denied") return "denied";
      if (link.status === "expired") return "expired";
      const word = link.reason?.split(":")[0];
      return FAILURES.find((failure) => failure === word) ?? "already_used";
    },
  };
  return keeper;
}

/** A database that stumbles is asked again: what a person granted is not lost to a moment. */
export async function stored<End>({ clock }: { clock: Clock }, write: () => Promise<End>): Promise<End> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await write();
    } catch (thrown) {
      if (attempt >= STORE_TRIES) throw thrown;
      await clock.sleep(100 * 2 ** attempt);
    }
  }
}

/** What can be given back at the provider. */
export function tokensOf({ credential }: Pick<Grant, "credential">): Tokens {
  return { access: credential.access.kind === "oauth" ? credential.access.token : null, refresh: credential.refresh };
}

/** The reason of a failed try reaches the account only while it is PENDING, and no other grant waits for it. False: nothing was told. */
export async function tellPending(tx: Tx, link: LinkRow, failure: LinkFailure, actor: Principal): Promise<boolean> {
  const reason = PENDING_REASON[failure];
  if (!reason) return false;
  const account = await tx.connectedAccount.findUnique({ where: { id: link.accountId } });
  if (account?.status !== "PENDING" || account.statusReason === reason) return false;
  if ((await tx.authorizationLink.count({ where: { accountId: account.id, settledAt: null, grantSealed: { not: null } } })) > 0) return false;
  const row = await transition(tx, {
    account,
    act: "try_failed",
    reason,
    audit: { category: "authorization", action: "account.try_failed", actor, linkId: link.id, outcome: failure },
  });
  return row !== null;
}

const PENDING_REASON: Partial<Record<LinkFailure, StatusReason>> = {
  denied: "consent_denied",
  expired: "link_expired",
  scope_missing: "scope_missing",
  not_verified: "awaiting_user",
};

const FAILURES: readonly LinkFailure[] = [
  "scope_missing",
  "wrong_identity",
  "not_stored",
  "not_verified",
  "disconnected",
  "provider_error",
  "provider_unavailable",
  "client_rejected",
  "key_refused",
];

/** `failure`, or `failure:detail`: a detail is a code of ours or of a specification, never a provider's text. */
function storedReason(failure: LinkFailure, reason: string): string {
  return reason === failure ? failure : `${failure}:${/^[\w.-]{1,48}$/.test(reason) ? reason : "other"}`;
}
