// Who may speak to an MCP endpoint, checked before a byte of the body is read: host, origin, bearer, scopes.
// Must never happen: a URL built from Host or X-Forwarded-*; a token taken from the query; a refusal that quotes input.
import type { Request, RequestHandler, Response } from "express";
import { isLoopbackName } from "../http/guard.js";

export const SCOPES = ["mcp:read", "mcp:write"] as const;

export interface EndpointAddress {
  publicUrl: string;
  /** `/mcp` */
  path: string;
}

export function resourceUrl(address: EndpointAddress): string {
  return `${address.publicUrl}${address.path}`;
}

/** RFC 9728 section 3.1: the well-known part comes between host and path. */
export function metadataUrl(address: EndpointAddress): string {
  return `${address.publicUrl}/.well-known/oauth-protected-resource${address.path}`;
}

/** Every refusal of an MCP endpoint is JSON-RPC: a client that meets another body on a 400 falls back to the old handshake. */
export function refuse(res: Response, status: number, code: number, message: string, id: unknown = null): void {
  res.status(status).json({ jsonrpc: "2.0", id: typeof id === "string" || typeof id === "number" ? id : null, error: { code, message } });
}

/**
 * DNS rebinding: a page of evil.test, resolved to us, sends Host: evil.test. Loopback names and literal addresses are
 * fine, because no foreign page can have such an origin: proxies that rewrite Host use them.
 */
export function hostCheck(publicUrl: string): RequestHandler {
  const ours = new URL(publicUrl).hostname;
  return (req, res, next) => {
    const host = hostnameOf(req.headers.host);
    if (host !== null && (host === ours || isLoopbackName(host) || /^\d{1,3}(\.\d{1,3}){3}$|^\[/.test(host))) return next();
    refuse(res, 403, -32600, "This address is not served here.");
  };
}

/** HTTP-02: an Origin that is present must be ours or named in ALLOWED_ORIGINS; those that are named get CORS. */
export function originCheck(publicUrl: string, allowedOrigins: readonly string[]): RequestHandler {
  const ours = new URL(publicUrl).origin;
  const allowed = new Set(allowedOrigins);
  return (req, res, next) => {
    const origin = req.headers.origin;
    if (allowed.size > 0) res.vary("Origin");
    if (origin === undefined || origin === ours) return next();
    if (!allowed.has(origin)) return refuse(res, 403, -32600, "This origin is not allowed.");
    res.setHeader("Access-Control-Allow-Origin", origin);
    res.setHeader("Access-Control-Expose-Headers", "WWW-Authenticate, Mcp-Session-Id, MCP-Protocol-Version, X-Request-Id");
    next();
  };
}

/** Answers preflights; they carry no bearer and are never an MCP request. */
export function preflight(methods: string): RequestHandler {
  return (req, res, next) => {
    if (req.method !== "OPTIONS") return next();
    res.setHeader("Allow", methods);
    if (res.hasHeader("Access-Control-Allow-Origin")) {
      res.setHeader("Access-Control-Allow-Methods", methods);
      res.setHeader(
        "Access-Control-Allow-Headers",
        "Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, Last-Event-ID, traceparent, tracestate, baggage",
      );
      res.setHeader("Access-Control-Max-Age", "600");
    }
    res.status(204).end();
  };
}

/** The bearer of the Authorization header; null: there is none, or it was put where it does not belong. */
export function bearerOf(req: Request): string | null {
  // RFC 6750 section 5.3: tokens in URLs end up in logs. Not even beside a header is one tolerated.
  if ("access_token" in req.query) return null;
  const match = /^Bearer +([A-Za-z0-9\-._~+/]+=*) *$/i.exec(req.headers.authorization ?? "");
  return match?.[1] ?? null;
}

/** RFC 6750 section 3, RFC 9728 section 5.1. Without a token there is no error code to give. */
export function challenge(res: Response, address: EndpointAddress, tokenWasGiven: boolean): void {
  const error = tokenWasGiven ? `error="invalid_token", ` : "";
  res.setHeader("WWW-Authenticate", `Bearer ${error}resource_metadata="${metadataUrl(address)}", scope="${SCOPES.join(" ")}"`);
  refuse(res, 401, -32600, "A valid access token for this server is required.");
}

/** All scopes that the operation needs, in one go (AZ-07). */
export function scopeChallenge(res: Response, address: EndpointAddress, needed: readonly string[], id: unknown): void {
  res.setHeader(
    "WWW-Authenticate",
    `Bearer error="insufficient_scope", scope="${needed.join(" ")}", resource_metadata="${metadataUrl(address)}"`,
  );
  refuse(res, 403, -32600, "The access token lacks a scope that this call needs.", id);
}

function hostnameOf(host: string | undefined): string | null {
  if (host === undefined || !/^[a-zA-Z0-9.:[\]-]+$/.test(host)) return null;
  const url = `http://${host}`;
  return URL.canParse(url) ? new URL(url).hostname : null;
}
