// Sign-in at an external OpenID Connect issuer: code with PKCE, state and nonce, checked to the end before anybody is let in.
// Must never happen: an answer that another browser's sign-in asked for (the caller keeps the flow in the browser's session);
// a person let in by e-mail; the issuer's words on a page.
import type { Clock } from "../../clock.js";
import { failureOfAnswer } from "../../connectors/methods/oauthFailures.js";
import type { Secret } from "../../crypto/secret.js";
import { newToken, sameText } from "../../crypto/tokens.js";
import type { Database } from "../../db/client.js";
import { OutbandError } from "../../errors.js";
import { addressKey, createLimiter } from "../../http/limiter.js";
import type { Log } from "../../log.js";
import type { Egress } from "../../net/egress.js";
import type { User } from "../person.js";
import { EXTERNAL_TRIES_PER_ADDRESS } from "../signInLimits.js";
import { createAdmission } from "./admission.js";
import { carries, type Claims, describe } from "./claims.js";
import { libraryCode, SignInFailure, signInFailureOf } from "./failure.js";
import { verifyIdToken, type VerifiedIdToken } from "./idToken.js";
import type { KeySet } from "./keySet.js";
import { createProvider, type Provider } from "./provider.js";

export { SignInFailure, type SignInTrouble } from "./failure.js";
export { IssuerRefusal, requireSameIssuer } from "./record.js";

export const CALLBACK_PATH = "/login/callback";
/** Somebody may have to find their phone, and enrol it first. */
export const FLOW_LIFE_MS = 15 * 60_000;

/** One sign-in under way. Kept in the session of the browser that began it, which is sealed. */
export interface SignInFlow {
  state: string;
  nonce: string;
  verifier: string;
  startedAtMs: number;
  /** The person was to be asked for their credentials again. */
  again: boolean;
}

export interface ExternalSettings {
  issuer: string;
  clientId: string;
  clientSecret: Secret | null;
  userClaim: [string, string] | null;
  adminClaim: [string, string] | null;
}

export interface ExternalSignIn {
  issuer: string;
  /** Of the issuer, for pages. */
  host: string;
  keys: KeySet;
  /** `another`: let the person choose who they are there. Throws SignInFailure, rate_limited. */
  begin(how: { again: boolean; another: boolean; address: string | undefined }): Promise<{ url: string; flow: SignInFlow }>;
  /** `search`: the query of the answer. Throws SignInFailure. */
  finish(search: string, flow: SignInFlow, where: { requestId: string }): Promise<User>;
  /** Looks whether the issuer can be reached, for the log of a start. Never throws. */
  tryOut(): Promise<void>;
}

export interface ExternalDeps {
  db: Database;
  egress: Pick<Egress, "send">;
  clock: Clock;
  log: Log;
  publicUrl: string;
  settings: ExternalSettings;
}

export function createExternalSignIn(deps: ExternalDeps): ExternalSignIn {
  const { clock, log, settings } = deps;
  const { issuer, clientId, userClaim, adminClaim } = settings;
  const redirectUri = deps.publicUrl + CALLBACK_PATH;
  const deciding = [userClaim, adminClaim].flatMap((claim) => (claim === null ? [] : [claim[0]]));
  const provider = createProvider({ egress: deps.egress, clock, issuer, clientId, clientSecret: settings.clientSecret });
  const admission = createAdmission({ db: deps.db, clock, issuer });
  // Each one that is begun can make us send a request or two to the issuer.
  const byAddress = createLimiter(deps, "external_sign_in_address", EXTERNAL_TRIES_PER_ADDRESS);

  async function arrive(search: string, flow: SignInFlow, where: { requestId: string }): Promise<User> {
    if (clock.now() - flow.startedAtMs > FLOW_LIFE_MS) throw new SignInFailure("ended", "too_late");
    const url = new URL(redirectUri);
    url.search = search;
    await checkAnswer(provider, issuer, url.searchParams, flow.state);
    const { idToken, access } = await provider.exchange({ url, ...flow });
    const verified = await verifyIdToken({ issuer, clientId, keys: provider.keys, clock }, idToken, flow);
    if (flow.again && isFromBefore(verified, flow.startedAtMs)) throw new SignInFailure("broken", "not_asked_again");
    const claims = await withUserinfo(provider, verified, access, deciding);
    if (userClaim !== null && !carries(claims, userClaim)) {
      // Said by the issuer itself, so it counts for what they began here before, too.
      await admission.shutOut(verified.sub);
      throw new SignInFailure("not_allowed", "user_claim");
    }
    const isAdmin = adminClaim === null ? null : carries(claims, adminClaim);
    return admission.admit({ sub: verified.sub, ...describe(claims, verified.sub), isAdmin }, where);
  }

  return {
    issuer,
    host: new URL(issuer).host,
    keys: provider.keys,

    begin: async ({ again, another, address }) => {
      const retryAfterS = await byAddress.count(addressKey(address));
      if (retryAfterS > 0) throw new OutbandError("rate_limited", { reason: "sign_in", retryAfterS });
      const [state, nonce, verifier] = [newToken(clock), newToken(clock), newToken(clock)].map((token) => token.reveal()) as [string, string, string];
      const flow = { state, nonce, verifier, startedAtMs: clock.now(), again };
      const ask = again ? "credentials" : another ? "account" : null;
      try {
        const url = await provider.authorizationUrl({ redirectUri, state, nonce, verifier, claimNames: deciding, ask });
        return { url: url.href, flow };
      } catch (thrown) {
        throw told(log, thrown);
      }
    },

    finish: async (search, flow, where) => {
      try {
        return await arrive(search, flow, where);
      } catch (thrown) {
        throw told(log, thrown, where.requestId);
      }
    },

    tryOut: async () => {
      await provider.metadata().catch((thrown: unknown) => {
        told(log, thrown);
      });
    },
  };
}

