// Random tokens and their digests. The state file holds digests only, so that a copy of it opens nothing.
import { createHash } from "node:crypto";
import type { Clock } from "../clock.js";

export function randomText(clock: Clock, prefix: string, bytes = 32): string {
  return prefix + clock.randomBytes(bytes).toString("base64url");
}

export function digest(value: string): string {
  return createHash("sha256").update(value).digest("base64url");
}

/** Compares digests, so that the time taken says nothing about the value. */
export function sameValue(a: string, b: string): boolean {
  return digest(a) === digest(b);
}
