// The built-in authorization server for MCP clients: oidc-provider on our own origin, under /oauth. Must never happen: a
// URL of another host in its metadata, a session here that outlives the person's at the browser, a body parser before it.
import type { EventEmitter } from "node:events";
import express, { type ErrorRequestHandler, Router, type Request, type Response } from "express";
import { isUnavailable } from "../db/errors.js";
import type { Log } from "../log.js";
import type { Renderer } from "../http/render.js";
import { currentPerson, type Sessions } from "../http/session.js";
import { createApprovals, type ApprovedApp } from "./approvals.js";
import { clientNames } from "./clientNames.js";
import type { ClientWords } from "./clients.js";
import { createConfiguration, ROUTES, type ConfigurationDeps } from "./configuration.js";
import { AUTHORIZATIONS, cors, limitBy, limitPagesBy, pinHost, prepareAuthorization, REGISTRATIONS, TOKEN_REQUESTS } from "./front.js";
import { createInteractions } from "./interactions.js";
import { Provider, type ErrorOut, type KoaContextWithOIDC } from "./oidcProvider.js";
import { sweepRecords } from "./sweep.js";

export type { ApprovedApp } from "./approvals.js";

export interface AuthorizationServer {
  /** To be mounted at the root, before any body parser. */
  router: Router;
  /** `PUBLIC_URL/oauth`. */
  issuer: string;
  /** Ends the /oauth session of this browser. */
  endSession(req: Request, res: Response): Promise<void>;
  /** Ends every grant and /oauth session of the person; their tokens are refused from the next call on. */
  revokeGrantsOf(sub: string): Promise<void>;
  /** The apps that a person let in, newest first. */
  appsOf(sub: string): Promise<ApprovedApp[]>;
  endApp(sub: string, id: string): Promise<void>;
  /** What clients call themselves, by client id; whoever is not in it is not registered (any more), or gave no name. */
  clientsNamed(ids: readonly (string | null)[]): Promise<Map<string, ClientWords>>;
  /** For the worker: expired records, and registered clients that nobody has a grant for. */
  sweep(): Promise<void>;
}

export interface AuthorizationDeps extends Omit<ConfigurationDeps, "approvals" | "renderError"> {
  sessions: Sessions;
  render: Renderer;
  log: Log;
}

export function issuerOf(publicUrl: string): string {
  return `${publicUrl}/oauth`;
}

const FORM_BYTES_MAX = "16kb";
const RETRY_AFTER_S = 5;
/** RFC 6749, section 4.1.2.1, which is the only one of its errors that says "later". */
const UNAVAILABLE_BODY = { error: "temporarily_unavailable", error_description: "The service is not ready. Try again shortly." };

export async function createAuthorizationServer(deps: AuthorizationDeps): Promise<AuthorizationServer> {
  const { sessions, render, log } = deps;
  const issuer = issuerOf(deps.publicUrl);
  const approvals = createApprovals(deps);
  await deps.sealer.prepare("installation");
  const provider = new Provider(issuer, createConfiguration({ ...deps, approvals, renderError: (ctx, out, error) => renderError(render, ctx, out, error) }));
  // The headers it then reads are the ones that pinHost wrote.
  provider.proxy = true;
  provider.on("server_error", (ctx, error) => {
    log.error("authorization server failed", { error });
    // The library answers 500: clients take that as an end, and this is none.
    if (!isUnavailable(error) || ctx.respond === false) return;
    ctx.status = 503;
    ctx.set("Retry-After", String(RETRY_AFTER_S));
    ctx.body = UNAVAILABLE_BODY;
  });
  // What escapes the library's own handling. Without a listener Koa prints message and stack on stderr, past the log.
  (provider as unknown as EventEmitter).on("error", (error: { expose?: boolean }) => {
    if (error.expose !== true) log.error("authorization server failed", { error });
  });
  provider.on("grant.revoked", (ctx) => log.info("grant revoked", { route: ctx.oidc.route }));
  provider.use(async (ctx, next) => {
    if (ctx.path === ROUTES.authorization) await dropForeignSession(provider, ctx.req as Request, ctx.res as Response);
    await next();
    // The library names all it could do; prepareAuthorization lets one through.
    if (ctx.path.startsWith("/.well-known/") && isRecord(ctx.body)) ctx.body.response_modes_supported = ["query"];
  });

  async function endSession(req: Request, res: Response): Promise<void> {
    pinHost(deps.publicUrl)(req, res, () => {});
    const session = await provider.Session.get(provider.createContext(req, res));
    if (session.accountId !== undefined) await session.destroy();
  }
  sessions.onEnd((req, res) => endSession(req, res));

  return {
    router: createRouter(deps, provider),
    issuer,
    endSession,
    revokeGrantsOf: (sub) => approvals.endAllOf(sub),
    appsOf: (sub) => approvals.appsOf(sub, provider),
    endApp: (sub, id) => approvals.endApp(sub, id),
    clientsNamed: (ids) => clientNames(deps, ids),
    sweep: () => sweepRecords(deps),
  };
}

