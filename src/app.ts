// The whole program, wired by hand: read this first. What a room needs comes as an argument; nothing here decides anything.
// Order matters in two places: the authorization server comes before any body parser, and pages come last.
import { createServer, type Server } from "node:http";
import express, { type Express } from "express";
import { createAdminPages } from "./admin/admin.js";
import { accountRoutes } from "./api/accounts.js";
import { connectionRoutes } from "./api/connections.js";
import { eventRoutes } from "./api/events.js";
import { keyRoutes } from "./api/keys.js";
import { peopleRoutes } from "./api/people.js";
import { createApiRouter } from "./api/routes.js";
import { toolRoutes } from "./api/tools.js";
import { listAudit } from "./audit/read.js";
import { createAuthorizationServer, issuerOf } from "./authorization/server.js";
import type { Clock } from "./clock.js";
import type { Settings } from "./config/settings.js";
import { createOAuthClient } from "./connectors/methods/oauth.js";
import { createRegistry } from "./connectors/registry.js";
import { createSealer } from "./crypto/dataKeys.js";
import { hasEveryKey, inspectKeys } from "./crypto/inspect.js";
import { openKeyRing } from "./crypto/masterKey.js";
import { createRotation } from "./crypto/rotate.js";
import { openDatabase } from "./db/client.js";
import { createAssets } from "./http/assets.js";
import { requestContext, securityHeaders } from "./http/guard.js";
import { createHealth } from "./http/health.js";
import { notFound, pageErrors } from "./http/problem.js";
import { createRenderer } from "./http/render.js";
import { createSessions, csrfToken, currentPerson, requirePerson } from "./http/session.js";
import { createApiKeys } from "./identity/apiKeys.js";
import { ensureCliKey } from "./identity/cliKey.js";
import { createExternalTokens } from "./identity/external/accessTokens.js";
import { CALLBACK_PATH, createExternalSignIn, requireSameIssuer } from "./identity/external/external.js";
import type { ScryptCost } from "./identity/passwords.js";
import { createPeople } from "./identity/people.js";
import { createSessionTokens } from "./identity/sessionTokens.js";
import { createSigningKeys } from "./identity/signingKeys.js";
import { sweepIdentity } from "./identity/sweep.js";
import { createTokenVerifier } from "./identity/tokenVerifier.js";
import { createUsers } from "./identity/users.js";
import type { Log } from "./log.js";
import { createMcpRouter } from "./mcp/endpoint.js";
import { isLoopbackHost } from "./net/addresses.js";
import { createEgress } from "./net/egress.js";
import { listenAt, listenRefusal } from "./net/listen.js";
import { createConnectPages } from "./pages/connect.js";
import { createConnectionsPages } from "./pages/connections.js";
import { createHomePage } from "./pages/home.js";
import { createSignInPages } from "./pages/signIn.js";
import { type Sandbox, startSandbox } from "./sandbox/sandbox.js";
import { provideConnections, wantsSandbox } from "./vault/provision.js";
import { createVault } from "./vault/vault.js";
import { startWorker } from "./worker.js";

const MINUTE_MS = 60_000;
const MCP_ENDPOINTS = ["/mcp", "/mcp/meta"];
/** The sandbox's port is the next one, so that its addresses stay the same over restarts. */
const SANDBOX_PORT_STEP = 1;
/** Load balancers keep an idle connection for a minute. They, not we, are to end it: else a request that is on its way meets a closed door. */
const KEEP_ALIVE_MS = 65_000;
/** How long requests in flight may take once the program is told to stop. */
const STOP_MS = 10_000;

export interface AppOptions {
  settings: Settings;
  clock: Clock;
  log: Log;
  /** Where the practice providers listen; default: the port after ours. 0: any. */
  sandboxPort?: number;
  /** Work of a password's hash; default: what OWASP asks for. */
  passwordCost?: ScryptCost;
}

export interface App {
  express: Express;
  database: "embedded" | "postgresql";
  sandbox: Sandbox | null;
  /** Which of them a connection uses: `Google`, `Slack`. */
  practised: string[];
  /** While no administrator exists and PUBLIC_URL is loopback: the one-time set-up link. For stderr, never for the log. */
  setupUrl: string | null;
  /** Sentences for the operator about what changed at this start. */
  notes: string[];
  listen(): Promise<Server>;
  close(): Promise<void>;
}

