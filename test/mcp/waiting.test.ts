import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { systemClock } from "../../src/clock.js";
import { asIdentifier, type AccountId, type LinkId } from "../../src/ids.js";
import type { PersonPrincipal } from "../../src/identity/principal.js";
import { createSeats, WAITS_MAX, WAITS_PER_CLIENT_MAX } from "../../src/mcp/seats.js";
import { beginLeg } from "../../src/mcp/waiting.js";
import { ALICE, type McpAnswer, type McpSite, meta, startMcpSite } from "../support/mcpSite.js";

const open: McpSite[] = [];
async function start(options: Parameters<typeof startMcpSite>[0] = {}): Promise<McpSite> {
  const site = await startMcpSite(options);
  open.push(site);
  return site;
}
afterEach(async () => {
  for (const site of open.splice(0)) await site.close();
});

const LONG = { settleWaitMs: 60_000, settleLegMs: 30_000 };
const accept = { connect_gmail: { action: "accept" } };
const stateOf = (answer: McpAnswer): string => answer.body.result.requestState as string;
const outcomeOf = (answer: McpAnswer): Record<string, unknown> =>
  answer.body.result._meta["dev.outband/outcome"] as Record<string, unknown>;

/** The call that accepts, once it waits. */
async function waiting(site: McpSite, more: Parameters<McpSite["call"]>[3] = {}): Promise<{ answer: Promise<McpAnswer>; since: number }> {
  const first = await site.call("summarize_inbox", {}, {}, more.token ? { token: more.token } : {});
  const waits = new Promise<void>((resolve) => {
    site.vault.onWait = resolve;
  });
  const answer = site.call("summarize_inbox", {}, { requestState: stateOf(first), inputResponses: accept }, more);
  await Promise.race([waits, answer]);
  return { answer, since: Date.now() };
}

test("a waiting call ends at once when the account becomes usable, and runs the tool (contract 6.1.4)", async () => {
  const site = await start({ settings: LONG });
  const { answer, since } = await waiting(site);
  site.vault.connect("alice", "gmail");
  assert.equal((await answer).body.result.structuredContent.count, 2);
  assert.ok(Date.now() - since < 1_000);
  assert.equal(site.vault.ran.length, 1);
});

for (const [status, reason, told] of [
  ["denied", null, "consent_denied"],
  ["failed", "scope_missing", "scope_missing"],
] as const) {
  test(`a waiting call ends at once when the link is ${reason ?? status}`, async () => {
    const site = await start({ settings: LONG });
    const { answer, since } = await waiting(site);
    site.vault.fail(status, reason);
    assert.deepEqual([outcomeOf(await answer)["outcome"], outcomeOf(await answer)["reason"]], ["not_connected", told]);
    assert.ok(Date.now() - since < 1_000);
  });
}

test("a leg without news ends in a state alone; the legs end in one completed result, and nobody is asked twice", async () => {
  const site = await start({ settings: { settleWaitMs: 500, settleLegMs: 200 } });
  const first = await site.call("summarize_inbox");
  const since = Date.now();
  let answer = await site.call("summarize_inbox", {}, { requestState: stateOf(first), inputResponses: accept });
  let legs = 0;
  while (answer.body.result.resultType === "input_required") {
    assert.deepEqual(Object.keys(answer.body.result).sort(), ["_meta", "requestState", "resultType"], "nothing is asked of anyone");
    legs++;
    answer = await site.call("summarize_inbox", {}, { requestState: stateOf(answer) });
  }
  assert.ok(legs === 1 || legs === 2, `two whole legs (fewer when timers are late), and a last one that ends the waiting: ${legs}`);
  assert.ok(Date.now() - since >= 450 && Date.now() - since < 3_000);
  assert.deepEqual([outcomeOf(answer)["outcome"], outcomeOf(answer)["reason"]], ["not_connected", "awaiting_user"]);
  assert.deepEqual([site.vault.links.length, site.elicitations.length], [1, 1]);
});

