// The vault API below /api/v1: every route is a row; here they get the bearer check, the scope check, the parsed body and
// the one error renderer. Must never happen: a route without a scope; a body or query that reaches a handler unparsed.
import express, { type Request, type RequestHandler, type Response, Router } from "express";
import { z } from "zod";
import { OutbandError } from "../errors.js";
import { getRequestId } from "../http/guard.js";
import { apiErrors, methodNotAllowed, notFound } from "../http/problem.js";
import type { ApiKeyPrincipal, ApiScope } from "../identity/principal.js";
import type { Log } from "../log.js";
import type { Answer, Route } from "./route.js";
import { holdsUnkeepable } from "./text.js";

const BODY_MAX = "256kb";
const JSON_TYPES = ["application/json", "application/*+json"];
/** A small body can be wrong in a hundred thousand places; the answer is not to be larger than the question. */
const PROBLEMS_MAX = 20;
const NO_QUERY = z.strictObject({});

export interface ApiRouterDeps {
  routes: Route[];
  authenticate(bearer: string): Promise<ApiKeyPrincipal | null>;
  log: Log;
}

export function createApiRouter(deps: ApiRouterDeps): Router {
  const router = Router();
  const json = express.json({ limit: BODY_MAX, type: JSON_TYPES });
  router.use(bearer(deps.authenticate));
  router.use(decodable);
  for (const path of new Set(deps.routes.map((row) => row.path))) {
    const rows = deps.routes.filter((row) => row.path === path);
    for (const row of rows) router[row.method](path, mayCall(row), ...(row.body ? [json] : []), handler(row));
    router.all(path, methodNotAllowed(...rows.flatMap(({ method }) => (method === "get" ? ["GET", "HEAD"] : [method.toUpperCase()]))));
  }
  router.use(notFound);
  router.use(apiErrors(deps.log));
  return router;
}

/** The credential is checked before anything of the request is read. */
function bearer(authenticate: ApiRouterDeps["authenticate"]): RequestHandler {
  return async (req, res, next) => {
    const given = /^Bearer +([\x21-\x7e]{1,4096})$/i.exec(req.headers.authorization ?? "")?.[1];
    const actor = given === undefined ? null : await authenticate(given);
    if (!actor) throw new OutbandError("unauthorized");
    res.locals["actor"] = actor;
    next();
  };
}

/** Express decodes the path alone; a query's broken bytes would become U+FFFD, and two identifiers one. */
const decodable: RequestHandler = (req, _res, next) => {
  decodeURIComponent(req.url);
  next();
};

/** What can be refused before the body is read. */
function mayCall(row: Route): RequestHandler {
  return (req, res, next) => {
    if (!holds(actorOf(res), row.scope)) throw new OutbandError("insufficient_scope", { reason: `needs_${row.scope}` });
    // No id or name holds such text: it is as unknown as any other.
    if (holdsUnkeepable(req.params)) throw new OutbandError("not_found");
    if (row.body && hasBody(req) && !req.is(JSON_TYPES)) throw new OutbandError("unsupported_media_type");
    next();
  };
}

function handler(row: Route): RequestHandler {
  return async (req, res) => {
    const left = new AbortController();
    res.once("close", () => left.abort());
    const answer = await row.handle({
      actor: actorOf(res),
      params: req.params as Record<string, string>,
      body: row.body ? parse(row.body, req.body ?? {}) : undefined,
      query: parse(row.query ?? NO_QUERY, req.query),
      requestId: getRequestId(req),
      traceId: traceIdOf(req),
      signal: left.signal,
    });
    send(res, answer);
  };
}

function send(res: Response, answer: Answer): void {
  if (answer.status === 204) res.status(204).end();
  else res.status(answer.status).json(answer.body);
}

function actorOf(res: Response): ApiKeyPrincipal {
  return res.locals["actor"] as ApiKeyPrincipal;
}

function holds(actor: ApiKeyPrincipal, scope: ApiScope): boolean {
  return actor.scopes.has("admin") || actor.scopes.has(scope);
}

/** RFC 9112, section 6.3; an empty body has no type to be wrong. */
function hasBody(req: Request): boolean {
  return req.headers["transfer-encoding"] !== undefined || Number(req.headers["content-length"] ?? 0) > 0;
}

function parse(schema: z.ZodType, value: unknown): unknown {
  if (holdsUnkeepable(value)) throw refused([{ path: "", message: "There is a character that cannot be kept: U+0000, or half of a surrogate pair." }]);
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw refused(parsed.error.issues.slice(0, PROBLEMS_MAX).map((issue) => ({ path: issue.path.map(stepOf).join("."), message: wordsOf(issue) })));
}

function refused(problems: { path: string; message: string }[]): OutbandError {
  return new OutbandError("invalid_request", { problems });
}

/** A record's key is the caller's own text, and may be a key pasted in the wrong place. */
function stepOf(step: PropertyKey): string {
  return /^\w{1,40}$/.test(String(step)) ? String(step) : "?";
}

/** zod's own sentences name types and limits, never the value; an unknown key is named by zod and cut here. */
function wordsOf(issue: z.core.$ZodIssue): string {
  if (issue.code === "unrecognized_keys") return "There is a key that this call does not know.";
  return issue.message.slice(0, 200);
}

/** W3C Trace Context: version-traceid-parentid-flags. */
export function traceIdOf(req: Pick<Request, "headers">): string | undefined {
  const header = req.headers["traceparent"];
  return typeof header === "string" ? /^00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/.exec(header)?.[1] : undefined;
}
