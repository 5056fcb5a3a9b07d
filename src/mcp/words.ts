// The sentences of connecting, in one place: what a person and a model read when an account is missing.
// Must never happen: input, a third party's text, or a link that carries a right, in one of them.
import type { OutbandError } from "../errors.js";
import type { PersonPrincipal } from "../identity/principal.js";
import type { Outcome, Readiness } from "../vault/types.js";

/** What the sentences are about. `title` is the operator's name for the connection. */
export interface Subject {
  connectionName: string;
  title: string;
  sandbox: boolean;
}

/** Reasons that only the operator can mend: no link is made for them (contract section 2). */
export const OPERATOR_REASONS: Readonly<Record<string, string>> = {
  client_rejected: "the provider rejects the client id or secret that is set up here",
  misconfigured: "its set-up is incomplete or wrong",
};

export function isOperators(reason: string): boolean {
  return Object.hasOwn(OPERATOR_REASONS, reason);
}

const REASONS: Readonly<Record<string, string>> = {
  consent_denied: "the person said no on the consent page",
  denied: "the person said no on the consent page",
  scope_missing: "a permission that this tool needs was not given",
  link_expired: "the link ran out before it was used",
  expired: "the link ran out before it was used",
  awaiting_user: "the person has not finished connecting yet",
  not_connected: "it was not connected yet",
  asked_too_often: "the person was asked several times already and it did not come to a connection, so they are not asked again now",
  busy: "too many calls are waiting for people at the moment",
  wrong_identity: "another account was chosen at the provider than the one connected before",
  wrong_upstream_identity: "another account was chosen at the provider than the one connected before",
  awaiting_verification: "the app has not confirmed yet that it was this person",
  not_verified: "the app did not confirm that it was this person, and what was granted was given back",
  disconnected: "it was disconnected meanwhile",
  not_stored: "the new grant could not be kept and was taken back",
  provider_error: "the provider refused",
  provider_unavailable: "the provider could not be reached",
  key_refused: "the provider did not accept the key",
  refresh_rejected: "the provider ended the grant",
  no_refresh_token: "the grant ran out",
  token_rejected: "the provider no longer accepts the grant",
  refresh_outcome_unknown: "renewing the grant failed",
  connection_changed: "the connection was set up anew",
  key_lost: "the stored grant can no longer be read",
  unreadable_credential: "the stored grant can no longer be read",
  disconnected_by_user: "the person disconnected it",
  disconnected_by_admin: "an administrator disconnected it",
  revoked_at_provider: "access was taken back at the provider",
  link_failed: "connecting did not succeed",
};

/** Where the person can see to their accounts: here, or in the app for whose people there is no sign-in here. */
export function connectPageOf(publicUrl: string, { links }: Pick<PersonPrincipal, "links">): string {
  return links?.verification === "app" && links.returnTo !== null ? new URL(links.returnTo).origin : `${publicUrl}/connections`;
}

export function reasonInWords(reason: string): string {
  return REASONS[reason] ?? "connecting did not succeed";
}

/** Shown to the person by the client, next to the link. */
export function askToConnectText(subject: Subject, readiness: Readiness, toolTitle: string): string {
  const name = subject.sandbox ? `${subject.title} (sandbox, practice data)` : subject.title;
  const lead =
    readiness === "needs_connection"
      ? `Connect ${name} to go on with "${toolTitle}".`
      : readiness === "needs_reauth"
        ? `Connect ${name} again to go on with "${toolTitle}": the earlier access no longer works.`
        : `"${toolTitle}" needs one more permission from ${name}.`;
  return `${lead} The page opens in your browser; you sign in and decide there. No password or token passes through this client.`;
}

/** For a client that cannot show a link. */
export function openThePageText(subject: Subject, readiness: Readiness, page: string): string {
  const state =
    readiness === "needs_connection"
      ? `${subject.title} is not connected`
      : readiness === "needs_reauth"
        ? `${subject.title} must be connected again`
        : `${subject.title} is connected, but a permission that this tool needs was not given`;
  return `${state}, and this client cannot show the page for it. Ask the person to open ${page} and connect ${subject.title} there, then call the tool again.`;
}

/** After a question that did not lead to a usable account. */
export function notConnectedText(subject: Subject, reason: string, page: string): string {
  const lead = `${subject.title} is not usable: ${reasonInWords(reason)}.`;
  if (reason === "awaiting_user")
    return `${lead} Do not call the tool again by yourself: wait until the person says that they have finished, here or on ${page}.`;
  if (reason === "busy") return `${lead} Try again in a minute.`;
  return `${lead} Do not try again by yourself: the person can connect ${subject.title} at ${page}.`;
}

export function declinedText(subject: Subject | null, action: "decline" | "cancel"): string {
  const did = action === "decline" ? "said no" : "closed the question without an answer";
  return subject
    ? `The person ${did}, so ${subject.title} was not connected and nothing was done. Do not ask again unless they want it.`
    : `The person ${did}, so nothing was done. Do not ask again unless they want it.`;
}

export function operatorText(subject: Subject, reason: string): string {
  return `${subject.title} cannot be used: ${OPERATOR_REASONS[reason] ?? "its set-up is wrong"}. Connecting again does not help; the operator of this installation must mend the connection "${subject.connectionName}".`;
}

/** Why there is no link: what is wrong with the label that was asked for, or that this person may have none. */
export function linkRefused(refusal: OutbandError): { outcome: Outcome; reason: string; text: string } {
  const wrong = refusal.problems?.map(({ message }) => `"account" does not fit: ${message}`).join(" ");
  return {
    outcome: refusal.code === "invalid_request" ? "invalid_arguments" : "not_allowed",
    reason: refusal.reason ?? refusal.code,
    text: wrong ?? refusal.message,
  };
}
