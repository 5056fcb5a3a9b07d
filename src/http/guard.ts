// What every HTTP answer gets before anybody looks at the request: an id, the security headers, and the one name this
// installation answers for. Must never happen: a URL built from Host or X-Forwarded-*; a page that may be framed,
// cached, run inline script or load from a third party.
import type { Request, RequestHandler, Response } from "express";
import helmet from "helmet";
import type { Clock } from "../clock.js";
import { OutbandError } from "../errors.js";
import { newId } from "../ids.js";

const ids = new WeakMap<object, string>();

/** For machines, at whatever name they reach us: a redirect would break a health check or a bearer request. */
const MACHINE_PATHS = ["/mcp", "/api", "/.well-known", "/assets", "/healthz", "/readyz", "/metrics"];
/** The authorization server: browsers read its pages, clients its JSON, so the Accept header decides. */
const MIXED_PATHS = ["/oauth"];

/** Gives the request its id, and brings browsers on another loopback name to the name of PUBLIC_URL: cookies and redirect URIs live there. */
export function requestContext(deps: { publicUrl: string; clock: Clock }): RequestHandler {
  const ours = new URL(deps.publicUrl);
  const loopback = isLoopbackName(ours.hostname);
  return (req, res, next) => {
    const id = newId(deps.clock, "req");
    ids.set(req, id);
    res.setHeader("X-Request-Id", id);
    // Absolute-form and "*" targets never come from a browser; below, targets are appended to an origin.
    if (!req.originalUrl.startsWith("/")) throw new OutbandError("invalid_request");
    if (!forBrowsers(req)) return next();
    // Else a path that no route takes would be a 404, and one that a route takes a 400.
    if (!isDecodable(req.path)) throw new OutbandError("invalid_request", { message: "The address is not well-formed." });
    const asked = hostnameOf(req.headers.host);
    if (!loopback || asked === ours.hostname) return next();
    // On loopback a foreign name is DNS rebinding, or a tunnel that PUBLIC_URL does not know: neither can work.
    if (asked === null || !isLoopbackName(asked)) {
      throw new OutbandError("forbidden", { message: "This installation does not answer for that address. Its operator sets the address with PUBLIC_URL." });
    }
    if (req.method !== "GET" && req.method !== "HEAD") return next();
    res.redirect(307, ours.origin + req.originalUrl);
  };
}

/** The id of the request, for logs, audit rows and error answers. */
export function getRequestId(req: Request): string {
  return ids.get(req) ?? "req_none";
}

/** For every answer, also of the API: a JSON answer that a browser is made to show must be as inert as a page. */
export function securityHeaders(publicUrl: string): RequestHandler {
  const https = publicUrl.startsWith("https:");
  const protect = helmet({
    // Per page: see allowFormAction.
    contentSecurityPolicy: false,
    // Ignored, with a warning in the console, on http.
    crossOriginOpenerPolicy: https,
    strictTransportSecurity: https ? { maxAge: 31_536_000, includeSubDomains: false } : false,
    xFrameOptions: { action: "deny" },
  });
  return (req, res, next) => {
    res.setHeader("Cache-Control", "no-store");
    res.setHeader("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()");
    res.setHeader("X-Robots-Tag", "noindex, nofollow");
    allowFormAction(res);
    protect(req, res, next);
  };
}

/**
 * Lets the forms of this one page end up at these origins too. Chromium applies form-action to every redirect that
 * follows a form (library notes: a consent POST that answered 303 to another origin was blocked), hence also the
 * provider's own hops and the way back.
 */
export function allowFormAction(res: Response, ...sources: string[]): void {
  const targets = ["'self'", ...new Set(sources.filter(isSource))];
  res.setHeader(
    "Content-Security-Policy",
    `default-src 'none'; style-src 'self'; img-src 'self' data:; form-action ${targets.join(" ")}; frame-ancestors 'none'; base-uri 'none'`,
  );
}

/** An origin, `https://*.host`, `https:`, or a private-use scheme of a native client: nothing that could end the directive or open it to plain http. */
function isSource(source: string): boolean {
  return source === "https:" || /^https?:\/\/(\*\.)?[a-z0-9.-]+(:\d{1,5})?$|^https?:\/\/\[[0-9a-f:]+\](:\d{1,5})?$|^(?!https?:|javascript:|data:|blob:|file:)[a-z][a-z0-9+.-]*:$/.test(source);
}

function forBrowsers(req: Request): boolean {
  const under = (prefix: string): boolean => req.path === prefix || req.path.startsWith(`${prefix}/`);
  if (MACHINE_PATHS.some(under)) return false;
  return !MIXED_PATHS.some(under) || (req.headers.accept ?? "").includes("text/html");
}

function isDecodable(path: string): boolean {
  try {
    decodeURIComponent(path);
    return true;
  } catch {
    return false;
  }
}

function hostnameOf(host: string | undefined): string | null {
  if (host === undefined || !/^[a-zA-Z0-9.:[\]-]+$/.test(host)) return null;
  const url = `http://${host}`;
  return URL.canParse(url) ? new URL(url).hostname : null;
}

export function isLoopbackName(hostname: string): boolean {
  return hostname === "localhost" || hostname.endsWith(".localhost") || hostname === "[::1]" || /^127(\.\d{1,3}){3}$/.test(hostname);
}
