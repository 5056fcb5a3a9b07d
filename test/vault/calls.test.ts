// Calls on a real account against the awkward provider: refresh, refusal, trouble, and writes that happen once.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { systemClock } from "../../src/clock.js";
import { connect, KINDS } from "../support/journey.js";
import { callTool, linkOf, outcomeOf } from "../support/mcpCall.js";
import { type MovableClock, movableClock } from "../support/movableClock.js";
import type { Fault } from "../support/awkwardProvider.js";
import { type Outband, startOutband } from "../support/outband.js";

const TOKEN = "POST /google/token";
const HOUR_MS = 3600_000;

for (const kind of KINDS) {
  describe(`calls (${kind})`, () => {
    let outband: Outband;
    let clock: MovableClock;
    before(async () => {
      clock = movableClock();
      outband = await startOutband({ kind, clock });
    });

    /** A person with Gmail connected, and nothing counted yet. */
    async function connected(name: string, tool = "summarize_inbox", key = "connect_gmail") {
      const person = await outband.person(name);
      const args = tool === "gmail_send_message" ? MAIL : tool === "slack_post_message" ? { channel: "#random", text: "hi" } : {};
      const asked = await callTool(outband.url, person.token, tool, args);
      const page = await connect(linkOf(asked, key), await person.signIn());
      assert.equal(page.status, 200, page.text);
      outband.provider.resetCounts();
      const session = async () => (await outband.api("POST", "/session-tokens", { identifier: person.sub, ttl_s: 86_400 })).body.token as string;
      const account = async () => (await outband.api("GET", `/accounts?identifier=${person.sub}`)).body.data[0];
      return { ...person, session, account };
    }

    test("20 calls at once on an expired token: one token request, 20 answers, still ACTIVE", async () => {
      const person = await connected("storm");
      clock.forward(2 * HOUR_MS);
      const token = await person.session();
      const answers = await Promise.all(Array.from({ length: 20 }, () => callTool(outband.url, token, "gmail_list_messages")));
      assert.deepEqual(answers.map((answer) => answer.body.result?.isError ?? false), Array(20).fill(false), JSON.stringify(answers[0]?.body));
      assert.equal(outband.provider.count(TOKEN), 1);
      assert.equal((await person.account()).status, "ACTIVE");
    });

    test("three expiries in a row use RT1, RT2, RT3: a rotated token is kept", async () => {
      const person = await connected("rotation");
      for (let round = 1; round <= 3; round += 1) {
        clock.forward(2 * HOUR_MS);
        const answer = await callTool(outband.url, await person.session(), "gmail_list_messages");
        assert.notEqual(answer.body.result.isError, true, JSON.stringify(answer.body));
        assert.equal(outband.provider.count(TOKEN), round);
      }
    });

    test("requests side by side that are all refused share one refresh, and the account stays ACTIVE", async () => {
      const person = await connected("sidebyside");
      outband.provider.fault({ match: /messages\/:?\w*id|messages\/\{?|GET .*messages\//, times: 5, status: 401, body: { error: { code: 401, status: "UNAUTHENTICATED" } } });
      const answer = await callTool(outband.url, await person.session(), "summarize_inbox");
      assert.equal(outband.provider.faultsLeft(), 0);
      assert.notEqual(answer.body.result?.isError, true, JSON.stringify(answer.body));
      assert.equal(outband.provider.count(TOKEN), 1);
      assert.deepEqual([(await person.account()).status, (await person.account()).status_reason], ["ACTIVE", null]);
    });

    test("revoked at the provider: seen at the next call, one event, one new link; nothing is refreshed again and again", async () => {
      const person = await connected("revoked");
      outband.provider.revokeAll();
      const asked = await callTool(outband.url, await person.session(), "summarize_inbox");
      assert.equal(asked.body.result.resultType, "input_required", JSON.stringify(asked.body));
      const account = await person.account();
      assert.deepEqual([account.status, account.status_reason, account.readiness], ["EXPIRED", "refresh_rejected", "needs_reauth"]);
      const events = (await outband.api("GET", `/events?account_id=${account.id}&type=connected_account.status_updated`)).body.data;
      assert.deepEqual(events.map((event: { data: { old_status: string; status: string } }) => [event.data.old_status, event.data.status]), [["PENDING", "ACTIVE"], ["ACTIVE", "EXPIRED"]]);
      assert.equal(outband.provider.count(TOKEN), 1);
      await callTool(outband.url, await person.session(), "summarize_inbox");
      assert.equal(outband.provider.count(TOKEN), 1);
    });

    for (const [index, [name, fault]] of [
      ["503 with HTML", { status: 503, headers: { "content-type": "text/html" }, body: "<html>down</html>" }],
      ["200 without a token", { status: 200, body: { token_type: "Bearer" } }],
      ["a cut before the answer", { drop: "before" }],
    ].entries() as Iterable<[number, [string, Omit<Fault, "match">]]>) {
      test(`a refresh that meets ${name} changes no status and makes no link; later it works by itself`, async () => {
        const person = await connected(`transient-${index}`);
        clock.forward(2 * HOUR_MS);
        outband.provider.fault({ match: TOKEN, ...fault });
        const answer = await callTool(outband.url, await person.session(), "gmail_list_messages");
        assert.equal(outcomeOf(answer)?.outcome, "provider_unavailable", JSON.stringify(answer.body));
        assert.ok(Number(outcomeOf(answer)["retry_after_s"]) >= 1);
        assert.equal((await person.account()).status, "ACTIVE");
        // Backed off by the database's clock, which no test moves: the told time is waited for.
        await systemClock.sleep(Number(outcomeOf(answer)["retry_after_s"]) * 1000);
        const later = await callTool(outband.url, await person.session(), "gmail_list_messages");
        assert.notEqual(later.body.result.isError, true, JSON.stringify(later.body));
      });
    }

    test("a second account that is connected later does not make a repeated call ambiguous", async () => {
      const person = await connected("grown", "slack_post_message", "connect_slack");
      const token = await person.session();
      const post = (text: string, more: Record<string, string> = {}) => callTool(outband.url, token, "slack_post_message", { channel: "#random", text, idempotency_key: "k-grown", ...more });
      const first = await post("once");
      assert.notEqual(first.body.result.isError, true, JSON.stringify(first.body));
      const second = await outband.api("POST", "/authorization-links", { connection_name: "slack", identifier: person.sub, label: "work" });
      assert.equal((await connect(second.body.url, await person.signIn())).status, 200);
      assert.deepEqual((await post("once")).body.result.structuredContent, first.body.result.structuredContent);
      assert.equal(outcomeOf(await post("other")).reason, "idempotency_key_reused");
      assert.equal(outcomeOf(await callTool(outband.url, token, "slack_post_message", { channel: "#random", text: "new", idempotency_key: "k-new" })).outcome, "ambiguous_account");
      assert.equal(outband.provider.count(/chat\.postMessage/), 1);
    });

    test("the same idempotency key sends one message; with other arguments it is refused", async () => {
      const person = await connected("idempotent", "slack_post_message", "connect_slack");
      const token = await person.session();
      const post = (text: string) => callTool(outband.url, token, "slack_post_message", { channel: "#random", text, idempotency_key: "k-1" });
      const [first, second] = [await post("once"), await post("once")];
      assert.notEqual(first.body.result.isError, true, JSON.stringify(first.body));
      assert.deepEqual(second.body.result.structuredContent, first.body.result.structuredContent);
      assert.equal(outband.provider.count(/chat\.postMessage/), 1);
      const other = await post("other text");
      assert.deepEqual([outcomeOf(other).outcome, outcomeOf(other).reason], ["invalid_arguments", "idempotency_key_reused"]);
      assert.equal(outband.provider.count(/chat\.postMessage/), 1);
    });

    test("parallel sends with one key: one message, everybody gets its result", async () => {
      const person = await connected("parallel-key", "slack_post_message", "connect_slack");
      const token = await person.session();
      const posts = await Promise.all(Array.from({ length: 5 }, () => callTool(outband.url, token, "slack_post_message", { channel: "#random", text: "five", idempotency_key: "k-5" })));
      assert.equal(new Set(posts.map((post) => JSON.stringify(post.body.result.structuredContent))).size, 1, JSON.stringify(posts.map((post) => post.body)));
      assert.equal(outband.provider.count(/chat\.postMessage/), 1);
    });

    test("a send whose answer is cut is never sent again: found by looking, or told as unknown", async () => {
      const person = await connected("cut", "gmail_send_message");
      const token = await person.session();
      outband.provider.fault({ match: /messages[./]send/, drop: "after" });
      const answer = await callTool(outband.url, token, "gmail_send_message", { ...MAIL, idempotency_key: "mail-1" });
      assert.equal(outband.provider.faultsLeft(), 0);
      const found = answer.body.result.isError !== true;
      assert.ok(found || outcomeOf(answer).outcome === "outcome_unknown", JSON.stringify(answer.body));
      await callTool(outband.url, token, "gmail_send_message", { ...MAIL, idempotency_key: "mail-1" });
      assert.equal(outband.provider.count(/messages[./]send/), 1);
    });

    test("a disabled connection: its tools are not listed and a call is not allowed, without asking the provider", async () => {
      const person = await connected("disabled");
      await outband.api("PATCH", "/connections/gmail", { enabled: false });
      const answer = await callTool(outband.url, await person.session(), "summarize_inbox");
      await outband.api("PATCH", "/connections/gmail", { enabled: true });
      assert.equal(outcomeOf(answer).outcome, "not_allowed", JSON.stringify(answer.body));
      assert.equal(outband.provider.count(/./), 0);
    });
  });
}

const MAIL = { to: ["kim@people.example"], subject: "Lunch", body: "Noon?" };