/** Before the code is sent anywhere: RFC 6749 sections 3.1 and 10.12, RFC 9207 section 2.4. */
async function checkAnswer(provider: Provider, issuer: string, params: URLSearchParams, state: string): Promise<void> {
  for (const name of ["state", "iss", "code", "error"]) {
    if (params.getAll(name).length > 1) throw new SignInFailure("broken", "doubled_parameter");
  }
  if (!sameText(params.get("state") ?? "", state)) throw new SignInFailure("ended", "state");
  const iss = params.get("iss");
  const promised = (await provider.metadata()).authorization_response_iss_parameter_supported === true;
  if (iss === null ? promised : iss !== issuer) throw new SignInFailure("broken", "iss");
  const error = params.get("error");
  if (error !== null) throw signInFailureOf(failureOfAnswer("authorization", { status: 400, error }));
  if (!params.get("code")) throw new SignInFailure("broken", "no_code");
}

/** An issuer that does not say when the person signed in has promised nothing that could be checked. */
function isFromBefore({ auth_time: at }: VerifiedIdToken, startedAtMs: number): boolean {
  return typeof at === "number" && at * 1000 < startedAtMs - 60_000;
}

/**
 * Many issuers keep id_tokens small and tell the rest at userinfo. What decides must be known: without it nobody is let in,
 * and no administrator is unmade because a request failed. The id_token is signed, so it wins.
 */
async function withUserinfo(provider: Provider, verified: VerifiedIdToken, access: Secret, deciding: readonly string[]): Promise<Claims> {
  const lacks = (name: string): boolean => verified[name] === undefined;
  const isNeeded = deciding.some(lacks);
  if (!isNeeded && !lacks("email") && !lacks("name")) return verified;
  try {
    return { ...(await provider.userinfo(access, verified.sub)), ...verified };
  } catch (thrown) {
    // Another person's userinfo is no passing trouble.
    if (isNeeded || !(thrown instanceof SignInFailure) || thrown.trouble !== "unavailable") throw thrown;
    return verified;
  }
}

/** Everything that went wrong, in our words, to the log; what is no trouble with the issuer is thrown on as it is. */
function told(log: Log, thrown: unknown, requestId?: string): unknown {
  if (thrown instanceof OutbandError) return thrown;
  const failure = thrown instanceof SignInFailure ? thrown : new SignInFailure("broken", libraryCode(thrown));
  const fields = { trouble: failure.trouble, reason: failure.reason, ...(requestId === undefined ? {} : { request_id: requestId }) };
  if (failure.trouble === "denied" || failure.trouble === "ended") log.info("a sign-in at OIDC_ISSUER ended", fields);
  else log.warn(WORDS[failure.reason] ?? "a sign-in at OIDC_ISSUER failed", fields);
  return failure;
}

const WORDS: Partial<Record<string, string>> = {
  issuer_spelling: "OIDC_ISSUER is not written as the issuer writes itself (look for a slash at the end)",
  metadata_incomplete: "the metadata of OIDC_ISSUER lacks an https endpoint for authorization, token or keys",
};
