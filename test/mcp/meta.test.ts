// META mode (contract 6.4) over the whole program: search, describe, execute, connect. Its names and shapes as literals.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { connect, KINDS } from "../support/journey.js";
import { callTool, mcp, outcomeOf } from "../support/mcpCall.js";
import { type Answer, type Outband, startOutband } from "../support/outband.js";

const META = { endpoint: "/mcp/meta" };

for (const kind of KINDS) {
  describe(`META mode (${kind})`, () => {
    let outband: Outband;
    before(async () => {
      outband = await startOutband({ kind });
    });

    async function bearer(identifier: string, more: Record<string, unknown> = {}): Promise<string> {
      const minted = await outband.api("POST", "/session-tokens", { identifier, ttl_s: 3600, endpoint: "/mcp/meta", ...more });
      assert.equal(minted.status, 201, JSON.stringify(minted.body));
      return minted.body.token;
    }
    async function someone(name: string) {
      const person = await outband.person(name);
      const token = await bearer(person.sub);
      return {
        person,
        token,
        call: (tool: string, args: Record<string, unknown> = {}, more = {}): Promise<Answer> =>
          callTool(outband.url, token, tool, args, { ...META, ...more }),
      };
    }
    const structured = (answer: Answer) => answer.body.result.structuredContent;

    test("five tools, in this order, with schemas; none of the connectors' own", async () => {
      const { token } = await someone("lister");
      const { body } = await mcp(outband.url, token, "tools/list", {}, META);
      assert.deepEqual(
        body.result.tools.map(({ name }: { name: string }) => name),
        ["list_connections", "search_tools", "describe_tool", "execute_tool", "connect_account"],
      );
      for (const tool of body.result.tools) assert.deepEqual([tool.inputSchema.type, tool.outputSchema.type], ["object", "object"]);
      const own = await callTool(outband.url, token, "gmail_send_message", {}, META);
      assert.equal(own.body.error.code, -32602);
    });

    test("a token of /mcp is not taken here, nor the other way round; each endpoint tells its own metadata", async () => {
      const { person, token } = await someone("audience");
      assert.equal((await callTool(outband.url, person.token, "list_connections", {}, META)).status, 401);
      assert.equal((await callTool(outband.url, token, "list_my_connections")).status, 401);
      const refused = await callTool(outband.url, "nobody", "list_connections", {}, META);
      const wanted = `${outband.url}/.well-known/oauth-protected-resource/mcp/meta`;
      assert.ok(refused.headers.get("www-authenticate")?.includes(`resource_metadata="${wanted}"`));
      const document = (await (await fetch(wanted)).json()) as { resource: string };
      assert.equal(document.resource, `${outband.url}/mcp/meta`);
    });

    test("from the search to the mail: not connected is an ordinary result, the link connects, the same call then runs", async () => {
      const { person, call } = await someone("whole");
      const found = structured(await call("search_tools", { query: "send an email to somebody" })).tools;
      assert.deepEqual(
        [found[0].tool_name, found[0].connection_name, found[0].readiness],
        ["gmail_send_message", "gmail", "needs_connection"],
      );
      const described = structured(await call("describe_tool", { tool_name: "gmail_list_messages" }));
      assert.equal(described.input_schema.properties.max_results.type, "integer");

      const args = { tool_name: "gmail_list_messages", arguments: { max_results: 2 } };
      const before = await call("execute_tool", args);
      assert.equal(before.body.result.resultType, "complete");
      assert.equal(before.body.result.isError, undefined);
      assert.deepEqual([structured(before).status, structured(before).connection_name], ["not_connected", "gmail"]);

      const made = structured(await call("connect_account", { connection_name: "gmail" }));
      assert.deepEqual([made.status, made.connection_name, Date.parse(made.expires_at) > Date.now()], ["link_created", "gmail", true]);
      assert.equal((await connect(made.link, await person.signIn())).status, 200);
      assert.deepEqual(structured(await call("connect_account", { connection_name: "gmail" })), {
        status: "already_connected",
        connection_name: "gmail",
      });
      assert.equal(
        structured(await call("list_connections")).connections.find((one: { connection_name: string }) => one.connection_name === "gmail")
          .readiness,
        "ready",
      );

      const after = structured(await call("execute_tool", args));
      assert.equal(after.status, "ok");
      assert.equal(after.result.messages.length, 2);
      const both = structured(await call("search_tools", { query: "messages" })).tools.map((tool: { readiness: string }) => tool.readiness);
      assert.deepEqual(
        both,
        [...both].sort((one: string, other: string) => Number(other === "ready") - Number(one === "ready")),
        "ready ones first",
      );
    });

    test("a write runs once under its key; arguments are checked by the tool's own schema", async () => {
      const { person, call } = await someone("writer");
      const minimum = await outband.api("POST", "/authorization-links", { connection_name: "gmail", identifier: person.sub });
      await connect(minimum.body.url, await person.signIn(person.browser));
      const mail = { to: ["kim@people.example"], subject: "Lunch", body: "Noon?", idempotency_key: "k1" };
      const send = (more = {}) => call("execute_tool", { tool_name: "gmail_send_message", arguments: { ...mail, ...more } });
      const wrong = await send({ to: [] });
      assert.deepEqual([wrong.body.result.isError, outcomeOf(wrong).outcome], [true, "invalid_arguments"]);
      assert.match(wrong.body.result.content[0].text, /arguments\.to must have at least 1 item/);

      // Connected for reading alone: the link of this mode offers what every tool may need.
      assert.equal(outcomeOf(await send()).outcome, "scope_missing");
      const { status, link } = structured(await call("connect_account", { connection_name: "gmail" }));
      assert.equal(status, "link_created");
      await connect(link, person.browser);
      assert.equal(structured(await call("connect_account", { connection_name: "gmail" })).status, "already_connected");
      outband.provider.resetCounts();
      const first = await send();
      assert.equal(structured(first)?.status, "ok", JSON.stringify(first.body));
      assert.deepEqual(structured(await send()), structured(first));
      assert.equal(outband.provider.count(/messages\/send/), 1);
      assert.equal(outcomeOf(await send({ body: "One?" })).reason, "idempotency_key_reused");
    });

    test("unknown names, a connection that is off, and a bad label are refused in words that repeat nothing", async () => {
      const { call } = await someone("refused");
      for (const [tool, args, reason] of [
        ["execute_tool", { tool_name: "zz_nothing" }, "unknown_tool"],
        ["describe_tool", { tool_name: "zz_nothing" }, "unknown_tool"],
        ["execute_tool", { tool_name: "search_tools", arguments: { query: "x" } }, "unknown_tool"],
        ["connect_account", { connection_name: "zz_nothing" }, "unknown_connection"],
      ] as const) {
        const answer = await call(tool, args);
        assert.equal(outcomeOf(answer).reason, reason, JSON.stringify(answer.body));
        assert.ok(!JSON.stringify(answer.body).includes("zz_nothing"));
      }
      assert.equal(
        outcomeOf(await call("connect_account", { connection_name: "gmail", account: "a\u0000b" })).outcome,
        "invalid_arguments",
      );
      assert.equal(outcomeOf(await call("search_tools", { query: "x", limit: 51 })).outcome, "invalid_arguments");
      await outband.api("PATCH", "/connections/slack", { enabled: false });
      assert.equal(outcomeOf(await call("connect_account", { connection_name: "slack" })).reason, "connection_disabled");
      assert.deepEqual(structured(await call("search_tools", { query: "", connection_name: "slack" })).tools, []);
      await outband.api("PATCH", "/connections/slack", { enabled: true });
    });

    test("without mcp:write: a reading tool runs, a writing one is refused with 403, whatever it is wrapped in", async () => {
      const { person } = await someone("reader");
      const token = await bearer(person.sub, { scopes: ["mcp:read"] });
      const call = (tool: string, args: Record<string, unknown>) => callTool(outband.url, token, tool, args, META);
      assert.equal(structured(await call("execute_tool", { tool_name: "gmail_list_messages" })).status, "not_connected");
      assert.equal(structured(await call("connect_account", { connection_name: "gmail" })).status, "link_created");
      const refused = await call("execute_tool", { tool_name: "gmail_send_message", arguments: {} });
      assert.equal(refused.status, 403);
      assert.match(refused.headers.get("www-authenticate") ?? "", /error="insufficient_scope", scope="mcp:read mcp:write"/);
    });

    test("links are not made without end: an open one is given again, and after three that led nowhere no more are made", async () => {
      const { person, call } = await someone("looper");
      const browser = await person.signIn();
      const links = new Set<string>();
      for (let n = 0; n < 3; n += 1) {
        const [one, other] = [
          await call("connect_account", { connection_name: "slack" }),
          await call("connect_account", { connection_name: "slack" }),
        ];
        assert.equal(structured(one).link, structured(other).link);
        links.add(structured(one).link);
        const page = await browser.get(structured(one).link);
        assert.equal((await browser.post(`${structured(one).link}/refuse`, {}, { from: page })).status, 200);
      }
      assert.equal(links.size, 3);
      const last = await call("connect_account", { connection_name: "slack" });
      assert.deepEqual([outcomeOf(last).outcome, outcomeOf(last).reason], ["not_connected", "asked_too_often"]);
    });
  });
}
