// What a provider gave is stored before anything else happens with it, on a path of its own that outlives the request: the
// answer stays in memory, the lease is kept, and the old token is not sent while the new one is known. Must never happen: a
// rotated token given up in silence; a grant that nobody holds left alive at the provider.
import type { Clock } from "../clock.js";
import type { TokenAnswer } from "../connectors/methods/oauth.js";
import type { Secret } from "../crypto/secret.js";
import type { Database } from "../db/client.js";
import type { Log } from "../log.js";
import { transition } from "./account.js";
import type { CredentialBox } from "./credential.js";
import type { RefreshEnd } from "./refresh.js";
import type { Lease, Leases } from "./refreshLease.js";
import type { AccountRow } from "./store.js";
import { expiryOf } from "./tokenLife.js";

const FIRST_PAUSE_MS = 50;
/** Short, because other instances take over two seconds after an outage. */
const PAUSE_MOST_MS = 1_000;
/** Callers wait for so many tries (1.5 s of pauses); then they are told that it is transient, and the tries go on. */
const TRIES_AWAITED = 5;
/** A save that fails for so long while the database answers will never work. */
const GIVE_UP_MS = 60_000;
const RETRY_AFTER_S = 2;

export interface SaveDeps {
  db: Database;
  clock: Clock;
  log: Log;
  box: CredentialBox;
  leases: Leases;
  reread(id: string): Promise<AccountRow | null>;
  revokeQuietly(account: AccountRow, answer: TokenAnswer): Promise<void>;
  /** Work that a stop waits for, and nobody else. */
  inBackground(work: Promise<void>): void;
}

/** Null: somebody else holds the lease now, and what we got is not needed. `tell` answers those who wait before the save is done. */
export type Save = (lease: Lease, answer: TokenAnswer, old: Secret, tell: (end: RefreshEnd) => void) => Promise<RefreshEnd | null>;

export function createSave(deps: SaveDeps): Save {
  const { db, clock, log, box, leases } = deps;

  return async function save(lease, answer, old, tell) {
    const { account } = lease;
    const tokenExpiresAt = expiryOf(clock, answer.expiresInS);
    const startedMs = clock.monotonic();
    // A rotated token is stored also after somebody took the lease over: by generation alone, the first one to store wins.
    // What they sent was spent already, so that theirs is the refusal and ours the only token there is.
    let owner: string | undefined = lease.owner;
    for (let attempt = 1; ; attempt += 1) {
      try {
        const row = await store(account, owner, answer, old, tokenExpiresAt);
        if (row) return { kind: "fresh", account: row };
        const now = await deps.reread(account.id);
        if (now?.status !== "ACTIVE" || now.generation !== account.generation) return lost(account, now, answer);
        if (owner === undefined || answer.refresh === null) return null;
        owner = undefined;
      } catch (cause) {
        if (attempt === TRIES_AWAITED) {
          log.error("a refreshed token could not be stored; trying on", { account_id: account.id, cause });
          tell({ kind: "transient", account, retryAfterS: RETRY_AFTER_S });
        }
        if (clock.monotonic() - startedMs > GIVE_UP_MS) {
          const end = await giveUp(account, answer).catch(() => null);
          if (end) return end;
        }
        await leases.extend(lease).catch(() => false);
        await clock.sleep(Math.min(FIRST_PAUSE_MS * 2 ** attempt, PAUSE_MOST_MS) * (0.75 + clock.jitter() / 4));
      }
    }
  };

  async function store(account: AccountRow, owner: string | undefined, answer: TokenAnswer, old: Secret, tokenExpiresAt: Date | null): Promise<AccountRow | null> {
    const credential = await box.seal(
      account,
      // A missing refresh token keeps the old one (RFC 6749 section 6).
      { access: { kind: "oauth", token: answer.access }, refresh: answer.refresh ?? old },
      { scopes: answer.scopes ?? account.scopes, tokenExpiresAt },
    );
    return db.transaction((tx) =>
      transition(tx, {
        account,
        act: "refreshed",
        reason: null,
        credential,
        also: { lastRefreshedAt: clock.date() },
        ...(owner === undefined ? {} : { leaseOwner: owner }),
        audit: { category: "token_lifecycle", action: "token.refreshed", actor: { kind: "system" }, outcome: "ok" },
      }),
    );
  }

  /** The database answers and still will not take the token. The next start would send the spent one: the person must know. */
  async function giveUp(account: AccountRow, answer: TokenAnswer): Promise<RefreshEnd> {
    const row = await db.transaction((tx) =>
      transition(tx, {
        account,
        act: "refresh_rejected",
        reason: "refresh_outcome_unknown",
        audit: { category: "token_lifecycle", action: "token.refresh_failed", actor: { kind: "system" }, outcome: "refresh_outcome_unknown", reason: "not_stored" },
      }),
    );
    if (!row) return lost(account, await deps.reread(account.id), answer);
    log.error("a refreshed token could never be stored", { account_id: account.id });
    deps.inBackground(deps.revokeQuietly(account, answer));
    return { kind: "unusable", account: row };
  }

  /** Somebody disconnected, connected anew or ended the account in between: theirs wins, and what we just got is given back. */
  function lost(account: AccountRow, now: AccountRow | null, answer: TokenAnswer): RefreshEnd {
    // An account that lives on may live on this very grant: the revoker looks.
    deps.inBackground(deps.revokeQuietly(account, answer));
    if (now?.status === "ACTIVE") return { kind: "fresh", account: now };
    return { kind: "unusable", account: now ?? { ...account, status: "REVOKED", statusReason: null } };
  }
}