test("the account is read a last time before the waiting is given up", async () => {
  const site = await start({ settings: { settleWaitMs: 150, settleLegMs: 150 } });
  const { answer } = await waiting(site);
  const account = site.vault.account("alice", "gmail");
  // Usable, but nobody announced it: only the last read can see it.
  site.vault.status(account, "ACTIVE");
  account.scopes = ["mail.read"];
  assert.equal((await answer).body.result.structuredContent.count, 2);
});

test("a client that goes away ends its wait, and the link stays good (HTTP-11)", async () => {
  const site = await start({ settings: LONG });
  const leave = new AbortController();
  const { answer } = await waiting(site, { signal: leave.signal });
  assert.equal(site.vault.waiters.size, 1);
  const ended = assert.rejects(answer);
  leave.abort();
  await ended;
  const limit = Date.now() + 2_000;
  while (site.vault.waiters.size > 0 && Date.now() < limit) await delay(5);
  assert.equal(site.vault.waiters.size, 0);
  assert.deepEqual([site.vault.ran.length, site.vault.links[0]?.status], [0, "open"]);
  site.vault.connect("alice", "gmail");
  assert.equal((await site.call("summarize_inbox")).body.result.structuredContent.count, 2);
});

test("a program that stops answers its waiters with a state alone, and further accepts at once", async () => {
  const site = await start({ settings: LONG });
  const { answer, since } = await waiting(site);
  const later = await site.call("summarize_inbox", { max_messages: 3 });
  site.stopping.abort();
  assert.deepEqual(Object.keys((await answer).body.result).sort(), ["_meta", "requestState", "resultType"]);
  const other = await site.call("summarize_inbox", { max_messages: 3 }, { requestState: stateOf(later), inputResponses: accept });
  assert.equal(other.body.result.resultType, "input_required");
  assert.ok(Date.now() - since < 1_000);
  // Another instance takes over from that state.
  site.vault.connect("alice", "gmail");
  assert.equal((await site.call("summarize_inbox", {}, { requestState: stateOf(await answer) })).body.result.structuredContent.count, 2);
});

test("a stream that only listens is acknowledged and ends, with a result, when the program stops (SUB-01, SUB-02, SUB-06)", async () => {
  const site = await start();
  const params = { _meta: meta(), notifications: { toolsListChanged: true } };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 7, method: "subscriptions/listen", params });
  const response = await fetch(site.url, { method: "POST", headers: site.headersFor("subscriptions/listen", undefined, ALICE), body });
  let text = "";
  for await (const chunk of response.body ?? []) {
    text += Buffer.from(chunk).toString();
    if (text.includes("acknowledged")) site.stopping.abort();
  }
  const frames = text.split("\n").flatMap((line) => (line.startsWith("data: ") ? [JSON.parse(line.slice(6))] : []));
  assert.deepEqual(
    frames.map((frame) => [
      frame.method ?? frame.result.resultType,
      (frame.params ?? frame.result)._meta["io.modelcontextprotocol/subscriptionId"],
    ]),
    [
      ["notifications/subscriptions/acknowledged", 7],
      ["complete", 7],
    ],
  );
});

test("with a progress token the wait tells how long it has lasted, on its own stream, and the result ends it (PROG-01, HTTP-07)", async () => {
  const site = await start({ settings: LONG });
  const { answer } = await waiting(site, { meta: { progressToken: "p1" } });
  site.vault.connect("alice", "gmail");
  const { headers, body } = await answer;
  assert.match(String(headers["content-type"]), /^text\/event-stream/);
  assert.equal(headers["x-accel-buffering"], "no");
  assert.deepEqual(body[0], {
    jsonrpc: "2.0",
    method: "notifications/progress",
    params: { progressToken: "p1", progress: 0, total: 60, message: "Waiting for Gmail to be connected in the browser" },
  });
  assert.equal(body.at(-1).result.structuredContent.count, 2);
  assert.equal(body.length, 2);
});

test("without a progress token nothing is streamed, and a usable account streams nothing either", async () => {
  const site = await start({ settings: LONG });
  site.vault.connect("alice", "gmail");
  assert.match(
    String((await site.call("summarize_inbox", {}, {}, { meta: { progressToken: 1 } })).headers["content-type"]),
    /^application\/json/,
  );
});

