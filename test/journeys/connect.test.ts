// The main job over real HTTP, on both databases: asked, connected in a browser, answered; and each way it can end otherwise.
// Every ending asserts the forbidden side too: what the provider must not have been asked.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { connect, consent, finish, KINDS, retryOf } from "../support/journey.js";
import { createBrowser } from "../support/browser.js";
import { callTool, linkOf, mcp, outcomeOf } from "../support/mcpCall.js";
import { type Answer, type Outband, startOutband } from "../support/outband.js";

const EXCHANGE = "POST /google/token";

for (const kind of KINDS) {
  describe(`the main job (${kind})`, () => {
    /** Patient: the contract's own waits. Hurried: for those who never come. */
    let outband: Outband;
    let hurried: Outband;
    before(async () => {
      outband = await startOutband({ kind });
      hurried = await startOutband({ kind, settings: { SETTLE_WAIT_MS: "3000", SETTLE_LEG_MS: "1000" } });
    });
    const call = (token: string, name: string, args: Record<string, unknown> = {}, options = {}) => callTool(outband.url, token, name, args, options);
    const statusOf = async (sub: string) => {
      const listed = await outband.api("GET", `/accounts?identifier=${sub}`);
      return listed.body.data.map((account: { status: string; status_reason: string | null }) => [account.status, account.status_reason]);
    };

    test("a tool that needs Gmail asks once, the waiting retry answers by itself, and the next call needs nobody", async () => {
      const alice = await outband.person("alice");
      const asked = await call(alice.token, "summarize_inbox");
      assert.equal(asked.body.result.resultType, "input_required", JSON.stringify(asked.body));
      assert.deepEqual(Object.keys(asked.body.result).sort(), ["_meta", "inputRequests", "requestState", "resultType"]);
      assert.deepEqual(Object.keys(asked.body.result.inputRequests), ["connect_gmail"]);
      const entry = asked.body.result.inputRequests.connect_gmail;
      assert.equal(entry.method, "elicitation/create");
      assert.deepEqual(Object.keys(entry.params).sort(), ["message", "mode", "url"]);
      assert.equal(entry.params.mode, "url");
      assert.match(entry.params.url, new RegExp(`^${outband.url}/connect/[\\w-]{43}$`));

      const waiting = finish(call(alice.token, "summarize_inbox", {}, retryOf(asked, "accept")), (options) => call(alice.token, "summarize_inbox", {}, options));
      const done = await connect(linkOf(asked), await alice.signIn());
      assert.equal(done.status, 200, done.text);
      assert.match(done.text, /mara\.lindqvist@harbourlight\.example/);
      const { answer } = await waiting;
      assert.equal(answer.body.result.resultType, "complete", JSON.stringify(answer.body));
      assert.notEqual(answer.body.result.isError, true, JSON.stringify(answer.body));
      assert.match(JSON.stringify(answer.body.result.content), /sandbox|messages/i);

      outband.provider.resetCounts();
      const again = await call(alice.token, "summarize_inbox");
      assert.equal(again.body.result.resultType, "complete");
      assert.equal(outband.provider.count(/authorize|token/), 0);
      assert.deepEqual(await statusOf(alice.sub), [["ACTIVE", null]]);
    });

    test("Slack likewise: the post arrives once, and the same requestState again gets the recorded result", async () => {
      const person = await outband.person("slack-user");
      const args = { channel: "#random", text: "Hello <!channel> & all" };
      const asked = await call(person.token, "slack_post_message", args);
      assert.deepEqual(Object.keys(asked.body.result.inputRequests ?? {}), ["connect_slack"], JSON.stringify(asked.body));
      const done = await connect(linkOf(asked, "connect_slack"), await person.signIn());
      assert.equal(done.status, 200, done.text);
      const retry = retryOf(asked, "accept", "connect_slack");
      outband.provider.resetCounts();
      const first = await call(person.token, "slack_post_message", args, retry);
      const second = await call(person.token, "slack_post_message", args, retry);
      assert.notEqual(first.body.result.isError, true, JSON.stringify(first.body));
      assert.deepEqual(second.body.result.structuredContent, first.body.result.structuredContent);
      assert.equal(outband.provider.count(/chat\.postMessage/), 1);
    });

    test("declined or cancelled in the client: one completed result, and the link opens nothing any more", async () => {
      const person = await outband.person("decliner");
      const browser = await person.signIn();
      for (const [action, reason] of [
        ["decline", "declined"],
        ["cancel", "cancelled"],
      ] as const) {
        const asked = await call(person.token, "summarize_inbox");
        const answer = await call(person.token, "summarize_inbox", {}, retryOf(asked, action));
        assert.equal(answer.body.result.isError, true);
        assert.deepEqual([outcomeOf(answer).outcome, outcomeOf(answer).reason], ["declined", reason]);
        assert.match(answer.body.result.content[0].text, /^declined: /);
        const page = await browser.get(linkOf(asked));
        assert.notEqual(page.status, 200);
      }
      assert.deepEqual(await statusOf(person.sub), [["PENDING", "awaiting_user"]]);
    });

    test("nobody at the browser: an accepting client is asked once and gets one completed result in bounded time", async () => {
      const person = await hurried.person("absent");
      const asked = await callTool(hurried.url, person.token, "summarize_inbox");
      const started = Date.now();
      const { answer, legs } = await finish(callTool(hurried.url, person.token, "summarize_inbox", {}, retryOf(asked, "accept")), (options) => callTool(hurried.url, person.token, "summarize_inbox", {}, options));
      const tookMs = Date.now() - started;
      assert.deepEqual([outcomeOf(answer).outcome, answer.body.result.resultType], ["not_connected", "complete"], JSON.stringify(answer.body));
      assert.ok(legs >= 2, `${legs} legs`);
      assert.ok(tookMs >= 2_500 && tookMs < 3_000 + 5_000, `${tookMs} ms`);
    });

    test("denied at the provider: the wait ends at once, the account says so, nothing was exchanged", async () => {
      const person = await outband.person("denier");
      const browser = await person.signIn();
      const asked = await call(person.token, "summarize_inbox");
      outband.provider.resetCounts();
      const waiting = finish(call(person.token, "summarize_inbox", {}, retryOf(asked, "accept")), (options) => call(person.token, "summarize_inbox", {}, options));
      const page = await connect(linkOf(asked), browser, { decision: "deny" });
      assert.equal(page.status, 200, page.text);
      const { answer } = await waiting;
      assert.equal(answer.body.result.isError, true);
      assert.equal(outcomeOf(answer).outcome, "not_connected");
      assert.equal(outband.provider.count(EXCHANGE), 0);
      assert.deepEqual(await statusOf(person.sub), [["PENDING", "consent_denied"]]);
    });

    test("a permission left out: scope_missing, named on the page; the account stays as it was", async () => {
      const person = await outband.person("partial");
      const asked = await call(person.token, "summarize_inbox");
      const page = await connect(linkOf(asked), await person.signIn(), { untick: ["https://www.googleapis.com/auth/gmail.readonly"] });
      assert.notEqual(page.status, 500);
      assert.match(page.text, /Read/i);
      const answer = await call(person.token, "summarize_inbox", {}, retryOf(asked, "accept"));
      assert.equal(answer.body.result.isError, true, JSON.stringify(answer.body));
      assert.deepEqual(await statusOf(person.sub), [["PENDING", "scope_missing"]]);
    });

    test("a forwarded link: another person sees nobody's name, and nothing reaches the provider", async () => {
      const owner = await outband.person("owner");
      const other = await outband.person("other");
      const asked = await call(owner.token, "summarize_inbox");
      const otherBrowser = await other.signIn();
      outband.provider.resetCounts();
      const page = await otherBrowser.get(linkOf(asked));
      assert.equal(page.status, 403);
      assert.equal(page.text.includes(owner.email), false);
      assert.equal(page.text.includes("person-owner"), false);
      const forced = await otherBrowser.post(linkOf(asked), {}, { from: await otherBrowser.get("/connections") });
      assert.equal(forced.status, 403, forced.text);
      assert.equal(outband.provider.count(/./), 0);
      assert.deepEqual(await statusOf(owner.sub), [["PENDING", "awaiting_user"]]);
    });

    test("the owner's callback delivered by another browser, or by another person in it: 403 and no exchange", async () => {
      const owner = await outband.person("callback-owner");
      const other = await outband.person("callback-other");
      const asked = await call(owner.token, "summarize_inbox");
      const ownerBrowser = await owner.signIn();
      const callback = await consent(linkOf(asked), ownerBrowser);
      outband.provider.resetCounts();
      const stolen = await (await other.signIn()).get(callback);
      assert.equal(stolen.status, 403, stolen.text);
      const sameOwnerElsewhere = await (await owner.signIn(createBrowser(outband.url))).get(callback);
      assert.equal(sameOwnerElsewhere.status, 403);
      assert.equal(outband.provider.count(EXCHANGE), 0);
      const rightful = await ownerBrowser.get(callback);
      assert.equal(rightful.status, 200, rightful.text);
      assert.equal(outband.provider.count(EXCHANGE), 1);
    });

    test("a doubled, then a reloaded callback exchanges once and shows the outcome each time", async () => {
      const person = await outband.person("doubler");
      const browser = await person.signIn();
      const asked = await call(person.token, "summarize_inbox");
      const callback = await consent(linkOf(asked), browser);
      outband.provider.resetCounts();
      const both = await Promise.all([browser.get(callback), browser.get(callback)]);
      const reloaded = await browser.get(callback);
      for (const page of [...both, reloaded]) assert.deepEqual([page.status, /harbourlight/.test(page.text)], [200, true], page.text);
      assert.equal(outband.provider.count(EXCHANGE), 1);
    });

    test("two flows side by side in one browser both end well", async () => {
      const person = await outband.person("juggler");
      const browser = await person.signIn();
      const gmail = await call(person.token, "summarize_inbox");
      const slack = await call(person.token, "slack_list_channels");
      const first = await consent(linkOf(gmail), browser);
      const second = await consent(linkOf(slack, "connect_slack"), browser);
      const [gmailPage, slackPage] = [await browser.get(first), await browser.get(second)];
      assert.deepEqual([gmailPage.status, slackPage.status], [200, 200], gmailPage.text + slackPage.text);
      assert.deepEqual((await statusOf(person.sub)).map(([status]: [string]) => status), ["ACTIVE", "ACTIVE"]);
    });

    test("a state that nobody knows, and one of another connection, exchange nothing", async () => {
      const person = await outband.person("mixer");
      const browser = await person.signIn();
      const asked = await call(person.token, "summarize_inbox");
      const callback = new URL(await consent(linkOf(asked), browser));
      outband.provider.resetCounts();
      const unknown = await browser.get(`${outband.url}/connect/callback/gmail?code=x&state=${"a".repeat(43)}`);
      assert.equal(unknown.status, 400);
      const mixed = await browser.get(`${outband.url}/connect/callback/slack${callback.search}`);
      assert.equal(mixed.status, 400);
      assert.equal(outband.provider.count(/token|access/), 0);
    });

    test("GET and HEAD change nothing, however often and by whomever", async () => {
      const person = await outband.person("previewed");
      const asked = await call(person.token, "summarize_inbox");
      const link = linkOf(asked);
      for (let times = 0; times < 5; times += 1) {
        await fetch(link, { redirect: "manual", headers: { "user-agent": "Slackbot-LinkExpanding 1.0" } });
        await fetch(link, { method: "HEAD", redirect: "manual" });
      }
      const page = await connect(link, await person.signIn());
      assert.equal(page.status, 200, page.text);
    });

    test("a client with elicitation {} gets a readable result with the page to go to, and no link", async () => {
      const person = await outband.person("formonly");
      const answer = await call(person.token, "summarize_inbox", {}, { elicitation: {} });
      assert.equal(answer.body.result.resultType, "complete");
      assert.equal(answer.body.result.isError, true);
      assert.match(answer.body.result.content[0].text, /^not_connected: /);
      assert.ok(answer.body.result.content[0].text.includes(`${outband.url}/connections`));
      assert.equal(JSON.stringify(answer.body).includes("/connect/"), false);
      assert.equal(outcomeOf(answer).connection_name, "gmail");
    });

    test("a client that drops its state is asked three times, then no more", async () => {
      const person = await outband.person("looper");
      const links = new Set<string>();
      for (let round = 0; round < 3; round += 1) {
        const asked = await call(person.token, "summarize_inbox");
        assert.equal(asked.body.result.resultType, "input_required", JSON.stringify(asked.body));
        links.add(linkOf(asked));
        await call(person.token, "summarize_inbox", {}, retryOf(asked, "cancel"));
      }
      assert.equal(links.size, 3);
      const refused = await call(person.token, "summarize_inbox");
      assert.deepEqual([outcomeOf(refused).outcome, outcomeOf(refused).reason], ["not_connected", "asked_too_often"]);
    });

    test("one that answers without its state gets no link twice, and one that only calls again and again comes to an end too", async () => {
      const accepting = await outband.person("accepting");
      const answers = [];
      for (let n = 0; n < 5; n += 1) answers.push(await call(accepting.token, "summarize_inbox", {}, { retry: { inputResponses: { connect_gmail: { action: "accept" } } } }));
      assert.equal(new Set(answers.slice(0, 3).map((answer) => linkOf(answer))).size, 3);
      for (const refused of answers.slice(3)) assert.equal(outcomeOf(refused).reason, "asked_too_often", JSON.stringify(refused.body));

      const calling = await outband.person("calling");
      const links: string[] = [];
      let last: Answer | null = null;
      for (let n = 0; n < 30 && !outcomeOf(last ?? ({ body: null } as Answer)); n += 1) {
        last = await call(calling.token, "summarize_inbox");
        if (linkOf(last)) links.push(linkOf(last));
      }
      assert.deepEqual([links.length, new Set(links).size, last && outcomeOf(last).reason], [24, 3, "asked_too_often"]);
    });

    test("parallel unanswered calls share one link", async () => {
      const person = await outband.person("parallel");
      const asked = await Promise.all(Array.from({ length: 6 }, () => call(person.token, "summarize_inbox")));
      assert.equal(new Set(asked.map((answer) => linkOf(answer))).size, 1);
    });

    test("a state of another person, tool or arguments is refused with one sentence and no side effect", async () => {
      const person = await outband.person("stateowner");
      const thief = await outband.person("statethief");
      const asked = await call(person.token, "gmail_list_messages", { query: "is:unread" });
      outband.provider.resetCounts();
      const tries = [
        call(thief.token, "gmail_list_messages", { query: "is:unread" }, retryOf(asked, "accept")),
        call(person.token, "summarize_inbox", {}, retryOf(asked, "accept")),
        call(person.token, "gmail_list_messages", { query: "from:x" }, retryOf(asked, "accept")),
        call(person.token, "gmail_list_messages", { query: "is:unread" }, { retry: { requestState: `${asked.body.result.requestState}x`, inputResponses: {} } }),
      ];
      const errors = (await Promise.all(tries)).map((answer) => answer.body.error);
      assert.deepEqual(errors.map((error) => error?.code), [-32602, -32602, -32602, -32602]);
      assert.equal(new Set(errors.map((error) => error.message)).size, 1);
      assert.equal(outband.provider.count(/./), 0);
    });

    test("disconnecting erases the credential, revokes it upstream, and the next call asks again", async () => {
      const person = await outband.person("leaver");
      const asked = await call(person.token, "summarize_inbox");
      // A practice person of their own: a grant that others live on would be kept upstream.
      await connect(linkOf(asked), await person.signIn(), { person: "Tomás" });
      const [account] = (await outband.api("GET", `/accounts?identifier=${person.sub}`)).body.data;
      outband.provider.resetCounts();
      const gone = await outband.api("DELETE", `/accounts/${account.id}`);
      assert.deepEqual([gone.status, gone.body.status, gone.body.status_reason], [200, "REVOKED", "disconnected_by_admin"]);
      assert.equal(outband.provider.count(/revoke/), 1);
      const next = await call(person.token, "summarize_inbox");
      assert.equal(next.body.result.resultType, "input_required");
      assert.equal(outband.provider.count(/gmail|api\/gmail/), 0);
    });

    test("tools are listed in the contract's order, with schemas and hints", async () => {
      const person = await outband.person("lister");
      const listed = await mcp(outband.url, person.token, "tools/list", {});
      const names = listed.body.result.tools.map((tool: { name: string }) => tool.name);
      assert.deepEqual(names, [
        "list_my_connections",
        "disconnect_account",
        "summarize_inbox",
        "gmail_list_messages",
        "gmail_get_message",
        "gmail_send_message",
        "slack_list_channels",
        "slack_post_message",
      ]);
      assert.equal(listed.body.result.cacheScope, "private");
      for (const tool of listed.body.result.tools) assert.deepEqual([typeof tool.title, typeof tool.description, tool.inputSchema.type, tool.outputSchema?.type, typeof tool.annotations?.readOnlyHint], ["string", "string", "object", "object", "boolean"], tool.name);
    });
  });
}
