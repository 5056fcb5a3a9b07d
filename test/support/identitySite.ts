// Identity, browser sessions and the authorization server on a loopback port, wired as the program wires them, with one
// protected endpoint `/mcp` that answers with who is asking.
import type { AddressInfo } from "node:net";
import express from "express";
import { systemClock, type Clock } from "../../src/clock.js";
import { createAuthorizationServer, issuerOf, type AuthorizationServer } from "../../src/authorization/server.js";
import { createSealer } from "../../src/crypto/dataKeys.js";
import { createKeyRing } from "../../src/crypto/keyring.js";
import { secret, type Secret } from "../../src/crypto/secret.js";
import type { Database } from "../../src/db/client.js";
import { createAssets } from "../../src/http/assets.js";
import { requestContext, securityHeaders } from "../../src/http/guard.js";
import { notFound, pageErrors, readThrown } from "../../src/http/problem.js";
import { createRenderer } from "../../src/http/render.js";
import { createSessions, csrfToken, currentPerson, requirePerson, type Sessions } from "../../src/http/session.js";
import { createApiKeys, type ApiKeys } from "../../src/identity/apiKeys.js";
import { createSessionTokens, type SessionTokens } from "../../src/identity/sessionTokens.js";
import { createSigningKeys, type SigningKeys } from "../../src/identity/signingKeys.js";
import { createTokenVerifier, type TokenVerifier } from "../../src/identity/tokenVerifier.js";
import { createUsers, type User, type Users } from "../../src/identity/users.js";
import { createLog } from "../../src/log.js";
import type { Egress } from "../../src/net/egress.js";
import { createSignInPages } from "../../src/pages/signIn.js";
import { createBrowser, type Browser, type Page } from "./browser.js";
import { QUICK_PASSWORDS } from "./passwordCost.js";

export const PASSWORD = "correct horse battery";
export const TEST_MASTER_KEY = secret(Buffer.alloc(32, "identity test").toString("base64"));

export interface IdentitySite {
  origin: string;
  users: Users;
  apiKeys: ApiKeys;
  sessions: Sessions;
  keys: SigningKeys;
  sessionTokens: SessionTokens;
  verifier: TokenVerifier;
  server: AuthorizationServer;
  /** Log lines, and what anybody printed on the console meanwhile. */
  lines: string[];
  browser(): Browser;
  person(name: string, role?: "user" | "viewer" | "admin"): Promise<User>;
  /** A browser in which this person is signed in. */
  signedIn(user: User): Promise<Browser>;
  signIn(browser: Browser, user: User): Promise<Page>;
  mcp(token: string, path?: string): Promise<{ status: number; body: Record<string, unknown> }>;
  close(): Promise<void>;
}

export interface SiteOptions {
  db: Database;
  clock?: Clock;
  /** Another one than where it listens: for what a proxy in front changes. */
  publicUrl?: string;
  allowedOrigins?: string[];
  adminKey?: Secret;
  /** Answers to fetches of client metadata documents, by URL. */
  documents?: Map<string, unknown>;
  /** The real way out instead of `documents`. */
  egress?: Pick<Egress, "fetchFor">;
}

export async function openIdentitySite(options: SiteOptions): Promise<IdentitySite> {
  const { db } = options;
  const clock = options.clock ?? systemClock;
  const lines: string[] = [];
  const log = createLog({ level: "debug", write: (line) => lines.push(line) });
  const app = express();
  const http = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => http.once("listening", resolve));
  const origin = `http://localhost:${(http.address() as AddressInfo).port}`;
  const publicUrl = options.publicUrl ?? origin;

  const ring = await createKeyRing({ current: TEST_MASTER_KEY, previous: [] });
  const sealer = createSealer({ ring, db, clock });
  const users = createUsers({ db, clock, passwordCost: QUICK_PASSWORDS });
  const apiKeys = createApiKeys({ db, clock, adminKey: options.adminKey ?? null, cliKey: null });
  const keys = await createSigningKeys({ db, sealer, clock });
  const issuer = issuerOf(publicUrl);
  const verifier = createTokenVerifier({ keys, issuer, db, clock, isFixedKey: apiKeys.isFixed });
  const sessionTokens = createSessionTokens({ keys, issuer, publicUrl, clock });
  const loadPerson = async (sub: string) => {
    const user = await users.find(sub);
    return user && user.role !== "disabled" ? { sub: user.sub, email: user.email, name: user.name, role: user.role } : null;
  };
  const sessions = createSessions({ db, sealer, ring, publicUrl, clock, loadPerson });
  const render = createRenderer({ publicUrl, sandbox: () => false, clock, visitor: { person: currentPerson, csrf: csrfToken } });
  const server = await createAuthorizationServer({
    db,
    sealer,
    ring,
    clock,
    log,
    egress: options.egress ?? { fetchFor: () => documentFetch(options.documents ?? new Map()) },
    keys,
    users,
    sessions,
    render,
    publicUrl,
    allowedOrigins: options.allowedOrigins ?? [],
    resources: () => [`${publicUrl}/mcp`, `${publicUrl}/mcp/meta`],
  });

  app.disable("x-powered-by");
  app.use(requestContext({ publicUrl, clock }), securityHeaders(publicUrl));
  app.use(server.router);
  app.use("/mcp", async (req, res) => {
    try {
      const bearer = (req.headers.authorization ?? "").replace(/^Bearer /, "");
      const principal = await verifier.verify(bearer, `${publicUrl}${req.baseUrl}${req.path === "/" ? "" : req.path}`);
      res.json({ ...principal, scopes: [...principal.scopes].sort() });
    } catch (thrown) {
      const error = readThrown(thrown);
      res.status(error.status).json({ code: error.code, reason: error.reason });
    }
  });
  app.get("/.well-known/oauth-protected-resource/mcp", (_req, res) => {
    res.json({ resource: `${publicUrl}/mcp`, authorization_servers: [server.issuer], scopes_supported: ["mcp:read", "mcp:write"] });
  });
  app.use("/assets", createAssets());
  app.use(...sessions.middleware);
  app.use(createSignInPages({ users, sessions, render, apps: server }));
  app.get("/connections", requirePerson, (req, res) => {
    res.send(`hello ${currentPerson(req)?.email}`);
  });
  app.use(notFound, pageErrors(log, render));

  const site: IdentitySite = {
    origin,
    users,
    apiKeys,
    sessions,
    keys,
    sessionTokens,
    verifier,
    server,
    lines,
    browser: () => createBrowser(origin),
    person: (name, role = "user") => users.create({ email: `${name}@people.test`, name, password: PASSWORD, role }),
    signedIn: async (user) => {
      const browser = createBrowser(origin);
      await site.signIn(browser, user);
      return browser;
    },
    signIn: async (browser, user) => {
      const page = await browser.get("/login");
      return browser.post("/login", { email: user.email, password: PASSWORD }, { from: page });
    },
    mcp: async (token, path = "/mcp") => {
      const answer = await fetch(origin + path, { headers: { authorization: `Bearer ${token}` } });
      return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
    },
    close: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      }),
  };
  return site;
}

function documentFetch(documents: Map<string, unknown>): typeof fetch {
  return async (input) => {
    const found = documents.get(String(input));
    if (found === undefined) throw new TypeError("fetch failed");
    return new Response(JSON.stringify(found), { status: 200, headers: { "content-type": "application/json" } });
  };
}
