// Access tokens that the external issuer made for our MCP endpoints (OIDC_ACCEPT_TOKENS), by the rules of RFC 9068 section 4.
// Must never happen: a token for somebody else's service, or a bound token taken as a bearer.
import { errors, jwtVerify, type JWTPayload } from "jose";
import type { Clock } from "../../clock.js";
import { OutbandError } from "../../errors.js";
import { SIGNATURES } from "./idToken.js";
import { type KeySet, KeysUnavailable } from "./keySet.js";

/** RFC 9068 section 2.1; many issuers still write the plain type. */
const TYPES = new Set(["at+jwt", "jwt"]);
/** Issuers put groups and roles in; a header of Node's takes 16 kB in all. */
export const EXTERNAL_TOKEN_CHARACTERS_MAX = 12_288;
/** An expired token is expired: this is for two clocks, not for grace. */
const TOLERANCE_S = 30;

export interface ExternalToken {
  sub: string;
  clientId: string;
  scopes: Set<string>;
  expiresAtMs: number;
}

export interface ExternalTokens {
  issuer: string;
  /** Throws unauthorized; unavailable, while the issuer's keys cannot be had. */
  read(token: string, audience: string): Promise<ExternalToken>;
}

export function createExternalTokens(deps: { issuer: string; keys: KeySet; clock: Clock }): ExternalTokens {
  const { issuer, keys, clock } = deps;

  async function verified(token: string, audience: string): Promise<JWTPayload> {
    const checks = {
      issuer,
      audience,
      algorithms: SIGNATURES,
      currentDate: clock.date(),
      clockTolerance: TOLERANCE_S,
      requiredClaims: ["exp", "aud", "sub"],
    };
    try {
      const { payload, protectedHeader } = await jwtVerify(token, keys.find, checks);
      if (!TYPES.has((protectedHeader.typ ?? "").toLowerCase().replace(/^application\//, ""))) throw unauthorized("type");
      return payload;
    } catch (thrown) {
      if (thrown instanceof KeysUnavailable) throw new OutbandError("unavailable", { reason: "issuer_keys" });
      if (thrown instanceof errors.JOSEError) throw unauthorized("invalid_token");
      throw thrown;
    }
  }

  return {
    issuer,
    read: async (token, audience) => {
      if (token.length > EXTERNAL_TOKEN_CHARACTERS_MAX) throw unauthorized("too_long");
      const claims = await verified(token, audience);
      // RFC 9449 section 7.1: whoever stole a bound token must not get in by leaving the proof out. No proof is checked here.
      if (claims["cnf"] !== undefined) throw unauthorized("bound");
      const client = textOf(claims["client_id"]) ?? textOf(claims["azp"]);
      const sub = textOf(claims.sub);
      if (client === null || sub === null) throw unauthorized("claims");
      // Marked, so that no client of the issuer's can bear the name of one of ours.
      return { sub, clientId: `oidc:${client}`, scopes: scopesOf(claims), expiresAtMs: (claims.exp ?? 0) * 1000 };
    },
  };
}

/** `scope` by RFC 9068 section 2.2.3; Microsoft and Okta say `scp`, as text or as a list. */
function scopesOf(claims: JWTPayload): Set<string> {
  const given = claims["scope"] ?? claims["scp"];
  const names: unknown[] = Array.isArray(given) ? (given as unknown[]) : typeof given === "string" ? given.split(" ") : [];
  return new Set(names.filter((name) => name === "mcp:read" || name === "mcp:write"));
}

function textOf(claim: unknown): string | null {
  return typeof claim === "string" && /^[\x21-\x7e]{1,255}$/.test(claim) ? claim : null;
}

function unauthorized(reason: string): OutbandError {
  return new OutbandError("unauthorized", { reason });
}
