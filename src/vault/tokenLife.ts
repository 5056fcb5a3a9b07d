// How long an access token lives, and when it is to be renewed. Every time here comes from the clock of the instance that
// got the token; another instance's may differ by minutes, so that a refusal (401) decides in the end, never the clock alone.
// Must never happen: a token renewed at every call because its life is short.
import type { Clock } from "../clock.js";
import type { AccountRow } from "./store.js";

/** Refreshed this long before the end, or a tenth of the lifetime if that is shorter. */
const AHEAD_MS = 60_000;
/** A token is not renewed by the clock sooner than this after the last time: one that lives shorter is renewed when refused. */
const AGAIN_MS = 10_000;
/** Two instances may differ by five minutes each way: only past that has a token that cannot be renewed run out for sure. */
export const SKEW_MOST_MS = 10 * 60_000;
const LIFE_MOST_S = 10 * 365 * 24 * 3600;

type Life = Pick<AccountRow, "tokenExpiresAt" | "lastRefreshedAt" | "createdAt" | "refreshSealed">;

/** Null: it is not known to end. */
export function dueAtMs(account: Life): number | null {
  if (account.tokenExpiresAt === null) return null;
  const endMs = account.tokenExpiresAt.getTime();
  if (!account.refreshSealed) return endMs + SKEW_MOST_MS;
  const startMs = (account.lastRefreshedAt ?? account.createdAt).getTime();
  // Put in by a server when it was over already.
  if (endMs <= startMs) return endMs;
  return Math.max(endMs - Math.min(AHEAD_MS, (endMs - startMs) / 10), startMs + AGAIN_MS);
}

/** Providers say how long, not until when: counted from our clock at the answer. Odd values mean "not known". */
export function expiryOf(clock: Clock, expiresInS: number | null): Date | null {
  if (expiresInS === null || !Number.isFinite(expiresInS) || expiresInS <= 0) return null;
  return new Date(clock.now() + Math.min(expiresInS, LIFE_MOST_S) * 1000);
}
