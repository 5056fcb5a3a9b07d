// Exactly one token request per account and expiry, across processes: an in-process map of runs, then the lease on the row.
// Losers look again and use the winner's token. A run outlives its callers: they leave after 15 s, it ends what it began.
// Must never happen: a caller that waits without end; a refresh that brings a disconnected account back.
import type { Clock } from "../clock.js";
import { OAuthFailure } from "../connectors/methods/oauthFailures.js";
import type { OAuthClient, OAuthTarget, TokenAnswer } from "../connectors/methods/oauth.js";
import { UnreadableError } from "../crypto/seal.js";
import type { Secret } from "../crypto/secret.js";
import type { Database } from "../db/client.js";
import type { Log } from "../log.js";
import { type Act, transition } from "./account.js";
import type { CredentialBox } from "./credential.js";
import { createSettleFailure } from "./refreshFailure.js";
import { createLeases } from "./refreshLease.js";
import { createSave } from "./refreshSave.js";
import type { AccountRow } from "./store.js";
import type { TargetOf } from "./target.js";
import { dueAtMs } from "./tokenLife.js";
import type { StatusReason } from "./types.js";

export { expiryOf } from "./tokenLife.js";

/** Contract 6.1: a hung refresh ends within 15 s for whoever waits. The rest of the call needs some of it. */
const CALLER_WAIT_MS = 14_000;
/** A run that waits for another's lease goes on past its lapse (20 s), so that somebody is there to take it over. */
const LEASE_WAIT_MS = 24_000;
const LOOK_FIRST_MS = 15;
const LOOK_MOST_MS = 150;
/** A stop waits this long for answers that are not stored yet. */
const CLOSE_MS = 65_000;

export type RefreshEnd =
  /** Another generation than the caller came with. */
  | { kind: "fresh"; account: AccountRow }
  /** The status changed: the account is no longer usable. */
  | { kind: "unusable"; account: AccountRow }
  /** Nothing is known to be wrong with the grant. */
  | { kind: "transient"; account: AccountRow; retryAfterS: number };

