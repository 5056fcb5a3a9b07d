// The HTTP side of an MCP endpoint: guard, body, scope check, then the SDK. And its RFC 9728 metadata.
// Must never happen: a body read before the bearer was checked; an answer that is not JSON-RPC; a writing tool reached
// without mcp:write; an HTML page or a stack.
import { createMcpHandler } from "@modelcontextprotocol/server";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { type ErrorRequestHandler, type Request, type RequestHandler, type Response, Router } from "express";
import type { Clock } from "../clock.js";
import type { Settings } from "../config/settings.js";
import type { KeyRing } from "../crypto/keyring.js";
import type { Database } from "../db/client.js";
import { OutbandError } from "../errors.js";
import { getRequestId } from "../http/guard.js";
import { readThrown } from "../http/problem.js";
import type { PersonPrincipal } from "../identity/principal.js";
import type { TokenVerifier } from "../identity/tokenVerifier.js";
import type { Log } from "../log.js";
import type { Vault } from "../vault/front.js";
import { argumentsDigest } from "./arguments.js";
import { BODY_BYTES_MAX, readBody } from "./body.js";
import { createElicitation, type Elicitation } from "./elicitation.js";
import {
  bearerOf,
  challenge,
  type EndpointAddress,
  hostCheck,
  originCheck,
  preflight,
  refuse,
  resourceUrl,
  SCOPES,
  scopeChallenge,
} from "./guard.js";
import { createMetaTools } from "./meta/metaTools.js";
import { createOwnTools } from "./ownTools.js";
import { createQuestionBook } from "./questions.js";
import { createStateCodec, type StateCodec } from "./requestState.js";
import { createSeats } from "./seats.js";
import { Asked, createServerFactory, INSTRUCTIONS, META_INSTRUCTIONS } from "./server.js";
import { type Catalogue, createCatalogue, fixedCatalogue } from "./tools.js";

export interface McpRouterDeps {
  vault: Vault;
  verifier: Pick<TokenVerifier, "verify">;
  /** Whose tokens the verifier takes, ours first; default: ours alone. */
  authorizationServers?: readonly string[];
  ring: Pick<KeyRing, "derive">;
  db: Pick<Database, "prisma" | "transaction">;
  clock: Clock;
  log: Log;
  settings: Pick<Settings, "publicUrl" | "settleWaitMs" | "settleLegMs" | "maxRounds" | "linkTtlS" | "allowedOrigins">;
  /** Aborts when the program was told to stop: calls that wait for people end. */
  stopping: AbortSignal;
}

/** What one address serves. */
interface Endpoint {
  address: EndpointAddress;
  catalogue: Catalogue;
  instructions: string;
}

/** Mounted before any body parser: it reads its bodies itself, and only after the bearer was checked. */
export function createMcpRouter(deps: McpRouterDeps): Router {
  const { settings, clock, vault } = deps;
  const { publicUrl } = settings;
  const states = createStateCodec({ ring: deps.ring, clock, linkTtlS: settings.linkTtlS });
  const questions = createQuestionBook(deps);
  const elicitation = createElicitation({ ...deps, questions, seats: createSeats(), states });
  const endpoints: Endpoint[] = [
    {
      address: { publicUrl, path: "/mcp" },
      catalogue: createCatalogue({ vault, own: createOwnTools({ ...deps, publicUrl }) }),
      instructions: INSTRUCTIONS,
    },
    {
      address: { publicUrl, path: "/mcp/meta" },
      catalogue: fixedCatalogue(createMetaTools({ ...deps, publicUrl, tools: createCatalogue({ vault, own: [] }) })),
      instructions: META_INSTRUCTIONS,
    },
  ];

  const router = Router();
  for (const endpoint of endpoints) mount(router, endpoint, deps, { elicitation, states });
  const [direct] = endpoints;
  // RFC 9728 section 3.1: for a client that looks at the origin alone.
  if (direct) router.all(WELL_KNOWN, ...metadataOf(direct.address, deps));
  router.use(failed(deps.log));
  return router;
}

const WELL_KNOWN = "/.well-known/oauth-protected-resource";

