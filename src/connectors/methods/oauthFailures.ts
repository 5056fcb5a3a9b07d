// What a provider's answer in an OAuth flow comes to: one table, in which every dialect is a row. Must never happen: a
// provider's free text, a token or an error's cause in what leaves here; a transient trouble classed as a lost grant.
import type { EgressError } from "../../net/egress.js";

export type OAuthFailureKind =
  | "denied" // the person (or their administrator) said no
  | "invalid_grant" // the code or the refresh token is no longer honoured: the person must consent again
  | "client_rejected" // our client id or secret is refused: an operator must act
  | "misconfigured" // the provider is asked for something that it does not do: an operator must act
  | "transient" // nothing is known to be wrong with the grant
  | "iss_mismatch" // the answer comes from another authorization server (RFC 9207): an attack or a wrong issuer
  | "malformed"; // an answer that breaks the protocol

/** `reason` is a word of ours or a code of this table, so that it may be stored, shown and logged. */
export class OAuthFailure extends Error {
  readonly kind: OAuthFailureKind;
  readonly reason: string;
  readonly retryAfterS: number | undefined;
  /** The token request may have been answered: the code or the refresh token may be spent. */
  readonly maybeConsumed: boolean;

  constructor(kind: OAuthFailureKind, reason: string, more: { retryAfterS?: number | undefined; maybeConsumed?: boolean } = {}) {
    super(`${kind}: ${reason}`);
    this.name = "OAuthFailure";
    this.kind = kind;
    this.reason = reason;
    this.retryAfterS = more.retryAfterS;
    this.maybeConsumed = more.maybeConsumed ?? false;
  }
}

/** `authorization`: error parameters of the callback (RFC 6749 section 4.1.2.1). `token`: answers of the token endpoint (5.2). */
export type Leg = "authorization" | "token";

export interface FailureRow {
  leg: Leg;
  /** An error code, or what came instead of one. */
  when:
    | { code: string }
    | { status: readonly [from: number, to: number] }
    | { lost: EgressError["kind"] }
    | { answer: "no_access_token" | "not_json" };
  kind: OAuthFailureKind;
  /** Who speaks so. */
  of: string;
}

const code = (leg: Leg, kind: OAuthFailureKind, of: string, ...codes: string[]): FailureRow[] =>
  codes.map((one) => ({ leg, when: { code: one }, kind, of }));

/** First match counts. 429 and 5xx stand before the codes: an overloaded provider's body proves nothing about a grant. */
export const FAILURES: readonly FailureRow[] = [
  ...code("authorization", "denied", "RFC 6749", "access_denied"),
  ...code(
    "authorization",
    "denied",
    "OpenID Connect",
    "consent_required",
    "interaction_required",
    "login_required",
    "account_selection_required",
  ),
  ...code("authorization", "denied", "LinkedIn", "user_cancelled_login", "user_cancelled_authorize"),
  ...code("authorization", "denied", "Google", "admin_policy_enforced"),
  ...code("authorization", "transient", "RFC 6749", "server_error", "temporarily_unavailable"),
  ...code("authorization", "client_rejected", "RFC 6749", "unauthorized_client", "invalid_client"),
  ...code("authorization", "client_rejected", "GitHub", "application_suspended"),
  ...code("authorization", "client_rejected", "Slack", "invalid_client_id", "app_not_installed"),
  ...code("authorization", "misconfigured", "RFC 6749", "invalid_request", "invalid_scope", "unsupported_response_type"),
  ...code("authorization", "misconfigured", "Google, GitHub", "redirect_uri_mismatch", "org_internal"),
  ...code("authorization", "misconfigured", "Slack", "bad_redirect_uri", "invalid_team_for_non_distributed_app", "unapproved_scope"),

  { leg: "token", when: { status: [429, 429] }, kind: "transient", of: "RFC 6585" },
  { leg: "token", when: { status: [500, 599] }, kind: "transient", of: "RFC 9110" },

  ...code("token", "invalid_grant", "RFC 6749", "invalid_grant"),
  ...code("token", "invalid_grant", "Microsoft", "interaction_required", "consent_required", "login_required"),
  ...code(
    "token",
    "invalid_grant",
    "Slack",
    "invalid_refresh_token",
    "token_revoked",
    "token_expired",
    "account_inactive",
    "invalid_auth",
    "authorization_not_found",
  ),
  ...code("token", "invalid_grant", "Slack", "invalid_code", "code_already_used", "invalid_code_verifier"),
  ...code("token", "invalid_grant", "GitHub", "bad_refresh_token", "bad_verification_code"),
  ...code("token", "client_rejected", "RFC 6749", "invalid_client", "unauthorized_client"),
  ...code("token", "client_rejected", "Google", "deleted_client", "disabled_client"),
  ...code("token", "client_rejected", "Slack", "bad_client_secret", "invalid_client_id", "invalid_app_id"),
  ...code("token", "client_rejected", "GitHub", "incorrect_client_credentials"),
  ...code("token", "misconfigured", "RFC 6749", "unsupported_grant_type", "invalid_scope"),
  ...code("token", "misconfigured", "RFC 8707", "invalid_target"),
  ...code("token", "misconfigured", "Google, GitHub", "redirect_uri_mismatch", "org_internal"),
  ...code(
    "token",
    "misconfigured",
    "Slack",
    "bad_redirect_uri",
    "invalid_grant_type",
    "oauth_authorization_url_mismatch",
    "token_rotation_not_enabled",
  ),
  // Servers answer invalid_request for a dead refresh token as well as for a hiccup: the vault counts it, one alone proves nothing.
  ...code("token", "transient", "RFC 6749", "invalid_request", "temporarily_unavailable", "server_error", "slow_down"),
  ...code(
    "token",
    "transient",
    "Slack",
    "ratelimited",
    "rate_limited",
    "internal_error",
    "fatal_error",
    "request_timeout",
    "service_unavailable",
    "accesslimited",
  ),

  { leg: "token", when: { answer: "no_access_token" }, kind: "transient", of: "several" },
  { leg: "token", when: { answer: "not_json" }, kind: "transient", of: "proxies and error pages" },
  { leg: "token", when: { lost: "timeout" }, kind: "transient", of: "the network" },
  { leg: "token", when: { lost: "aborted" }, kind: "transient", of: "the caller" },
  { leg: "token", when: { lost: "network" }, kind: "transient", of: "the network" },
  { leg: "token", when: { lost: "too_large" }, kind: "transient", of: "the network" },
  { leg: "token", when: { lost: "redirect" }, kind: "transient", of: "proxies and sign-in walls" },
  // A captive portal's DNS answers with private addresses: that is no reason to put every account in ERROR.
  { leg: "token", when: { lost: "refused_address" }, kind: "transient", of: "our own address check" },
];

