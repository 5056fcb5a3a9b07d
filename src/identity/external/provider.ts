// What is asked of the external issuer, on openid-client and through the egress: its metadata, the way there, the exchange of
// the code, userinfo, keys. Must never happen: metadata of an issuer that is written otherwise; a library's error that leaves.
import {
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  calculatePKCECodeChallenge,
  ClientSecretBasic,
  ClientSecretPost,
  clockTolerance,
  Configuration,
  customFetch,
  discovery,
  fetchUserInfo,
  None,
  type ServerMetadata,
} from "openid-client";
import type { JSONWebKeySet } from "jose";
import type { Clock } from "../../clock.js";
import { failureOfAnswer, OAuthFailure } from "../../connectors/methods/oauthFailures.js";
import { createWire, readPlainAnswer, TIMEOUT_MS, type Wire } from "../../connectors/methods/oauthWire.js";
import { Secret } from "../../crypto/secret.js";
import type { Egress, EgressAnswer } from "../../net/egress.js";
import type { Claims } from "./claims.js";
import { libraryCode, SignInFailure, signInFailureOf } from "./failure.js";
import { createKeySet, type KeySet } from "./keySet.js";

/** Between the issuer's clock and ours. */
export const CLOCK_TOLERANCE_S = 60;
const METADATA_KEPT_MS = 60 * 60_000;
const KEYS_BYTES_MAX = 256 * 1024;

export interface ProviderDeps {
  egress: Pick<Egress, "send">;
  clock: Clock;
  issuer: string;
  clientId: string;
  clientSecret: Secret | null;
}

export interface AuthorizationRequest {
  redirectUri: string;
  state: string;
  nonce: string;
  verifier: string;
  /** Names of claims that decide something: issuers that have a scope of that name give the claim for it. */
  claimNames: readonly string[];
  /** Ask for the credentials again; or which of several accounts it is to be. */
  ask: "credentials" | "account" | null;
}

export interface Provider {
  metadata(): Promise<ServerMetadata>;
  authorizationUrl(request: AuthorizationRequest): Promise<URL>;
  /** Sends the code, once. `url`: the redirect URI with the answer's query. The id_token is not verified yet. */
  exchange(answer: { url: URL; state: string; nonce: string; verifier: string }): Promise<{ idToken: string; access: Secret }>;
  /** Null: the issuer has no such endpoint. About somebody else than `sub` is a failure (OpenID Connect Core 5.3.2). */
  userinfo(access: Secret, sub: string): Promise<Claims | null>;
  keys: KeySet;
}

