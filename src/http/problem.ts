// The only renderer of errors: RFC 9457 problems for the API, HTML for people. Must never happen: a cause, a stack,
// a path (it may hold a link's token) or anything a client sent, in an answer; a stack on stderr beside the log.
import { STATUS_CODES } from "node:http";
import type { ErrorRequestHandler, Request, RequestHandler, Response } from "express";
import { OutbandError, type ErrorCode } from "../errors.js";
import { isUnavailable, isUnkeepableText } from "../db/errors.js";
import type { Log } from "../log.js";
import { getRequestId } from "./guard.js";
import type { Renderer } from "./render.js";

export interface Problem {
  type: "about:blank";
  title: string;
  status: number;
  detail: string;
  code: ErrorCode;
  request_id: string;
  reason?: string;
  errors?: { path: string; message: string }[];
}

/** RFC 9457, section 3: the type is about:blank, so the title is the status phrase; `code` is what programs read. */
export function problemOf(error: OutbandError, requestId: string): Problem {
  const problem: Problem = {
    type: "about:blank",
    title: STATUS_CODES[error.status] ?? "Error",
    status: error.status,
    detail: error.message,
    code: error.code,
    request_id: requestId,
  };
  if (error.reason !== undefined) problem.reason = error.reason;
  if (error.problems) problem.errors = error.problems;
  else if (error.status === 400) problem.errors = [{ path: "", message: error.message }];
  return problem;
}

export function apiErrors(log: Log): ErrorRequestHandler {
  return (thrown, req, res, _next) => {
    const error = readThrown(thrown);
    report(log, req, error);
    if (cutShort(res)) return;
    setErrorHeaders(res, error);
    if (error.status === 401 && !res.hasHeader("WWW-Authenticate")) res.setHeader("WWW-Authenticate", "Bearer");
    res.status(error.status).type("application/problem+json").send(JSON.stringify(problemOf(error, getRequestId(req))));
  };
}

export function pageErrors(log: Log, renderer: Renderer): ErrorRequestHandler {
  return (thrown, req, res, _next) => {
    const error = readThrown(thrown);
    report(log, req, error);
    if (cutShort(res)) return;
    setErrorHeaders(res, error);
    const requestId = getRequestId(req);
    const words = PAGE_WORDS[error.code] ?? {};
    const data = { title: words.heading ?? DEFAULT_HEADING, heading: words.heading ?? DEFAULT_HEADING, sentence: words.sentence ?? error.message, advice: words.advice ?? null, retryAfterS: error.retryAfterS ?? null, requestId };
    try {
      renderer.page(req, res, "error", data, { status: error.status });
    } catch (failure) {
      // A page about a broken page: plain words, no template, no session.
      log.error("error page failed", { requestId, error: failure });
      res.status(error.status).type("text/plain").send(`${error.message}\nRequest: ${requestId}\n`);
    }
  };
}

/** Nobody answered: the end of the page and of the API chain. */
export const notFound: RequestHandler = () => {
  throw new OutbandError("not_found");
};

/** For a path that exists under other methods (RFC 9110, section 15.5.6: Allow is required). */
export function methodNotAllowed(...allowed: string[]): RequestHandler {
  return (_req, res) => {
    res.setHeader("Allow", allowed.join(", "));
    throw new OutbandError("method_not_allowed");
  };
}

/** What Express, its body parsers and csrf-sync throw, by their documented marks; everything else is ours (500) until proved otherwise. */
export function readThrown(thrown: unknown): OutbandError {
  if (thrown instanceof OutbandError) return thrown;
  const { status, type, code } = marksOf(thrown);
  if (code === "EBADCSRFTOKEN") return new OutbandError("csrf_failed", { cause: thrown });
  if (type === "entity.parse.failed") return new OutbandError("invalid_request", { message: "The body is not well-formed.", cause: thrown });
  if (isUnavailable(thrown)) return new OutbandError("unavailable", { retryAfterS: 5, cause: thrown });
  if (isUnkeepableText(thrown)) return new OutbandError("invalid_request", { message: "There is a character that cannot be kept.", cause: thrown });
  if (thrown instanceof URIError) return new OutbandError("invalid_request", { message: "The address is not well-formed.", cause: thrown });
  const mapped = status === null ? undefined : BY_STATUS[status];
  if (mapped) return new OutbandError(mapped, { cause: thrown });
  if (status !== null && status >= 400 && status < 500) return new OutbandError("invalid_request", { cause: thrown });
  return new OutbandError("internal", { cause: thrown });
}

const BY_STATUS: Partial<Record<number, ErrorCode>> = {
  401: "unauthorized",
  403: "forbidden",
  404: "not_found",
  405: "method_not_allowed",
  413: "payload_too_large",
  415: "unsupported_media_type",
  429: "rate_limited",
};

function marksOf(thrown: unknown): { status: number | null; type: string | null; code: string | null } {
  if (typeof thrown !== "object" || thrown === null) return { status: null, type: null, code: null };
  const marks = thrown as { status?: unknown; type?: unknown; code?: unknown };
  return {
    status: typeof marks.status === "number" ? marks.status : null,
    type: typeof marks.type === "string" ? marks.type : null,
    code: typeof marks.code === "string" ? marks.code : null,
  };
}

function report(log: Log, req: Request, error: OutbandError): void {
  const fields = { requestId: getRequestId(req), method: req.method, errorCode: error.code, status: error.status };
  // The log knows what of an Error may be printed; anything else that was thrown is somebody's text.
  const cause = error.cause instanceof Error ? error.cause : typeof error.cause;
  if (error.status >= 500) log.error("request failed", { ...fields, reason: error.reason, error: cause });
  else log.debug("request refused", { ...fields, reason: error.reason });
}

/** Half an answer is out: cutting it off is the only honest end. */
function cutShort(res: Response): boolean {
  if (!res.headersSent) return false;
  res.destroy();
  return true;
}

function setErrorHeaders(res: Response, error: OutbandError): void {
  res.setHeader("Cache-Control", "no-store");
  if (error.retryAfterS !== undefined) res.setHeader("Retry-After", String(Math.max(1, Math.ceil(error.retryAfterS))));
}

const DEFAULT_HEADING = "This did not work";

interface PageWords {
  heading?: string;
  sentence?: string;
  advice?: string;
}

/** Where a page says more than the table's sentence. */
const PAGE_WORDS: Partial<Record<ErrorCode, PageWords>> = {
  not_found: { heading: "Page not found", sentence: "There is nothing at this address.", advice: "Check that the whole link was copied. If an assistant gave it to you, ask it for a new one." },
  csrf_failed: { heading: "This form is out of date", sentence: "Nothing was changed.", advice: "Go back, reload the page and try again." },
  forbidden: { heading: "Not allowed" },
  unauthorized: { heading: "Please sign in", sentence: "This page is for signed-in people." },
  method_not_allowed: { heading: "This page cannot be used that way", sentence: "Nothing was changed.", advice: "Open the page from its link and use its buttons." },
  invalid_request: { heading: "This request is not valid" },
  payload_too_large: { heading: "Too much was sent" },
  rate_limited: { heading: "Too many tries", sentence: "Wait a little before the next try." },
  internal: { heading: "Something went wrong on our side", sentence: "It is not your doing.", advice: "Try again in a moment. If it happens again, give the reference below to whoever runs this installation." },
  unavailable: { heading: "Not ready yet", sentence: "The service is starting or stopping.", advice: "Try again in a moment." },
  provider_unavailable: { heading: "The service cannot be reached now", advice: "Nothing was changed. Try again in a few minutes." },
};
