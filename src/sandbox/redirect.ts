// Where an answer may be sent: only the callback pages of the program this sandbox belongs to. Must never happen: a code sent elsewhere.
import type { Response } from "express";

/** A connection's name, as everywhere in the program. */
const CONNECTION_NAME = /^[a-z][a-z0-9_-]{0,31}$/;

/** Compared as text, not as a URL: nothing is decoded, resolved or folded, so nothing can be read in two ways (RFC 9700 section 2.1). */
export function isAllowedRedirect(redirectUri: string, publicUrl: string): boolean {
  const start = `${publicUrl}/connect/callback/`;
  return redirectUri.startsWith(start) && CONNECTION_NAME.test(redirectUri.slice(start.length));
}

/** Sends the browser back with an answer; neither the answer nor the page before it may be kept or told on. */
export function redirectWith(res: Response, redirectUri: string, answer: Record<string, string | null>): Response {
  res.set({ "Cache-Control": "no-store", "Referrer-Policy": "no-referrer" });
  res.redirect(303, answerUrl(redirectUri, answer));
  return res;
}

function answerUrl(redirectUri: string, answer: Record<string, string | null>): string {
  const url = new URL(redirectUri);
  for (const [name, value] of Object.entries(answer)) if (value !== null) url.searchParams.set(name, value);
  return url.href;
}
