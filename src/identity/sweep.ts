// What sign-ins leave behind: sessions, links and counters whose time is over. They are refused by their readers anyway;
// this only keeps the tables small.
import type { Clock } from "../clock.js";
import type { Database } from "../db/client.js";
import { deleteOld, type OldRows } from "../db/deleteOld.js";
import { SESSION_LIFE_MS } from "../http/sessionStore.js";

const SESSIONS: OldRows = { name: "sessions", table: "browser_session", key: "id_hash", where: "(old.expires_at < $2::timestamptz or old.created_at < $3::timestamptz)" };
const ONE_TIME_LINKS: OldRows = { name: "one_time_links", table: "one_time_link", key: "token_hash", where: "old.expires_at < $2::timestamptz" };
const RATE_LIMITS: OldRows = { name: "rate_limits", table: "rate_limit", key: "key", where: "old.expire < $2::bigint" };

/** For the worker, hourly. */
export async function sweepIdentity(deps: { db: Pick<Database, "query">; clock: Clock }): Promise<void> {
  const { db, clock } = deps;
  const now = clock.date();
  await deleteOld(db, SESSIONS, [now, new Date(clock.now() - SESSION_LIFE_MS)], HOURLY);
  await deleteOld(db, ONE_TIME_LINKS, [now], HOURLY);
  await deleteOld(db, RATE_LIMITS, [now.getTime()], HOURLY);
}

/** A pass an hour has more to do than one a minute: a flood of sign-ins makes a row each. */
const HOURLY = { batches: 400 };
