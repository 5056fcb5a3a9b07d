// The fetch that openid-client speaks through: out by the egress, back as a standard answer (RFC 6749 section 5), with the
// failure classified on the way. Must never happen: a token answer kept in an error (openid-client puts it in `cause`, and
// printing the error prints the token).
import type { CustomFetch } from "openid-client";
import { type Egress, type EgressAnswer, EgressError } from "../../net/egress.js";
import type { OAuthMethod } from "../connector.js";
import { isObject } from "../json.js";
import { failureOfAnswer, failureOfLoss, failureOfOddAnswer, OAuthFailure, retryAfterS } from "./oauthFailures.js";

/** A token answer is a few kB; an error page is not worth more. */
const BYTES_MAX = 64 * 1024;
export const TIMEOUT_MS = 10_000;

/** Slack says `bot` or `user`, GitHub of old said nothing: all of them are bearer tokens. */
const BEARER_WORDS = new Set(["bearer", "bot", "user", "token", ""]);

export interface Wire {
  fetch: CustomFetch;
  /** Set before openid-client sees a failure: what it throws then is thrown away. */
  failure: OAuthFailure | null;
}

export interface WireOptions {
  egress: Egress;
  exemptOrigin: string | undefined;
  read: (answer: EgressAnswer) => Response;
  maySend?: (() => boolean) | undefined;
}

/** One request or two of one grant: not to be shared. */
export function createWire(options: WireOptions): Wire {
  const wire: Wire = {
    failure: null,
    fetch: async (url, request) => {
      try {
        if (options.maySend?.() === false) throw new OAuthFailure("transient", "too_late");
        return options.read(
          await options.egress.send({
            method: request.method,
            url,
            headers: request.headers,
            ...(request.body === undefined || request.body === null ? {} : { body: String(request.body) }),
            bytesMax: BYTES_MAX,
            timeoutMs: TIMEOUT_MS,
            ...(options.exemptOrigin === undefined ? {} : { exemptOrigin: options.exemptOrigin }),
          }),
        );
      } catch (thrown) {
        wire.failure = thrown instanceof EgressError ? failureOfLoss(thrown) : thrown instanceof OAuthFailure ? thrown : null;
        throw wire.failure ?? thrown;
      }
    },
  };
  return wire;
}

/** Reads the token endpoint's answer in every dialect we know; throws an OAuthFailure for what is not a token. */
export function readTokenAnswer(method: OAuthMethod, idTokenWanted: boolean): (answer: EgressAnswer) => Response {
  return (answer) => {
    const given = parseBody(answer);
    const normal =
      method.normalizeTokenAnswer && given !== null
        ? method.normalizeTokenAnswer(answer.status, given)
        : { status: answer.status, body: given };
    const { status, body } = normal;
    const wait = retryAfterS(answer.headers);
    if (status < 200 || status > 299) throw failureOfAnswer("token", { status, error: body?.["error"], retryAfterS: wait });
    if (body === null) throw failureOfOddAnswer("not_json", status);
    const hasToken = typeof body["access_token"] === "string" && body["access_token"] !== "";
    // GitHub and others tell errors with 200 (RFC 6749 section 5.2 asks for 400).
    if (!hasToken && body["error"] !== undefined) throw failureOfAnswer("token", { status: 400, error: body["error"], retryAfterS: wait });
    if (!hasToken) throw failureOfOddAnswer("no_access_token", status);
    return Response.json(standardToken(body, idTokenWanted));
  };
}

function parseBody(answer: EgressAnswer): Record<string, unknown> | null {
  const text = answer.body.toString("utf8");
  try {
    const parsed: unknown = JSON.parse(text);
    return isObject(parsed) ? parsed : null;
  } catch {
    // GitHub without an Accept header, and a few others, answer a form.
    const isForm = (answer.headers["content-type"] ?? "").startsWith("application/x-www-form-urlencoded");
    return isForm ? Object.fromEntries(new URLSearchParams(text)) : null;
  }
}

/** Only the members that are used, in the types that the RFC gives them: odd ones are left out rather than fatal. */
function standardToken(body: Record<string, unknown>, idTokenWanted: boolean): Record<string, unknown> {
  const type = body["token_type"];
  const word = typeof type === "string" ? type.toLowerCase() : "";
  const expiresIn = Number(body["expires_in"] ?? Number.NaN);
  const scope = Array.isArray(body["scope"]) ? body["scope"].join(" ") : body["scope"];
  const refresh = body["refresh_token"];
  return {
    access_token: body["access_token"],
    token_type: BEARER_WORDS.has(word) ? "bearer" : word,
    // A token that lives no time at all cannot be meant: providers say 0 for "does not run out".
    ...(Number.isFinite(expiresIn) && expiresIn > 0 ? { expires_in: Math.floor(expiresIn) } : {}),
    ...(typeof refresh === "string" && refresh !== "" ? { refresh_token: refresh } : {}),
    ...(typeof scope === "string" ? { scope } : {}),
    // An id_token that nobody asked for is not read: no issuer is known to check it against.
    ...(idTokenWanted && typeof body["id_token"] === "string" ? { id_token: body["id_token"] } : {}),
  };
}

/** Discovery, userinfo and revocation: the answer as it came, without the headers that openid-client reads errors from. */
export function readPlainAnswer(answer: EgressAnswer): Response {
  const noBody = answer.status === 204 || answer.status === 205 || answer.status === 304;
  const type = answer.headers["content-type"];
  return new Response(noBody ? null : new Uint8Array(answer.body), {
    status: answer.status,
    headers: type === undefined ? {} : { "content-type": type },
  });
}
