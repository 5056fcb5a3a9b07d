// The whole program in this process, on real HTTP, with the awkward provider behind its connections.
import assert from "node:assert/strict";
import { createServer } from "node:net";
import { after } from "node:test";
import { type App, createApp } from "../../src/app.js";
import { type Clock, systemClock } from "../../src/clock.js";
import { readSettings } from "../../src/config/config.js";
import { createLog } from "../../src/log.js";
import { type AwkwardProvider, startAwkwardProvider } from "./awkwardProvider.js";
import { type Browser, createBrowser, type Page } from "./browser.js";
import { QUICK_PASSWORDS } from "./passwordCost.js";
import { freshEmbeddedDir, freshEmptyDir, freshPostgresUrl } from "./database.js";

export const ADMIN_KEY = "test-admin-key-of-more-than-32-characters";
export const MASTER_KEY = Buffer.from("0123456789abcdef0123456789abcdef").toString("base64");
export const PASSWORD = "correct horse battery";

export interface Answer {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: the wire is what these tests look at.
  body: any;
}

export interface Outband {
  url: string;
  provider: AwkwardProvider;
  app(): App;
  logs: string[];
  dataDir: string;
  databaseUrl: string | null;
  /** Stops the program and starts it again on the same data. */
  restart(settings?: Record<string, string>): Promise<void>;
  /** After a restart that was refused. */
  start(settings?: Record<string, string>): Promise<void>;
  api(method: string, path: string, body?: unknown, key?: string): Promise<Answer>;
  /** A person who can sign in, and a bearer for their MCP endpoint. */
  person(name: string): Promise<Person>;
  close(): Promise<void>;
}

export interface Person {
  sub: string;
  email: string;
  token: string;
  browser: Browser;
  signIn(browser?: Browser): Promise<Browser>;
}

export interface OutbandOptions {
  kind?: "embedded" | "postgresql";
  settings?: Record<string, string>;
  clock?: Clock;
  /** Which of the practice connections to make; default: both. */
  connections?: ("gmail" | "slack")[];
}

/** Registered at the top of the file: a hook inside a test or a `before` would end with it. */
const running = new Set<() => Promise<void>>();
after(async () => {
  for (const close of running) await close();
});

export async function startOutband(options: OutbandOptions = {}): Promise<Outband> {
  const port = await freePort();
  const url = `http://localhost:${port}`;
  const provider = await startAwkwardProvider({ publicUrl: url, ...(options.clock ? { clock: options.clock } : {}) });
  const logs: string[] = [];
  const databaseUrl = options.kind === "postgresql" ? await freshPostgresUrl() : null;
  if (options.kind === "postgresql" && databaseUrl === null) throw new Error("TEST_DATABASE_URL is not set");
  const dataDir = databaseUrl === null ? await freshEmbeddedDir() : await freshEmptyDir();
  let app = await start({});
  running.add(close);

  for (const name of options.connections ?? ["gmail", "slack"]) {
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

  async function start(more: Record<string, string>): Promise<App> {
    const read = readSettings({
      PORT: String(port),
      DATA_DIR: dataDir,
      SANDBOX: "off",
      ALLOW_PRIVATE_NETWORK: "true",
      ADMIN_API_KEY: ADMIN_KEY,
      MASTER_KEY,
      ...(databaseUrl === null ? {} : { DATABASE_URL: databaseUrl }),
      ...options.settings,
      ...more,
    });
    assert.ok(read.ok, read.ok ? "" : read.problems.join(" "));
    const made = await createApp({
      settings: read.settings,
      clock: options.clock ?? systemClock,
      passwordCost: QUICK_PASSWORDS,
      log: createLog({ level: "debug", write: (line) => logs.push(line) }),
    });
    await made.listen();
    return made;
  }

  async function api(method: string, path: string, body?: unknown, key = ADMIN_KEY): Promise<Answer> {
    const answer = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, body: text === "" ? null : JSON.parse(text) };
  }

  async function person(name: string): Promise<Person> {
    const email = `${name}@people.example`;
    const user = await api("POST", "/users", { sub: `person-${name}`, email, password: PASSWORD, name });
    assert.equal(user.status, 201, JSON.stringify(user.body));
    const minted = await api("POST", "/session-tokens", { identifier: user.body.sub, ttl_s: 3600 });
    assert.equal(minted.status, 201, JSON.stringify(minted.body));
    const signIn = async (browser = createBrowser(url)): Promise<Browser> => {
      const page = await browser.get("/login");
      const done = await browser.post("/login", { email, password: PASSWORD }, { from: page });
      assert.equal(done.status, 303, done.text);
      return browser;
    };
    return { sub: user.body.sub, email, token: minted.body.token, browser: createBrowser(url), signIn };
  }

  let closed = false;
  async function close(): Promise<void> {
    if (closed) return;
    closed = true;
    running.delete(close);
    await app.close();
    await provider.close();
  }

  return {
    url,
    provider,
    app: () => app,
    logs,
    dataDir,
    databaseUrl,
    async restart(more = {}) {
      await app.close();
      app = await start(more);
    },
    async start(more = {}) {
      app = await start(more);
    },
    api,
    person,
    close,
  };
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => (address !== null && typeof address === "object" ? resolve(address.port) : reject(new Error("no port"))));
    });
  });
}

export type { Browser, Page };
