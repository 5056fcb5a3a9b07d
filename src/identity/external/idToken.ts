// Who the issuer says has signed in (OpenID Connect Core 3.1.3.7): the signature by its own keys, and each claim that binds
// the token to this client and this very sign-in. Must never happen: a symmetric algorithm, or none; a token of another
// client, of another sign-in, or from before.
import { errors, jwtVerify, type JWTPayload } from "jose";
import type { Clock } from "../../clock.js";
import { sameText } from "../../crypto/tokens.js";
import { libraryCode, SignInFailure } from "./failure.js";
import { type KeySet, KeysUnavailable } from "./keySet.js";
import { CLOCK_TOLERANCE_S } from "./provider.js";

/** Public-key signatures alone: with HS256 in the list, a public key is a secret that everybody knows. */
export const SIGNATURES = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"];
/** OpenID Connect Core, section 2: 255 ASCII characters. Not trimmed, not folded; blanks would be lost in a form. */
const SUB = /^[\x21-\x7e]{1,255}$/;

export type VerifiedIdToken = JWTPayload & { sub: string };

export async function verifyIdToken(
  deps: { issuer: string; clientId: string; keys: KeySet; clock: Clock },
  idToken: string,
  expected: { nonce: string },
): Promise<VerifiedIdToken> {
  const { issuer, clientId, clock } = deps;
  const checks = {
    issuer,
    audience: clientId,
    algorithms: SIGNATURES,
    currentDate: clock.date(),
    clockTolerance: CLOCK_TOLERANCE_S,
    requiredClaims: ["exp", "iat", "sub"],
  };
  const { payload } = await jwtVerify(idToken, deps.keys.find, checks).catch((thrown: unknown) => {
    if (thrown instanceof KeysUnavailable) throw new SignInFailure("unavailable", "keys");
    if (thrown instanceof errors.JOSEError) throw new SignInFailure("broken", libraryCode(thrown));
    throw new SignInFailure("broken", "id_token");
  });
  const { sub, aud, azp, nonce } = payload;
  // Several audiences: the one it was issued to must be us, or another client's token could be played to us.
  const isOurs = azp === undefined ? !Array.isArray(aud) || aud.length === 1 : azp === clientId;
  if (!isOurs) throw new SignInFailure("broken", "authorized_party");
  if (typeof nonce !== "string" || !sameText(nonce, expected.nonce)) throw new SignInFailure("broken", "nonce");
  if (typeof sub !== "string" || !SUB.test(sub)) throw new SignInFailure("broken", "sub");
  return { ...payload, sub };
}
