// OAuth 2.0 and OpenID Connect against any provider, on openid-client: the way out, the exchange, the refresh, whose account
// it is, and giving a grant back. Quirks are data of the connector; failures leave as OAuthFailure alone.
// Must never happen: a token outside a Secret; an error of openid-client that leaves (its `cause` holds the token answer).
import {
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  calculatePKCECodeChallenge,
  ClientSecretBasic,
  ClientSecretPost,
  Configuration,
  customFetch,
  None,
  refreshTokenGrant,
  type ServerMetadata,
  type TokenEndpointResponse,
  type TokenEndpointResponseHelpers,
  tokenRevocation,
} from "openid-client";
import type { Clock } from "../../clock.js";
import { Secret } from "../../crypto/secret.js";
import { type Egress, type EgressAnswer, EgressError } from "../../net/egress.js";
import type { Connector, Endpoints, ExternalAccount, OAuthMethod, RevokeRequest } from "../connector.js";
import { textAt } from "../json.js";
import { createDiscovery } from "./discovery.js";
import { failureOfAnswer, failureOfLoss, OAuthFailure } from "./oauthFailures.js";
import { createWire, readPlainAnswer, readTokenAnswer, TIMEOUT_MS, type Wire } from "./oauthWire.js";

export { OAuthFailure } from "./oauthFailures.js";

export interface OAuthTarget {
  connector: Connector;
  /** The connector's, with the connection's over them. */
  endpoints: Endpoints;
  clientId: string;
  clientSecret: Secret | null;
  exemptOrigin?: string | undefined;
}

export interface TokenAnswer {
  access: Secret;
  /** Null: none was given; one that is stored already stays good. */
  refresh: Secret | null;
  /** Null: the provider did not say, or the token does not run out. */
  expiresInS: number | null;
  /** Null: the answer names none, so what was asked for was granted (RFC 6749 section 5.1). */
  scopes: string[] | null;
  tokenType: string;
  /** Who the id_token says it is (checked: issuer, audience, nonce); null without one. */
  subject: ExternalAccount | null;
}

/** `not_possible`: the provider has no way to take this grant back, and asking again would not help. */
export type Revoked = "done" | "failed" | "not_possible";

export interface OAuthClient {
  authorizationUrl(
    target: OAuthTarget,
    request: {
      redirectUri: string;
      state: Secret;
      nonce: Secret;
      verifier: Secret;
      scopes: readonly string[];
      loginHint?: string | undefined;
    },
  ): Promise<URL>;
  /** `url` is the whole URL of the callback. Sends the code once. */
  exchange(
    target: OAuthTarget,
    callback: { url: URL; redirectUri: string; state: Secret; nonce: Secret; verifier: Secret },
  ): Promise<TokenAnswer>;
  /** `maySend` is asked last before the token request leaves: false is a transient failure, and nothing was sent. */
  refresh(target: OAuthTarget, refreshToken: Secret, options?: { maySend?: () => boolean }): Promise<TokenAnswer>;
  /** Never throws. "done" also when the provider no longer knew the grant. */
  revoke(target: OAuthTarget, tokens: { access: Secret | null; refresh: Secret | null }): Promise<Revoked>;
  /** Null: the connector declares no way to ask. */
  identify(target: OAuthTarget, access: Secret, answer?: Pick<TokenAnswer, "subject">): Promise<ExternalAccount | null>;
}

const IDENTITY_BYTES_MAX = 256 * 1024;

