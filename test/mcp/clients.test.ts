import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { Client, type ClientOptions, ProtocolError, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as LegacyClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as LegacyTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ALICE, type McpSite, startMcpSite } from "../support/mcpSite.js";

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close();
});

async function start(settings: Parameters<typeof startMcpSite>[0] = {}): Promise<McpSite> {
  const site = await startMcpSite(settings);
  open.push(site);
  return site;
}

type FormAnswer = { action: "accept"; content: Record<string, string> } | { action: "accept" | "decline" };

/** A stock client that says yes to every link the moment it is asked, and opens nothing. */
async function stockClient(
  site: McpSite,
  capabilities: ClientOptions["capabilities"],
  answer: (params: Record<string, unknown>) => FormAnswer,
) {
  const asked: Record<string, unknown>[] = [];
  const client = new Client({ name: "stock", version: "1.0.0" }, { capabilities, versionNegotiation: { mode: { pin: "2026-07-28" } } });
  if (capabilities?.elicitation) {
    client.setRequestHandler("elicitation/create", async (request) => {
      asked.push(request.params as Record<string, unknown>);
      return answer(request.params as Record<string, unknown>);
    });
  }
  await client.connect(new StreamableHTTPClientTransport(new URL(site.url), { authProvider: { token: async () => ALICE } }));
  open.push(client);
  return { client, asked };
}

const outcomeOf = (result: { _meta?: Record<string, unknown> | undefined }): Record<string, unknown> =>
  (result._meta?.["dev.outband/outcome"] ?? {}) as Record<string, unknown>;

test("a stock auto-accepting client with nobody at the browser is asked once and ends in one completed result", async () => {
  const site = await start({ settings: { settleWaitMs: 900, settleLegMs: 200 } });
  const { client, asked } = await stockClient(site, { elicitation: { url: {}, form: {} } }, () => ({ action: "accept" }));
  const since = Date.now();
  const result = await client.callTool({ name: "summarize_inbox", arguments: {} });
  assert.ok(Date.now() - since < 900 + 5_000);
  assert.equal(result.isError, true);
  assert.deepEqual([outcomeOf(result)["outcome"], outcomeOf(result)["reason"]], ["not_connected", "awaiting_user"]);
  assert.equal(asked.length, 1);
  assert.deepEqual([site.vault.links.length, site.vault.ran.length], [1, 0]);
});

test("a person who finishes while the stock client waits gets the result in that same call", async () => {
  const site = await start({ settings: { settleWaitMs: 20_000, settleLegMs: 150 } });
  const { client, asked } = await stockClient(site, { elicitation: { url: {} } }, () => ({ action: "accept" }));
  let waits = 0;
  site.vault.onWait = () => {
    if (++waits === 3) site.vault.connect("alice", "gmail");
  };
  const result = await client.callTool({ name: "summarize_inbox", arguments: { max_messages: 2 } });
  assert.deepEqual(result.structuredContent, { count: 2 });
  assert.deepEqual([asked.length, waits], [1, 3]);
});

test("the stock client lists, picks by form, confirms and declines", async () => {
  const site = await start();
  site.vault.connect("alice", "slack");
  const { client, asked } = await stockClient(
    site,
    { elicitation: {} },
    (params): FormAnswer =>
      params["message"] === "Which channel?"
        ? { action: "accept", content: { channel: "C1" } }
        : { action: "accept", content: { name: "general" } },
  );
  const { tools } = await client.listTools();
  assert.deepEqual(
    tools.map((tool) => tool.name),
    ["list_my_connections", "disconnect_account", "summarize_inbox", "gmail_send_message", "slack_post_message"],
  );
  assert.deepEqual((await client.callTool({ name: "slack_post_message", arguments: { text: "Hi" } })).structuredContent, { channel: "C1" });
  assert.equal(asked.length, 2);
  const refusing = await stockClient(site, { elicitation: { url: {}, form: {} } }, () => ({ action: "decline" }));
  assert.equal(outcomeOf(await refusing.client.callTool({ name: "summarize_inbox", arguments: {} }))["outcome"], "declined");
});

test("a client that declares elicitation: {} gets the readable result, and an unknown tool is a JSON-RPC error", async () => {
  const site = await start();
  const { client, asked } = await stockClient(site, { elicitation: {} }, () => ({ action: "accept" }));
  const result = await client.callTool({ name: "summarize_inbox", arguments: {} });
  assert.equal(result.isError, true);
  assert.match((result.content[0] as { text: string }).text, /^not_connected: .*http:\/\/localhost:3999\/connections/);
  assert.deepEqual(asked, []);
  await assert.rejects(
    client.callTool({ name: "nope", arguments: {} }),
    (error: unknown) => error instanceof ProtocolError && error.code === -32602,
  );
});

test("the stock client's own check of structured content against the output schema passes for every tool", async () => {
  const site = await start();
  site.vault.connect("alice", "gmail");
  const { client } = await stockClient(site, {}, () => ({ action: "accept" }));
  await client.listTools();
  assert.equal((await client.callTool({ name: "list_my_connections", arguments: {} })).isError, undefined);
  assert.equal((await client.callTool({ name: "summarize_inbox", arguments: {} })).isError, undefined);
});

test("a 2025 client on the same URL is answered at once and readably, never with a wait (F08, CAP-05)", async () => {
  const site = await start({ settings: { settleWaitMs: 60_000, settleLegMs: 30_000 } });
  const client = new LegacyClient({ name: "old-host", version: "3.2.0" }, { capabilities: { elicitation: { form: {}, url: {} } } });
  await client.connect(
    new LegacyTransport(new URL(site.url), { requestInit: { headers: { authorization: `Bearer ${ALICE}` } } }) as Parameters<
      LegacyClient["connect"]
    >[0],
  );
  open.push(client);
  const since = Date.now();
  const result = await client.callTool({ name: "summarize_inbox", arguments: {} });
  assert.ok(Date.now() - since < 2_000);
  assert.equal(result.isError, true);
  assert.match((result.content as { text: string }[])[0]?.text ?? "", /^not_connected: /);
  assert.equal("resultType" in result, false, "no word of the modern era (LEG-16)");
  assert.equal(site.vault.links.length, 0);
  site.vault.connect("alice", "gmail");
  assert.deepEqual((await client.callTool({ name: "summarize_inbox", arguments: {} })).structuredContent, { count: 2 });
  assert.equal((await client.listTools()).tools.length, 5);
  site.vault.connect("alice", "slack");
  const form = await client.callTool({ name: "slack_post_message", arguments: { text: "Hi" } });
  assert.match((form.content as { text: string }[])[0]?.text ?? "", /^invalid_arguments: Name the channel/);
});

test("a legacy request that sends a modern state along is still answered at once", async () => {
  const site = await start({ settings: { settleWaitMs: 60_000, settleLegMs: 30_000 } });
  const first = await site.call("summarize_inbox");
  const since = Date.now();
  const answer = await site.send("/mcp", {
    headers: {
      authorization: `Bearer ${ALICE}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2025-11-25",
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: {
        name: "summarize_inbox",
        arguments: {},
        requestState: first.body.result.requestState,
        inputResponses: { connect_gmail: { action: "accept" } },
      },
    }),
  });
  assert.ok(Date.now() - since < 2_000);
  assert.equal(answer.body[0].result.isError, true);
  assert.equal(site.vault.links[0]?.answered, null);
});
