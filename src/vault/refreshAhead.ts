// Renews tokens before somebody has to wait for it: those about to run out on accounts used in the last week. Every instance
// runs it; the lease decides who does the work. Must never happen: a pass without an end; one provider's trouble that keeps
// the tokens of the others from being renewed.
import type { Clock } from "../clock.js";
import type { Database } from "../db/client.js";
import type { Log } from "../log.js";
import type { Refresher } from "./refresh.js";
import type { AccountRow } from "./store.js";
import { SKEW_MOST_MS } from "./tokenLife.js";

const AHEAD_S = 300;
const USED_WITHIN_S = 7 * 24 * 3600;
const BATCH = 500;
const SIDE_BY_SIDE = 4;
/** Less than the minute between two passes; what is left is picked again. */
const PASS_MS = 45_000;

export interface RefreshAheadDeps {
  db: Database;
  clock: Clock;
  log: Log;
  refresher: Refresher;
  reread(id: string): Promise<AccountRow | null>;
}

/** One pass. `stopping`: nothing new is begun. */
export function createRefreshAhead(deps: RefreshAheadDeps): (stopping: AbortSignal) => Promise<void> {
  const { db, clock, log, refresher } = deps;

  return async function refreshAhead(stopping) {
    const startedMs = clock.monotonic();
    const due = await db.query<Candidate>(PICK_DUE, [clock.date(), AHEAD_S, USED_WITHIN_S, BATCH]);
    const over = await db.query<Candidate>(PICK_OVER, [new Date(clock.now() - SKEW_MOST_MS), BATCH]);
    const rest = [...over, ...shuffled(due, clock)];
    const inTrouble = new Set<string>();
    const worker = async (): Promise<void> => {
      for (let next = rest.pop(); next; next = rest.pop()) {
        if (stopping.aborted || clock.monotonic() - startedMs > PASS_MS) return;
        if (!inTrouble.has(next.connection_id)) await one(next, inTrouble);
      }
    };
    await Promise.all(Array.from({ length: SIDE_BY_SIDE }, worker));
  };

  async function one({ id, connection_id, generation }: Candidate, inTrouble: Set<string>): Promise<void> {
    try {
      const account = await deps.reread(id);
      // Another instance may have been here since the pick.
      if (account?.status !== "ACTIVE" || account.generation !== generation) return;
      const end = await refresher.refreshIfFree(account);
      if (end && end.kind === "transient") inTrouble.add(connection_id);
    } catch (cause) {
      inTrouble.add(connection_id);
      log.warn("a token could not be renewed ahead of time", { account_id: id, cause });
    }
  }
}

interface Candidate {
  id: string;
  connection_id: string;
  generation: number;
}

/** Two instances that pick the same accounts begin at different ones. */
function shuffled(candidates: Candidate[], clock: Clock): Candidate[] {
  return candidates.map((one) => ({ one, at: clock.jitter() })).sort((a, b) => a.at - b.at).map(({ one }) => one);
}

/**
 * Ahead by five minutes, a fifth more or less by account and expiry, so that tokens dealt out together do not come back
 * together; by a quarter of the lifetime where that is shorter. Tokens that are over already wait for their next call.
 */
const PICK_DUE = {
  name: "refresh_ahead_due",
  text: `select a.id, a.connection_id, a.generation from connected_account a join connection c on c.id = a.connection_id
         where a.status = 'ACTIVE' and a.refresh_sealed is not null and c.enabled
           and a.last_used_at > $1::timestamptz - make_interval(secs => $3)
           and a.token_expires_at > $1::timestamptz
           and a.token_expires_at <= $1::timestamptz + least(
             make_interval(secs => $2 * (0.8 + 0.4 * (abs(hashtext(a.id || a.token_expires_at::text)) % 1000) / 1000.0)),
             (a.token_expires_at - coalesce(a.last_refreshed_at, a.created_at)) / 4)
           and (a.retry_at is null or a.retry_at <= now()) and (a.lease_owner is null or a.lease_until < now())
         order by a.token_expires_at limit $4`,
};

/** Run out for sure, and not to be renewed: the status says so without waiting for a call. */
const PICK_OVER = {
  name: "refresh_ahead_over",
  text: `select id, connection_id, generation from connected_account
         where status = 'ACTIVE' and refresh_sealed is null and token_expires_at < $1::timestamptz limit $2`,
};
