// What the issuer says of a person, read with suspicion. Pure. Must never happen: an e-mail address that nobody proved taken
// for a sign of who somebody is; text of the issuer's in our pages without being cleaned.
import { emailProblem, NAME_CHARACTERS_MAX } from "../person.js";

export type Claims = Readonly<Record<string, unknown>>;

/**
 * Whether the claim has the value, or holds it in a list. Addresses count when the issuer says that it proved them: at many
 * issuers people write into `email` what they like (the "nOAuth" attack took over accounts by that).
 */
export function carries(claims: Claims, [name, value]: readonly [string, string]): boolean {
  if (name === "email" && !isProved(claims)) return false;
  const claim = Object.hasOwn(claims, name) ? claims[name] : undefined;
  return (Array.isArray(claim) ? (claim as unknown[]) : [claim]).some((one) => isPlain(one) && String(one) === value);
}

export interface Described {
  /** Empty: none that may be shown as theirs. */
  email: string;
  name: string | null;
}

/** How the person is shown. There is always something to call them by, at worst their `sub`. */
export function describe(claims: Claims, sub: string): Described {
  const given = textOf(claims["email"]);
  const isDenied = claims["email_verified"] === false || claims["email_verified"] === "false";
  const email = given === null || isDenied || emailProblem(given) !== null ? "" : given;
  const parts = [textOf(claims["given_name"]), textOf(claims["family_name"])].filter((part) => part !== null).join(" ");
  const name = printable(textOf(claims["name"]) ?? parts) ?? (email === "" ? (printable(textOf(claims["preferred_username"]) ?? "") ?? printable(sub)) : null);
  return { email, name };
}

function isProved(claims: Claims): boolean {
  // Some issuers write the word.
  return claims["email_verified"] === true || claims["email_verified"] === "true";
}

function isPlain(value: unknown): value is string | number | boolean {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean";
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value.trim() || null : null;
}

/** Without control and direction characters, and not longer than a name of ours. */
function printable(text: string): string | null {
  const clean = text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "").trim();
  return [...clean].slice(0, NAME_CHARACTERS_MAX).join("") || null;
}
