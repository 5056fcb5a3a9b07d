// Why a sign-in at the external issuer came to nothing. Must never happen: the issuer's own words, a token or a library's
// error in what leaves here (openid-client keeps the whole token answer in `cause`).
import type { OAuthFailure } from "../../connectors/methods/oauthFailures.js";

export type SignInTrouble =
  | "denied" // the person, or the issuer for them, said no
  | "ended" // this sign-in is over, or began in another browser: it has to begin again
  | "not_allowed" // known there, not welcome here
  | "unavailable" // the issuer cannot be asked now
  | "broken"; // an answer that must not be believed, or a setting that the issuer does not take

/** `reason` is a word of ours or a library's fixed code: for the log and for tests, never for the page. */
export class SignInFailure extends Error {
  readonly trouble: SignInTrouble;
  readonly reason: string;

  constructor(trouble: SignInTrouble, reason: string) {
    super(`${trouble}: ${reason}`);
    this.name = "SignInFailure";
    this.trouble = trouble;
    this.reason = reason;
  }
}

export function signInFailureOf(failure: OAuthFailure): SignInFailure {
  return new SignInFailure(troubleOf(failure), failure.reason);
}

function troubleOf(failure: OAuthFailure): SignInTrouble {
  switch (failure.kind) {
    case "denied":
      return "denied";
    // A code that is not honoured is mostly one that was used, or grew old while the person looked elsewhere.
    case "invalid_grant":
      return "ended";
    case "transient":
      return "unavailable";
    case "client_rejected":
    case "misconfigured":
    case "iss_mismatch":
    case "malformed":
      return "broken";
    default:
      return failure.kind satisfies never;
  }
}

/** The fixed code of openid-client (`OAUTH_…`) or jose (`ERR_…`), as a reason; anything else says nothing. */
export function libraryCode(thrown: unknown): string {
  const code = (thrown as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^(?:OAUTH|ERR)_[A-Z_]{1,60}$/.test(code) ? code.toLowerCase() : "protocol_error";
}
