// How a try ends: the grant is kept and the link completed in one transaction, or the try fails and the account stays as it
// was. Must never happen: a grant that is neither stored nor given back; another upstream identity in an account's place.
import { recordAudit } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import type { ExternalAccount } from "../connectors/connector.js";
import type { Database, Tx } from "../db/client.js";
import type { Principal } from "../identity/principal.js";
import type { Log } from "../log.js";
import { mayTakeIdentity, transition } from "./account.js";
import type { Credential, CredentialBox } from "./credential.js";
import type { LinkFailure, LinkOutcome } from "./front.js";
import type { LinkBook, LinkRow } from "./link.js";
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
  settleFailed(link: LinkRow, failure: LinkFailure, reason: string, actor: Principal, missing?: string[]): Promise<LinkOutcome>;
  /** What a settled link's row says to a reader who comes later. */
  failureFor(link: Pick<LinkRow, "status" | "reason">): LinkFailure;
}

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
    let stored: AccountRow | "wrong_identity" | null = null;
    try {
      stored = await storeGrant(link, actor, grant);
    } catch (cause) {
      log.error("a grant could not be stored", { link_id: link.id, cause });
    }
    if (stored !== null && stored !== "wrong_identity") {
      await deps.settlement.announce(link.id, link.accountId);
      const done = (await book.byId(link.id)) ?? link;
      return { kind: "connected", link: book.view(done), account: accountView(stored), repeated: false };
    }
    const access = grant.credential.access.kind === "oauth" ? grant.credential.access.token : null;
    await deps.revoker.revoke(actor, link.account, { access, refresh: grant.credential.refresh }, grant.external?.id ?? null);
    if (stored === "wrong_identity") return settleFailed(link, "wrong_identity", "wrong_identity", actor);
    return settleFailed(link, "not_stored", "not_stored", actor);
  }

  async function storeGrant(link: LinkRow, actor: Principal, grant: Grant): Promise<AccountRow | "wrong_identity" | null> {
    for (let conflict = 0; conflict < CONFLICTS_AT_MOST; conflict += 1) {
      const account = await db.prisma.connectedAccount.findUnique({ where: { id: link.accountId }, include: { connection: true } });
      if (!account) return null;
      if (!mayTakeIdentity(account, grant.external?.id ?? null)) return "wrong_identity";
      const row = await storeOnce(link, account, actor, await withKeptRefresh(account, grant));
      if (row) return row;
    }
    return null;
  }

  /** Google gives a refresh token only with a fresh consent page; an answer without one must not wipe the stored one of the same person. */
  async function withKeptRefresh(account: AccountRow, grant: Grant): Promise<Grant> {
    const samePerson = account.externalId !== null && account.externalId === grant.external?.id;
    if (grant.credential.refresh || grant.credential.access.kind !== "oauth" || !samePerson || account.status !== "ACTIVE") return grant;
    const refresh = await box.openRefresh(account).catch(() => null);
    return { ...grant, credential: { ...grant.credential, refresh } };
  }

  async function storeOnce(link: LinkRow, account: AccountRow, actor: Principal, grant: Grant): Promise<AccountRow | null> {
    const credential = await box.seal(account, grant.credential, { scopes: grant.scopes, tokenExpiresAt: grant.tokenExpiresAt });
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await db.transaction((tx) => write(tx, link, account, actor, grant, credential));
      } catch (thrown) {
        if (attempt >= STORE_TRIES) throw thrown;
        await clock.sleep(100 * 2 ** attempt);
      }
    }
  }

  async function write(tx: Tx, link: LinkRow, account: AccountRow, actor: Principal, grant: Grant, credential: Awaited<ReturnType<CredentialBox["seal"]>>): Promise<AccountRow | null> {
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
    if (!row) return null;
    await settleRow(tx, link, "completed", null);
    return row;
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
      await tellPending(tx, link, failure, actor);
    });
    await deps.settlement.announce(link.id, link.accountId);
    const now = (await book.byId(link.id)) ?? link;
    const titles = new Map(deps.targets.connectorOf(link.account.connection).scopes.map((scope) => [scope.name, scope.title]));
    return {
      kind: "failed",
      link: book.view(now),
      failure,
      missing: missing.map((name) => ({ name, title: titles.get(name) ?? name })),
      repeated: false,
    };
  }

  /** The reason of a failed try reaches the account only while it is PENDING. */
  async function tellPending(tx: Tx, link: LinkRow, failure: LinkFailure, actor: Principal): Promise<void> {
    const reason = PENDING_REASON[failure];
    if (!reason) return;
    const account = await tx.connectedAccount.findUnique({ where: { id: link.accountId } });
    if (account?.status !== "PENDING" || account.statusReason === reason) return;
    await transition(tx, {
      account,
      act: "try_failed",
      reason,
      audit: { category: "authorization", action: "account.try_failed", actor, linkId: link.id, outcome: failure },
    });
  }

  async function settleRow(tx: Tx, link: LinkRow, status: LinkStatus, reason: string | null): Promise<boolean> {
    const settled = await tx.authorizationLink.updateMany({
      where: { id: link.id, settledAt: null },
      data: { status, reason, settledAt: clock.date(), flowSealed: null, tokenSealed: null },
    });
    return settled.count === 1;
  }

  return {
    keep,
    settleFailed,
    failureFor(link) {
      if (link.status === "denied") return "denied";
      if (link.status === "expired") return "expired";
      const word = link.reason?.split(":")[0];
      return FAILURES.find((failure) => failure === word) ?? "already_used";
    },
  };
}

const PENDING_REASON: Partial<Record<LinkFailure, StatusReason>> = {
  denied: "consent_denied",
  expired: "link_expired",
  scope_missing: "scope_missing",
};

const FAILURES: readonly LinkFailure[] = [
  "scope_missing",
  "wrong_identity",
  "not_stored",
  "provider_error",
  "provider_unavailable",
  "client_rejected",
  "key_refused",
];

/** `failure`, or `failure:detail`: a detail is a code of ours or of a specification, never a provider's text. */
function storedReason(failure: LinkFailure, reason: string): string {
  return reason === failure ? failure : `${failure}:${/^[\w.-]{1,48}$/.test(reason) ? reason : "other"}`;
}
