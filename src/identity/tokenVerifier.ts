// From a bearer to a person. Must never happen: a token for another endpoint or of another issuer let in; a token that
// outlives its grant, its person or the API key that made it: those are read again at every call.
import { decodeProtectedHeader, jwtVerify, type JWTPayload } from "jose";
import type { Clock } from "../clock.js";
import { hashToken } from "../crypto/tokens.js";
import type { Database } from "../db/client.js";
import { OutbandError } from "../errors.js";
import { asIdentifier } from "../ids.js";
import type { PersonPrincipal } from "./principal.js";
import { SESSION_TOKEN_TYPE } from "./sessionTokens.js";
import { SIGNING_ALGORITHM, type SigningKeys } from "./signingKeys.js";

/** RFC 9068, section 2.1. */
const ACCESS_TOKEN_TYPE = "at+jwt";
/** Ours are under 1 kB. */
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
}

/** One round trip: the person's role, whether the grant is alive and theirs, whether the API key is alive. */
const READ_STANDING = {
  name: "token_standing",
  text: `SELECT u.role::text AS role,
           EXISTS (SELECT 1 FROM oauth_record g WHERE g.type = 'Grant' AND g.id_hash = $2 AND g.sub = u.sub
                     AND (g.expires_at IS NULL OR g.expires_at > $4::timestamptz)) AS granted,
           EXISTS (SELECT 1 FROM api_key k WHERE k.id = $3 AND (k.expires_at IS NULL OR k.expires_at > $4::timestamptz)) AS "keyAlive"
         FROM user_account u WHERE u.sub = $1`,
};

interface Standing {
  role: string;
  granted: boolean;
  keyAlive: boolean;
}

export function createTokenVerifier(deps: TokenVerifierDeps): TokenVerifier {
  const { keys, issuer, db, clock } = deps;

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

  return {
    verify: async (token, audience) => {
      const { type, claims } = await readClaims(token, audience);
      const isSession = type === SESSION_TOKEN_TYPE;
      const sub = textOf(claims.sub) ?? "";
      const grantId = isSession ? null : textOf(claims.gid);
      const apiKeyId = isSession ? textOf(claims.key_id) : null;
      const clientId = isSession ? `outband:key:${apiKeyId}` : textOf(claims.client_id);
      if (clientId === null || (grantId === null) === (apiKeyId === null)) throw unauthorized("claims");

      const values = [sub, grantId === null ? null : hashToken(grantId), apiKeyId, clock.date()];
      const [standing] = await db.query<Standing>(READ_STANDING, values);
      if (!standing || standing.role === "disabled") throw unauthorized("person");
      if (grantId !== null && !standing.granted) throw unauthorized("grant");
      if (apiKeyId !== null && !standing.keyAlive && !deps.isFixedKey(apiKeyId)) throw unauthorized("api_key");

      return {
        kind: "person",
        sub: asIdentifier(sub),
        clientId,
        clientName: textOf(claims.client_name),
        scopes: scopesOf(claims.scope),
        grantId,
        apiKeyId,
        expiresAtMs: (claims.exp ?? 0) * 1000,
      };
    },
  };
}

/** Writing includes reading. */
function scopesOf(claim: unknown): Set<string> {
  const scopes = new Set(typeof claim === "string" ? claim.split(" ").filter((scope) => scope !== "") : []);
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
