// From a bearer to a person. Must never happen: a token for another endpoint or of another issuer let in; a token that
// outlives its grant, its person or the API key that made it: those are read again at every call.
import { decodeJwt, decodeProtectedHeader, jwtVerify, type JWTPayload } from "jose";
import type { Clock } from "../clock.js";
import { hashToken } from "../crypto/tokens.js";
import type { Database } from "../db/client.js";
import { OutbandError } from "../errors.js";
import { asIdentifier } from "../ids.js";
import { EXTERNAL_TOKEN_CHARACTERS_MAX, type ExternalTokens } from "./external/accessTokens.js";
import { BUILT_IN } from "./person.js";
import type { PersonPrincipal } from "./principal.js";
import { SESSION_TOKEN_TYPE } from "./sessionTokens.js";
import { SIGNING_ALGORITHM, type SigningKeys } from "./signingKeys.js";

/** RFC 9068, section 2.1. */
const ACCESS_TOKEN_TYPE = "at+jwt";
/** Ours are under 1 kB, and 3 kB more where a session token carries its way back. */
const TOKEN_CHARACTERS_MAX = 8_192;

export interface TokenVerifier {
  /** `audience` is the endpoint's URL. Throws unauthorized. */
  verify(token: string, audience: string): Promise<PersonPrincipal>;
}

export interface TokenVerifierDeps {
  keys: SigningKeys;
  issuer: string;
  db: Pick<Database, "query">;
  clock: Clock;
  /** API keys that are in no table: see apiKeys.ts. */
  isFixedKey: (id: string) => boolean;
  /** Who vouches for the people of this installation; default: passwords of ours do. */
  signInIssuer?: string;
  /** Tokens that the external issuer made itself (OIDC_ACCEPT_TOKENS). */
  external?: ExternalTokens | null;
}

/** One round trip: the person's role, whether the grant is alive and theirs, whether the API key is alive. */
const READ_STANDING = {
  name: "token_standing",
  text: `SELECT u.role::text AS role, u.issuer, u.created_at AS "createdAt",
           EXISTS (SELECT 1 FROM oauth_record g WHERE g.type = 'Grant' AND g.id_hash = $2 AND g.sub = u.sub
                     AND (g.expires_at IS NULL OR g.expires_at > $4::timestamptz)) AS granted,
           EXISTS (SELECT 1 FROM api_key k WHERE k.id = $3 AND (k.expires_at IS NULL OR k.expires_at > $4::timestamptz)) AS "keyAlive"
         FROM (SELECT 1) AS one LEFT JOIN user_account u ON u.sub = $1`,
};

/** Nulls: nobody of ours. */
interface Standing {
  role: string | null;
  issuer: string | null;
  createdAt: Date | null;
  granted: boolean;
  keyAlive: boolean;
}

