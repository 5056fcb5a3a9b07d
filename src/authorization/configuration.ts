// How oidc-provider is set up: short JWT access tokens for our own MCP endpoints, code with PKCE alone, every feature off
// that nothing here needs. Must never happen: a token for a resource that is not ours; a default of the library's that prints.
import type { Request } from "express";
import type { Clock } from "../clock.js";
import type { KeyRing } from "../crypto/keyring.js";
import type { Sealer } from "../crypto/seal.js";
import type { Database } from "../db/client.js";
import { addressKey, createLimiter, type Limit } from "../http/limiter.js";
import { currentPerson } from "../http/session.js";
import { SIGNING_ALGORITHM, type SigningKeys } from "../identity/signingKeys.js";
import type { Users } from "../identity/users.js";
import type { Egress } from "../net/egress.js";
import { createAdapter } from "./adapter.js";
import type { Approvals } from "./approvals.js";
import { createCookieKeys } from "./cookieKeys.js";
import { clientWords, shapeClient } from "./clients.js";
import { Check, defaultPolicy, InvalidTarget, type Client, type ClientMetadata, type Configuration, type JWK, type KoaContextWithOIDC } from "./oidcProvider.js";
import { MCP_SCOPES, OIDC_SCOPES } from "./scopes.js";

const DAY_S = 86_400;
export const ACCESS_TOKEN_S = 600;
export const INTERACTION_S = 3_600;
const CODE_S = 60;
/** Idle: each refresh starts it again, until the grant ends. */
const REFRESH_TOKEN_S = 30 * DAY_S;
const GRANT_S = 180 * DAY_S;
/** The browser session decides who is signed in; this one only strings the steps of a request together. */
const SESSION_S = 12 * 3_600;

/** A metadata document is 5 kB at most by the draft's advice; the library cuts there too. */
const DOCUMENT_BYTES_MAX = 5 * 1024;
const DOCUMENT_TIMEOUT_MS = 2_500;
/** Each fetch of a metadata document is a request that a stranger makes us send. */
const DOCUMENT_FETCHES: Limit = { triesMax: 100, windowS: 3_600 };

export const ROUTES = { authorization: "/authorize", token: "/token", registration: "/register", revocation: "/revoke", jwks: "/jwks", end_session: "/end" };

/** Reason of our own check: the /oauth session is of somebody else than the person at the browser. */
export const OTHER_PERSON = "other_person";

export interface ConfigurationDeps {
  db: Database;
  sealer: Sealer;
  ring: KeyRing;
  clock: Clock;
  egress: Pick<Egress, "fetchFor">;
  keys: SigningKeys;
  users: Pick<Users, "find">;
  approvals: Approvals;
  publicUrl: string;
  allowedOrigins: readonly string[];
  /** URLs of the MCP endpoints that tokens may be for; the first is the default. */
  resources: () => readonly string[] | Promise<readonly string[]>;
  renderError: NonNullable<Configuration["renderError"]>;
}

