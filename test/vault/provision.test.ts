// Connections that nobody clicked together: the practice ones, and those of the environment's keys, over starts and restarts.
// Must never happen: a practice connection behind real keys; an operator's own connection touched.
import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { type App, createApp } from "../../src/app.js";
import { listAudit } from "../../src/audit/read.js";
import { systemClock } from "../../src/clock.js";
import { readSettings } from "../../src/config/config.js";
import { openDatabase } from "../../src/db/client.js";
import { MARA } from "../../src/sandbox/people.js";
import { type AwkwardProvider, startAwkwardProvider } from "../support/awkwardProvider.js";
import { createBrowser } from "../support/browser.js";
import { freshEmbeddedDir, freshPostgresUrl } from "../support/database.js";
import { connect } from "../support/journey.js";
import { ADMIN_KEY, type Answer, freePort, PASSWORD } from "../support/outband.js";
import { silentLog } from "../support/silentLog.js";

type Settings = Record<string, string>;

const open = new Set<{ close(): Promise<unknown> }>();
after(async () => {
  for (const one of open) await one.close();
});

/** The program on one data folder, started again and again, as somebody does who tries it out. */
async function house(first: Settings = {}) {
  const [port, sandboxPort, dataDir] = [await freePort(), await freePort(), await freshEmbeddedDir()];
  const url = `http://localhost:${port}`;
  let app: App | null = null;

  async function start(settings: Settings = {}): Promise<App> {
    await stop();
    const read = readSettings({ PORT: String(port), DATA_DIR: dataDir, ADMIN_API_KEY: ADMIN_KEY, ...settings });
    assert.ok(read.ok, read.ok ? "" : read.problems.join(" "));
    app = await createApp({ settings: read.settings, clock: systemClock, log: silentLog, sandboxPort });
    await app.listen();
    return app;
  }

  async function stop(): Promise<void> {
    await app?.close();
    app = null;
  }

  async function api(method: string, path: string, body?: unknown): Promise<Answer> {
    const answer = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${ADMIN_KEY}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, body: text === "" ? null : JSON.parse(text) };
  }

  /** Kim, connected by consent to these. */
  async function kim(...connections: string[]): Promise<string[]> {
    const { body: user } = await api("POST", "/users", { sub: "person-kim", email: "kim@people.example", password: PASSWORD });
    assert.equal(user.sub, "person-kim", JSON.stringify(user));
    const browser = createBrowser(url);
    await browser.post("/login", { email: user.email, password: PASSWORD }, { from: await browser.get("/login") });
    const ids: string[] = [];
    for (const connection_name of connections) {
      const { body: link } = await api("POST", "/authorization-links", { connection_name, identifier: user.sub });
      const page = await connect(link.url, browser);
      assert.equal(page.status, 200, page.text);
      ids.push(link.account_id);
    }
    return ids;
  }

  const self = {
    url,
    dataDir,
    start,
    stop,
    api,
    kim,
    connections: async () => (await api("GET", "/connections")).body.data.map(({ name, sandbox }: { name: string; sandbox: boolean }) => `${name}${sandbox ? " (sandbox)" : ""}`),
    connection: async (name: string) => (await api("GET", `/connections/${name}`)).body,
    account: async (id: string) => (await api("GET", `/accounts/${id}`)).body,
    run: (tool: string, args: object = {}) => api("POST", `/tools/${tool}/execute`, { identifier: "person-kim", arguments: args }),
    close: stop,
  };
  open.add(self);
  await start(first);
  return self;
}

/** What the operator is told about connections at this start. */
const told = (app: App): string[] => app.notes.filter((note) => /connection/.test(note));
const PRACTICE = ["gmail (sandbox)", "slack (sandbox)"];
const GOOGLE = { GOOGLE_CLIENT_ID: "real-google", GOOGLE_CLIENT_SECRET: "real-google-secret" };
const MINE = { name: "mine", connector: "generic-oauth", endpoints: { issuer: "https://issuer.example" } };