export function createOAuthClient(deps: { egress: Egress; clock: Clock }): OAuthClient {
  const discovery = createDiscovery(deps);

  const client: OAuthClient = {
    async authorizationUrl(target, request) {
      const method = oauthMethod(target);
      const config = configure(target, await discovery.metadata(target.endpoints, target.exemptOrigin), null);
      const scopes = [...new Set([...method.baseScopes, ...request.scopes])];
      return guarded(null, async () =>
        buildAuthorizationUrl(config, {
          ...method.authorizationParams,
          redirect_uri: request.redirectUri,
          state: request.state.reveal(),
          ...(scopes.length > 0 ? { [method.scopeParam]: scopes.join(method.scopeSeparator) } : {}),
          ...(method.openid ? { nonce: request.nonce.reveal() } : {}),
          ...(method.openid && request.loginHint ? { login_hint: request.loginHint } : {}),
          ...(method.pkce
            ? { code_challenge: await calculatePKCECodeChallenge(request.verifier.reveal()), code_challenge_method: "S256" }
            : {}),
        }),
      );
    },

    async exchange(target, callback) {
      const method = oauthMethod(target);
      const metadata = await discovery.metadata(target.endpoints, target.exemptOrigin);
      checkCallback(callback.url.searchParams, callback.state, metadata, target.endpoints);
      // The redirect URI of the request counts, not the address that the answer came in by.
      const url = new URL(callback.redirectUri);
      url.search = callback.url.search;
      // Checked above by our rule, which also knows connections without a written issuer.
      url.searchParams.delete("iss");
      const wire = tokenWire(target, method.openid);
      return guarded(wire, async () =>
        tokenAnswer(
          await authorizationCodeGrant(configure(target, metadata, wire), url, {
            expectedState: callback.state.reveal(),
            ...(method.openid ? { expectedNonce: callback.nonce.reveal(), idTokenExpected: true } : {}),
            ...(method.pkce ? { pkceCodeVerifier: callback.verifier.reveal() } : {}),
          }),
        ),
      );
    },

    async refresh(target, refreshToken, options = {}) {
      const metadata = await discovery.metadata(target.endpoints, target.exemptOrigin);
      // An id_token of a refresh is not used, and one that does not check must not cost a rotated refresh token.
      const wire = tokenWire(target, false, options.maySend);
      return guarded(wire, async () => tokenAnswer(await refreshTokenGrant(configure(target, metadata, wire), refreshToken.reveal())));
    },

    async revoke(target, tokens) {
      const method = oauthMethod(target);
      if (!method.revoke) return "not_possible";
      try {
        return method.revoke.style === "rfc7009" ? await revokeByRfc7009(target, tokens) : await revokeByApi(target, tokens, method.revoke);
      } catch {
        return "failed";
      }
    },

    async identify(target, access, answer) {
      const { identity } = oauthMethod(target);
      const subject = answer?.subject ?? null;
      if (identity.source === "none") return subject;
      const where =
        identity.source === "userinfo"
          ? { method: "GET" as const, url: await userinfoUrl(target) }
          : { method: identity.source.method, url: apiUrl(target, identity.source.path) };
      if (!where.url) return subject;
      const read = await ask(target, where.method, where.url, access).catch((thrown: unknown) => asFailure(thrown));
      if (read instanceof OAuthFailure || read.status !== 200) {
        if (subject) return subject;
        throw read instanceof OAuthFailure ? read : failureOfAnswer("token", { status: read.status, error: undefined });
      }
      const account = identity.read(read.json);
      // OpenID Connect Core 5.3.2: a userinfo answer about somebody else must not be used.
      if (account && subject && account.id !== subject.id) throw new OAuthFailure("malformed", "subject_mismatch");
      if (!account && !subject) throw new OAuthFailure("malformed", "no_identity");
      return account ?? subject;
    },
  };
  return client;

  function tokenWire(target: OAuthTarget, idTokenWanted: boolean, maySend?: () => boolean): Wire {
    return createWire({
      egress: deps.egress,
      exemptOrigin: target.exemptOrigin,
      maySend,
      read: readTokenAnswer(oauthMethod(target), idTokenWanted),
    });
  }

  async function revokeByRfc7009(
    target: OAuthTarget,
    tokens: { access: Secret | null; refresh: Secret | null },
  ): Promise<Revoked> {
    // RFC 7009 section 2.1: taking the refresh token back takes the access tokens of the grant with it.
    const token = tokens.refresh ?? tokens.access;
    if (!token) return "not_possible";
    let known = true;
    const wire = createWire({
      egress: deps.egress,
      exemptOrigin: target.exemptOrigin,
      read: (answer) => {
        // Google answers 400 invalid_token for a token it no longer knows: what was wanted is so.
        if (answer.status === 400 && textAt(parsed(answer), "error") === "invalid_token") known = false;
        return readPlainAnswer(answer);
      },
    });
    try {
      const metadata = await discovery.metadata(target.endpoints, target.exemptOrigin);
      if (!metadata.revocation_endpoint) return "not_possible";
      await tokenRevocation(configure(target, metadata, wire), token.reveal());
      return "done";
    } catch {
      return known ? "failed" : "done";
    }
  }

  async function revokeByApi(
    target: OAuthTarget,
    tokens: { access: Secret | null; refresh: Secret | null },
    how: Extract<RevokeRequest, { style: "api" }>,
  ): Promise<Revoked> {
    const url = apiUrl(target, how.path);
    if (!url || !tokens.access) return "not_possible";
    const first = await ask(target, how.method, url, tokens.access);
    if (how.ok(first.json)) return "done";
    if (!how.expired(first.json) || !tokens.refresh) return "failed";
    const fresh = await client.refresh(target, tokens.refresh);
    return how.ok((await ask(target, how.method, url, fresh.access)).json) ? "done" : "failed";
  }

  async function ask(target: OAuthTarget, method: "GET" | "POST", url: string, access: Secret): Promise<{ status: number; json: unknown }> {
    const answer = await deps.egress.send({
      method,
      url,
      headers: { accept: "application/json", authorization: `Bearer ${access.reveal()}` },
      bytesMax: IDENTITY_BYTES_MAX,
      timeoutMs: TIMEOUT_MS,
      ...(target.exemptOrigin === undefined ? {} : { exemptOrigin: target.exemptOrigin }),
    });
    return { status: answer.status, json: parsed(answer) };
  }

  async function userinfoUrl(target: OAuthTarget): Promise<string | undefined> {
    return target.endpoints.userinfo ?? (await discovery.metadata(target.endpoints, target.exemptOrigin)).userinfo_endpoint;
  }
}

