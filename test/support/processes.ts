// The program as real processes (dist/server.js), one or several on one database, behind a small reverse proxy that owns
// PUBLIC_URL. A test says which instance gets a request, kills one at any moment, and starts it again.
// Must never happen: a process that outlives the test; a .env of the working folder in it.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type AwkwardOptions, type AwkwardProvider, startAwkwardProvider } from "./awkwardProvider.js";
import { type Browser, createBrowser } from "./browser.js";
import { freshEmbeddedDir, freshPostgresUrl } from "./database.js";
import { type Front, startFront } from "./front.js";
import { ADMIN_KEY, type Answer, freePort, PASSWORD } from "./outband.js";

const SERVER = fileURLToPath(new URL("../../dist/server.js", import.meta.url));
const MASTER_KEY = Buffer.from("0123456789abcdef0123456789abcdef").toString("base64");
const READY_WITHIN_MS = 90_000;

export interface ServerProcess {
  pid: number;
  url: string;
  /** From the start of the process to the first 200 of /readyz. */
  readyMs: number;
  output(): string;
  running(): boolean;
  /** SIGKILL: no handler, no flush. Resolves when it is gone. */
  kill(): Promise<void>;
  stop(): Promise<void>;
}

const children = new Set<ChildProcess>();
const closing = new Set<() => Promise<void>>();
after(async () => {
  for (const close of closing) await close();
  for (const child of children) child.kill("SIGKILL");
});
// A bench that dies leaves none behind either, nor does a file that the runner ends because it took too long.
process.once("SIGTERM", () => process.exit(143));
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});

export async function startServer(settings: Record<string, string>, cwd: string): Promise<ServerProcess> {
  assert.ok(existsSync(SERVER), "dist/server.js is missing: npm run build");
  const startedAt = performance.now();
  const child = spawn(process.execPath, [SERVER], { cwd, env: { PATH: process.env.PATH ?? "", ...settings }, stdio: ["ignore", "pipe", "pipe"] });
  children.add(child);
  let output = "";
  const keep = (bytes: Buffer): void => {
    output = (output + bytes.toString("utf8")).slice(-200_000);
  };
  child.stdout.on("data", keep);
  child.stderr.on("data", keep);
  const gone = new Promise<void>((resolve) => {
    child.once("exit", () => {
      children.delete(child);
      resolve();
    });
  });
  const running = (): boolean => child.exitCode === null && child.signalCode === null;
  const url = `http://127.0.0.1:${settings["PORT"]}`;
  while (!(await isReady(url))) {
    if (!running()) throw new Error(`the server ended by itself:\n${output.slice(-3000)}`);
    if (performance.now() - startedAt > READY_WITHIN_MS) throw new Error(`the server is not ready after ${READY_WITHIN_MS} ms:\n${output.slice(-3000)}`);
    await delay(20);
  }
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    if (running()) child.kill(signal);
    await gone;
  };
  return {
    pid: child.pid ?? 0,
    url,
    readyMs: Math.round(performance.now() - startedAt),
    output: () => output,
    running,
    kill: () => end("SIGKILL"),
    stop: () => end("SIGTERM"),
  };
}

export async function isReady(url: string): Promise<boolean> {
  return fetch(`${url}/readyz`, { signal: AbortSignal.timeout(5_000) }).then(
    (answer) => answer.status === 200,
    () => false,
  );
}

export interface Member {
  sub: string;
  email: string;
  token: string;
  /** A browser that has signed in; `at` is the instance that serves the sign-in. */
  signIn(at?: number): Promise<Browser>;
}

export interface Cluster {
  kind: "embedded" | "postgresql";
  /** PUBLIC_URL: every request goes to the next running instance. */
  url: string;
  /** PUBLIC_URL as the instance of this number serves it. */
  at(instance: number): string;
  /** The same address, served by that instance. */
  on(instance: number, url: string): string;
  provider: AwkwardProvider;
  databaseUrl: string | null;
  server(instance: number): ServerProcess;
  kill(instance: number): Promise<void>;
  /** Gives back how long it took to be ready. */
  start(instance: number): Promise<number>;
  api(method: string, path: string, body?: unknown, options?: ApiOptions): Promise<Answer>;
  /** Status and body, and what the instances logged about the request: for the message of a failure. */
  told(answer: Answer): string;
  person(name: string): Promise<Member>;
  close(): Promise<void>;
}

export interface ApiOptions {
  at?: number;
  key?: string;
  signal?: AbortSignal;
}

