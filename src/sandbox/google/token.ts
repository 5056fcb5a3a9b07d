// The practice Google's token, revocation, userinfo, key and discovery endpoints.
// Must never happen: a code honoured twice, for another redirect URI, or without the verifier of its challenge.
import { createHash } from "node:crypto";
import type { Request, Response } from "express";
import type { IssuedTokens } from "../grants.js";
import type { Endpoint } from "../endpoint.js";
import { personBySub, type PracticePerson } from "../people.js";
import { bearerOf, checkClient, type Parameters, parametersOf } from "../request.js";
import type { Shelf } from "../shelf.js";
import type { AuthorizationCode } from "./authorize.js";
import type { GoogleDeps } from "./google.js";
import { GOOGLE_SCOPES } from "./scopes.js";
import type { SigningKey } from "./signingKey.js";

const SINGLE = ["grant_type", "code", "redirect_uri", "code_verifier", "refresh_token", "client_id", "client_secret", "scope", "token"];
/** RFC 7636 section 4.1. */
const VERIFIER = /^[A-Za-z0-9._~-]{43,128}$/;

function challengeOf(verifier: string): string {
  return createHash("sha256").update(verifier).digest("base64url");
}

function has(scopes: readonly string[], short: "email" | "profile"): boolean {
  return scopes.includes(short) || scopes.some((scope) => scope.endsWith(`/userinfo.${short}`));
}

/** What the granted scopes tell about a person. */
function claimsOf(person: PracticePerson, scopes: readonly string[]): Record<string, unknown> {
  return {
    sub: person.sub,
    ...(has(scopes, "email") && { email: person.email, email_verified: true }),
    ...(has(scopes, "profile") && { name: person.name, given_name: person.givenName, family_name: person.familyName }),
  };
}

