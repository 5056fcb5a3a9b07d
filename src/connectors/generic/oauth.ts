// `generic-oauth`: any OAuth provider, described by an operator's settings. No tools of its own: it is reached by the vault's
// request call.
import { z } from "zod";
import type { Connector, IdentityProbe, OAuthMethod } from "../connector.js";
import { idAt, textAt } from "../json.js";

const jsonPath = z
  .string()
  .min(1)
  .max(200)
  .regex(/^[\w-]+(?:\.[\w-]+)*$/, "must be names separated by dots, such as data.user.id");
export const apiPath = z
  .string()
  .min(1)
  .max(500)
  .regex(/^\/(?!\/)[^\s\\#]*$/, "must begin with one / and hold no white space, \\ or #");

/** Contract, section 7. */
export const genericOAuthSettings = z.strictObject({
  token_auth: z.enum(["client_secret_post", "client_secret_basic", "none"]).optional(),
  pkce: z.boolean().optional(),
  identity: z.strictObject({ path: apiPath, id: jsonPath, email: jsonPath.optional(), name: jsonPath.optional() }).optional(),
});
type Settings = z.infer<typeof genericOAuthSettings>;

export const genericOAuth: Connector = {
  name: "generic-oauth",
  title: "OAuth provider",
  method: methodFor({}, { openid: false, revokes: true }),
  scopes: [],
  endpoints: {},
  tools: [],
  readsAuthFailure: null,
};

/** The connector as one connection's settings make it. */
export function shapeOAuth(settings: Settings, connection: { endpoints: Connector["endpoints"]; scopes: readonly string[] }): Connector {
  // An id_token can only be checked against an issuer that is written down.
  const openid = connection.scopes.includes("openid") && connection.endpoints.issuer !== undefined;
  return {
    ...genericOAuth,
    method: methodFor(settings, {
      openid,
      revokes: connection.endpoints.revocation !== undefined || connection.endpoints.issuer !== undefined,
    }),
    // None is required: providers answer some under other names (Google's email) and leave others out (offline_access).
    scopes: connection.scopes.filter((scope) => scope !== "openid").map((name) => ({ name, title: name, required: false })),
    endpoints: connection.endpoints,
  };
}

function methodFor(settings: Settings, { openid, revokes }: { openid: boolean; revokes: boolean }): OAuthMethod {
  return {
    kind: "oauth",
    tokenAuth: settings.token_auth ?? "client_secret_post",
    pkce: settings.pkce ?? true,
    openid,
    authorizationParams: {},
    scopeSeparator: " ",
    scopeParam: "scope",
    baseScopes: openid ? ["openid"] : [],
    normalizeTokenAnswer: null,
    identity: settings.identity
      ? declaredIdentity(settings.identity)
      : openid
        ? { source: "userinfo", read: openidAccount }
        : { source: "none", read: () => null },
    // Without an endpoint, written or to be discovered, there is no way, which is something else than a failed try.
    revoke: revokes ? { style: "rfc7009" } : null,
  };
}

function declaredIdentity(declared: NonNullable<Settings["identity"]>): IdentityProbe {
  return {
    source: { method: "GET", path: declared.path },
    read(body) {
      const id = idAt(body, declared.id);
      const at = (path: string | undefined) => (path === undefined ? null : (textAt(body, path) ?? null));
      return id === undefined ? null : { id, email: at(declared.email), name: at(declared.name) };
    },
  };
}

function openidAccount(body: unknown): ReturnType<IdentityProbe["read"]> {
  const id = textAt(body, "sub");
  return id ? { id, email: textAt(body, "email") ?? null, name: textAt(body, "name") ?? null } : null;
}
