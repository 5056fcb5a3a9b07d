// Errors in the shape of Google's APIs: https status, `errors[].reason` of old, `status` and `details` of now.
import type { Response } from "express";
import { CALL_SCOPES, type GmailCall } from "./scopes.js";

export interface GoogleError {
  code: number;
  status: string;
  reason: string;
  message: string;
  details?: unknown[];
}

export function sendGoogleError(res: Response, error: GoogleError): Response {
  res.status(error.code).set("Cache-Control", "no-store");
  return res.json({
    error: {
      code: error.code,
      message: error.message,
      errors: [{ message: error.message, domain: "global", reason: error.reason }],
      status: error.status,
      ...(error.details && { details: error.details }),
    },
  });
}

function detail(reason: string, call: GmailCall): unknown {
  return {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    reason,
    domain: "googleapis.com",
    metadata: { service: "gmail.googleapis.com", method: `caribou.api.proto.MailboxService.${call}` },
  };
}

/** Unknown, expired and revoked tokens read alike, as at Google. */
export function sendUnauthenticated(res: Response, call: GmailCall, given: boolean): Response {
  res.set("WWW-Authenticate", `Bearer realm="sandbox"${given ? ', error="invalid_token"' : ""}`);
  return sendGoogleError(res, {
    code: 401,
    status: "UNAUTHENTICATED",
    reason: given ? "authError" : "required",
    message: "Request had invalid authentication credentials. Expected OAuth 2 access token.",
    details: [detail(given ? "ACCESS_TOKEN_EXPIRED" : "CREDENTIALS_MISSING", call)],
  });
}

export function sendScopeInsufficient(res: Response, call: GmailCall): Response {
  res.set("WWW-Authenticate", `Bearer realm="sandbox", error="insufficient_scope", scope="${CALL_SCOPES[call].join(" ")}"`);
  return sendGoogleError(res, {
    code: 403,
    status: "PERMISSION_DENIED",
    reason: "insufficientPermissions",
    message: "Request had insufficient authentication scopes.",
    details: [detail("ACCESS_TOKEN_SCOPE_INSUFFICIENT", call)],
  });
}

export const NOT_FOUND: GoogleError = { code: 404, status: "NOT_FOUND", reason: "notFound", message: "Requested entity was not found." };

export function invalidArgument(message: string): GoogleError {
  return { code: 400, status: "INVALID_ARGUMENT", reason: "invalidArgument", message };
}