export function createConfiguration(deps: ConfigurationDeps): Configuration {
  const documentFetches = createLimiter(deps, "client_documents", DOCUMENT_FETCHES);
  return {
    adapter: createAdapter(deps),
    jwks: { keys: deps.keys.all().map(({ privateJwk }) => privateJwk as JWK) },
    cookies: cookies(deps),
    routes: ROUTES,
    scopes: [...OIDC_SCOPES, ...MCP_SCOPES.map(({ scope }) => scope)],
    claims: { openid: ["sub"] },
    subjectTypes: ["public"],
    responseTypes: ["code"],
    clientAuthMethods: ["none", "client_secret_basic", "client_secret_post"],
    pkce: { required: () => true },
    enabledJWA: { idTokenSigningAlgValues: [SIGNING_ALGORITHM] },
    clientDefaults: {
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
      id_token_signed_response_alg: SIGNING_ALGORITHM,
    },
    // One property of no use to us, because the validator runs once for each.
    extraClientMetadata: { properties: ["software_id"], validator: (_ctx, _key, _value, metadata: ClientMetadata) => shapeClient(metadata) },
    // The default wants offline_access, which is dropped unless the client also sends prompt=consent.
    issueRefreshToken: async (_ctx, client: Client) => client.grantTypeAllowed("refresh_token"),
    rotateRefreshToken: true,
    // A sign-out at the browser is not the end of an agent's grant.
    expiresWithSession: async () => false,
    loadExistingGrant: (ctx) => deps.approvals.loadGrant(ctx),
    extraTokenClaims: async (ctx, token) => ({
      gid: "grantId" in token ? token.grantId : undefined,
      client_name: ctx.oidc.client ? (clientWords(ctx.oidc.client).name ?? undefined) : undefined,
    }),
    findAccount: async (_ctx, sub) => {
      const user = await deps.users.find(sub);
      return user === null || user.role === "disabled" ? undefined : { accountId: sub, claims: async () => ({ sub }) };
    },
    interactions: { url: (_ctx, interaction) => `/oauth/interaction/${interaction.uid}`, policy: policy() },
    renderError: deps.renderError,
    clientBasedCORS: (_ctx, origin) => deps.allowedOrigins.includes(origin),
    fetch: deps.egress.fetchFor({ bytesMax: DOCUMENT_BYTES_MAX, timeoutMs: DOCUMENT_TIMEOUT_MS }),
    ttl: {
      AccessToken: ACCESS_TOKEN_S,
      AuthorizationCode: CODE_S,
      Grant: GRANT_S,
      IdToken: ACCESS_TOKEN_S,
      Interaction: INTERACTION_S,
      RefreshToken: (ctx) => Math.max(1, Math.min(REFRESH_TOKEN_S, ctx.oidc.entities.Grant?.remainingTTL ?? REFRESH_TOKEN_S)),
      Session: SESSION_S,
    },
    features: {
      ...features(deps),
      clientIdMetadataDocument: {
        enabled: true,
        ack: "draft-02",
        allowFetch: async (ctx) => (await documentFetches.count(addressKey((ctx.req as Request).ip))) === 0,
        allowClient: async () => true,
        cacheDuration: { min: 60, max: DAY_S },
      },
    },
  };
}

function features(deps: ConfigurationDeps): NonNullable<Configuration["features"]> {
  return {
    devInteractions: { enabled: false },
    rpInitiatedLogout: { enabled: false },
    userinfo: { enabled: false },
    // Our endpoints do not check a proof of possession; a client must not believe that its tokens are bound.
    dPoP: { enabled: false },
    pushedAuthorizationRequests: { enabled: false },
    introspection: { enabled: false },
    registration: { enabled: true, issueRegistrationAccessToken: false },
    revocation: { enabled: true, allowedPolicy: async (_ctx, client, token) => token.clientId === client.clientId },
    resourceIndicators: {
      enabled: true,
      defaultResource: async (_ctx, _client, oneOf) => oneOf ?? (await deps.resources())[0],
      useGrantedResource: async () => true,
      getResourceServerInfo: async (_ctx, indicator) => resourceServer(await deps.resources(), indicator),
    },
  };
}

/** RFC 8707: the audience is the endpoint's canonical URL; a client's slash at the end is forgiven. */
function resourceServer(resources: readonly string[], indicator: string) {
  const audience = resources.find((resource) => resource === indicator || `${resource}/` === indicator);
  if (audience === undefined) throw new InvalidTarget();
  return {
    scope: MCP_SCOPES.map(({ scope }) => scope).join(" "),
    audience,
    accessTokenFormat: "jwt" as const,
    accessTokenTTL: ACCESS_TOKEN_S,
    jwt: { sign: { alg: SIGNING_ALGORITHM } as const },
  };
}

function cookies(deps: ConfigurationDeps): NonNullable<Configuration["cookies"]> {
  const secure = deps.publicUrl.startsWith("https:");
  const flags = { httpOnly: true, sameSite: "lax", secure, signed: true, overwrite: true } as const;
  return {
    keys: createCookieKeys(deps.ring),
    // The last two are bound to the path of their interaction, which rules out the prefix.
    names: { session: secure ? "__Host-outband_oauth" : "outband_oauth", interaction: "outband_interaction", resume: "outband_resume" },
    long: { ...flags, path: "/" },
    short: flags,
  };
}

/** The library's own prompts, and one check more: nobody goes on with another person's session. */
function policy() {
  const prompts = defaultPolicy();
  prompts.get("login")?.checks.add(new Check(OTHER_PERSON, "another person is signed in at the browser", (ctx) => isOtherPerson(ctx)));
  return prompts;
}

function isOtherPerson(ctx: KoaContextWithOIDC): boolean {
  const { session } = ctx.oidc;
  return session?.accountId !== undefined && session.accountId !== currentPerson(ctx.req as Request)?.sub;
}