/** An answer with an error code, or with a status that says enough. `provider` is the raw `error`, whatever it is. */
export function failureOfAnswer(leg: Leg, answer: { status: number; error: unknown; retryAfterS?: number | undefined }): OAuthFailure {
  const word = codeOf(answer.error);
  const row = FAILURES.find(
    ({ leg: of, when }) =>
      of === leg && (("status" in when && within(answer.status, when.status)) || ("code" in when && when.code === word)),
  );
  // An unknown code is a provider's text, and stays outside.
  const reason = row && "code" in row.when ? row.when.code : word === null || row ? `status_${answer.status}` : "unknown_error";
  const kind = row?.kind ?? (leg === "authorization" ? "malformed" : "transient");
  return new OAuthFailure(kind, reason, { retryAfterS: answer.retryAfterS, maybeConsumed: leg === "token" && answer.status >= 500 });
}

/** A token endpoint's answer that is no error and holds no token either: the request was served, so its token may be spent. */
export function failureOfOddAnswer(answer: "no_access_token" | "not_json", status: number): OAuthFailure {
  const row = FAILURES.find(({ when }) => "answer" in when && when.answer === answer);
  return new OAuthFailure(row?.kind ?? "transient", answer, { maybeConsumed: status < 400 || status >= 500 });
}

/** No answer at all. */
export function failureOfLoss(lost: Pick<EgressError, "kind" | "maybeSent">): OAuthFailure {
  const row = FAILURES.find(({ when }) => "lost" in when && when.lost === lost.kind);
  return new OAuthFailure(row?.kind ?? "transient", lost.kind, { maybeConsumed: lost.maybeSent && lost.kind !== "redirect" });
}

/** The code alone: some servers add words after it (`invalid_grant: Token is expired`). */
function codeOf(error: unknown): string | null {
  if (typeof error !== "string") return null;
  return /^\s*([A-Za-z][A-Za-z0-9_.-]{0,63})(?=$|[\s:;,.(])/.exec(error)?.[1]?.toLowerCase() ?? "";
}

function within(status: number, [from, to]: readonly [number, number]): boolean {
  return status >= from && status <= to;
}

/**
 * Retry-After in seconds or as a date (RFC 9110 section 10.2.3). A date is measured against the answer's own Date, so that
 * our clock and the provider's need not agree. At most a day.
 */
export function retryAfterS(headers: Record<string, string>): number | undefined {
  const given = headers["retry-after"]?.trim();
  if (!given) return undefined;
  const seconds = /^\d+$/.test(given) ? Number(given) : Math.ceil((Date.parse(given) - Date.parse(headers["date"] ?? "")) / 1000);
  return Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds, 86_400) : undefined;
}
