// The cookie that ties a flow's `state` to the browser that started it (RFC 9700, section 4.7: CSRF on the callback).
// One value per browser, so several flows may be open side by side and the cookie never grows. It identifies nobody.
import type { Request, Response } from "express";
import type { Clock } from "../clock.js";

const BYTES = 32;
const LIFETIME_MS = 24 * 60 * 60 * 1000;

export interface BrowserBinding {
  /** Null: this browser never started a flow. */
  read(req: Request): string | null;
  /** The browser's value, made if absent; to be called only by a POST of the person. */
  ensure(req: Request, res: Response): string;
}

export function createBrowserBinding(deps: { publicUrl: string; clock: Clock }): BrowserBinding {
  const https = deps.publicUrl.startsWith("https:");
  // Browsers drop a `__Host-` cookie without Secure, and Secure needs https: the name follows the scheme.
  const name = https ? "__Host-outband_browser" : "outband_browser";

  function read(req: Request): string | null {
    for (const pair of (req.headers.cookie ?? "").split(";")) {
      const at = pair.indexOf("=");
      if (at < 0 || pair.slice(0, at).trim() !== name) continue;
      const value = pair.slice(at + 1).trim();
      return /^[A-Za-z0-9_-]{43}$/.test(value) ? value : null;
    }
    return null;
  }

  function ensure(req: Request, res: Response): string {
    const value = read(req) ?? deps.clock.randomBytes(BYTES).toString("base64url");
    // Lax: the provider's redirect back is a top-level GET from another site and must carry it.
    res.cookie(name, value, { httpOnly: true, secure: https, sameSite: "lax", path: "/", maxAge: LIFETIME_MS });
    return value;
  }

  return { read, ensure };
}
