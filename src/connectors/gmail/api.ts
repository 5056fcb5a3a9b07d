// Calls of the Gmail API, and what its errors mean. Google says "slow down" with 403 as well as with 429: the reason in the
// body decides, not the status. Must never happen: a write sent again from here; a provider's text in a reason.
import { type ApiAnswer, type ApiRequest, CallEnded, ProviderFailure, type ToolContext } from "../connector.js";
import { listAt, pick, textAt } from "../json.js";

export const MESSAGES = "/gmail/v1/users/me/messages";

const SLOW_DOWN = new Set([
  "rateLimitExceeded",
  "userRateLimitExceeded",
  "quotaExceeded",
  "dailyLimitExceeded",
  "concurrentLimitExceeded",
  "RATE_LIMIT_EXCEEDED",
  "RESOURCE_EXHAUSTED",
]);
/** A day's quota does not come back within a call. */
const NOT_TODAY = new Set(["dailyLimitExceeded", "quotaExceeded"]);
const SCOPE_MISSING = new Set(["insufficientPermissions", "ACCESS_TOKEN_SCOPE_INSUFFICIENT"]);
/** Pauses before a read is tried again after a 403 that means "slow down". */
const PAUSES_MS = [400, 1_200];
/** A longer Retry-After is told instead of waited for. */
const WAIT_MOST_MS = 3_000;

/** A JSON answer with a good status. `notFound` are our own words for a 404, where an id came from the caller. */
export async function gmailCall(
  context: ToolContext,
  request: ApiRequest & { scopes: readonly string[]; notFound?: string },
): Promise<unknown> {
  const { scopes, notFound, ...wanted } = request;
  for (let attempt = 0; ; attempt += 1) {
    const answer = await context.api.request(wanted);
    if (answer.status >= 200 && answer.status <= 299) return bodyOf(answer, wanted);
    const failure = gmailFailure(answer, scopes, notFound);
    const pauseMs = PAUSES_MS[attempt];
    const waitMs = Math.max(pauseMs ?? 0, (failure.retryAfterS ?? 0) * 1000);
    const mayWait =
      failure.kind === "rate_limited" && !wanted.write && !NOT_TODAY.has(failure.reason) && pauseMs !== undefined && waitMs <= WAIT_MOST_MS;
    if (!mayWait) throw failure;
    await context.clock.sleep(waitMs * (0.75 + context.clock.jitter() / 2), context.signal);
  }
}

function bodyOf(answer: ApiAnswer, wanted: ApiRequest): unknown {
  if (answer.json !== null) return answer.json;
  // A good status on something that is no JSON (a proxy, a sign-in wall): for a write nobody knows what was done.
  throw new ProviderFailure(wanted.write ? "outcome_unknown" : "unavailable", "not_json");
}

function gmailFailure(answer: ApiAnswer, scopes: readonly string[], notFound: string | undefined): ProviderFailure {
  const reasons = reasonsOf(answer.json);
  const known = (set: ReadonlySet<string>) => reasons.find((reason) => set.has(reason));
  const slow = known(SLOW_DOWN);
  if (slow) return new ProviderFailure("rate_limited", slow, retryAfter(answer.headers));
  const lacking = known(SCOPE_MISSING);
  if (lacking) return new ProviderFailure("scope_missing", lacking, { scopes });
  if (answer.status === 404 && notFound) throw new CallEnded("invalid_arguments", "not_found", notFound);
  const reason = reasons.find((one) => /^\w{1,64}$/.test(one)) ?? `status_${answer.status}`;
  if (answer.status === 400) return new ProviderFailure("invalid_arguments", reason);
  return new ProviderFailure("rejected", reason);
}

/** `error.errors[].reason` of the old shape, `error.status` and `error.details[].reason` of the new one. */
function reasonsOf(body: unknown): string[] {
  const old = listAt(body, "error.errors").map((one) => textAt(one, "reason"));
  const fresh = listAt(body, "error.details").map((one) => textAt(one, "reason"));
  return [...old, ...fresh, textAt(body, "error.status")].filter((reason) => reason !== undefined);
}

function retryAfter(headers: Record<string, string>): { retryAfterS?: number } {
  const seconds = Number(headers["retry-after"]);
  return Number.isFinite(seconds) && seconds > 0 ? { retryAfterS: Math.min(Math.ceil(seconds), 86_400) } : {};
}

export function isGone(thrown: unknown): boolean {
  return (
    (thrown instanceof CallEnded && thrown.reason === "not_found") || (thrown instanceof ProviderFailure && thrown.reason === "notFound")
  );
}

/** A member that must be there, as text. */
export function must(body: unknown, path: string): string {
  const found = pick(body, path);
  if (typeof found !== "string" || found === "") throw new ProviderFailure("unavailable", "odd_answer");
  return found;
}