test("more waits than one person and client may hold end as busy; others are not touched (contract 6.1.5)", async () => {
  const site = await start({ settings: LONG });
  const states: string[] = [];
  for (let at = 0; at <= WAITS_PER_CLIENT_MAX; at++) states.push(stateOf(await site.call("summarize_inbox", { max_messages: at + 1 })));
  let waits = 0;
  const full = new Promise<void>((resolve) => {
    site.vault.onWait = () => ++waits === WAITS_PER_CLIENT_MAX && resolve();
  });
  const held = states
    .slice(0, WAITS_PER_CLIENT_MAX)
    .map((requestState, at) => site.call("summarize_inbox", { max_messages: at + 1 }, { requestState, inputResponses: accept }));
  await full;
  const answer = await site.call(
    "summarize_inbox",
    { max_messages: WAITS_PER_CLIENT_MAX + 1 },
    { requestState: states.at(-1), inputResponses: accept },
  );
  const { execution_id: _id, ...outcome } = outcomeOf(answer);
  assert.deepEqual(outcome, {
    outcome: "not_connected",
    reason: "busy",
    connection_name: "gmail",
    connect_page: "http://localhost:3999/connections",
    retry_after_s: 60,
  });
  const bob = await waiting(site, { token: "bob.app.mcp_read" });
  site.vault.connect("bob", "gmail");
  assert.equal((await bob.answer).body.result.structuredContent.count, 2);
  site.vault.connect("alice", "gmail");
  for (const one of held) assert.equal((await one).body.result.structuredContent.count, 2);
});

test("a call whose tool never ends is given up inside 30 s: a read as unavailable, a write as unknown (contract 6.1)", async () => {
  const asked: number[] = [];
  const clock = {
    ...systemClock,
    sleep: (ms: number, signal?: AbortSignal) => {
      asked.push(ms);
      return systemClock.sleep(1, signal);
    },
  };
  const site = await start({ clock });
  site.vault.connect("alice", "gmail");
  site.vault.runInstead = () => new Promise(() => undefined);
  const read = await site.call("summarize_inbox");
  assert.deepEqual([outcomeOf(read)["outcome"], outcomeOf(read)["reason"]], ["provider_unavailable", "timeout"]);
  const write = await site.call("gmail_send_message", { to: ["a@b.test"], subject: "x" });
  assert.deepEqual([outcomeOf(write)["outcome"], outcomeOf(write)["reason"]], ["outcome_unknown", "timeout"]);
  assert.ok(asked.length === 2 && asked.every((ms) => ms < 30_000));
});

test("seats are given back once, and an instance holds no more than its own limit", () => {
  const seats = createSeats();
  const held = Array.from({ length: WAITS_MAX }, (_, at) => seats.take(`person ${at}`, "app"));
  assert.ok(held.every((one) => one !== null));
  assert.equal(seats.take("one more", "app"), null);
  held[0]?.();
  held[0]?.();
  assert.notEqual(seats.take("one more", "app"), null);
  assert.equal(seats.take("and another", "app"), null);
});

test("wake-ups that bring no news do not make a leg spin", async () => {
  let calls = 0;
  const principal: PersonPrincipal = {
    kind: "person",
    sub: asIdentifier("alice"),
    clientId: "app",
    clientName: null,
    scopes: new Set(),
    grantId: null,
    apiKeyId: null,
    expiresAtMs: 0,
  };
  const leg = beginLeg(
    {
      links: {
        wait: async () => {
          calls++;
          return "settled";
        },
      },
      seats: createSeats(),
      clock: systemClock,
      settings: { settleWaitMs: 300, settleLegMs: 200 },
      stopping: new AbortController().signal,
    },
    { principal, link: "lnk_1" as LinkId, account: "ca_1" as AccountId, waitedMs: 0, signal: new AbortController().signal, progress: null },
  );
  const news: string[] = [];
  for (let at = 0; at < 10 && news.at(-1) !== "leg_over"; at++) news.push(await leg.next());
  leg.end();
  assert.deepEqual(news, ["read_again", "read_again", "leg_over"]);
  assert.equal(calls, 1);
});