function mount(router: Router, endpoint: Endpoint, deps: McpRouterDeps, parts: { elicitation: Elicitation; states: StateCodec }): void {
  const { settings, clock, log } = deps;
  const { address, catalogue } = endpoint;
  const factory = createServerFactory({ ...endpoint, ...parts, clock, log });
  const onerror = (error: Error): void => log.debug("mcp request refused", { detail: error.message });
  const handler = () => createMcpHandler(factory, { legacy: "stateless", maxRequestBodySize: BODY_BYTES_MAX, onerror });
  const serve = toNodeHandler(handler(), { onerror });
  // Streams that only listen would hold up the program's end; calls must still be answered then. So the two are apart.
  const listening = handler();
  const serveListening = toNodeHandler(listening, { onerror });
  deps.stopping.addEventListener("abort", () => void listening.close(), { once: true });

  const hostAndOrigin = [hostCheck(settings.publicUrl), originCheck(settings.publicUrl, settings.allowedOrigins)];
  router.all(address.path, ...hostAndOrigin, preflight("POST, OPTIONS"), async (req, res) => {
    const principal = await authenticated(deps, address, req, res);
    if (principal === null) return;
    if (req.method !== "POST") {
      res.setHeader("Allow", "POST, OPTIONS");
      return refuse(res, 405, -32600, "This endpoint takes POST alone.");
    }
    const body = await readBody(req);
    if (!body.ok) {
      // The rest of what is being sent is not waited for.
      if (body.status === 413) res.setHeader("Connection", "close");
      return refuse(res, body.status, body.code, body.text);
    }
    const asked = await askedOf(catalogue, address, principal, req, body.message);
    const needed = scopesNeeded(asked, principal);
    if (needed !== null) return scopeChallenge(res, address, needed, body.message["id"]);
    const { clientId, scopes, expiresAtMs } = principal;
    const auth = { token: "", clientId, scopes: [...scopes], expiresAt: Math.floor(expiresAtMs / 1000), extra: { asked } };
    const serveIt = body.message["method"] === "subscriptions/listen" ? serveListening : serve;
    await serveIt(Object.assign(req, { auth }), res, body.message);
  });
  router.all(WELL_KNOWN + address.path, ...metadataOf(address, deps));
}

function metadataOf(address: EndpointAddress, { settings, authorizationServers }: McpRouterDeps): RequestHandler[] {
  const document = protectedResource(address, authorizationServers ?? [`${settings.publicUrl}/oauth`]);
  return [originCheck(settings.publicUrl, settings.allowedOrigins), preflight("GET, OPTIONS"), document];
}

/** Null: the answer was given. The token itself goes no further than this. */
async function authenticated(deps: McpRouterDeps, address: EndpointAddress, req: Request, res: Response): Promise<PersonPrincipal | null> {
  const token = bearerOf(req);
  try {
    if (token !== null) return await deps.verifier.verify(token, resourceUrl(address));
  } catch (thrown) {
    if (!(thrown instanceof OutbandError) || thrown.code !== "unauthorized") throw thrown;
  }
  challenge(res, address, token !== null);
  return null;
}

async function askedOf(
  catalogue: Catalogue,
  address: EndpointAddress,
  principal: PersonPrincipal,
  req: Request,
  message: Record<string, unknown>,
): Promise<Asked> {
  const params = objectOf(message["params"]);
  const name = message["method"] === "tools/call" ? params?.["name"] : undefined;
  const tool = typeof name === "string" ? await catalogue.find(name) : null;
  const args = objectOf(params?.["arguments"]) ?? {};
  const call = tool && { tool, args, argumentsDigest: argumentsDigest(args), effect: (await tool.effectOf?.(args)) ?? tool.effect };
  return new Asked(
    principal,
    address.path,
    getRequestId(req),
    traceIdOf(objectOf(params?.["_meta"])?.["traceparent"]) ?? traceIdOf(req.headers["traceparent"]),
    call,
  );
}

/** `mcp:write` includes reading (AZ-08). Null: the token has what this takes. */
function scopesNeeded(asked: Asked, principal: PersonPrincipal): readonly string[] | null {
  if (asked.call?.effect === "write") return principal.scopes.has("mcp:write") ? null : SCOPES;
  return principal.scopes.has("mcp:read") || principal.scopes.has("mcp:write") ? null : ["mcp:read"];
}

/** W3C Trace Context, section 3.2: version, trace id, parent id, flags. Anything else is ignored (ENV-11). */
function traceIdOf(value: unknown): string | undefined {
  const match =
    typeof value === "string" ? /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-|$)/.exec(value) : null;
  return match?.[1];
}

function protectedResource(address: EndpointAddress, authorizationServers: readonly string[]): RequestHandler {
  const document = {
    resource: resourceUrl(address),
    authorization_servers: authorizationServers,
    scopes_supported: SCOPES,
    bearer_methods_supported: ["header"],
    resource_name: "Outband",
  };
  return (req, res) => {
    if (req.method === "GET" || req.method === "HEAD") return void res.json(document);
    res.setHeader("Allow", "GET, OPTIONS");
    refuse(res, 405, -32600, "This document is only read.");
  };
}

function failed(log: Log): ErrorRequestHandler {
  return (thrown: unknown, _req, res, next) => {
    if (res.headersSent) return next(thrown);
    const error = readThrown(thrown);
    if (error.status >= 500) log.error("an mcp request failed", { errorCode: error.code, error: thrown });
    if (error.retryAfterS !== undefined) res.setHeader("Retry-After", String(Math.ceil(error.retryAfterS)));
    refuse(res, error.status, -32603, error.message);
  };
}

function objectOf(value: unknown): Record<string, unknown> | undefined {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
}
