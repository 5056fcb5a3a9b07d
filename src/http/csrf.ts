// Two guards of every form that changes something: a token tied to the session (csrf-sync, synchroniser pattern), and the
// browser's own word on where the form came from. Must never happen: a POST from another site that acts for a person.
import { csrfSync } from "csrf-sync";
import type { Request, RequestHandler } from "express";
import { OutbandError } from "../errors.js";

const TOKEN_BYTES = 32;

const sync = csrfSync({ getTokenFromRequest: readToken, size: TOKEN_BYTES });

/** The form's hidden token. Begins a session if there is none: the sign-in form is guarded too (login CSRF). */
export function csrfToken(req: Request): string {
  return req.session ? sync.generateToken(req) : "";
}

/** To be placed after the body parser. */
export function createCsrfGuard(publicUrl: string): RequestHandler {
  return (req, res, next) => {
    if (isForeign(req, publicUrl)) return next(new OutbandError("csrf_failed", { reason: "cross_site" }));
    if (!req.session) return next(new OutbandError("csrf_failed", { reason: "no_session" }));
    sync.csrfSynchronisedProtection(req, res, (error: unknown) => {
      next(error === undefined ? undefined : new OutbandError("csrf_failed", { cause: error }));
    });
  };
}

/**
 * Browsers name a form's site by themselves. Our pages send no referrer, and then the Origin of a form is the word
 * `null` even on the same site (Fetch, section 3.2), so `null` tells nothing and the token decides alone.
 */
function isForeign(req: Request, publicUrl: string): boolean {
  if (req.method === "GET" || req.method === "HEAD") return false;
  const site = req.headers["sec-fetch-site"];
  if (site !== undefined) return site !== "same-origin" && site !== "none";
  const origin = req.headers.origin;
  return origin !== undefined && origin !== "null" && origin !== publicUrl;
}

function readToken(req: Request): string | undefined {
  const body: unknown = req.body;
  if (typeof body !== "object" || body === null) return undefined;
  const token = (body as { _csrf?: unknown })._csrf;
  return typeof token === "string" ? token : undefined;
}