function createRouter(deps: AuthorizationDeps, provider: Provider): Router {
  const router = Router();
  const serve = provider.callback();
  const pin = pinHost(deps.publicUrl);
  const open = cors(deps.allowedOrigins);
  const { middleware, csrfGuard } = deps.sessions;
  const { show, answer } = createInteractions({ provider, render: deps.render, db: deps.db });

  // RFC 8414, section 3.1, and its likeness for OpenID Connect: the well-known part goes before the issuer's path.
  router.use(["/.well-known/oauth-authorization-server/oauth", "/.well-known/openid-configuration/oauth"], pin, open, (req, res) => {
    req.url = "/.well-known/oauth-authorization-server";
    req.originalUrl = `/oauth${req.url}`;
    req.baseUrl = "/oauth";
    return serve(req, res);
  });

  router.use("/oauth", pin);
  router.use(["/oauth/.well-known", `/oauth${ROUTES.token}`, `/oauth${ROUTES.registration}`, `/oauth${ROUTES.revocation}`, `/oauth${ROUTES.jwks}`], open);
  router.post(`/oauth${ROUTES.registration}`, limitBy(deps, "client_registration", REGISTRATIONS));
  router.post(`/oauth${ROUTES.token}`, limitBy(deps, "token_request", TOKEN_REQUESTS));
  router.get(`/oauth${ROUTES.authorization}`, limitPagesBy(deps, "authorization", AUTHORIZATIONS), ...middleware, prepareAuthorization);
  router.get(`/oauth${ROUTES.authorization}/:uid`, ...middleware);
  router.get("/oauth/interaction/:uid", ...middleware, show);
  router.post("/oauth/interaction/:uid", ...middleware, express.urlencoded({ extended: false, limit: FORM_BYTES_MAX }), csrfGuard, answer);
  router.use("/oauth", (req, res) => serve(req, res));
  router.use(ROUTES_OF_PROGRAMS.map((path) => `/oauth${path}`), unavailable(deps.log));
  return router;
}

const ROUTES_OF_PROGRAMS = [ROUTES.token, ROUTES.registration, ROUTES.revocation, ROUTES.jwks];

/** What fails before the library is reached, told to programs in their own words; everything else has its page. */
function unavailable(log: Log): ErrorRequestHandler {
  return (thrown: unknown, _req, res, next) => {
    if (res.headersSent || !isUnavailable(thrown)) return next(thrown);
    log.error("authorization server failed", { error: thrown });
    res.set({ "Retry-After": String(RETRY_AFTER_S), "Cache-Control": "no-store" }).status(503).json(UNAVAILABLE_BODY);
  };
}

/** The browser session says who is here. An /oauth session of somebody else (or of nobody any more) ends before the request begins. */
async function dropForeignSession(provider: Provider, req: Request, res: Response): Promise<void> {
  const session = await provider.Session.get(provider.createContext(req, res));
  if (session.accountId !== undefined && session.accountId !== currentPerson(req)?.sub) await session.destroy();
}

function isRecord(body: unknown): body is Record<string, unknown> {
  return typeof body === "object" && body !== null && "issuer" in body;
}

/** People get a page; programs that met an error at an endpoint of theirs get the JSON of the RFCs. */
function renderError(render: Renderer, ctx: KoaContextWithOIDC, out: ErrorOut, error: Error): void {
  const isPage = ctx.oidc.route === "authorization" || ctx.oidc.route === "resume";
  if (!isPage) {
    ctx.body = out;
    return;
  }
  // The renderer answers on the response itself; Koa must not.
  ctx.respond = false;
  const passing = isUnavailable(error);
  if (passing) ctx.res.setHeader("Retry-After", String(RETRY_AFTER_S));
  const known = out.error === "server_error" ? null : (out.error_description ?? null);
  const data = { title: "This app cannot sign in", ended: false, code: out.error, text: known };
  render.page(ctx.req as Request, ctx.res as Response, "authorizationError", data, { status: passing ? 503 : ctx.status });
}
