// The official clients, the new and the old one, against the real program over real HTTP, and the shapes on the wire.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { ProtocolError, UnauthorizedError } from "@modelcontextprotocol/client";
import { UnauthorizedError as LegacyUnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";
import { Client as LegacyClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as LegacyTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { connect, KINDS, retryOf } from "../support/journey.js";
import { callTool, linkOf } from "../support/mcpCall.js";
import { tokensFor, registered } from "../support/oauthClient.js";
import { type ElicitRequestParams, type OfficialOptions, officialClient, signInAs } from "../support/officialClient.js";
import { type Answer, type Outband, startOutband } from "../support/outband.js";
import { recordWire, type Wire } from "../support/wire.js";

const TOOLS = [
  "list_my_connections",
  "disconnect_account",
  "summarize_inbox",
  "gmail_list_messages",
  "gmail_get_message",
  "gmail_send_message",
  "slack_list_channels",
  "slack_post_message",
];
const ACCEPT = { action: "accept" } as const;
const BOTH = { elicitation: { url: {}, form: {} } };
const WAIT_MS = 3_000;
/** Our challenge's scopes, and the one that this client adds by itself where a server knows it. */
const WANTED = "mcp:read mcp:write offline_access";

interface Result {
  isError?: boolean | undefined;
  content?: unknown;
  structuredContent?: unknown;
  _meta?: Record<string, unknown> | undefined;
}
const outcomeOf = (result: Result): Record<string, unknown> => (result._meta?.["dev.outband/outcome"] ?? {}) as Record<string, unknown>;
const firstText = (result: Result): string => (result.content as { text: string }[])[0]?.text ?? "";
const urlOf = (params: ElicitRequestParams): string => (params.mode === "url" ? params.url : assert.fail("not a link"));

for (const kind of KINDS) {
  describe(`clients (${kind})`, () => {
    let outband: Outband;
    /** For people who take long, and for those who never come. */
    let hurried: Outband;
    let wire: Wire;
    before(async () => {
      wire = recordWire();
      outband = await startOutband({ kind });
      hurried = await startOutband({ kind, settings: { SETTLE_WAIT_MS: String(WAIT_MS), SETTLE_LEG_MS: "1000" } });
    });
    const asked = (path: RegExp) => wire.of(Number(new URL(outband.url).port), path);

    test("the official client finds, registers, signs in, lists, is asked once, and answers with the digest; then it asks nobody", async () => {
      const person = await outband.person("official");
      const browser = await person.signIn();
      const signIn = signInAs(browser);
      const questions: ElicitRequestParams[] = [];
      const elicit = async (params: ElicitRequestParams) => {
        questions.push(params);
        const done = await connect(urlOf(params), browser);
        assert.equal(done.status, 200, done.text);
        return ACCEPT;
      };
      const { client } = await officialClient(outband.url, { capabilities: BOTH, elicit, auth: signIn });

      // AZ-01 to AZ-04: challenge, metadata of the resource, metadata of its server, registration, code with PKCE for this resource.
      const [refused] = asked(/^\/mcp$/);
      const challenge = refused?.answer.headers.find(([name]) => name === "www-authenticate")?.[1];
      assert.equal(challenge, `Bearer resource_metadata="${outband.url}/.well-known/oauth-protected-resource/mcp", scope="mcp:read mcp:write"`);
      assert.equal(asked(/^\/\.well-known\/oauth-protected-resource\/mcp$/)[0]?.answer.status, 200);
      assert.equal(asked(/^\/\.well-known\/oauth-authorization-server\/oauth$/)[0]?.answer.status, 200);
      assert.equal(asked(/^\/oauth\/register$/).at(-1)?.answer.status, 201);
      const query = signIn.asked().searchParams;
      assert.deepEqual([query.get("resource"), query.get("code_challenge_method"), query.get("scope")], [`${outband.url}/mcp`, "S256", WANTED]);
      const form = new URLSearchParams(asked(/^\/oauth\/token$/).at(-1)?.request.body);
      assert.deepEqual([form.get("grant_type"), form.get("resource"), (form.get("code_verifier") ?? "").length >= 43], ["authorization_code", `${outband.url}/mcp`, true]);
      assert.deepEqual(signIn.scopes(), ["mcp:read", "mcp:write"]);

      assert.deepEqual((await client.listTools()).tools.map((tool) => tool.name), TOOLS);
      const digest = await client.callTool({ name: "summarize_inbox", arguments: { max_messages: 3 } });
      assert.equal(digest.isError, undefined, JSON.stringify(digest));
      assert.equal((digest.structuredContent as { messages: unknown[] }).messages.length, 3);
      assert.deepEqual(questions.map((params) => [params.mode, params.message.startsWith("Connect Gmail")]), [["url", true]]);

      outband.provider.resetCounts();
      const again = await client.callTool({ name: "summarize_inbox", arguments: { max_messages: 3 } });
      assert.deepEqual(again.structuredContent, digest.structuredContent);
      assert.equal(questions.length, 1);
      assert.equal(outband.provider.count(/authorize|token/), 0);
    });

    test("a stock client that accepts at once, with nobody at the browser, is asked once and gets one completed result in bounded time", async () => {
      const person = await hurried.person("absent");
      let questions = 0;
      const elicit = async () => {
        questions += 1;
        return ACCEPT;
      };
      const { client } = await officialClient(hurried.url, { capabilities: BOTH, elicit, auth: person.token });
      const startedMs = performance.now();
      const result = await client.callTool({ name: "summarize_inbox", arguments: {} });
      const tookMs = performance.now() - startedMs;
      assert.equal(questions, 1);
      assert.equal(result.isError, true);
      const { execution_id, ...outcome } = outcomeOf(result);
      assert.match(String(execution_id), /^exe_/);
      assert.deepEqual(outcome, { outcome: "not_connected", reason: "awaiting_user", connection_name: "gmail", connect_page: `${hurried.url}/connections` });
      assert.match(firstText(result), /^not_connected: /);
      assert.equal(JSON.stringify(result).includes("/connect/"), false);
      assert.ok(tookMs > WAIT_MS - 500 && tookMs < WAIT_MS + 5_000, `${tookMs} ms`);
    });

    test("a person who takes longer than a leg is waited for, and the same call answers with the digest", async () => {
      const person = await hurried.person("slow");
      const browser = await person.signIn();
      let questions = 0;
      let link = "";
      let legs = 0;
      let arrived: Promise<unknown> | null = null;
      const elicit = async (params: ElicitRequestParams) => {
        questions += 1;
        link = urlOf(params);
        return ACCEPT;
      };
      // The person begins when the first leg has come back empty.
      const counting: typeof fetch = async (url, init) => {
        if (link !== "" && String(init?.body).includes("requestState") && ++legs === 2) arrived = connect(link, browser);
        return fetch(url, init);
      };
      const { client } = await officialClient(hurried.url, { capabilities: BOTH, elicit, auth: person.token, fetch: counting });
      const result = await client.callTool({ name: "summarize_inbox", arguments: { max_messages: 2 } });
      await arrived;
      assert.equal(result.isError, undefined, JSON.stringify(result));
      assert.equal((result.structuredContent as { messages: unknown[] }).messages.length, 2);
      assert.ok(legs >= 2, `${legs} legs`);
      assert.equal(questions, 1);
    });

    test("a no in the client ends the call as declined, and a question is not repeated in it", async () => {
      const person = await outband.person("refuser");
      for (const [action, reason] of [
        ["decline", "declined"],
        ["cancel", "cancelled"],
      ] as const) {
        let questions = 0;
        const elicit = async () => {
          questions += 1;
          return { action };
        };
        const { client } = await officialClient(outband.url, { capabilities: BOTH, elicit, auth: person.token });
        const result = await client.callTool({ name: "summarize_inbox", arguments: {} });
        assert.deepEqual([outcomeOf(result)["outcome"], outcomeOf(result)["reason"], questions], ["declined", reason, 1]);
      }
    });

    test("a client that declares elicitation {} is told in words where to go, and gets no link", async () => {
      const person = await outband.person("formonly");
      const elicit = async () => assert.fail("nothing can be asked of it");
      const declared: OfficialOptions["capabilities"][] = [{ elicitation: {} }, { elicitation: { form: {} } }, {}];
      for (const capabilities of declared) {
        const { client } = await officialClient(outband.url, { capabilities, ...(capabilities.elicitation ? { elicit } : {}), auth: person.token });
        const result = await client.callTool({ name: "summarize_inbox", arguments: {} });
        assert.equal(result.isError, true);
        assert.match(firstText(result), /^not_connected: Gmail is not connected/);
        assert.ok(firstText(result).includes(`${outband.url}/connections`));
        assert.equal(JSON.stringify(result).includes("/connect/"), false);
        assert.equal(outcomeOf(result)["connection_name"], "gmail");
      }
      assert.deepEqual((await outband.api("GET", `/accounts?identifier=${person.sub}`)).body.data, []);
    });

    test("the client of 2025 signs in at the same URL, lists, is told in words, and gets the digest once connected", async () => {
      const person = await outband.person("legacy");
      const browser = await person.signIn();
      const signIn = signInAs(browser);
      const make = () => {
        const transport = new LegacyTransport(new URL(`${outband.url}/mcp`), { authProvider: signIn.provider as never });
        const client = new LegacyClient({ name: "old-host", version: "3.2.0" }, { capabilities: { elicitation: { form: {}, url: {} } } });
        return { client, transport, connect: () => client.connect(transport as never) };
      };
      const first = make();
      await assert.rejects(first.connect(), LegacyUnauthorizedError);
      await first.transport.finishAuth((await signIn.answer()).get("code") ?? "");
      const { client, connect: open } = make();
      await open();
      assert.deepEqual((await client.listTools()).tools.map((tool) => tool.name), TOOLS);
      const startedMs = performance.now();
      const missing = await client.callTool({ name: "summarize_inbox", arguments: {} });
      assert.ok(performance.now() - startedMs < 5_000, "it answers at once");
      assert.equal(missing.isError, true);
      assert.match(firstText(missing), /^not_connected: /);
      assert.ok(firstText(missing).includes(`${outband.url}/connections`));
      assert.equal(JSON.stringify(missing).includes("/connect/"), false);
      assert.equal("resultType" in missing, false);
      const started = await browser.post("/connections/connect", { connection_name: "gmail" }, { from: await browser.get("/connections") });
      assert.equal((await connect(started.location ?? "", browser)).status, 200);
      const digest = await client.callTool({ name: "summarize_inbox", arguments: { max_messages: 2 } });
      assert.equal((digest.structuredContent as { messages: unknown[] }).messages.length, 2);
      await client.close();
    });

    test("without mcp:write a writing tool is 403 insufficient_scope and reaches nothing; the official client steps up and goes on", async () => {
      const person = await outband.person("reader");
      const browser = await person.signIn();
      const { access, scope } = await tokensFor(outband.url, browser, await registered(outband.url), {}, { decision: "allow" });
      assert.equal(scope, "mcp:read");
      outband.provider.resetCounts();
      const refused = await callTool(outband.url, access, "slack_post_message", { channel: "#random", text: "Hello" }, { id: 7 });
      assert.equal(refused.status, 403);
      assert.equal(refused.headers.get("www-authenticate"), `Bearer error="insufficient_scope", scope="mcp:read mcp:write", resource_metadata="${outband.url}/.well-known/oauth-protected-resource/mcp"`);
      assert.deepEqual([refused.body.jsonrpc, refused.body.id, typeof refused.body.error.message], ["2.0", 7, "string"]);
      assert.equal((await callTool(outband.url, access, "slack_list_channels")).body.result.resultType, "input_required");
      assert.equal(outband.provider.count(/./), 0);

      const signIn = signInAs(browser);
      const elicit = async (params: ElicitRequestParams) => {
        await connect(urlOf(params), browser);
        return ACCEPT;
      };
      const options = { capabilities: BOTH, elicit, auth: signIn };
      const reading = await officialClient(outband.url, { ...options, auth: { ...signIn, answer: () => signIn.answer({ decision: "allow" }) } });
      assert.deepEqual(signIn.scopes(), ["mcp:read"]);
      const post = { name: "slack_post_message", arguments: { channel: "#random", text: "Hello" } };
      await assert.rejects(reading.client.callTool(post), UnauthorizedError);
      assert.equal(signIn.asked().searchParams.get("scope"), WANTED);
      await reading.transport.finishAuth(await signIn.answer());
      const posted = await reading.client.callTool(post);
      assert.equal(posted.isError, undefined, JSON.stringify(posted));
      assert.equal(outband.provider.count(/chat\.postMessage/), 1);
    });

    test("the shapes on the wire: a question, a leg that asks nothing, a result, an end without the work, errors", async () => {
      const person = await hurried.person("shapes");
      const browser = await person.signIn();
      const call = (id: number, options = {}) => callTool(hurried.url, person.token, "summarize_inbox", { max_messages: 1 }, { id, ...options });
      const serverInfo = { "io.modelcontextprotocol/serverInfo": { name: "outband", title: "Outband", version: "0.1.0" } };

      const question = await call(11);
      assert.deepEqual([question.status, question.headers.get("content-type")], [200, "application/json"]);
      const { url } = question.body.result.inputRequests.connect_gmail.params;
      const { requestState } = question.body.result;
      assert.match(url, new RegExp(`^${hurried.url}/connect/[A-Za-z0-9_-]{43}$`));
      assert.match(requestState, /^v1\.[A-Za-z0-9_-]+$/);
      assert.ok(requestState.length <= 4_096);
      assert.deepEqual(question.body, {
        jsonrpc: "2.0",
        id: 11,
        result: {
          resultType: "input_required",
          inputRequests: {
            connect_gmail: {
              method: "elicitation/create",
              params: {
                mode: "url",
                message: 'Connect Gmail to go on with "Summarize the inbox". The page opens in your browser; you sign in and decide there. No password or token passes through this client.',
                url,
              },
            },
          },
          requestState,
          _meta: serverInfo,
        },
      });

      const leg = await call(12, retryOf(question, "accept"));
      assert.deepEqual(leg.body, { jsonrpc: "2.0", id: 12, result: { resultType: "input_required", requestState: leg.body.result.requestState, _meta: serverInfo } });
      assert.notEqual(leg.body.result.requestState, requestState);

      assert.equal((await connect(url, browser)).status, 200);
      const result: Answer = await call(13, { retry: { requestState: leg.body.result.requestState } });
      assert.deepEqual(Object.keys(result.body.result).sort(), ["_meta", "content", "resultType", "structuredContent"]);
      assert.deepEqual([result.body.jsonrpc, result.body.id, result.body.result.resultType, result.body.result._meta], ["2.0", 13, "complete", serverInfo]);
      for (const block of result.body.result.content) assert.deepEqual([Object.keys(block), block.type, typeof block.text], [["type", "text"], "text", "string"]);

      const ended = await callTool(hurried.url, person.token, "summarize_inbox", { max_messages: 1, account: "nowhere" }, { id: 14, elicitation: {} });
      const { execution_id, ...outcome } = ended.body.result._meta["dev.outband/outcome"];
      assert.match(execution_id, /^exe_[A-Za-z0-9_-]+$/);
      assert.deepEqual(outcome, { outcome: "not_connected", reason: "not_connected", connection_name: "gmail", connect_page: `${hurried.url}/connections` });
      assert.deepEqual(Object.keys(ended.body.result).sort(), ["_meta", "content", "isError", "resultType"]);
      assert.deepEqual([ended.body.id, ended.body.result.isError, ended.body.result.resultType, ended.body.result.content.length], [14, true, "complete", 1]);

      const bent = await call(15, { retry: { requestState: `${requestState}x`, inputResponses: { connect_gmail: ACCEPT } } });
      assert.deepEqual(bent.body, { jsonrpc: "2.0", id: 15, error: { code: -32602, message: "Invalid or expired requestState", data: { reason: "invalid_request_state" } } });
      const unknown = await callTool(hurried.url, person.token, "no_such_tool", {}, { id: 16 });
      assert.deepEqual(unknown.body, { jsonrpc: "2.0", id: 16, error: { code: -32602, message: "Unknown tool." } });
      const { client } = await officialClient(hurried.url, { capabilities: BOTH, elicit: async () => ACCEPT, auth: person.token });
      await assert.rejects(client.callTool({ name: "no_such_tool", arguments: {} }), (error) => error instanceof ProtocolError && error.code === -32602);
      const nobody = await callTool(hurried.url, "not-a-token", "summarize_inbox", {}, { id: 17 });
      assert.equal(nobody.status, 401);
      assert.deepEqual(Object.keys(nobody.body), ["jsonrpc", "id", "error"]);
      assert.equal(linkOf(nobody), undefined);
    });
  });
}