describe("the sandbox's connections", () => {
  test("a first embedded start has practice Gmail and Slack, which work; grants survive restarts of everything", async () => {
    const home = await house();
    assert.deepEqual(await home.connections(), PRACTICE);
    const [gmail, slack] = await home.kim("gmail", "slack");
    const before = await home.connection("gmail");
    for (const again of [1, 2]) {
      const app = await home.start();
      assert.deepEqual([await home.connections(), told(app)], [PRACTICE, []]);
      const inbox = await home.run("summarize_inbox", { max_messages: 1 });
      assert.equal(inbox.status, 200, `start ${again}: ${JSON.stringify(inbox.body)}`);
      assert.equal((await home.run("slack_list_channels")).status, 200);
      for (const id of [gmail, slack]) assert.equal((await home.account(id ?? "")).status, "ACTIVE");
      const refreshed = await home.api("POST", `/accounts/${gmail}/refresh`);
      assert.deepEqual([refreshed.status, refreshed.body.external_account.email], [200, MARA.email]);
    }
    const now = await home.connection("gmail");
    assert.deepEqual([now.id, now.client_id, now.endpoints], [before.id, before.client_id, before.endpoints]);
    await home.close();
  });

  test("auto: on while the operator has made no connection; then off at the next start, and the practice accounts with it", async () => {
    const home = await house();
    const [gmail] = await home.kim("gmail");
    assert.equal((await home.api("POST", "/connections", MINE)).status, 201);
    assert.deepEqual(await home.connections(), ["gmail (sandbox)", "mine", "slack (sandbox)"]);
    assert.equal((await home.run("summarize_inbox")).status, 200, "what runs goes on until then");
    const app = await home.start();
    assert.deepEqual([app.sandbox, await home.connections()], [null, ["mine"]]);
    assert.deepEqual(told(app).map((note) => /^The practice connection (\w+) and its accounts were removed/.exec(note)?.[1]), ["gmail", "slack"]);
    assert.equal((await home.api("GET", `/accounts/${gmail}`)).status, 404);
    const types = (await home.api("GET", `/events?account_id=${gmail}`)).body.data.map(({ type }: { type: string }) => type);
    assert.equal(types.at(-1), "connected_account.deleted");
    assert.deepEqual(told(await home.start()), []);

    assert.equal((await home.api("DELETE", "/connections/mine")).status, 204);
    assert.notEqual((await home.start()).sandbox, null, "on again when there is none any more");
    assert.deepEqual(await home.connections(), PRACTICE);
    await home.close();
  });

  test("off: none, and those there were go; on: also beside the operator's own", async () => {
    const home = await house({ SANDBOX: "off" });
    assert.deepEqual(await home.connections(), []);
    await home.api("POST", "/connections", MINE);
    await home.start({ SANDBOX: "on" });
    assert.deepEqual(await home.connections(), ["gmail (sandbox)", "mine", "slack (sandbox)"]);
    await home.kim("slack");
    const app = await home.start({ SANDBOX: "off" });
    assert.deepEqual([await home.connections(), told(app).length], [["mine"], 2]);
    await home.close();
  });

  test("auto stays off where others could reach it, and on a database of the operator's", async () => {
    const home = await house({ HOST: "0.0.0.0", PUBLIC_URL: "https://outband.example", ADMIN_EMAIL: "admin@people.example", ADMIN_PASSWORD: PASSWORD });
    assert.deepEqual(await home.connections(), []);
    const databaseUrl = await freshPostgresUrl();
    if (databaseUrl !== null) {
      const app = await home.start({ DATABASE_URL: databaseUrl, MASTER_KEY: Buffer.from("0123456789abcdef0123456789abcdef").toString("base64") });
      assert.deepEqual([app.sandbox, await home.connections()], [null, []]);
    }
    await home.close();
    const read = readSettings({ SANDBOX: "on", HOST: "0.0.0.0", PUBLIC_URL: "https://outband.example", ADMIN_EMAIL: "admin@people.example", ADMIN_PASSWORD: PASSWORD });
    assert.ok(!read.ok && read.problems.some((problem) => problem.includes("SANDBOX")), "practice pages are not for the public");
  });

  test("switched off and renamed by the operator, they stay so; they point nowhere else in the private network", async () => {
    const home = await house();
    assert.equal((await home.api("PATCH", "/connections/slack", { enabled: false, title: "Practice chat" })).status, 200);
    const refused = await home.api("PATCH", "/connections/slack", { endpoints: { api: "http://127.0.0.1:9" } });
    assert.deepEqual([refused.status, refused.body.errors?.[0]?.path], [400, "endpoints.api"]);
    await home.start();
    const slack = await home.connection("slack");
    assert.deepEqual([slack.enabled, slack.title, slack.sandbox], [false, "Practice chat", true]);
    await home.close();
  });

  test("the sandbox's memory is lost: its connections are mended, and who was connected is asked to connect again", async () => {
    const home = await house();
    const [gmail] = await home.kim("gmail");
    const before = await home.connection("gmail");
    await home.stop();
    await rm(join(home.dataDir, "sandbox.json"));
    await home.start();
    const now = await home.connection("gmail");
    assert.deepEqual([now.id === before.id, now.client_id === before.client_id], [true, false]);
    const run = await home.run("summarize_inbox");
    assert.deepEqual([run.status, run.body.code], [409, "reauth_needed"], JSON.stringify(run.body));
    assert.equal((await home.account(gmail ?? "")).status, "EXPIRED");
    await home.close();
  });
});