export interface ClusterOptions {
  kind: "embedded" | "postgresql";
  instances?: number;
  settings?: Record<string, string>;
  /** Stands between the instances and the database; gets its URL, gives the one they are to use. */
  through?: (databaseUrl: string) => Promise<string>;
  databaseUrl?: string;
  google?: AwkwardOptions["google"];
}

export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const count = options.kind === "embedded" ? 1 : (options.instances ?? 1);
  const direct = options.kind === "postgresql" ? (options.databaseUrl ?? (await freshPostgresUrl())) : null;
  if (options.kind === "postgresql" && direct === null) throw new Error("TEST_DATABASE_URL is not set");
  const databaseUrl = direct !== null && options.through ? await options.through(direct) : direct;
  const cwd = await mkdtemp(join(tmpdir(), "obp-"));
  const dataDir = databaseUrl === null ? await freshEmbeddedDir() : cwd;
  const front: Front = await startFront(count);
  const provider = await startAwkwardProvider({ publicUrl: front.url, ...(options.google ? { google: options.google } : {}) });
  const ports = await Promise.all(Array.from({ length: count }, () => freePort()));
  const servers: ServerProcess[] = [];

  async function start(instance: number): Promise<number> {
    const server = await startServer(
      {
        PORT: String(ports[instance]),
        PUBLIC_URL: front.url,
        DATA_DIR: dataDir,
        SANDBOX: "off",
        ALLOW_PRIVATE_NETWORK: "true",
        ADMIN_API_KEY: ADMIN_KEY,
        MASTER_KEY,
        ...(databaseUrl === null ? {} : { DATABASE_URL: databaseUrl }),
        ...options.settings,
      },
      cwd,
    );
    servers[instance] = server;
    front.serve(instance, server.url);
    return server.readyMs;
  }
  const server = (instance: number): ServerProcess => {
    const found = servers[instance];
    if (!found) throw new Error(`there is no instance ${instance}`);
    return found;
  };

  await Promise.all(ports.map((_port, instance) => start(instance)));

  async function api(method: string, path: string, body?: unknown, { at, key = ADMIN_KEY, signal }: ApiOptions = {}): Promise<Answer> {
    const answer = await fetch(`${at === undefined ? front.url : front.at(at)}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal ? { signal } : {}),
    });
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, body: text === "" ? null : JSON.parse(text) };
  }

  function told({ status, body }: Answer): string {
    const requestId: unknown = body?.request_id;
    const lines = typeof requestId === "string" ? servers.flatMap((one) => one.output().split("\n").filter((line) => line.includes(requestId))) : [];
    return [`${status} ${JSON.stringify(body)}`, ...lines].join("\n    ");
  }

  async function person(name: string): Promise<Member> {
    const email = `${name}@people.example`;
    const user = await api("POST", "/users", { sub: `person-${name}`, email, password: PASSWORD, name });
    assert.equal(user.status, 201, JSON.stringify(user.body));
    const minted = await api("POST", "/session-tokens", { identifier: user.body.sub, ttl_s: 86_400 });
    assert.equal(minted.status, 201, JSON.stringify(minted.body));
    return {
      sub: user.body.sub,
      email,
      token: minted.body.token,
      async signIn(at) {
        const origin = at === undefined ? front.url : front.at(at);
        const browser = createBrowser(front.url);
        const page = await browser.get(`${origin}/login`);
        const done = await browser.post(`${origin}/login`, { email, password: PASSWORD }, { from: page });
        assert.equal(done.status, 303, done.text);
        return browser;
      },
    };
  }

  for (const name of ["gmail", "slack"]) {
    const upstream = name === "gmail" ? provider.google : provider.slack;
    const made = await api("POST", "/connections", {
      name,
      connector: name,
      client_id: upstream.clientId,
      client_secret: upstream.clientSecret.reveal(),
      endpoints: upstream.endpoints,
    });
    assert.equal(made.status, 201, JSON.stringify(made.body));
  }

  let closed = false;
  async function close(): Promise<void> {
    if (closed) return;
    closed = true;
    closing.delete(close);
    await Promise.all(servers.map((one) => one.kill()));
    await front.close();
    await provider.close();
    await rm(cwd, { recursive: true, force: true });
  }
  closing.add(close);

  return {
    kind: options.kind,
    url: front.url,
    at: front.at,
    on: (instance, url) => front.at(instance) + url.slice(new URL(url).origin.length),
    provider,
    databaseUrl,
    server,
    kill: (instance) => server(instance).kill(),
    start,
    api,
    told,
    person,
    close,
  };
}
