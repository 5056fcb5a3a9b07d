// The practice Google's key for id_tokens: made at first need, kept in the state, so that tokens outlive a restart.
import { exportJWK, generateKeyPair, importJWK, type JWK, SignJWT } from "jose";
import type { Clock } from "../../clock.js";
import { digest } from "../digest.js";
import type { Store } from "../state.js";

export interface SigningKey {
  jwks(): Promise<{ keys: JWK[] }>;
  sign(claims: Record<string, unknown>, validForS: number): Promise<string>;
}

/** An RSA pair takes a good part of a second, so it is an argument where many sandboxes come and go. */
export async function makeSigningKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair("RS256", { extractable: true });
  const jwk = await exportJWK(privateKey);
  return { ...jwk, alg: "RS256", use: "sig", kid: digest(jwk.n ?? "").slice(0, 16) };
}

export function createSigningKey(deps: { store: Store; clock: Clock; makeKey: () => Promise<JWK> }): SigningKey {
  const { store, clock } = deps;
  let making: Promise<JWK> | null = null;

  async function make(): Promise<JWK> {
    const made = await deps.makeKey();
    store.state.google.signingKey = made;
    await store.save();
    return made;
  }

  async function key(): Promise<JWK> {
    if (store.state.google.signingKey) return store.state.google.signingKey;
    making ??= make();
    return making;
  }

  return {
    async jwks() {
      const { kty, n, e, kid, alg, use } = await key();
      return { keys: [{ kty, n, e, kid, alg, use } as JWK] };
    },
    async sign(claims, validForS) {
      const jwk = await key();
      const nowS = Math.floor(clock.now() / 1000);
      return new SignJWT(claims)
        .setProtectedHeader({ alg: "RS256", kid: jwk.kid ?? "", typ: "JWT" })
        .setIssuedAt(nowS)
        .setExpirationTime(nowS + validForS)
        .sign(await importJWK(jwk, "RS256"));
    },
  };
}