describe("keys of the environment", () => {
  let provider: AwkwardProvider | null = null;
  const awkward = async (url: string): Promise<AwkwardProvider> => {
    provider ??= await startAwkwardProvider();
    open.add(provider);
    provider.setPublicUrl(url);
    return provider;
  };

  test("replace the practice connection of their name and its accounts, say so, write it down, and leave the other", async () => {
    const home = await house();
    const [gmail, slack] = await home.kim("gmail", "slack");
    const practice = await home.connection("gmail");
    const app = await home.start(GOOGLE);
    assert.deepEqual(await home.connections(), ["gmail", "slack (sandbox)"]);
    const real = await home.connection("gmail");
    assert.deepEqual([real.id === practice.id, real.client_id, real.client_secret_set, real.endpoints], [false, "real-google", true, {}]);
    assert.deepEqual(told(app), ["The practice connection gmail and its accounts were replaced by the real one."]);
    assert.equal((await home.api("GET", `/accounts/${gmail}`)).status, 404);
    assert.equal(app.sandbox?.counts()["POST /google/revoke"], 1, "the practice grant is given back");
    assert.equal((await home.account(slack ?? "")).status, "ACTIVE");
    assert.equal((await home.run("slack_list_channels")).status, 200);
    const run = await home.run("summarize_inbox");
    assert.deepEqual([run.status, run.body.code], [409, "not_connected"]);

    assert.deepEqual(told(await home.start(GOOGLE)), []);
    assert.equal((await home.connection("gmail")).id, real.id);
    assert.ok(!JSON.stringify(await home.connection("gmail")).includes(GOOGLE.GOOGLE_CLIENT_SECRET));

    await home.stop();
    const db = await openDatabase({ databaseUrl: null, dataDir: home.dataDir, log: silentLog, clock: systemClock });
    const rows = (await listAudit(db.prisma, { limit: 200, connectionName: "gmail" })).data;
    await db.close();
    const acts = rows.filter(({ actor }) => actor.kind === "system").map(({ action }) => action);
    for (const action of ["account.disconnected", "account.purged", "connection.deleted", "connection.created"]) assert.ok(acts.includes(action), `${action}: ${acts.join(", ")}`);
  });

  test("another secret is taken as it is; another client id erases what was granted to the old one", async () => {
    const home = await house({ SANDBOX: "off" });
    const { google } = await awkward(home.url);
    const keys = { SANDBOX: "off", ALLOW_PRIVATE_NETWORK: "true", GOOGLE_CLIENT_ID: google.clientId, GOOGLE_CLIENT_SECRET: google.clientSecret.reveal() };
    await home.start(keys);
    assert.equal((await home.api("PATCH", "/connections/gmail", { endpoints: google.endpoints })).status, 200);
    const [gmail = ""] = await home.kim("gmail");

    await home.start({ ...keys, GOOGLE_CLIENT_SECRET: "mistyped" });
    await home.api("POST", `/accounts/${gmail}/refresh`);
    assert.deepEqual([(await home.account(gmail)).status, (await home.account(gmail)).status_reason], ["ERROR", "client_rejected"]);
    await home.start(keys);
    assert.equal((await home.account(gmail)).status, "ACTIVE");
    assert.equal((await home.run("summarize_inbox")).status, 200);

    await home.start({ ...keys, GOOGLE_CLIENT_ID: "another" });
    assert.deepEqual([(await home.account(gmail)).status, (await home.account(gmail)).status_reason], ["EXPIRED", "connection_changed"]);
    await home.close();
  });

  test("an operator's own connection of the name is never touched: not by keys, not by the sandbox", async () => {
    const home = await house({ SANDBOX: "off" });
    const { google } = await awkward(home.url);
    const open = { ALLOW_PRIVATE_NETWORK: "true" };
    await home.start({ SANDBOX: "off", ...open });
    await home.api("POST", "/connections", { name: "gmail", connector: "gmail", client_id: google.clientId, client_secret: google.clientSecret.reveal(), endpoints: google.endpoints, title: "Our own" });
    const [gmail = ""] = await home.kim("gmail");
    const before = await home.connection("gmail");
    const starts: Settings[] = [{ SANDBOX: "on" }, { SANDBOX: "on", ...GOOGLE }, { SANDBOX: "off", ...GOOGLE }, { ...GOOGLE }, {}];
    for (const settings of starts) {
      const app = await home.start({ ...open, ...settings });
      assert.deepEqual(await home.connection("gmail"), before);
      assert.equal((await home.account(gmail)).status, "ACTIVE");
      const note = /made by an operator; the client id and secret of the environment are not used/;
      assert.equal(told(app).some((text) => note.test(text)), "GOOGLE_CLIENT_ID" in settings);
    }
    assert.equal((await home.run("summarize_inbox")).status, 200);
    await home.close();
  });
});
