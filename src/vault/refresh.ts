// Exactly one token request per account and expiry, across processes: an in-process map of promises, then a lease column
// with compare-and-swap on the database clock; no transaction is open during HTTP (a row lock around the call made other
// reads wait up to 3,062 ms, the lease 77 ms). Losers re-read and use the winner's token.
// Must never happen: a rotated token that is not stored; a transient trouble that changes the status.
import { recordAudit } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import { OAuthFailure } from "../connectors/methods/oauthFailures.js";
import type { OAuthClient, TokenAnswer } from "../connectors/methods/oauth.js";
import type { Database } from "../db/client.js";
import type { Log } from "../log.js";
import { transition } from "./account.js";
import { appendAccountEvent } from "./accountEvents.js";
import type { CredentialBox } from "./credential.js";
import type { AccountRow } from "./store.js";
import type { TargetOf } from "./target.js";
import type { StatusReason } from "./types.js";

/** Longer than the token request's own deadline (10 s), so that a live winner never loses its lease. */
const LEASE_S = 20;
const LOSER_WAIT_MS = 15_000;
/** Refreshed this long before the end, or a tenth of the lifetime if that is shorter. */
const AHEAD_MS = 60_000;
const BACKOFF_FIRST_MS = 1_000;
const BACKOFF_MOST_MS = 60_000;
const STORE_TRIES = 5;

export type RefreshEnd =
  | { kind: "fresh"; account: AccountRow }
  /** The status changed: the account is no longer usable. */
  | { kind: "unusable"; account: AccountRow }
  /** Nothing is known to be wrong with the grant. */
  | { kind: "transient"; account: AccountRow; retryAfterS: number };

export interface Refresher {
  isDue(account: AccountRow): boolean;
  /** Refreshes unless somebody already did since `account` was read. */
  refresh(account: AccountRow): Promise<RefreshEnd>;
}

export interface RefreshDeps {
  db: Database;
  clock: Clock;
  log: Log;
  oauth: OAuthClient;
  box: CredentialBox;
  targetOf: TargetOf;
  /** Reads the row again, with its connection. Null: it is gone. */
  reread(id: string): Promise<AccountRow | null>;
  revokeQuietly(account: AccountRow, answer: TokenAnswer): Promise<void>;
  instance: string;
}

