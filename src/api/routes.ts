// The vault API below /api/v1: every route is a row; here they get the bearer check, the scope check, the parsed body and
// the one error renderer. Must never happen: a route without a scope; a body that reaches a handler unparsed.
import express, { type Request, type RequestHandler, type Response, Router } from "express";
import type { z } from "zod";
import { type ErrorCode, OutbandError } from "../errors.js";
import { getRequestId } from "../http/guard.js";
import { apiErrors, notFound } from "../http/problem.js";
import type { ApiKeyPrincipal, ApiScope } from "../identity/principal.js";
import type { Log } from "../log.js";
import type { Answer, Route } from "./route.js";

const BODY_MAX = "256kb";

export interface ApiRouterDeps {
  routes: Route[];
  authenticate(bearer: string): Promise<ApiKeyPrincipal | null>;
  log: Log;
}

export function createApiRouter(deps: ApiRouterDeps): Router {
  const router = Router();
  router.use(bearer(deps.authenticate));
  router.use(express.json({ limit: BODY_MAX, type: ["application/json", "application/*+json"] }));
  for (const row of deps.routes) router[row.method](row.path, handler(row));
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

function handler(row: Route): RequestHandler {
  return async (req, res) => {
    const actor = res.locals["actor"] as ApiKeyPrincipal;
    if (!holds(actor, row.scope)) throw new OutbandError("insufficient_scope", { reason: `needs_${row.scope}` });
    if (row.body && req.headers["content-type"] !== undefined && !req.is(["application/json", "application/*+json"])) throw new OutbandError("unsupported_media_type");
    const left = new AbortController();
    res.once("close", () => left.abort());
    const answer = await row.handle({
      actor,
      params: req.params as Record<string, string>,
      body: row.body ? parse(row.body, req.body ?? {}, "") : undefined,
      query: row.query ? parse(row.query, req.query, "query.") : undefined,
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

function holds(actor: ApiKeyPrincipal, scope: ApiScope): boolean {
  return actor.scopes.has("admin") || actor.scopes.has(scope);
}

function parse(schema: z.ZodType, value: unknown, prefix: string): unknown {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map((issue) => ({ path: `${prefix}${issue.path.join(".")}`, message: wordsOf(issue) }));
  const code: ErrorCode = "invalid_request";
  throw new OutbandError(code, { problems });
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
