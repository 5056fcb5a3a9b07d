// PostgreSQL gone, silent, slow and back again, behind a wire that a test can spoil. Every answer has an end and says what
// to do; nothing that was acknowledged is lost; and once the database is back, so is everything.
import assert from "node:assert/strict";
import { before, beforeEach, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { Browser } from "../support/browser.js";
import { consent, finish, retryOf } from "../support/journey.js";
import { callTool, linkOf } from "../support/mcpCall.js";
import { ADMIN_KEY } from "../support/outband.js";
import { type Cluster, isReady, type Member, startCluster } from "../support/processes.js";
import { type DatabaseProxy, startDatabaseProxy } from "../support/proxy.js";

/** A refused connection is told at once; the rest is what a loaded machine needs. */
const GONE_BOUND_MS = 7_000;
/** A database that swallows everything: the limit on a query (10 s), and the one on a connection before it (5 s). */
const SILENT_BOUND_MS = 17_000;
const BACK_WITHIN_MS = 6_000;

const skip = process.env.TEST_DATABASE_URL ? false : "TEST_DATABASE_URL is not set";

interface Told {
  what: string;
  status: number;
  retryAfter: string | null;
  type: string;
  text: string;
  ms: number;
}

describe("a database in trouble", { skip }, () => {
  let cluster: Cluster;
  let proxy: DatabaseProxy;
  let member: Member;
  let browser: Browser;
  let pid: number;
  before(async () => {
    cluster = await startCluster({
      kind: "postgresql",
      through: async (url) => {
        proxy = await startDatabaseProxy(url);
        return proxy.url;
      },
    });
    member = await cluster.person("patient");
    browser = await member.signIn();
    const asked = await callTool(cluster.url, member.token, "gmail_list_messages");
    const done = await browser.get(await consent(linkOf(asked), browser));
    assert.equal(done.status, 200, done.text);
    pid = cluster.server(0).pid;
  });
  beforeEach(async () => {
    proxy.heal();
    // Every connection of the pool is there, and idle.
    await allBack();
  });

  async function told(what: string, path: string, init: RequestInit): Promise<Told> {
    const startedAt = performance.now();
    const answer = await fetch(cluster.url + path, { redirect: "manual", signal: AbortSignal.timeout(60_000), ...init });
    const text = await answer.text();
    return {
      what,
      status: answer.status,
      retryAfter: answer.headers.get("retry-after"),
      type: (answer.headers.get("content-type") ?? "").split(";")[0] ?? "",
      text,
      ms: performance.now() - startedAt,
    };
  }

  /** One request at every surface, all at once. */
  function everywhere(): Promise<Told[]> {
    const cookie = [...browser.cookies()].map(([name, value]) => `${name}=${value}`).join("; ");
    const admin = { authorization: `Bearer ${ADMIN_KEY}`, "content-type": "application/json" };
    const call = { jsonrpc: "2.0", id: 7, method: "tools/call", params: { name: "gmail_list_messages", arguments: {}, _meta: META } };
    const mcp = {
      authorization: `Bearer ${member.token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/call",
      "mcp-name": "gmail_list_messages",
    };
    const html = { accept: "text/html" };
    return Promise.all([
      told("api read", "/api/v1/accounts", { headers: admin }),
      told("api write", "/api/v1/users", { method: "POST", headers: admin, body: JSON.stringify({ email: "new@people.example", role: "user", password: "long enough a word" }) }),
      told("api, a key of the table", "/api/v1/accounts", { headers: { authorization: `Bearer obk_${"x".repeat(43)}` } }),
      told("mcp call", "/mcp", { method: "POST", headers: mcp, body: JSON.stringify(call) }),
      told("page, signed in", "/connections", { headers: { ...html, cookie } }),
      told("page, a link", `/connect/${"a".repeat(43)}`, { headers: { ...html, cookie } }),
      told("page, admin", "/admin", { headers: { ...html, cookie } }),
      told("page, authorize", `/oauth/authorize?client_id=x&response_type=code&redirect_uri=${encodeURIComponent("http://127.0.0.1:1/cb")}`, { headers: { ...html, cookie } }),
      told("program, token", "/oauth/token", { method: "POST", headers: { "content-type": "application/x-www-form-urlencoded" }, body: "grant_type=refresh_token&refresh_token=abc&client_id=x" }),
      told("program, revocation", "/oauth/revoke", { method: "POST", headers: { "content-type": "application/x-www-form-urlencoded" }, body: "token=abc&client_id=x" }),
      told("program, registration", "/oauth/register", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ redirect_uris: ["http://127.0.0.1:1/cb"], token_endpoint_auth_method: "none" }) }),
    ]);
  }

  function checkAll(answers: Told[], boundMs: number): void {
    const lines = answers.map(({ what, status, retryAfter, type, ms, text }) => `${what}: ${status} ${type} Retry-After ${retryAfter} ${Math.round(ms)} ms ${text.slice(0, 200)}`);
    const shown = lines.join("\n");
    for (const answer of answers) {
      assert.equal(answer.status, 503, `${answer.what}\n${shown}`);
      assert.match(answer.retryAfter ?? "", /^\d+$/, `${answer.what}\n${shown}`);
      assert.ok(answer.ms < boundMs, `${answer.what} took ${answer.ms} ms\n${shown}`);
      assert.doesNotMatch(answer.text, /prisma|postgres|ECONN|127\.0\.0\.1:\d+ *$|Connection terminated|\bat .*\.js:/i, answer.what);
      if (answer.what.startsWith("api")) {
        assert.equal(answer.type, "application/problem+json", shown);
        assert.equal(JSON.parse(answer.text).code, "unavailable", shown);
      } else if (answer.what.startsWith("mcp")) {
        assert.equal(JSON.parse(answer.text).jsonrpc, "2.0", shown);
        assert.equal(typeof JSON.parse(answer.text).error.message, "string", shown);
      } else if (answer.what.startsWith("program")) {
        assert.equal(JSON.parse(answer.text).error, "temporarily_unavailable", shown);
      } else if (answer.what.startsWith("page")) {
        assert.equal(answer.type, "text/html", shown);
        assert.match(answer.text, /Try again in a moment/, shown);
      }
    }
  }

  async function readyz(): Promise<number> {
    const answer = await fetch(`${cluster.url}/readyz`, { signal: AbortSignal.timeout(10_000) });
    await answer.arrayBuffer();
    return answer.status;
  }

  /** Ready again, every connection of the pool usable: more calls at once than it has. */
  async function allBack(): Promise<void> {
    const startedAt = performance.now();
    while (!(await isReady(cluster.url))) {
      assert.ok(performance.now() - startedAt < BACK_WITHIN_MS, "not ready again");
      await delay(50);
    }
    const reads = await Promise.all(Array.from({ length: 30 }, () => cluster.api("GET", "/accounts?limit=1")));
    for (const { status, body } of reads) assert.equal(status, 200, JSON.stringify(body));
    assert.ok(performance.now() - startedAt < BACK_WITHIN_MS, "the pool is not what it was");
    const { body } = await callTool(cluster.url, member.token, "gmail_list_messages");
    assert.deepEqual([body.result?.resultType, body.result?.isError ?? false], ["complete", false], JSON.stringify(body));
    assert.equal(cluster.server(0).pid, pid);
    assert.ok(cluster.server(0).running());
  }

  test("gone: every surface says 503 with Retry-After at once, liveness stays, readiness goes and comes back", async () => {
    proxy.trouble("refused");
    proxy.cut();
    checkAll(await everywhere(), GONE_BOUND_MS);
    assert.equal(await readyz(), 503);
    assert.equal((await fetch(`${cluster.url}/healthz`)).status, 200);
    proxy.heal();
    await allBack();
  });

  test("cut in the middle of calls, again and again: an answer or a 503 each time, and no dead pool", async () => {
    for (let round = 0; round < 6; round += 1) {
      const calls = Array.from({ length: 6 }, () => callTool(cluster.url, member.token, "gmail_list_messages"));
      await delay(round * 20);
      proxy.cut();
      for (const { status, body } of await Promise.all(calls)) {
        assert.ok(status === 200 || status === 503, `${status} ${JSON.stringify(body)}`);
        if (body.error) assert.match(body.error.message, /not ready|Try again/, JSON.stringify(body));
      }
    }
    await allBack();
  });

  test("half-open (everything swallowed): every answer has its end and says 503; readiness says no within 3 s; back again once the wire is", async () => {
    proxy.trouble("silent");
    const [ready, answers] = await Promise.all([
      (async () => {
        const startedAt = performance.now();
        const status = await readyz();
        return { status, ms: performance.now() - startedAt };
      })(),
      everywhere(),
    ]);
    assert.equal(ready.status, 503);
    assert.ok(ready.ms < 3_000, `${ready.ms} ms`);
    checkAll(answers, SILENT_BOUND_MS);
    proxy.heal();
    await allBack();
  });

  test("half-open and never cut: the stuck connections are given up by ourselves, and new ones serve", async () => {
    proxy.trouble("silent");
    // The whole pool, in the middle of what it does.
    const calls = await Promise.all(Array.from({ length: 12 }, () => told("api read", "/api/v1/accounts", { headers: { authorization: `Bearer ${ADMIN_KEY}` } })));
    checkAll(calls, SILENT_BOUND_MS);
    // The old connections stay swallowed for ever; what connects from now on gets through.
    proxy.abandon();
    await allBack();
  });

  test("slow (each answer of the database 300 ms late): calls are slower and right", async () => {
    proxy.delay(300);
    const answers = await Promise.all(Array.from({ length: 8 }, () => callTool(cluster.url, member.token, "gmail_list_messages")));
    for (const { body } of answers) assert.equal(body.result?.resultType, "complete", JSON.stringify(body));
    for (const { body } of answers) assert.notEqual(body.result.isError, true, JSON.stringify(body));
    proxy.heal();
    await allBack();
  });

  test("a waiter survives a database that goes away and comes back: the person finishes, the same call answers", async () => {
    const waiter = await cluster.person("waiter");
    const itsBrowser = await waiter.signIn();
    const asked = await callTool(cluster.url, waiter.token, "gmail_list_messages");
    const callback = await consent(linkOf(asked), itsBrowser);
    const waiting = finish(callTool(cluster.url, waiter.token, "gmail_list_messages", {}, retryOf(asked, "accept")), (options) => callTool(cluster.url, waiter.token, "gmail_list_messages", {}, options));
    while ((await cluster.api("GET", "/events?type=elicitation.answered")).body.data.length === 0) await delay(50);
    proxy.trouble("refused");
    proxy.cut();
    // Longer than a poll.
    await delay(3_000);
    const refused = await itsBrowser.get(callback);
    assert.equal(refused.status, 503, refused.text);
    proxy.heal();
    while (!(await isReady(cluster.url))) await delay(50);
    const done = await itsBrowser.get(callback);
    assert.equal(done.status, 200, done.text);
    assert.match(done.text, /harbourlight/);
    const { answer } = await waiting;
    assert.notEqual(answer.body.result?.isError, true, JSON.stringify(answer.body));
  });

  test("gone between the provider's answer and the store: the rotated token is kept once the database is back within seconds", async () => {
    cluster.provider.setPolicy("google", { accessTtlS: 2 });
    const owner = await cluster.person("rotated");
    const itsBrowser = await owner.signIn();
    const asked = await callTool(cluster.url, owner.token, "gmail_list_messages");
    await itsBrowser.get(await consent(linkOf(asked), itsBrowser));
    cluster.provider.setPolicy("google", { accessTtlS: 3600 });
    await delay(2_100);
    cluster.provider.resetCounts();
    const held = cluster.provider.hold("POST /google/token", { at: "after" });
    const call = callTool(cluster.url, owner.token, "gmail_list_messages");
    await held.arrived;
    proxy.trouble("refused");
    proxy.cut();
    held.release();
    await delay(600);
    proxy.heal();
    await call;
    while (!(await isReady(cluster.url))) await delay(50);
    const next = await callTool(cluster.url, owner.token, "gmail_list_messages");
    assert.notEqual(next.body.result?.isError, true, JSON.stringify(next.body));
    assert.equal(next.body.result?.resultType, "complete", JSON.stringify(next.body));
    assert.equal(cluster.provider.count("POST /google/token"), 1, "the old token was sent again");
  });
});

const META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "probe", version: "0.1.0" },
  "io.modelcontextprotocol/clientCapabilities": { elicitation: { url: {}, form: {} } },
};