export function createRefresher(deps: RefreshDeps): Refresher {
  const { db, clock, log, oauth, box } = deps;
  const running = new Map<string, Promise<RefreshEnd>>();

  return {
    isDue(account) {
      if (account.tokenExpiresAt === null) return false;
      const end = account.tokenExpiresAt.getTime();
      const start = (account.lastRefreshedAt ?? account.createdAt).getTime();
      const ahead = Math.min(AHEAD_MS, Math.max(0, (end - start) / 10));
      return clock.now() >= end - ahead;
    },
    refresh(account) {
      const known = running.get(account.id);
      if (known) return known;
      const run = refreshOnce(account).finally(() => running.delete(account.id));
      running.set(account.id, run);
      return run;
    },
  };

  async function refreshOnce(start: AccountRow): Promise<RefreshEnd> {
    const waited = clock.monotonic();
    let pauseMs = 15;
    for (;;) {
      const account = await deps.reread(start.id);
      if (!account) return { kind: "unusable", account: { ...start, status: "REVOKED", statusReason: null } };
      if (account.status !== "ACTIVE") return { kind: "unusable", account };
      if (account.generation !== start.generation) return { kind: "fresh", account };
      if (!account.refreshSealed) return ranOut(account);
      const restMs = account.retryAt ? account.retryAt.getTime() - clock.now() : 0;
      if (restMs > 0) return { kind: "transient", account, retryAfterS: Math.ceil(restMs / 1000) };

      const owner = `${deps.instance}:${clock.randomBytes(9).toString("base64url")}`;
      if (await takeLease(account, owner)) return askProvider(account, owner);
      if (clock.monotonic() - waited > LOSER_WAIT_MS) return { kind: "transient", account, retryAfterS: 5 };
      await clock.sleep(pauseMs * (0.75 + clock.jitter() / 2));
      pauseMs = Math.min(pauseMs * 1.5, 150);
    }
  }

  async function takeLease(account: AccountRow, owner: string): Promise<boolean> {
    const taken = await db.query<{ id: string }>(TAKE_LEASE, [account.id, account.generation, owner, LEASE_S]);
    return taken.length === 1;
  }

  async function askProvider(account: AccountRow, owner: string): Promise<RefreshEnd> {
    let answer: TokenAnswer;
    try {
      const token = await box.openRefresh(account);
      if (!token) return await ranOut(account);
      answer = await oauth.refresh(await deps.targetOf(account.connection), token);
    } catch (thrown) {
      if (thrown instanceof OAuthFailure) return failed(account, owner, thrown);
      await freeLease(account, owner);
      throw thrown;
    }
    return store(account, owner, answer);
  }

  /** The new token is stored before anything else happens with the answer; a missing refresh token keeps the old one. */
  async function store(account: AccountRow, owner: string, answer: TokenAnswer): Promise<RefreshEnd> {
    const refresh = answer.refresh ?? (await box.openRefresh(account));
    const credential = await box.seal(
      account,
      { access: { kind: "oauth", token: answer.access }, refresh },
      { scopes: answer.scopes ?? account.scopes, tokenExpiresAt: expiryOf(clock, answer.expiresInS) },
    );
    for (let attempt = 1; ; attempt += 1) {
      try {
        const row = await db.transaction((tx) =>
          transition(tx, {
            account,
            act: "refreshed",
            reason: null,
            credential,
            also: { lastRefreshedAt: clock.date() },
            leaseOwner: owner,
            audit: { category: "token_lifecycle", action: "token.refreshed", actor: { kind: "system" }, outcome: "ok" },
          }),
        );
        if (row) return { kind: "fresh", account: row };
        return await lostTheRow(account, answer);
      } catch (thrown) {
        if (attempt >= STORE_TRIES) {
          log.error("a refreshed token could not be stored", { account_id: account.id, cause: thrown });
          throw thrown;
        }
        await clock.sleep(50 * 2 ** attempt);
      }
    }
  }

  /** Somebody disconnected or reconnected in between: theirs wins, and what we just got is given back. */
  async function lostTheRow(account: AccountRow, answer: TokenAnswer): Promise<RefreshEnd> {
    const now = await deps.reread(account.id);
    if (now?.status === "ACTIVE" && now.generation !== account.generation) return { kind: "fresh", account: now };
    await deps.revokeQuietly(account, answer);
    return { kind: "unusable", account: now ?? { ...account, status: "REVOKED" } };
  }

  async function failed(account: AccountRow, owner: string, failure: OAuthFailure): Promise<RefreshEnd> {
    switch (failure.kind) {
      case "invalid_grant":
        return settle(account, owner, "refresh_rejected", account.failureReason === ANSWER_LOST ? "refresh_outcome_unknown" : "refresh_rejected", failure);
      case "client_rejected":
      case "misconfigured":
        return settle(account, owner, "client_rejected", failure.kind, failure);
      default:
        return transient(account, owner, failure);
    }
  }

  async function settle(account: AccountRow, owner: string, act: "refresh_rejected" | "client_rejected", reason: StatusReason, failure: OAuthFailure): Promise<RefreshEnd> {
    const row = await db.transaction((tx) =>
      transition(tx, {
        account,
        act,
        reason,
        leaseOwner: owner,
        also: { leaseOwner: null, leaseUntil: null },
        audit: { category: "token_lifecycle", action: "token.refresh_failed", actor: { kind: "system" }, outcome: reason, reason: failure.reason },
      }),
    );
    if (row) return { kind: "unusable", account: row };
    const now = await deps.reread(account.id);
    if (now?.status === "ACTIVE" && now.generation !== account.generation) return { kind: "fresh", account: now };
    return { kind: "unusable", account: now ?? { ...account, status: "REVOKED" } };
  }

  async function transient(account: AccountRow, owner: string, failure: OAuthFailure): Promise<RefreshEnd> {
    const backoffMs = Math.min(BACKOFF_FIRST_MS * 2 ** Math.min(account.failureCount, 6), BACKOFF_MOST_MS);
    const restMs = Math.max(backoffMs, (failure.retryAfterS ?? 0) * 1000);
    const row = await db.transaction(async (tx) => {
      const counted = await tx.connectedAccount.updateMany({
        where: { id: account.id, generation: account.generation, leaseOwner: owner },
        data: {
          leaseOwner: null,
          leaseUntil: null,
          failureCount: { increment: 1 },
          failureReason: failure.maybeConsumed ? ANSWER_LOST : failure.reason,
          retryAt: new Date(clock.now() + restMs),
        },
      });
      if (counted.count !== 1) return null;
      await recordAudit(tx, {
        category: "token_lifecycle",
        action: "token.refresh_failed",
        actor: { kind: "system" },
        accountId: account.id,
        identifier: account.identifier,
        connectionName: account.connection.name,
        outcome: "transient",
        reason: failure.reason,
      });
      return appendAccountEvent(tx, { accountId: account.id, type: "connected_account.token_refresh_failed", more: { failure: failure.reason } });
    });
    const retryAfterS = Math.max(1, Math.ceil(restMs / 1000));
    return { kind: "transient", account: row ?? account, retryAfterS };
  }

  async function ranOut(account: AccountRow): Promise<RefreshEnd> {
    const row = await db.transaction((tx) =>
      transition(tx, {
        account,
        act: "ran_out",
        reason: "no_refresh_token",
        audit: { category: "token_lifecycle", action: "token.ran_out", actor: { kind: "system" }, outcome: "no_refresh_token" },
      }),
    );
    return { kind: "unusable", account: row ?? (await deps.reread(account.id)) ?? account };
  }

  async function freeLease(account: AccountRow, owner: string): Promise<void> {
    await db.prisma.connectedAccount.updateMany({ where: { id: account.id, leaseOwner: owner }, data: { leaseOwner: null, leaseUntil: null } });
  }
}

/** The answer may have been lost on its way: the old refresh token may be spent. */
const ANSWER_LOST = "answer_lost";

const TAKE_LEASE = {
  name: "take_lease",
  text: `update connected_account set lease_owner = $3, lease_until = now() + make_interval(secs => $4)
         where id = $1 and generation = $2 and status = 'ACTIVE' and (lease_until is null or lease_until < now()) returning id`,
};

/** Providers say how long, not until when: counted from our clock at the answer. Odd values mean "not known". */
export function expiryOf(clock: Clock, expiresInS: number | null): Date | null {
  if (expiresInS === null || !Number.isFinite(expiresInS) || expiresInS < 0) return null;
  const mostS = 10 * 365 * 24 * 3600;
  return new Date(clock.now() + Math.min(expiresInS, mostS) * 1000);
}