export function createTokenVerifier(deps: TokenVerifierDeps): TokenVerifier {
  const { keys, issuer, db, clock } = deps;
  const signInIssuer = deps.signInIssuer ?? BUILT_IN;
  const external = deps.external ?? null;

  async function readClaims(token: string, audience: string): Promise<{ type: string; claims: JWTPayload }> {
    if (token.length > TOKEN_CHARACTERS_MAX) throw unauthorized("too_long");
    try {
      const { typ, kid } = decodeProtectedHeader(token);
      const type = typ === SESSION_TOKEN_TYPE ? SESSION_TOKEN_TYPE : ACCESS_TOKEN_TYPE;
      const key = kid === undefined ? null : keys.find(kid);
      if (key === null) throw unauthorized("unknown_key");
      const checks = { algorithms: [SIGNING_ALGORITHM], issuer, audience, typ: type, currentDate: clock.date(), requiredClaims: ["exp", "sub", "aud"] };
      const { payload } = await jwtVerify(token, key.publicKey, checks);
      // jose is content with one of several audiences; a token of ours has exactly one.
      if (payload.aud !== audience) throw unauthorized("audience");
      return { type, claims: payload };
    } catch (error) {
      if (error instanceof OutbandError) throw error;
      throw unauthorized("invalid_token");
    }
  }

  async function standingOf(sub: string, grantId: string | null, apiKeyId: string | null, ofApp = false): Promise<Standing> {
    const values = [sub, grantId === null ? null : hashToken(grantId), apiKeyId, clock.date()];
    const [standing] = await db.query<Standing>(READ_STANDING, values);
    if (!standing || standing.role === "disabled" || (standing.role === null && !ofApp)) throw unauthorized("person");
    // A server vouches for the person of a session token. Behind any other token is a sign-in, and somebody who cannot
    // sign in any more has none.
    if (apiKeyId === null && standing.issuer !== signInIssuer) throw unauthorized("sign_in");
    return standing;
  }

  async function verifyOurs(token: string, audience: string): Promise<PersonPrincipal> {
    const { type, claims } = await readClaims(token, audience);
    const isSession = type === SESSION_TOKEN_TYPE;
    const sub = textOf(claims.sub) ?? "";
    const grantId = isSession ? null : textOf(claims.gid);
    const apiKeyId = isSession ? textOf(claims.key_id) : null;
    const clientId = isSession ? `outband:key:${apiKeyId}` : textOf(claims.client_id);
    if (clientId === null || (grantId === null) === (apiKeyId === null)) throw unauthorized("claims");

    // The app whose key made the token says who its people are (contract 5.7).
    const links = isSession ? linksOf(claims) : null;
    const standing = await standingOf(sub, grantId, apiKeyId, links?.verification === "app");
    if (grantId !== null && !standing.granted) throw unauthorized("grant");
    if (isSession && (claims.person_since ?? null) !== (standing.createdAt?.getTime() ?? null)) throw unauthorized("person");
    if (apiKeyId !== null && !standing.keyAlive && !deps.isFixedKey(apiKeyId)) throw unauthorized("api_key");

    return {
      kind: "person",
      sub: asIdentifier(sub),
      clientId,
      clientName: textOf(claims.client_name),
      scopes: scopesOf(claims.scope),
      grantId,
      apiKeyId,
      ...(links && { links }),
      expiresAtMs: (claims.exp ?? 0) * 1000,
    };
  }

  /** Only somebody who has signed in here before: their row says whether they still may. */
  async function verifyExternal(tokens: ExternalTokens, token: string, audience: string): Promise<PersonPrincipal> {
    const { sub, clientId, scopes, expiresAtMs } = await tokens.read(token, audience);
    await standingOf(sub, null, null);
    return { kind: "person", sub: asIdentifier(sub), clientId, clientName: null, scopes: withReading(scopes), grantId: null, apiKeyId: null, expiresAtMs };
  }

  return {
    verify: (token, audience) => {
      return external !== null && saysIssuer(token, external.issuer) ? verifyExternal(external, token, audience) : verifyOurs(token, audience);
    },
  };
}

/** Decides who checks it, and nothing else: nothing of the token is believed yet. */
function saysIssuer(token: string, issuer: string): boolean {
  if (token.length > EXTERNAL_TOKEN_CHARACTERS_MAX) return false;
  try {
    return decodeJwt(token).iss === issuer;
  } catch {
    return false;
  }
}

function linksOf(claims: JWTPayload): PersonPrincipal["links"] | null {
  if (claims.verification === undefined) return null;
  return { verification: claims.verification === "app" ? "app" : "sign_in", returnTo: textOf(claims.return_to) };
}

function scopesOf(claim: unknown): Set<string> {
  return withReading(new Set(typeof claim === "string" ? claim.split(" ").filter((scope) => scope !== "") : []));
}

/** Writing includes reading. */
function withReading(scopes: Set<string>): Set<string> {
  if (scopes.has("mcp:write")) scopes.add("mcp:read");
  return scopes;
}

function textOf(claim: unknown): string | null {
  return typeof claim === "string" && claim !== "" ? claim : null;
}

/** The reason is for logs and tests; the outside reads one sentence, whatever was wrong. */
function unauthorized(reason: string): OutbandError {
  return new OutbandError("unauthorized", { reason });
}
