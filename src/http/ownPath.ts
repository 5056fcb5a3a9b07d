// The way back after sign-in: an own path or nothing. Must never happen: an open redirect, however a browser might read
// the text (`//host`, `/\host`, control characters that browsers drop, another scheme).

/** OAuth requests come back here with all their parameters. */
const CHARACTERS_MAX = 4_000;
/** Coming back to these would sign in again, or out again. */
const NOT_BACK = ["/login", "/login/callback", "/logout"];

/** The path, when it surely stays on this origin; else null. */
export function ownPath(text: unknown): string | null {
  if (typeof text !== "string" || text.length > CHARACTERS_MAX) return null;
  if (!text.startsWith("/") || text.startsWith("//") || text.includes("\\")) return null;
  // Browsers drop tabs and line breaks from URLs: "/\t/host" would become "//host".
  if (!/^[\x21-\x7e]+$/.test(text)) return null;
  const path = text.split(/[?#]/, 1)[0] ?? "";
  return NOT_BACK.includes(path) ? null : text;
}