export function tokenEndpoints(deps: GoogleDeps & { codes: Shelf<AuthorizationCode>; signingKey: SigningKey }): Endpoint[] {
  const { codes, grants, client, issuer, signingKey, store } = deps;

  const refuse = (res: Response, status: number, error: string, description: string): Response => {
    return res.status(status).set("Cache-Control", "no-store").json({ error, error_description: description });
  };

  function refuseClient(res: Response, basic: boolean): Response {
    if (basic) res.set("WWW-Authenticate", 'Basic realm="sandbox"');
    return refuse(res, 401, "invalid_client", "The client is unknown, or its secret is wrong.");
  }

  async function idToken(issued: IssuedTokens, nonce: string | null): Promise<string | undefined> {
    const person = personBySub(issued.grant.person);
    if (!person || !issued.scopes.includes("openid")) return undefined;
    const atHash = createHash("sha256").update(issued.access).digest().subarray(0, 16).toString("base64url");
    const claims = { iss: issuer(), aud: client.clientId, azp: client.clientId, at_hash: atHash, ...claimsOf(person, issued.scopes) };
    return signingKey.sign({ ...claims, ...(nonce !== null && { nonce }) }, 3600);
  }

  async function answer(res: Response, issued: IssuedTokens, nonce: string | null): Promise<Response> {
    const id = await idToken(issued, nonce);
    await store.save();
    return res.set({ "Cache-Control": "no-store", Pragma: "no-cache" }).json({
      access_token: issued.access,
      ...(issued.expiresInS !== null && { expires_in: issued.expiresInS }),
      ...(issued.refresh !== null && { refresh_token: issued.refresh }),
      scope: issued.scopes.join(" "),
      token_type: "Bearer",
      ...(id !== undefined && { id_token: id }),
    });
  }

  async function exchange(res: Response, form: Parameters): Promise<Response> {
    const code = codes.get(form.get("code") ?? "");
    const verifier = form.get("code_verifier") ?? "";
    if (code?.grantId) {
      grants.revoke(code.grantId);
      await store.save();
    }
    if (!code || code.grantId !== null) return refuse(res, 400, "invalid_grant", "Malformed auth code, or used before.");
    if (form.get("redirect_uri") !== code.redirectUri) return refuse(res, 400, "redirect_uri_mismatch", "Bad Request");
    if (!VERIFIER.test(verifier)) return refuse(res, 400, "invalid_grant", "Missing code verifier.");
    if (challengeOf(verifier) !== code.codeChallenge) return refuse(res, 400, "invalid_grant", "Invalid code verifier.");
    const issued = grants.issue({ person: code.person.sub, kind: "google", scopes: code.scopes, withRefresh: code.withRefresh });
    code.grantId = issued.grant.id;
    return answer(res, issued, code.nonce);
  }

  async function refresh(res: Response, form: Parameters): Promise<Response> {
    const scopes = form.get("scope")?.split(" ").filter(Boolean);
    const outcome = grants.refresh(form.get("refresh_token") ?? "", scopes);
    if (outcome.status === "ok") return answer(res, outcome, null);
    if (outcome.status === "scope_exceeded") return refuse(res, 400, "invalid_scope", "The scope asked goes past the grant.");
    if (outcome.status === "reused") await store.save();
    return refuse(res, 400, "invalid_grant", outcome.status === "unknown" ? "Bad Request" : "Token has been expired or revoked.");
  }

  async function token(req: Request, res: Response): Promise<Response> {
    const form = parametersOf(req.body);
    const twice = form.repeated(SINGLE);
    if (twice) return refuse(res, 400, "invalid_request", `Parameter given more than once: ${twice}`);
    const checked = checkClient(req, form, client);
    if (!checked.ok) return refuseClient(res, checked.basic);
    switch (form.get("grant_type")) {
      case "authorization_code":
        return exchange(res, form);
      case "refresh_token":
        return refresh(res, form);
      case null:
        return refuse(res, 400, "invalid_request", "Missing required parameter: grant_type");
      default:
        return refuse(res, 400, "unsupported_grant_type", "Invalid grant_type.");
    }
  }

  /** As at Google, the token alone is authority enough; a client that names itself must prove it. */
  async function revoke(req: Request, res: Response): Promise<Response> {
    const form = parametersOf(req.body);
    const value = form.get("token") ?? parametersOf(req.query).get("token");
    const checked = checkClient(req, form, client);
    if ((checked.secretGiven || checked.basic) && !checked.ok) return refuseClient(res, checked.basic);
    if (value === null) return refuse(res, 400, "invalid_request", "Missing required parameter: token");
    if (!grants.revokeToken(value)) return refuse(res, 400, "invalid_token", "Token expired or revoked");
    await store.save();
    return res.status(200).json({});
  }

  function userinfo(req: Request, res: Response): Response {
    const checked = grants.check(bearerOf(req) ?? "");
    const person = checked.status === "ok" ? personBySub(checked.grant.person) : undefined;
    if (checked.status !== "ok" || !person) {
      res.set("WWW-Authenticate", 'Bearer realm="sandbox", error="invalid_token"');
      return refuse(res, 401, "invalid_request", "Invalid Credentials");
    }
    if (!checked.scopes.includes("openid")) {
      res.set("WWW-Authenticate", 'Bearer realm="sandbox", error="insufficient_scope", scope="openid"');
      return refuse(res, 403, "insufficient_scope", "The scope openid is needed.");
    }
    return res.set("Cache-Control", "no-store").json(claimsOf(person, checked.scopes));
  }

  function discovery(_req: Request, res: Response): Response {
    return res.json({
      issuer: issuer(),
      authorization_endpoint: `${issuer()}/authorize`,
      token_endpoint: `${issuer()}/token`,
      revocation_endpoint: `${issuer()}/revoke`,
      userinfo_endpoint: `${issuer()}/userinfo`,
      jwks_uri: `${issuer()}/jwks`,
      response_types_supported: ["code"],
      response_modes_supported: ["query"],
      grant_types_supported: ["authorization_code", "refresh_token"],
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: ["RS256"],
      token_endpoint_auth_methods_supported: ["client_secret_post", "client_secret_basic"],
      code_challenge_methods_supported: ["S256"],
      scopes_supported: GOOGLE_SCOPES.map((scope) => scope.name),
      claims_supported: ["iss", "aud", "sub", "iat", "exp", "nonce", "email", "email_verified", "name", "given_name", "family_name"],
      authorization_response_iss_parameter_supported: true,
    });
  }

  return [
    { method: "GET", path: "/google/.well-known/openid-configuration", run: discovery },
    { method: "GET", path: "/google/jwks", run: async (_req, res) => res.json(await signingKey.jwks()) },
    { method: "POST", path: "/google/token", run: token },
    { method: "POST", path: "/google/revoke", run: revoke },
    { method: "GET", path: "/google/userinfo", run: userinfo },
    { method: "POST", path: "/google/userinfo", run: userinfo },
  ];
}
