// The lease on an account's refresh: compare-and-swap on one row, by the database's clock, fenced by generation and owner.
// No transaction is open while it is held (a row lock around the call made other reads wait up to 3,062 ms, the lease 77 ms).
// Must never happen: a lease taken from an owner that lives; a takeover that forgets that an answer may be lost.
import type { Clock } from "../clock.js";
import type { Database } from "../db/client.js";
import type { AccountRow } from "./store.js";

/** Longer than the token request's own deadline (10 s) with room before it, so that a live owner never loses its lease. */
const LEASE_S = 20;
/** A request that would leave later than this could still be at the provider when the lease ends: it is not sent. */
const SEND_WITHIN_MS = 8_000;
/** A lapsed lease is left alone this long after it was seen: an owner that lives through an outage of the database comes first. */
const RIPE_MS = 2_000;

/** `failure_reason` begins with this word from the lost answer on until a refresh succeeds: the stored refresh token may be spent. */
export const ANSWER_LOST = "answer_lost";

export interface Lease {
  owner: string;
  /** With the troubles as they were when the lease was taken. */
  account: AccountRow;
  /** Whether a request may still leave: see SEND_WITHIN_MS. A process that was frozen finds that it may not. */
  maySend(): boolean;
}

export interface Look {
  generation: number;
  status: string;
  owner: string | null;
  lapsed: boolean;
  /** How long nobody may ask the provider again, by the database's clock; 0: now. */
  restMs: number;
  /** How long the lease is still held. */
  heldMs: number;
}

export interface Leases {
  /** Null: the row is gone. */
  look(id: string): Promise<Look | null>;
  /** `deadOwner`: whose lapsed lease is taken over. Null: somebody else was faster, or the account changed. */
  take(account: AccountRow, deadOwner: string | null): Promise<Lease | null>;
  /** False: it is somebody else's now. */
  extend(lease: Lease): Promise<boolean>;
  /** Says of each look at an account whether its lease is free to be taken. One per waiter. */
  watch(): (look: Look) => { free: boolean; deadOwner: string | null };
}

export function createLeases(deps: { db: Database; clock: Clock; instance: string }): Leases {
  const { db, clock } = deps;
  return {
    async look(id) {
      const [row] = await db.query<{ generation: number; status: string; lease_owner: string | null; rest_ms: number; held_ms: number }>(LOOK, [id]);
      if (!row) return null;
      const { generation, status, lease_owner: owner } = row;
      return { generation, status, owner, lapsed: owner !== null && row.held_ms <= 0, restMs: Math.max(0, row.rest_ms), heldMs: Math.max(0, row.held_ms) };
    },

    async take(account, deadOwner) {
      const owner = `${deps.instance}:${clock.randomBytes(9).toString("base64url")}`;
      // Before the statement leaves: the database counts from later.
      const takenMs = clock.monotonic();
      const [row] = await db.query<{ failure_count: number; failure_reason: string | null }>(TAKE, [
        account.id,
        account.generation,
        owner,
        LEASE_S,
        deadOwner,
        ANSWER_LOST,
      ]);
      if (!row) return null;
      return {
        owner,
        account: { ...account, failureCount: row.failure_count, failureReason: row.failure_reason },
        maySend: () => clock.monotonic() - takenMs < SEND_WITHIN_MS,
      };
    },

    async extend(lease) {
      const rows = await db.query<{ id: string }>(EXTEND, [lease.account.id, lease.account.generation, lease.owner, LEASE_S]);
      return rows.length === 1;
    },

    watch() {
      let seen: { owner: string; sinceMs: number } | null = null;
      return ({ owner, lapsed }) => {
        if (owner === null) return { free: true, deadOwner: null };
        if (!lapsed) seen = null;
        else if (seen?.owner !== owner) seen = { owner, sinceMs: clock.monotonic() };
        return { free: seen !== null && clock.monotonic() - seen.sinceMs >= RIPE_MS, deadOwner: owner };
      };
    },
  };
}

const LOOK = {
  name: "refresh_look",
  text: `select generation, status::text as status, lease_owner,
           coalesce(extract(epoch from retry_at - now()) * 1000, 0)::float8 as rest_ms,
           coalesce(extract(epoch from lease_until - now()) * 1000, 0)::float8 as held_ms
         from connected_account where id = $1`,
};

/** A takeover writes down that the dead owner may have had an answer. */
const TAKE = {
  name: "refresh_take",
  text: `update connected_account
         set lease_owner = $3, lease_until = now() + make_interval(secs => $4),
             failure_reason = case when $5::text is null then failure_reason else $6 end
         where id = $1 and generation = $2 and status = 'ACTIVE' and (retry_at is null or retry_at <= now())
           and lease_owner is not distinct from $5::text and (lease_owner is null or lease_until < now())
         returning failure_count, failure_reason`,
};

const EXTEND = {
  name: "refresh_extend",
  text: `update connected_account set lease_until = now() + make_interval(secs => $4)
         where id = $1 and generation = $2 and lease_owner = $3 returning id`,
};
