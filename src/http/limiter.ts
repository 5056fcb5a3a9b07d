// Rate limits that hold over all instances: counters in the table rate_limit, through rate-limiter-flexible.
// Must never happen: an e-mail or network address in clear in a counter's key; a limit that fails open in silence.
import { ipKeyGenerator } from "express-rate-limit";
import { RateLimiterPostgres, RateLimiterRes } from "rate-limiter-flexible";
import { hashToken } from "../crypto/tokens.js";
import type { Database } from "../db/client.js";

export interface Limiter {
  /** Counts one try. 0: allowed; else the seconds to wait. */
  count(key: string): Promise<number>;
  /** Starts the key's count again. */
  forget(key: string): Promise<void>;
}

export interface Limit {
  /** Tries allowed in a window. */
  triesMax: number;
  windowS: number;
}

/** `name` keeps one limit's counters apart from another's. */
export function createLimiter(deps: { db: Pick<Database, "query"> }, name: string, limit: Limit): Limiter {
  const counters = new RateLimiterPostgres({
    // The library speaks the pool's language; the database's own prepared statements serve both kinds.
    storeClient: { query: (statement: PreparedStatement) => answerOf(deps.db, statement) },
    storeType: "client",
    tableName: "rate_limit",
    tableCreated: true,
    keyPrefix: name,
    points: limit.triesMax,
    duration: limit.windowS,
    // The worker sweeps the table; a timer per limiter would keep none of them honest.
    clearExpiredByTimeout: false,
  });
  return {
    count: async (key) => {
      try {
        await counters.consume(hashToken(key));
        return 0;
      } catch (refusal) {
        if (!(refusal instanceof RateLimiterRes)) throw refusal;
        return Math.max(1, Math.ceil(refusal.msBeforeNext / 1000));
      }
    },
    forget: async (key) => {
      await counters.delete(hashToken(key));
    },
  };
}

/** The caller's address as a key. A home or a phone has a whole /56 of IPv6 to try from. */
export function addressKey(address: string | undefined): string {
  return address === undefined ? "unknown" : ipKeyGenerator(address, 56);
}

interface PreparedStatement {
  name?: string;
  text: string;
  values: unknown[];
}

async function answerOf(db: Pick<Database, "query">, statement: PreparedStatement): Promise<{ rows: unknown[]; rowCount: number }> {
  const rows = await db.query({ name: statement.name ?? "rate_limit", text: statement.text }, statement.values);
  return { rows, rowCount: rows.length };
}
