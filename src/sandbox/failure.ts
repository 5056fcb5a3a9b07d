// What is answered when no endpoint answers or one throws: in the shape of the surface it happened on. What was thrown goes to the
// log alone.
import type { Express, Response } from "express";
import type { Log } from "../log.js";
import { sendGoogleError } from "./google/errors.js";
import { sendTrouble } from "./page.js";

function isSlackApi(path: string): boolean {
  return path.startsWith("/slack/api/");
}

function isGoogleApi(path: string): boolean {
  return path.startsWith("/google/api/");
}

function answerUnknown(path: string, res: Response): Response {
  if (isGoogleApi(path)) {
    const message = "The sandbox does not have this method.";
    return sendGoogleError(res, { code: 404, status: "NOT_FOUND", reason: "notFound", message });
  }
  return sendTrouble(res, { owner: "sandbox", status: 404, title: "There is nothing here", text: "The sandbox does not have this page." });
}

/** A body that is too large or not well-formed. */
function answerUnreadable(path: string, res: Response, status: number): Response {
  if (isSlackApi(path)) return res.json({ ok: false, error: "invalid_json" });
  if (isGoogleApi(path)) {
    return sendGoogleError(res, { code: status, status: "INVALID_ARGUMENT", reason: "parseError", message: "Parse Error" });
  }
  if (path === "/google/token" || path === "/google/revoke") return res.status(400).json({ error: "invalid_request" });
  const title = "The request could not be read";
  return sendTrouble(res, { owner: "sandbox", status, title, text: "It was too large or not well-formed." });
}

function answerBroken(path: string, res: Response): Response {
  if (isSlackApi(path)) return res.json({ ok: false, error: "internal_error" });
  if (isGoogleApi(path)) {
    const message = "Internal error encountered.";
    return sendGoogleError(res, { code: 500, status: "INTERNAL", reason: "backendError", message });
  }
  if (path === "/google/token" || path === "/google/revoke") return res.status(500).json({ error: "internal_failure" });
  const title = "The sandbox failed to answer";
  return sendTrouble(res, { owner: "sandbox", status: 500, title, text: "This is a fault of the sandbox itself. The log says more." });
}

export function mountFailures(app: Express, log: Log): void {
  app.use((req, res) => {
    answerUnknown(req.path, res);
  });
  // Four parameters make it an error handler; Express looks at their number.
  app.use((error: unknown, req: { path: string }, res: Response, next: (error: unknown) => void) => {
    if (res.headersSent) {
      next(error);
      return;
    }
    const status = Number((error as { status?: unknown }).status);
    if (status >= 400 && status < 500) {
      answerUnreadable(req.path, res, status);
      return;
    }
    log.error("The sandbox failed to answer.", { path: req.path, error });
    answerBroken(req.path, res);
  });
}
