// From what a provider call came to, to an outcome of the contract (6.1) in our own words.
import type { ProviderFailure } from "../connectors/connector.js";
import type { Outcome, ToolCallOutcome } from "./types.js";

interface Told {
  outcome: Outcome;
  reason: string;
  text: string;
}

export function outcomeOfFailure(failure: ProviderFailure, title: string): Told {
  switch (failure.kind) {
    case "unauthorized":
      return { outcome: "reauth_needed", reason: failure.reason, text: `${title} no longer accepts this account's credential.` };
    case "scope_missing":
      return { outcome: "scope_missing", reason: failure.reason, text: `The permission given at ${title} does not cover this.` };
    case "rate_limited":
      return { outcome: "rate_limited", reason: failure.reason, text: `${title} asks to slow down.${inWords(failure.retryAfterS)}` };
    case "unavailable":
      return { outcome: "provider_unavailable", reason: failure.reason, text: `${title} cannot be reached now.${inWords(failure.retryAfterS)}` };
    case "rejected":
      return { outcome: "provider_error", reason: failure.reason, text: `${title} refused the request (${safeWord(failure.reason)}).` };
    case "invalid_arguments":
      return { outcome: "invalid_arguments", reason: failure.reason, text: `${title} says that an argument is wrong (${safeWord(failure.reason)}).` };
    case "outcome_unknown":
      return {
        outcome: "outcome_unknown",
        reason: failure.reason,
        text: `${title} may or may not have done this: the answer was lost. It was not sent again. Look there before you try again.`,
      };
    default:
      return failure.kind satisfies never;
  }
}

export function failedCall(call: Omit<Extract<ToolCallOutcome, { kind: "failed" }>, "kind">): ToolCallOutcome {
  return { kind: "failed", ...call };
}

function inWords(retryAfterS: number | undefined): string {
  return retryAfterS === undefined ? " Try again later." : ` Try again in ${retryAfterS} s.`;
}

/** A provider's error code may be shown, its text may not. */
function safeWord(reason: string): string {
  return /^[\w.:-]{1,64}$/.test(reason) ? reason : "no reason given";
}