export async function createApp(options: AppOptions): Promise<App> {
  const { settings, clock, log } = options;
  const { publicUrl } = settings;
  const notes: string[] = [];
  const stop = new AbortController();

  // Ground.
  const db = await openDatabase({ databaseUrl: settings.databaseUrl, dataDir: settings.dataDir, log, clock });
  const undo: (() => Promise<unknown>)[] = [() => db.close()];
  try {
    await requireSameIssuer(db, settings.oidc?.issuer ?? null);
    const masterKeys = await openKeyRing({ settings, db, clock, note: (sentence) => notes.push(sentence) });
    const { ring } = masterKeys;
    const onAside = (scope: string, id: string) => log.error("a data key does not open and was put aside: what it sealed is lost", { scope, row: id });
    const sealer = createSealer({ ring, db, clock, onAside });
    const rotation = createRotation({ settings, keys: masterKeys, db, clock, stopping: stop.signal });
    const egress = createEgress({ allowPrivateNetwork: settings.allowPrivateNetwork, clock });
    undo.push(() => egress.close());
    const registry = createRegistry();
    const oauth = createOAuthClient({ egress, clock });

    // Identity.
    const cliKey = db.kind === "embedded" ? await ensureCliKey(settings.dataDir, clock) : null;
    const external = settings.oidc && createExternalSignIn({ db, egress, clock, log, publicUrl, settings: settings.oidc });
    if (external) notes.push(`People sign in at ${external.host}. The redirect URI to register there is ${publicUrl}${CALLBACK_PATH}`);
    void external?.tryOut();
    const users = createUsers({ db, clock, passwordCost: options.passwordCost, ...(external && { issuer: external.issuer }) });
    const apiKeys = createApiKeys({ db, clock, adminKey: settings.adminApiKey, cliKey });
    const onDamaged = () => notes.push("The key that signs tokens did not open. A new one was made: everybody signs in again.");
    const keys = await createSigningKeys({ db, sealer, clock, onDamaged });
    const issuer = issuerOf(publicUrl);
    const sessionTokens = createSessionTokens({ keys, issuer, publicUrl, clock });
    const verifier = createTokenVerifier({
      keys,
      issuer,
      db,
      clock,
      isFixedKey: (id) => apiKeys.isFixed(id),
      ...(external && { signInIssuer: external.issuer }),
      external: external && settings.oidc?.acceptTokens ? createExternalTokens({ issuer: external.issuer, keys: external.keys, clock }) : null,
    });
    if (external === null && settings.adminEmail !== null && settings.adminPassword !== null) {
      await users.ensureFirstAdmin({ email: settings.adminEmail, password: settings.adminPassword });
    }
    const needsSetup = external === null && !(await users.anyAdmin()) && isLoopbackHost(new URL(publicUrl).hostname);
    const setupUrl = needsSetup ? `${publicUrl}/setup/${(await users.makeSetupLink()).reveal()}` : null;

    // Practice providers, and the vault.
    const sandbox = (await wantsSandbox(db, settings, isLoopbackHost))
      ? await startSandbox({
          port: options.sandboxPort ?? settings.port + SANDBOX_PORT_STEP,
          publicUrl,
          file: `${settings.dataDir}/sandbox.json`,
          clock,
          log,
        })
      : null;
    if (sandbox) undo.push(() => sandbox.close());
    const vault = createVault({
      db,
      clock,
      log,
      sealer,
      egress,
      oauth,
      registry,
      publicUrl,
      linkTtlS: settings.linkTtlS,
      retention: { executionDays: settings.executionRetentionDays, eventDays: settings.eventRetentionDays, auditDays: settings.auditRetentionDays },
      sandboxOrigin: () => sandbox?.origin ?? null,
      knowsPerson: async (sub) => (await users.findActive(sub)) !== null,
      isShutOut: async (sub) => (await users.find(sub))?.role === "disabled",
      instance: clock.randomBytes(9).toString("base64url"),
    });
    undo.push(() => vault.close());
    notes.push(...(await provideConnections(vault.connections, settings, sandbox)));
    const practised = (await vault.connections.list()).filter((connection) => connection.sandbox).map(({ connector }) => (connector === "gmail" ? "Google" : "Slack"));

    // Surfaces.
    const loadPerson = async (sub: string) => {
      const user = await users.findActive(sub);
      return user && user.role !== "disabled" ? { sub: user.sub, email: user.email, name: user.name, role: user.role } : null;
    };
    const sessions = createSessions({ db, sealer, ring, publicUrl, clock, loadPerson });
    const render = createRenderer({ publicUrl, sandbox: () => sandbox !== null, clock, visitor: { person: currentPerson, csrf: csrfToken } });
    const authorization = await createAuthorizationServer({
      db,
      sealer,
      ring,
      keys,
      users: { find: users.findActive },
      sessions,
      render,
      egress,
      clock,
      log,
      publicUrl,
      allowedOrigins: settings.allowedOrigins,
      resources: () => MCP_ENDPOINTS.map((path) => publicUrl + path),
    });
    const pageDeps = {
      vault,
      render,
      session: { person: currentPerson, requirePerson, csrfGuard: sessions.csrfGuard },
      connectorOf: vault.connectorOf,
      publicUrl,
      clock,
    };
    const endEverythingOf = async (sub: string) => {
      await sessions.endSessionsOf(sub);
      await authorization.revokeGrantsOf(sub);
    };

    const app = express();
    app.disable("x-powered-by");
    app.set("trust proxy", settings.trustProxy);
    app.use(requestContext({ publicUrl, clock }));
    app.use(createHealth({ parts: { database: () => db.isReady(), keys: async () => (await db.isReady()) && hasEveryKey(ring, db.prisma) }, stopping: () => stop.signal.aborted }));
    app.use(securityHeaders(publicUrl));
    const authorizationServers = [issuer, ...(external && settings.oidc?.acceptTokens ? [external.issuer] : [])];
    app.use(createMcpRouter({ vault, verifier, authorizationServers, ring, db, clock, log, settings, stopping: stop.signal }));
    app.use(authorization.router);
    app.use("/assets", createAssets());
    app.use(
      "/api/v1",
      createApiRouter({
        routes: [
          ...connectionRoutes({ connections: vault.connections, registry }),
          ...accountRoutes({
            accounts: vault.accounts,
            links: vault.links,
            apiKeyName: async (id) => (await apiKeys.list()).find((key) => key.id === id)?.name ?? null,
            stopping: stop.signal,
          }),
          ...toolRoutes({ tools: vault.tools }),
          ...eventRoutes({ db }),
          ...keyRoutes({ db, rotation, inspect: () => inspectKeys(masterKeys, db.prisma) }),
          ...peopleRoutes({ users, apiKeys, sessionTokens, accounts: vault.accounts, links: vault.links, publicUrl, endpoints: MCP_ENDPOINTS, endEverythingOf }),
        ],
        authenticate: (bearer) => apiKeys.authenticate(bearer),
        log,
      }),
    );
    app.use(...sessions.middleware);
    app.use(createSignInPages({ users, sessions, render, apps: authorization, external }));
    app.use(createConnectPages(pageDeps));
    app.use(createConnectionsPages(pageDeps));
    app.use(createAdminPages({ ...pageDeps, registry, people: createPeople({ db }), clients: { named: authorization.clientsNamed }, audit: (filter) => listAudit(db.prisma, filter) }));
    app.use(createHomePage(pageDeps));
    app.use(notFound);
    app.use(pageErrors(log, render));

    const worker = startWorker({ clock, log }, [
      { name: "vault", everyMs: MINUTE_MS, run: () => vault.sweep() },
      { name: "tokens", everyMs: MINUTE_MS, run: () => vault.refreshAhead(stop.signal) },
      { name: "failed sign-ins", everyMs: MINUTE_MS, run: () => users.flushFailedSignIns() },
      { name: "authorization", everyMs: 60 * MINUTE_MS, run: () => authorization.sweep() },
      { name: "identity", everyMs: 60 * MINUTE_MS, run: () => sweepIdentity({ db, clock }) },
    ]);
    undo.push(() => worker.stop());

    let server: Server | null = null;
    return {
      express: app,
      database: db.kind,
      sandbox,
      practised,
      setupUrl,
      notes,
      async listen() {
        server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, app);
        await listenAt(server, { port: settings.port, host: settings.host }).catch((error: unknown) => {
          throw listenRefusal(error, settings);
        });
        return server;
      },
      async close() {
        stop.abort(new Error("stopping"));
        if (server) await closed(server, clock);
        for (const step of undo.reverse()) await step();
      },
    };
  } catch (thrown) {
    for (const step of undo.reverse()) await step().catch(() => undefined);
    throw thrown;
  }
}

/** Takes no new connection, lets what runs finish, then cuts. */
async function closed(server: Server, clock: Clock): Promise<void> {
  const done = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  const patience = new AbortController();
  const cut = clock.sleep(STOP_MS, patience.signal).then(
    () => server.closeAllConnections(),
    () => undefined,
  );
  await Promise.race([done, cut]);
  patience.abort();
}