export interface Refresher {
  isDue(account: AccountRow): boolean;
  /** Refreshes unless somebody already did since `account` was read. `patienceMs`: when to give up waiting, as transient. */
  refresh(account: AccountRow, options?: { patienceMs?: number }): Promise<RefreshEnd>;
  /** For nobody in particular: false when somebody is at it, or nobody may be yet. */
  refreshIfFree(account: AccountRow): Promise<RefreshEnd | false>;
  /** Waits for answers that are not stored yet. */
  close(): Promise<void>;
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

interface Ready {
  account: AccountRow;
  token: Secret;
  target: OAuthTarget;
}

export function createRefresher(deps: RefreshDeps): Refresher {
  const { db, clock, log, oauth, box, reread } = deps;
  const runs = new Map<string, Promise<RefreshEnd>>();
  const unfinished = new Set<Promise<unknown>>();
  const closing = new AbortController();
  const leases = createLeases(deps);
  const save = createSave({ db, clock, log, box, leases, reread, revokeQuietly: deps.revokeQuietly, inBackground: track });
  const settleFailure = createSettleFailure({ db, clock, log, reread });

  return {
    isDue(account) {
      const dueMs = dueAtMs(account);
      return dueMs !== null && clock.now() >= dueMs;
    },

    async refresh(account, { patienceMs = CALLER_WAIT_MS } = {}) {
      const patience = clock.monotonic() + patienceMs;
      for (;;) {
        const end = await within(patience - clock.monotonic(), runs.get(account.id) ?? begin(account));
        if (end === null) return { kind: "transient", account, retryAfterS: 5 };
        // A run that began from an older row ended in what this caller already holds: theirs is another refresh.
        if (end.kind !== "fresh" || end.account.generation !== account.generation) return end;
      }
    },

    async refreshIfFree(account) {
      if (runs.has(account.id)) return false;
      const look = await leases.look(account.id);
      if (!look || look.restMs > 0 || (look.owner !== null && !look.lapsed)) return false;
      return runs.get(account.id) ?? begin(account);
    },

    async close() {
      closing.abort();
      const over = new AbortController();
      const late = clock.sleep(CLOSE_MS, over.signal).then(
        () => log.error("stopped with refreshed tokens that were not stored", { runs: unfinished.size }),
        () => undefined,
      );
      while (unfinished.size > 0 && !over.signal.aborted) {
        const rest = Promise.allSettled([...unfinished]).then(() => "done" as const);
        if ((await Promise.race([rest, late])) !== "done") break;
      }
      over.abort();
    },
  };

  function begin(start: AccountRow): Promise<RefreshEnd> {
    let tell: (end: RefreshEnd) => void = () => undefined;
    const early = new Promise<RefreshEnd>((resolve) => {
      tell = resolve;
    });
    const work = run(start, tell).finally(() => runs.delete(start.id));
    const answer = Promise.race([work, early]);
    // Its callers may all have left.
    answer.catch((cause: unknown) => log.warn("a refresh failed", { account_id: start.id, cause }));
    runs.set(start.id, answer);
    track(work);
    return answer;
  }

  function track(work: Promise<unknown>): void {
    const ended = work.catch(() => undefined).finally(() => unfinished.delete(ended));
    unfinished.add(ended);
  }

  async function run(start: AccountRow, tell: (end: RefreshEnd) => void): Promise<RefreshEnd> {
    const startedMs = clock.monotonic();
    const isFree = leases.watch();
    let pauseMs = LOOK_FIRST_MS;
    for (;;) {
      const look = await leases.look(start.id);
      if (look?.status !== "ACTIVE" || look.generation !== start.generation) return changed(start);
      if (look.restMs > 0) return { kind: "transient", account: start, retryAfterS: Math.ceil(look.restMs / 1000) };
      const { free, deadOwner } = isFree(look);
      if (free) {
        const end = await attempt(start, deadOwner, tell);
        if (end) return end;
      }
      if (closing.signal.aborted || clock.monotonic() - startedMs > LEASE_WAIT_MS) {
        return { kind: "transient", account: start, retryAfterS: Math.max(1, Math.ceil(look.heldMs / 1000)) };
      }
      await clock.sleep(pauseMs * (0.75 + clock.jitter() / 2), closing.signal).catch(() => undefined);
      pauseMs = Math.min(pauseMs * 1.5, LOOK_MOST_MS);
    }
  }

  /** Null: somebody else was faster, or took over. */
  async function attempt(start: AccountRow, deadOwner: string | null, tell: (end: RefreshEnd) => void): Promise<RefreshEnd | null> {
    const ready = await prepare(start);
    if (ready === null || "kind" in ready) return ready;
    const lease = await leases.take(ready.account, deadOwner);
    if (!lease) return null;
    let answer: TokenAnswer;
    try {
      answer = await oauth.refresh(ready.target, ready.token, { maySend: lease.maySend });
    } catch (thrown) {
      return settleFailure(lease, asFailure(thrown, start.id));
    }
    return save(lease, answer, ready.token, tell);
  }

  /** Everything that can be done before the lease: inside it there is the token request alone. */
  async function prepare(start: AccountRow): Promise<Ready | RefreshEnd | null> {
    const account = await reread(start.id);
    if (account?.status !== "ACTIVE" || account.generation !== start.generation) return null;
    let token: Secret | null;
    try {
      token = await box.openRefresh(account);
    } catch (thrown) {
      if (!(thrown instanceof UnreadableError)) throw thrown;
      return ended(account, "unreadable", "unreadable_credential", "token.refused");
    }
    if (!token) return ended(account, "ran_out", "no_refresh_token", "token.ran_out");
    try {
      return { account, token, target: await deps.targetOf(account.connection) };
    } catch (thrown) {
      if (!(thrown instanceof UnreadableError || (thrown instanceof OAuthFailure && thrown.kind === "misconfigured"))) throw thrown;
      // The connection's own secret: nothing that the person could do about, and a PATCH of it tries the account again.
      return ended(account, "client_rejected", "misconfigured", "token.refresh_failed");
    }
  }

  async function ended(account: AccountRow, act: Act, reason: StatusReason, action: string): Promise<RefreshEnd | null> {
    const row = await db.transaction((tx) =>
      transition(tx, { account, act, reason, audit: { category: "token_lifecycle", action, actor: { kind: "system" }, outcome: reason } }),
    );
    return row ? { kind: "unusable", account: row } : null;
  }

  async function changed(start: AccountRow): Promise<RefreshEnd> {
    const account = await reread(start.id);
    if (!account) return { kind: "unusable", account: { ...start, status: "REVOKED", statusReason: null } };
    return account.status === "ACTIVE" ? { kind: "fresh", account } : { kind: "unusable", account };
  }

  function asFailure(thrown: unknown, accountId: string): OAuthFailure {
    if (thrown instanceof OAuthFailure) return thrown;
    log.error("a token request ended in a way that it cannot", { account_id: accountId, cause: thrown });
    return new OAuthFailure("transient", "internal", { maybeConsumed: true });
  }

  /** Null: not in time. */
  async function within(ms: number, outcome: Promise<RefreshEnd>): Promise<RefreshEnd | null> {
    const done = new AbortController();
    const late = clock.sleep(Math.max(0, ms), done.signal).then(
      () => null,
      () => null,
    );
    try {
      return await Promise.race([outcome, late]);
    } finally {
      done.abort();
    }
  }
}
