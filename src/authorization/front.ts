// What stands before the authorization server: the one host name it may believe in, browser clients' CORS, rate limits.
// Must never happen: metadata that names another host because a request did (a spoofed Host gave a foreign token_endpoint).
import type { RequestHandler } from "express";
import type { Database } from "../db/client.js";
import { OutbandError } from "../errors.js";
import { addressKey, createLimiter, type Limit } from "../http/limiter.js";
import { DEFAULT_SCOPE } from "./scopes.js";

/** Clients register once per installation of an app; an office or a test bench shares one address. */
export const REGISTRATIONS: Limit = { triesMax: 100, windowS: 3_600 };
/** A token lasts ten minutes: a thousand agents behind one address still have room. */
export const TOKEN_REQUESTS: Limit = { triesMax: 600, windowS: 60 };
/** Anybody may begin an authorization, and each beginning is kept for an hour. */
export const AUTHORIZATIONS: Limit = { triesMax: 300, windowS: 300 };

/** oidc-provider builds its URLs from these headers. */
export function pinHost(publicUrl: string): RequestHandler {
  const { host, protocol } = new URL(publicUrl);
  return (req, _res, next) => {
    req.headers.host = host;
    req.headers["x-forwarded-proto"] = protocol.slice(0, -1);
    delete req.headers["x-forwarded-host"];
    delete req.headers.forwarded;
    next();
  };
}

/** Origins of the setting alone. The library leaves CORS alone once a header of the family is there. */
export function cors(allowedOrigins: readonly string[]): RequestHandler {
  return (req, res, next) => {
    const { origin } = req.headers;
    res.vary("Origin");
    res.setHeader("Access-Control-Allow-Methods", "GET, POST");
    if (origin === undefined || !allowedOrigins.includes(origin)) {
      if (req.method === "OPTIONS") return res.status(403).end();
      return next();
    }
    res.setHeader("Access-Control-Allow-Origin", origin);
    res.setHeader("Cross-Origin-Resource-Policy", "cross-origin");
    res.setHeader("Access-Control-Expose-Headers", "WWW-Authenticate, Retry-After");
    if (req.method !== "OPTIONS") return next();
    res.setHeader("Access-Control-Allow-Headers", "Authorization, Content-Type, MCP-Protocol-Version");
    res.setHeader("Access-Control-Max-Age", "3600");
    res.status(204).end();
  };
}

/** RFC 6749 has no error for this; clients read the status and Retry-After. */
export function limitBy(deps: { db: Pick<Database, "query"> }, name: string, limit: Limit): RequestHandler {
  const limiter = createLimiter(deps, name, limit);
  return async (req, res, next) => {
    const retryAfterS = await limiter.count(addressKey(req.ip));
    if (retryAfterS === 0) return next();
    res.setHeader("Retry-After", String(retryAfterS));
    res.setHeader("Cache-Control", "no-store");
    res.status(429).json({ error: "temporarily_unavailable", error_description: "Too many requests. Try again later." });
  };
}

/** The same for people, who read pages. */
export function limitPagesBy(deps: { db: Pick<Database, "query"> }, name: string, limit: Limit): RequestHandler {
  const limiter = createLimiter(deps, name, limit);
  return async (req, _res, next) => {
    const retryAfterS = await limiter.count(addressKey(req.ip));
    next(retryAfterS === 0 ? undefined : new OutbandError("rate_limited", { reason: name, retryAfterS }));
  };
}

/**
 * RFC 6749, section 3.3: a request without a scope means a default. And section 3.1's answers come by redirect alone:
 * form_post would need a page with inline script.
 */
export const prepareAuthorization: RequestHandler = (req, _res, next) => {
  const query = new URLSearchParams(req.originalUrl.split("?")[1] ?? "");
  const mode = query.get("response_mode");
  if (mode !== null && mode !== "query") throw new OutbandError("invalid_request", { message: "This kind of answer (response_mode) is not offered." });
  if ((query.get("scope") ?? "").trim() === "") {
    query.delete("scope");
    query.set("scope", DEFAULT_SCOPE);
    const path = req.originalUrl.split("?")[0] ?? "";
    req.originalUrl = `${path}?${query}`;
    req.url = `${req.url.split("?")[0]}?${query}`;
  }
  next();
};
