// Random tokens and their hashes. Must never happen: a token stored in clear where its hash would do, or compared by ===.
import { createHash, timingSafeEqual } from "node:crypto";
import type { Clock } from "../clock.js";
import { Secret } from "./secret.js";

/** `bytes` random bytes in base64url: 32 are 256 bits and 43 characters. */
export function newToken(clock: Pick<Clock, "randomBytes">, bytes = 32): Secret {
  return new Secret(clock.randomBytes(bytes).toString("base64url"));
}

/** SHA-256 in hex. Only for values of at least 128 random bits: there is nothing to guess, so no salt and no slow hash. */
export function hashToken(value: Secret | string): string {
  return sha256(value instanceof Secret ? value.reveal() : value).toString("hex");
}

/** Compares in a time that tells neither where two texts differ nor how long the other one is. */
export function sameText(a: string, b: string): boolean {
  return timingSafeEqual(sha256(a), sha256(b));
}

function sha256(text: string): Buffer {
  return createHash("sha256").update(text, "utf8").digest();
}
