// What a failed token request does to the account: a grant or a client that is refused ends it, everything else is counted
// and backed off from. Must never happen: a transient trouble that changes the status; a provider asked again at once; a
// refusal after a lost answer told as if it were certain.
import { recordAudit } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import type { OAuthFailure } from "../connectors/methods/oauthFailures.js";
import type { Database } from "../db/client.js";
import type { Log } from "../log.js";
import { transition } from "./account.js";
import { appendAccountEvent } from "./accountEvents.js";
import type { RefreshEnd } from "./refresh.js";
import { ANSWER_LOST, type Lease } from "./refreshLease.js";
import type { AccountRow } from "./store.js";
import type { StatusReason } from "./types.js";

const BACKOFF_FIRST_MS = 1_000;
const BACKOFF_MOST_MS = 60_000;
/** A Retry-After that asks for more is honoured so far: one odd header must not put an account away for a day. */
const RETRY_AFTER_MOST_S = 3_600;
const WRITE_TRIES = 4;
const INVALID_REQUEST = "invalid_request";

/** Null: the lease is somebody else's now, and so is the outcome. */
export type SettleFailure = (lease: Lease, failure: OAuthFailure) => Promise<RefreshEnd | null>;

export function createSettleFailure(deps: { db: Database; clock: Clock; log: Log; reread(id: string): Promise<AccountRow | null> }): SettleFailure {
  const { db, clock, log } = deps;

  return async function settleFailure(lease, failure) {
    const past = troublesOf(lease.account);
    switch (failure.kind) {
      case "invalid_grant":
        return end(lease, "refresh_rejected", past.answerLost ? "refresh_outcome_unknown" : "refresh_rejected", failure);
      case "client_rejected":
      case "misconfigured":
        return end(lease, "client_rejected", failure.kind, failure);
      default:
        if (failure.reason === INVALID_REQUEST && past.last === INVALID_REQUEST) return twiceInvalid(lease, past.answerLost, failure);
        return transient(lease, past.answerLost || failure.maybeConsumed, failure);
    }
  };

  /**
   * RFC 6749 section 5.2 says invalid_request of a request that is wrong in itself, which an operator must mend; some servers
   * say it of a dead refresh token. Twice in a row is an end either way. ERROR keeps the grant, so that the wrong guess costs
   * nothing: mended, it is tried again; dead, the person connects anew. After a lost answer the token is the likelier one.
   */
  function twiceInvalid(lease: Lease, answerLost: boolean, failure: OAuthFailure): Promise<RefreshEnd | null> {
    return answerLost ? end(lease, "refresh_rejected", "refresh_outcome_unknown", failure) : end(lease, "client_rejected", "misconfigured", failure);
  }

  async function end(lease: Lease, act: "refresh_rejected" | "client_rejected", reason: StatusReason, failure: OAuthFailure): Promise<RefreshEnd | null> {
    const { account } = lease;
    const row = await tried(() =>
      db.transaction((tx) =>
        transition(tx, {
          account,
          act,
          reason,
          leaseOwner: lease.owner,
          // Mended by the operator, the account starts without a count; that an answer was lost stays known.
          also: { leaseOwner: null, leaseUntil: null, failureCount: 0, retryAt: null, failureReason: troublesOf(account).answerLost ? ANSWER_LOST : null },
          audit: { category: "token_lifecycle", action: "token.refresh_failed", actor: { kind: "system" }, outcome: reason, reason: failure.reason },
        }),
      ),
    );
    if (row) return { kind: "unusable", account: row };
    const now = await deps.reread(account.id);
    if (now?.status === "ACTIVE") return now.generation === account.generation ? null : { kind: "fresh", account: now };
    return { kind: "unusable", account: now ?? { ...account, status: "REVOKED", statusReason: null } };
  }

  async function transient(lease: Lease, answerLost: boolean, failure: OAuthFailure): Promise<RefreshEnd> {
    const { account, owner } = lease;
    const backoffMs = Math.min(BACKOFF_FIRST_MS * 2 ** Math.min(account.failureCount, 6), BACKOFF_MOST_MS);
    const toldMs = Math.min(failure.retryAfterS ?? 0, RETRY_AFTER_MOST_S) * 1000;
    const restMs = Math.max(backoffMs * (0.8 + clock.jitter() / 5), toldMs);
    const reason = answerLost ? `${ANSWER_LOST} ${failure.reason}` : failure.reason;
    const told = { kind: "transient", account, retryAfterS: Math.max(1, Math.ceil(restMs / 1000)) } as const;
    try {
      await db.transaction(async (tx) => {
        // By the database's clock: an instance whose own is ahead must not put the account away for the others.
        const counted = await tx.$executeRaw`
          update connected_account
          set lease_owner = null, lease_until = null, failure_count = failure_count + 1, failure_reason = ${reason},
              retry_at = now() + make_interval(secs => ${restMs / 1000}::float8)
          where id = ${account.id} and generation = ${account.generation} and lease_owner = ${owner}`;
        if (counted !== 1) return;
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
        await appendAccountEvent(tx, { accountId: account.id, type: "connected_account.token_refresh_failed", more: { failure: failure.reason } });
      });
    } catch (cause) {
      // The lease lapses by itself, and whoever takes it over reckons with a lost answer.
      log.warn("a failed refresh could not be counted", { account_id: account.id, cause });
    }
    return told;
  }

  /** A refusal is certain only while we hold it: forgotten, the next try would call it unknown. */
  async function tried<T>(write: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await write();
      } catch (thrown) {
        if (attempt >= WRITE_TRIES) throw thrown;
        await clock.sleep(50 * 2 ** attempt);
      }
    }
  }
}

/** `failure_reason` is the last reason, behind `answer_lost` where an answer may have been lost since the last success. */
function troublesOf(account: AccountRow): { answerLost: boolean; last: string | null } {
  const [first, second] = (account.failureReason ?? "").split(" ");
  return first === ANSWER_LOST ? { answerLost: true, last: second ?? null } : { answerLost: false, last: first || null };
}
