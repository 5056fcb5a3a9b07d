// Session tokens: bearers that an agent's back end mints for one person and one MCP endpoint (contract, section 7).
// They look like access tokens but carry a type of their own, so that neither passes for the other.
import { SignJWT } from "jose";
import type { Clock } from "../clock.js";
import { secret, type Secret } from "../crypto/secret.js";
import type { PersonPrincipal } from "./principal.js";
import { SIGNING_ALGORITHM, type SigningKeys } from "./signingKeys.js";

export const SESSION_TOKEN_TYPE = "outband-session+jwt";
export const SESSION_TTL_S_MIN = 60;
export const SESSION_TTL_S_MAX = 86_400;

export interface SessionTokenInput {
  sub: string;
  /** When the person's row was made: somebody who is deleted and comes again under the same sub does not get the old tokens back. Null: an app's person, who is none of ours. */
  personSince: Date | null;
  ttlS: number;
  /** A path, such as `/mcp`. */
  endpoint: string;
  scopes: readonly string[];
  /** The API key that mints it; the token dies with the key. */
  apiKeyId: string;
  /** Of the links made under it; `returnTo` was checked against the key's origins. */
  links?: PersonPrincipal["links"];
}

export interface SessionTokens {
  mint(input: SessionTokenInput): Promise<{ token: Secret; expiresAt: Date }>;
}

export function createSessionTokens(deps: { keys: SigningKeys; issuer: string; publicUrl: string; clock: Clock }): SessionTokens {
  const { keys, issuer, publicUrl, clock } = deps;
  return {
    mint: async (input) => {
      if (!(input.ttlS >= SESSION_TTL_S_MIN && input.ttlS <= SESSION_TTL_S_MAX)) throw new RangeError("The life of a session token is out of bounds.");
      if (!input.endpoint.startsWith("/")) throw new RangeError("The endpoint of a session token must be a path.");
      const { kid, privateKey } = keys.current();
      const issuedAtS = Math.floor(clock.now() / 1000);
      const expiresAtS = issuedAtS + Math.floor(input.ttlS);
      const jwt = await new SignJWT({
        scope: input.scopes.join(" "),
        key_id: input.apiKeyId,
        ...(input.personSince && { person_since: input.personSince.getTime() }),
        ...(input.links && { verification: input.links.verification, return_to: input.links.returnTo }),
      })
        .setProtectedHeader({ alg: SIGNING_ALGORITHM, typ: SESSION_TOKEN_TYPE, kid })
        .setIssuer(issuer)
        .setAudience(publicUrl + input.endpoint)
        .setSubject(input.sub)
        .setJti(clock.randomBytes(16).toString("base64url"))
        .setIssuedAt(issuedAtS)
        .setExpirationTime(expiresAtS)
        .sign(privateKey);
      return { token: secret(jwt), expiresAt: new Date(expiresAtS * 1000) };
    },
  };
}
