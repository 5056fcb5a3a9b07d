// Grants of a practice provider: issuing, refreshing, checking and revoking tokens. Every token of one consent is one family and
// dies with it. Must never happen: a token accepted that is unknown, expired or revoked, or a token kept in clear.
import type { Clock } from "../clock.js";
import { digest, randomText } from "./digest.js";

/** How a provider deals out tokens; Google and Slack differ, and Slack differs with its app setting "token rotation". */
export interface TokenPolicy {
  /** Null: access tokens do not expire, as at a Slack app without token rotation. */
  accessTtlS: number | null;
  /** A refresh token is single use, and a second use ends the family (RFC 9700 section 4.14.2). */
  rotatesRefreshTokens: boolean;
}

export type GrantKind = "google" | "user" | "bot";

export interface GrantRecord {
  id: string;
  /** `sub` at Google, user id at Slack. */
  person: string;
  kind: GrantKind;
  scopes: string[];
  createdAtMs: number;
  revokedAtMs: number | null;
  refresh: { digest: string; used: boolean }[];
  access: { digest: string; scopes: string[]; expiresAtMs: number | null }[];
}

export interface IssuedTokens {
  grant: GrantRecord;
  access: string;
  refresh: string | null;
  expiresInS: number | null;
  scopes: string[];
}

export type CheckedToken = { status: "ok"; grant: GrantRecord; scopes: readonly string[] } | { status: "unknown" | "expired" | "revoked" };
export type RefreshOutcome = ({ status: "ok" } & IssuedTokens) | { status: "unknown" | "revoked" | "reused" | "scope_exceeded" };

export interface Grants {
  issue(options: { person: string; kind: GrantKind; scopes: readonly string[]; withRefresh: boolean }): IssuedTokens;
  refresh(refreshToken: string, scopes?: readonly string[]): RefreshOutcome;
  check(accessToken: string): CheckedToken;
  /** Ends the family of an access or refresh token; false when the token is not known. */
  revokeToken(token: string): boolean;
  revoke(grantId: string): boolean;
  /** Grants in force, newest first. */
  live(person?: string): GrantRecord[];
}

/** Google keeps 100 refresh tokens for a person and a client; the oldest dies without a word. */
const REFRESH_GRANTS_MAX = 100;
/** Old access tokens of one grant that are still told from unknown ones. */
const ACCESS_TOKENS_MAX = 50;
/** Used refresh tokens of one grant that are still recognised as reused. */
const REFRESH_TOKENS_MAX = 50;
/** Bounds the state file. */
const GRANTS_MAX = 500;

export function createGrants(deps: {
  /** The stored list; changed in place, and saved by whoever asked for the change. */
  records: GrantRecord[];
  policy: TokenPolicy;
  clock: Clock;
  prefixes: { access: Record<GrantKind, string>; refresh: string };
}): Grants {
  const { records, policy, clock, prefixes } = deps;
  const byToken = new Map<string, GrantRecord>();
  for (const grant of records) for (const token of [...grant.access, ...grant.refresh]) byToken.set(token.digest, grant);

  function addAccess(grant: GrantRecord, scopes: readonly string[]): string {
    const token = randomText(clock, prefixes.access[grant.kind]);
    const expiresAtMs = policy.accessTtlS === null ? null : clock.now() + policy.accessTtlS * 1000;
    grant.access.push({ digest: digest(token), scopes: [...scopes], expiresAtMs });
    byToken.set(digest(token), grant);
    for (const old of grant.access.splice(0, grant.access.length - ACCESS_TOKENS_MAX)) byToken.delete(old.digest);
    return token;
  }

  function addRefresh(grant: GrantRecord): string {
    const token = randomText(clock, prefixes.refresh);
    grant.refresh.push({ digest: digest(token), used: false });
    byToken.set(digest(token), grant);
    for (const old of grant.refresh.splice(0, grant.refresh.length - REFRESH_TOKENS_MAX)) byToken.delete(old.digest);
    return token;
  }

  function forget(grant: GrantRecord): void {
    records.splice(records.indexOf(grant), 1);
    for (const token of [...grant.access, ...grant.refresh]) byToken.delete(token.digest);
  }

  function end(grant: GrantRecord): void {
    grant.revokedAtMs ??= clock.now();
  }

  function live(person?: string): GrantRecord[] {
    return records.filter((grant) => grant.revokedAtMs === null && (person === undefined || grant.person === person)).reverse();
  }

  function keepLimits(person: string): void {
    for (const grant of live(person)
      .filter((one) => one.refresh.length > 0)
      .slice(REFRESH_GRANTS_MAX))
      end(grant);
    while (records.length > GRANTS_MAX) forget(records.find((grant) => grant.revokedAtMs !== null) ?? (records[0] as GrantRecord));
  }

  return {
    issue({ person, kind, scopes, withRefresh }) {
      const grant: GrantRecord = {
        id: randomText(clock, "grant_", 12),
        person,
        kind,
        scopes: [...scopes],
        createdAtMs: clock.now(),
        revokedAtMs: null,
        refresh: [],
        access: [],
      };
      records.push(grant);
      const access = addAccess(grant, scopes);
      const refresh = withRefresh ? addRefresh(grant) : null;
      keepLimits(person);
      return { grant, access, refresh, expiresInS: policy.accessTtlS, scopes: [...scopes] };
    },

    refresh(refreshToken, narrowed) {
      const grant = byToken.get(digest(refreshToken));
      const token = grant?.refresh.find((one) => one.digest === digest(refreshToken));
      if (!grant || !token) return { status: "unknown" };
      if (grant.revokedAtMs !== null) return { status: "revoked" };
      if (token.used) {
        end(grant);
        return { status: "reused" };
      }
      const scopes = narrowed ?? grant.scopes;
      if (scopes.some((scope) => !grant.scopes.includes(scope))) return { status: "scope_exceeded" };
      token.used = policy.rotatesRefreshTokens;
      const refresh = policy.rotatesRefreshTokens ? addRefresh(grant) : null;
      return { status: "ok", grant, access: addAccess(grant, scopes), refresh, expiresInS: policy.accessTtlS, scopes: [...scopes] };
    },

    check(accessToken) {
      const grant = byToken.get(digest(accessToken));
      const token = grant?.access.find((one) => one.digest === digest(accessToken));
      if (!grant || !token) return { status: "unknown" };
      if (grant.revokedAtMs !== null) return { status: "revoked" };
      if (token.expiresAtMs !== null && token.expiresAtMs <= clock.now()) return { status: "expired" };
      return { status: "ok", grant, scopes: token.scopes };
    },

    revokeToken(token) {
      const grant = byToken.get(digest(token));
      if (!grant) return false;
      end(grant);
      return true;
    },

    revoke(grantId) {
      const grant = records.find((one) => one.id === grantId);
      if (!grant) return false;
      end(grant);
      return true;
    },

    live,
  };
}