/** State, issuer and error of the callback, before any code is sent: RFC 6749 section 10.12, RFC 9207 section 2.4. */
function checkCallback(params: URLSearchParams, state: Secret, metadata: ServerMetadata, endpoints: Endpoints): void {
  for (const name of ["state", "iss", "code", "error"]) {
    // RFC 6749 section 3.1: a parameter must not come twice.
    if (params.getAll(name).length > 1) throw new OAuthFailure("malformed", "doubled_parameter");
  }
  if (params.get("state") !== state.reveal()) throw new OAuthFailure("malformed", "state_mismatch");
  const iss = params.get("iss");
  if (iss !== null && !issuerFits(iss, metadata, endpoints)) throw new OAuthFailure("iss_mismatch", "iss_mismatch");
  if (iss === null && metadata.authorization_response_iss_parameter_supported === true)
    throw new OAuthFailure("iss_mismatch", "iss_missing");
  const error = params.get("error");
  if (error !== null) throw failureOfAnswer("authorization", { status: 400, error });
  if (!params.get("code")) throw new OAuthFailure("malformed", "no_code");
}

/** With no issuer written down, the origin that we sent the person to is all we know: another one is a mix-up. */
function issuerFits(iss: string, metadata: ServerMetadata, endpoints: Endpoints): boolean {
  if (endpoints.issuer) return iss === endpoints.issuer;
  const sentTo = metadata.authorization_endpoint;
  return sentTo !== undefined && URL.canParse(iss) && new URL(iss).origin === new URL(sentTo).origin;
}

function configure(target: OAuthTarget, metadata: ServerMetadata, wire: Wire | null): Configuration {
  const method = oauthMethod(target);
  if (target.clientId === "") throw new OAuthFailure("misconfigured", "no_client_id");
  const secret = target.clientSecret?.reveal() ?? "";
  if (method.tokenAuth !== "none" && secret === "") throw new OAuthFailure("misconfigured", "no_client_secret");
  const auth =
    method.tokenAuth === "none" ? None() : method.tokenAuth === "client_secret_post" ? ClientSecretPost(secret) : ClientSecretBasic(secret);
  const server: ServerMetadata = { ...metadata, authorization_response_iss_parameter_supported: false };
  const config = new Configuration(server, target.clientId, undefined, auth);
  // http is for loopback and for networks that the operator opened: the egress decides, and the settings check before it.
  if ([metadata.authorization_endpoint, metadata.token_endpoint].some((url) => url?.startsWith("http:"))) allowInsecureRequests(config);
  config.timeout = (TIMEOUT_MS + 2_000) / 1000;
  if (wire) config[customFetch] = wire.fetch;
  return config;
}

function tokenAnswer(answer: TokenEndpointResponse & TokenEndpointResponseHelpers): TokenAnswer {
  const claims = answer.claims();
  return {
    access: wireSafe(answer.access_token),
    refresh: answer.refresh_token === undefined ? null : wireSafe(answer.refresh_token),
    expiresInS: answer.expires_in ?? null,
    // Providers separate by spaces or commas whatever they were asked with.
    scopes: answer.scope === undefined ? null : [...new Set(answer.scope.split(/[\s,]+/).filter((scope) => scope !== ""))],
    tokenType: answer.token_type,
    subject: claims ? { id: claims.sub, email: textAt(claims, "email") ?? null, name: textAt(claims, "name") ?? null } : null,
  };
}

/** A token that cannot stand in a header would be named in the error of whoever tries (RFC 6750 section 2.1). */
function wireSafe(token: string): Secret {
  if (token.length > 16_384 || !/^[\x21-\x7e]+$/.test(token)) throw new OAuthFailure("malformed", "odd_token", { maybeConsumed: true });
  return new Secret(token);
}

/** Runs a step of openid-client. What it throws never leaves: the wire has classified what the provider did, the rest is a broken protocol. */
async function guarded<T>(wire: Wire | null, step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (thrown) {
    if (wire?.failure) throw wire.failure;
    if (thrown instanceof OAuthFailure) throw thrown;
    throw new OAuthFailure("malformed", libraryReason(thrown), { maybeConsumed: wire !== null });
  }
}

/** openid-client's own code, such as OAUTH_JWT_CLAIM_COMPARISON_FAILED: a fixed word of the library. */
function libraryReason(thrown: unknown): string {
  const code = textAt(thrown, "code");
  return code !== undefined && /^OAUTH_[A-Z_]{1,60}$/.test(code) ? code.toLowerCase() : "protocol_error";
}

function asFailure(thrown: unknown): OAuthFailure {
  if (thrown instanceof EgressError) return failureOfLoss(thrown);
  if (thrown instanceof OAuthFailure) return thrown;
  throw thrown;
}

function oauthMethod(target: OAuthTarget): OAuthMethod {
  if (target.connector.method.kind !== "oauth") throw new OAuthFailure("misconfigured", "not_oauth");
  return target.connector.method;
}

function apiUrl(target: OAuthTarget, path: string): string | undefined {
  const base = target.endpoints.api?.replace(/\/+$/, "");
  return base === undefined ? undefined : base + path;
}

function parsed(answer: EgressAnswer): unknown {
  try {
    return JSON.parse(answer.body.toString("utf8")) as unknown;
  } catch {
    return null;
  }
}