export function createProvider(deps: ProviderDeps): Provider {
  const { egress, clock, issuer, clientId } = deps;
  // The host is named by the environment alone, so it may be a private one; what its metadata names besides may not.
  const exemptOrigin = new URL(issuer).origin;
  const isPlain = issuer.startsWith("http:");
  let kept: { atMs: number; found: Promise<ServerMetadata> } | null = null;

  const wireFor = (read: (answer: EgressAnswer) => Response): Wire => createWire({ egress: egress as Egress, exemptOrigin, read });

  function metadata(): Promise<ServerMetadata> {
    if (kept !== null && clock.monotonic() - kept.atMs < METADATA_KEPT_MS) return kept.found;
    const found = discover();
    kept = { atMs: clock.monotonic(), found };
    found.catch(() => {
      kept = null;
    });
    return found;
  }

  async function discover(): Promise<ServerMetadata> {
    const wire = wireFor(readPlainAnswer);
    const found = await guarded(wire, "unavailable", async () => {
      const options = { timeout: libraryTimeoutS, execute: isPlain ? [allowInsecureRequests] : [], [customFetch]: wire.fetch };
      return (await discovery(new URL(issuer), clientId, undefined, None(), options)).serverMetadata();
    }).catch((thrown: unknown) => {
      const isOther = thrown instanceof SignInFailure && thrown.reason === "oauth_json_attribute_comparison_failed";
      throw isOther ? new SignInFailure("broken", "issuer_spelling") : thrown;
    });
    // The library is content with another spelling (a slash at the end); id_tokens then bear the other one.
    if (found.issuer !== issuer) throw new SignInFailure("broken", "issuer_spelling");
    const ends = [found.authorization_endpoint, found.token_endpoint, found.jwks_uri];
    if (!ends.every((end) => end !== undefined && isFit(end))) throw new SignInFailure("broken", "metadata_incomplete");
    return found;
  }

  /** The browser is sent to one of them, secrets and keys go over the others. */
  function isFit(url: string): boolean {
    return URL.canParse(url) && (url.startsWith("https:") || (isPlain && url.startsWith("http:")));
  }

  function configure(server: ServerMetadata, wire: Wire | null): Configuration {
    const config = new Configuration(server, clientId, { [clockTolerance]: CLOCK_TOLERANCE_S }, clientAuth(server, deps.clientSecret));
    if (isPlain) allowInsecureRequests(config);
    config.timeout = libraryTimeoutS;
    if (wire) config[customFetch] = wire.fetch;
    return config;
  }

  async function fetchKeys(): Promise<JSONWebKeySet> {
    const url = (await metadata()).jwks_uri ?? "";
    const answer = await egress.send({ method: "GET", url, headers: { accept: "application/json" }, bytesMax: KEYS_BYTES_MAX, timeoutMs: TIMEOUT_MS, exemptOrigin });
    if (answer.status !== 200) throw new SignInFailure("unavailable", `keys_status_${answer.status}`);
    return JSON.parse(answer.body.toString("utf8")) as JSONWebKeySet;
  }

  return {
    metadata,
    keys: createKeySet({ fetchKeys, clock }),

    async authorizationUrl(request) {
      const server = await metadata();
      const challenge = await calculatePKCECodeChallenge(request.verifier);
      return buildAuthorizationUrl(configure(server, null), {
        redirect_uri: request.redirectUri,
        scope: scopesOf(server, request.claimNames).join(" "),
        state: request.state,
        nonce: request.nonce,
        code_challenge: challenge,
        code_challenge_method: "S256",
        ...promptOf(server, request.ask),
      });
    },

    async exchange({ url, state, nonce, verifier }) {
      const server = await metadata();
      const wire = wireFor(readTokenAnswer);
      const checks = { expectedState: state, expectedNonce: nonce, idTokenExpected: true, pkceCodeVerifier: verifier };
      const answer = await guarded(wire, "broken", () => authorizationCodeGrant(configure(server, wire), url, checks));
      if (answer.id_token === undefined) throw new SignInFailure("broken", "no_id_token");
      return { idToken: answer.id_token, access: new Secret(answer.access_token) };
    },

    async userinfo(access, sub) {
      const server = await metadata();
      if (server.userinfo_endpoint === undefined) return null;
      const wire = wireFor(readUserinfo);
      return guarded(wire, "broken", async () => ({ ...(await fetchUserInfo(configure(server, wire), access.reveal(), sub)) }));
    },
  };
}

/** The egress has the deadline; the library's own stands behind it. */
const libraryTimeoutS = (TIMEOUT_MS + 2_000) / 1000;

/** An issuer that takes both gets the body: how Basic encodes `+`, `/` and `=` is read in two ways (RFC 6749 section 2.3.1). */
function clientAuth(server: ServerMetadata, clientSecret: Secret | null) {
  if (clientSecret === null) return None();
  const takesPost = server.token_endpoint_auth_methods_supported?.includes("client_secret_post") ?? false;
  return takesPost ? ClientSecretPost(clientSecret.reveal()) : ClientSecretBasic(clientSecret.reveal());
}

/** What an issuer does not know might be refused, so that nobody could sign in. */
function scopesOf(server: ServerMetadata, claimNames: readonly string[]): string[] {
  const known = server.scopes_supported;
  const wanted = known === undefined ? ["email", "profile"] : ["email", "profile", ...claimNames].filter((scope) => known.includes(scope));
  return [...new Set(["openid", ...wanted])];
}

function promptOf(server: ServerMetadata, ask: AuthorizationRequest["ask"]): { prompt?: string } {
  if (ask === null) return {};
  const known = (server as { prompt_values_supported?: unknown }).prompt_values_supported;
  const canChoose = !Array.isArray(known) || known.includes("select_account");
  return { prompt: ask === "account" && canChoose ? "select_account" : "login" };
}

function readTokenAnswer(answer: EgressAnswer): Response {
  if (answer.status < 200 || answer.status > 299) throw failureOfAnswer("token", { status: answer.status, error: errorOf(answer) });
  return readPlainAnswer(answer);
}

function readUserinfo(answer: EgressAnswer): Response {
  if (answer.status !== 200) throw new OAuthFailure("transient", `userinfo_status_${answer.status}`);
  return readPlainAnswer(answer);
}

function errorOf(answer: EgressAnswer): unknown {
  try {
    return (JSON.parse(answer.body.toString("utf8")) as { error?: unknown } | null)?.error;
  } catch {
    return undefined;
  }
}

/** What openid-client throws never leaves: the wire has said what the issuer did, the rest is a broken protocol. */
async function guarded<T>(wire: Wire, otherwise: "unavailable" | "broken", step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (thrown) {
    if (wire.failure) throw signInFailureOf(wire.failure);
    throw new SignInFailure(otherwise, libraryCode(thrown));
  }
}
