// Signs the cookies of oidc-provider, in the shape of a Keygrip, with the keys that the ring has now: given as an array, they
// would stay what they were at the start. Must never happen: signatures compared in a time that tells where they differ.
import { createHmac } from "node:crypto";
import type { KeyRing } from "../crypto/keyring.js";
import { sameText } from "../crypto/tokens.js";

export interface CookieKeys {
  sign(data: string): string;
  /** Which key made it: 0 is the current one, and with another one the library signs anew. -1: none of ours. */
  index(data: string, signature: string): number;
  verify(data: string, signature: string): boolean;
}

export function createCookieKeys(ring: Pick<KeyRing, "derive">): CookieKeys {
  const signatures = (data: string): string[] =>
    ring.derive("oauth_cookies").map(({ key }) => createHmac("sha256", key).update(data).digest("base64url"));
  const index = (data: string, signature: string): number => signatures(data).findIndex((own) => sameText(own, signature));
  return {
    sign: (data) => signatures(data)[0] ?? "",
    index,
    verify: (data, signature) => index(data, signature) >= 0,
  };
}
