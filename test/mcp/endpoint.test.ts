import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, beforeEach, before, test } from "node:test";
import { BODY_BYTES_MAX } from "../../src/mcp/body.js";
import { SERVER_INFO } from "../../src/mcp/server.js";
import { ALICE, meta, type McpSite, REVISION, startMcpSite } from "../support/mcpSite.js";
import { PUBLIC_URL } from "../support/scriptedVault.js";

let site: McpSite;
before(async () => {
  site = await startMcpSite();
});
after(() => site.close());
beforeEach(() => {
  site.vault.accounts = [];
  site.vault.ran = [];
  site.verified.length = 0;
});

const READ_ONLY = "alice.app.mcp_read";
const METADATA = `${PUBLIC_URL}/.well-known/oauth-protected-resource/mcp`;
const body = (method: string, params: Record<string, unknown>): string =>
  JSON.stringify({ jsonrpc: "2.0", id: 7, method, params: { _meta: meta(), ...params } });
const discover = body("server/discover", {});

test("without a bearer: 401 with the challenge of the contract, and the body is not read (AZ-02, AZ-03, AZ-04)", async () => {
  const answer = await site.send("/mcp", { headers: { "content-type": "application/json" }, body: "{ not json" });
  assert.equal(answer.status, 401);
  assert.equal(answer.headers["www-authenticate"], `Bearer resource_metadata="${METADATA}", scope="mcp:read mcp:write"`);
  assert.deepEqual(answer.body, {
    jsonrpc: "2.0",
    id: null,
    error: { code: -32600, message: "A valid access token for this server is required." },
  });
});

test("a bearer that is not valid: 401 that says so; the verifier is asked for this endpoint's audience (AZ-05)", async () => {
  const answer = await site.send("/mcp", { headers: site.headersFor("server/discover", undefined, "nonsense"), body: discover });
  assert.equal(answer.status, 401);
  assert.equal(
    answer.headers["www-authenticate"],
    `Bearer error="invalid_token", resource_metadata="${METADATA}", scope="mcp:read mcp:write"`,
  );
  assert.deepEqual(site.verified, [{ token: "nonsense", audience: `${PUBLIC_URL}/mcp` }]);
});

test("a token in the query is refused, alone and beside a header (AZ-06)", async () => {
  const alone = await site.send(`/mcp?access_token=${ALICE}`, { headers: { "content-type": "application/json" }, body: discover });
  const beside = await site.send(`/mcp?access_token=${ALICE}`, {
    headers: site.headersFor("server/discover", undefined, ALICE),
    body: discover,
  });
  assert.deepEqual([alone.status, beside.status], [401, 401]);
  assert.deepEqual(site.verified, []);
});

test("other authorization schemes and malformed bearers reach no verifier", async () => {
  for (const authorization of ["Basic YTpi", "Bearer", "Bearer ", "Bearer a b", 'Bearer "a"', `bearer\t${ALICE}`]) {
    const answer = await site.send("/mcp", { headers: { "content-type": "application/json", authorization }, body: discover });
    assert.equal(answer.status, 401, authorization);
  }
  assert.deepEqual(site.verified, []);
});

test("X-Forwarded-Host and Host never build the challenge", async () => {
  const answer = await site.send("/mcp", {
    headers: { "x-forwarded-host": 'evil.test"x', "x-forwarded-proto": "https", "content-type": "application/json" },
    body: discover,
  });
  assert.equal(answer.headers["www-authenticate"], `Bearer resource_metadata="${METADATA}", scope="mcp:read mcp:write"`);
});

test("a foreign Host is refused before the bearer is looked at; our own names and literal addresses are not", async () => {
  for (const host of ["evil.test", "evil.test:3999", "localhost.evil.test", "a b"]) {
    const answer = await site.send("/mcp", { headers: { ...site.headersFor("server/discover", undefined, ALICE), host }, body: discover });
    assert.ok(answer.status === 403 || answer.status === 400, `${host}: ${answer.status}`);
  }
  assert.deepEqual(site.verified, []);
  for (const host of ["localhost:3999", "127.0.0.1", "10.1.2.3:80", "[::1]:3999"]) {
    assert.equal(
      (await site.send("/mcp", { headers: { ...site.headersFor("server/discover", undefined, ALICE), host }, body: discover })).status,
      200,
      host,
    );
  }
});

test("a foreign or null Origin is refused on every method; ours, a listed one and none pass (HTTP-02)", async () => {
  for (const origin of ["https://evil.test", "null", "http://localhost:4000", "https://app.example.evil.test"]) {
    for (const method of ["POST", "GET", "DELETE", "OPTIONS"]) {
      const answer = await site.send("/mcp", {
        method,
        headers: { ...site.headersFor("server/discover", undefined, ALICE), origin },
        ...(method === "POST" ? { body: discover } : {}),
      });
      assert.equal(answer.status, 403, `${method} ${origin}`);
      assert.equal(answer.headers["access-control-allow-origin"], undefined);
    }
  }
  assert.deepEqual(site.verified, []);
  for (const origin of [PUBLIC_URL, "https://app.example"]) {
    const answer = await site.send("/mcp", {
      headers: { ...site.headersFor("server/discover", undefined, ALICE), origin },
      body: discover,
    });
    assert.equal(answer.status, 200, origin);
  }
});

test("a listed origin gets CORS: the preflight without a bearer, the challenge readable", async () => {
  const preflight = await site.send("/mcp", {
    method: "OPTIONS",
    headers: { origin: "https://app.example", "access-control-request-method": "POST" },
  });
  assert.equal(preflight.status, 204);
  assert.equal(preflight.headers["access-control-allow-origin"], "https://app.example");
  assert.match(String(preflight.headers["access-control-allow-headers"]), /Authorization.*MCP-Protocol-Version.*Mcp-Method.*Mcp-Name/);
  assert.equal(preflight.headers["access-control-allow-credentials"], undefined);
  const refused = await site.send("/mcp", {
    headers: { origin: "https://app.example", "content-type": "application/json" },
    body: discover,
  });
  assert.equal(refused.status, 401);
  assert.match(String(refused.headers["access-control-expose-headers"]), /WWW-Authenticate/);
});

test("the RFC 9728 document stands at the root and at the endpoint's own place, for everybody (AZ-01, AZ-09)", async () => {
  for (const path of ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"]) {
    const answer = await site.send(path, { method: "GET" });
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.body, {
      resource: `${PUBLIC_URL}/mcp`,
      authorization_servers: [`${PUBLIC_URL}/oauth`],
      scopes_supported: ["mcp:read", "mcp:write"],
      bearer_methods_supported: ["header"],
      resource_name: "Outband",
    });
  }
  assert.equal((await site.send("/.well-known/oauth-protected-resource", { method: "POST" })).status, 405);
});

test("a writing tool without mcp:write: 403 with all scopes it takes, and nothing runs (AZ-07)", async () => {
  site.vault.connect("alice", "gmail");
  const answer = await site.call("gmail_send_message", { to: ["a@b.test"], subject: "x" }, {}, { token: READ_ONLY });
  assert.equal(answer.status, 403);
  assert.equal(
    answer.headers["www-authenticate"],
    `Bearer error="insufficient_scope", scope="mcp:read mcp:write", resource_metadata="${METADATA}"`,
  );
  assert.equal(answer.body.error.code, -32600);
  assert.equal(typeof answer.body.id, "number");
  assert.deepEqual(site.vault.ran, []);
  assert.equal((await site.call("disconnect_account", { connection_name: "gmail" }, {}, { token: READ_ONLY })).status, 403);
  assert.equal((await site.call("summarize_inbox", {}, {}, { token: READ_ONLY })).status, 200);
  assert.equal(
    (await site.call("summarize_inbox", {}, {}, { token: "alice.app.mcp_write" })).status,
    200,
    "writing includes reading (AZ-08)",
  );
  const none = await site.call("summarize_inbox", {}, {}, { token: "alice.app.openid" });
  assert.equal(none.status, 403);
  assert.match(String(none.headers["www-authenticate"]), /scope="mcp:read"/);
});

test("a legacy call of a writing tool meets the same scope check", async () => {
  site.vault.connect("alice", "gmail");
  const headers = {
    authorization: `Bearer ${READ_ONLY}`,
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "mcp-protocol-version": "2025-11-25",
  };
  const call = {
    jsonrpc: "2.0",
    id: 1,
    method: "tools/call",
    params: { name: "gmail_send_message", arguments: { to: ["a@b.test"], subject: "x" } },
  };
  assert.equal((await site.send("/mcp", { headers, body: JSON.stringify(call) })).status, 403);
  assert.equal((await site.send("/mcp", { headers, body: JSON.stringify([call]) })).status, 400, "nor is it hidden in a batch");
  assert.deepEqual(site.vault.ran, []);
});

test("bodies that are not one JSON-RPC message end in JSON-RPC errors with fixed words", async () => {
  const headers = site.headersFor("tools/call", "summarize_inbox", ALICE);
  const deep = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"summarize_inbox","arguments":{"x":${"[".repeat(200_000)}${"]".repeat(200_000)}}}}`;
  const cases: [string | Buffer, Record<string, string>, number, number][] = [
    ["{ <script>CANARY", {}, 400, -32700],
    ["", {}, 400, -32700],
    [Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), {}, 400, -32700],
    ["[]", {}, 400, -32600],
    ["7", {}, 400, -32600],
    ["null", {}, 400, -32600],
    [`[${discover}]`, {}, 400, -32600],
    [deep, {}, 400, -32600],
    [discover, { "content-type": "text/plain" }, 415, -32600],
    [discover, { "content-type": "application/json; charset=utf-16" }, 415, -32600],
    [discover, { "content-encoding": "gzip" }, 415, -32600],
    ["x".repeat(BODY_BYTES_MAX + 1), {}, 413, -32600],
    ["x".repeat(BODY_BYTES_MAX + 1), { "transfer-encoding": "chunked" }, 413, -32600],
  ];
  for (const [sent, more, status, code] of cases) {
    const answer = await site.send("/mcp", { headers: { ...headers, ...more }, body: sent });
    const what = `${String(sent).slice(0, 30)} ${JSON.stringify(more)}`;
    assert.equal(answer.status, status, what);
    assert.deepEqual([answer.body.jsonrpc, answer.body.id, answer.body.error.code], ["2.0", null, code], what);
    assert.doesNotMatch(answer.text, /CANARY|<|stack|node_modules/, what);
  }
});

test("GET, HEAD and DELETE are 405 with a JSON-RPC body, and no other path is ours (HTTP-10)", async () => {
  for (const method of ["GET", "DELETE", "PUT"]) {
    const answer = await site.send("/mcp", { method, headers: { authorization: `Bearer ${ALICE}` } });
    assert.deepEqual([answer.status, answer.headers["allow"], answer.body.error.code], [405, "POST, OPTIONS", -32600], method);
  }
  assert.equal((await site.send("/mcp/other", { headers: { authorization: `Bearer ${ALICE}` } })).text, "outside");
});

test("server/discover tells what is there, with serverInfo and cache fields (VER-02, ENV-07, CACHE-01)", async () => {
  const { body: answer } = await site.modern("server/discover", {});
  const { instructions, ...result } = answer.result;
  assert.equal(typeof instructions, "string");
  assert.deepEqual(result, {
    resultType: "complete",
    supportedVersions: ["2026-07-28"],
    capabilities: { tools: {} },
    ttlMs: 600_000,
    cacheScope: "private",
    _meta: { "io.modelcontextprotocol/serverInfo": { name: "outband", title: "Outband", version: SERVER_INFO.version } },
  });
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };
  assert.equal(SERVER_INFO.version, version);
});

test("headers and body must agree, before anything runs (HDR-01 to HDR-06, F09)", async () => {
  site.vault.connect("alice", "gmail");
  const sent = body("tools/call", { name: "summarize_inbox", arguments: {} });
  const good = site.headersFor("tools/call", "summarize_inbox", ALICE);
  const without = (name: string): Record<string, string> => Object.fromEntries(Object.entries(good).filter(([key]) => key !== name));
  const mismatches: [string, Record<string, string>][] = [
    ["another name", { ...good, "mcp-name": "gmail_send_message" }],
    ["no name", without("mcp-name")],
    ["another method", { ...good, "mcp-method": "tools/list" }],
    ["another case", { ...good, "mcp-method": "TOOLS/CALL" }],
    ["no method", without("mcp-method")],
    ["another revision", { ...good, "mcp-protocol-version": "2025-11-25" }],
    ["no revision", without("mcp-protocol-version")],
    ["broken base64", { ...good, "mcp-name": "=?base64?%%%?=" }],
  ];
  for (const [what, headers] of mismatches) {
    const answer = await site.send("/mcp", { headers, body: sent });
    assert.deepEqual([answer.status, answer.body.error.code, answer.body.id], [400, -32020, 7], what);
    assert.equal(answer.headers["mcp-session-id"], undefined);
  }
  assert.deepEqual(site.vault.ran, []);
  const encoded = `=?base64?${Buffer.from("summarize_inbox").toString("base64")}?=`;
  assert.equal((await site.send("/mcp", { headers: { ...good, "mcp-name": encoded }, body: sent })).body.result.resultType, "complete");
});

test("an incomplete envelope, an unknown revision, unknown methods: the codes and statuses of the revision", async () => {
  const send = (method: string, params: Record<string, unknown>, more: Record<string, string> = {}) =>
    site.send("/mcp", {
      headers: { ...site.headersFor(method, undefined, ALICE), ...more },
      body: JSON.stringify({ jsonrpc: "2.0", id: "abc", method, params }),
    });
  const noMeta = await send("tools/list", {});
  assert.deepEqual([noMeta.status, noMeta.body.error.code], [400, -32602]);
  const noCapabilities = await send("tools/list", { _meta: { "io.modelcontextprotocol/protocolVersion": REVISION } });
  assert.deepEqual([noCapabilities.status, noCapabilities.body.error.code, noCapabilities.body.id], [400, -32602, "abc"]);
  const old = await send(
    "tools/list",
    { _meta: { ...meta(), "io.modelcontextprotocol/protocolVersion": "1900-01-01" } },
    { "mcp-protocol-version": "1900-01-01" },
  );
  assert.deepEqual(
    [old.status, old.body.error.code, old.body.error.data],
    [400, -32022, { supported: ["2026-07-28"], requested: "1900-01-01" }],
  );
  for (const method of ["ping", "initialize", "logging/setLevel", "resources/list", "prompts/list", "unknown/method"]) {
    const answer = await send(method, { _meta: meta() });
    assert.deepEqual([answer.status, answer.body.error.code, answer.body.id], [404, -32601, "abc"], method);
  }
});

test("a trouble of ours is told in fixed words, logged, and gives nothing away", async () => {
  site.vault.connect("alice", "gmail");
  site.vault.runInstead = () => Promise.reject(new Error("CANARY /srv/secret/path"));
  site.logged.length = 0;
  const answer = await site.call("summarize_inbox");
  site.vault.runInstead = null;
  assert.deepEqual(answer.body.error, { code: -32603, message: "Something went wrong on our side." });
  assert.doesNotMatch(answer.text, /CANARY/);
  assert.ok(site.logged.some((line) => line.includes('"level":"error"')));
});

test("the trace id of _meta, else of the header, reaches the call and its audit; a malformed one is ignored (ENV-11)", async () => {
  site.vault.connect("alice", "gmail");
  const trace = "7a085853722dc6d2e0c9f0b1a2d3c4e5";
  await site.call("summarize_inbox", {}, {}, { meta: { traceparent: `00-${trace}-00f1e2d3c4b5a697-01` } });
  assert.equal(site.vault.ran.at(-1)?.call.traceId, trace);
  const headers = { ...site.headersFor("tools/call", "summarize_inbox", ALICE), traceparent: `00-${trace}-00f1e2d3c4b5a697-01` };
  await site.send("/mcp", { headers, body: body("tools/call", { name: "summarize_inbox", arguments: {} }) });
  assert.equal(site.vault.ran.at(-1)?.call.traceId, trace);
  for (const bad of [
    `00-${"0".repeat(32)}-00f1e2d3c4b5a697-01`,
    "00-xyz",
    7,
    `ff-${trace}-00f1e2d3c4b5a697-01`,
    `00-${trace}-00f1e2d3c4b5a697-01\nX: y`,
  ]) {
    const answer = await site.call("summarize_inbox", {}, {}, { meta: { traceparent: bad } });
    assert.equal(answer.status, 200);
    assert.equal(site.vault.ran.at(-1)?.call.traceId, undefined, String(bad));
  }
});

test("a legacy client is served statelessly: handshake in its revision, and no session", async () => {
  const headers = { authorization: `Bearer ${ALICE}`, "content-type": "application/json", accept: "application/json, text/event-stream" };
  const handshake = (protocolVersion: string) =>
    site.send("/mcp", {
      headers,
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 0,
        method: "initialize",
        params: { protocolVersion, capabilities: {}, clientInfo: { name: "old", version: "1" } },
      }),
    });
  for (const [asked, given] of [
    ["2025-11-25", "2025-11-25"],
    ["2025-06-18", "2025-06-18"],
    ["2026-07-28", "2025-11-25"],
    ["1.0.0", "2025-11-25"],
  ] as const) {
    const answer = await handshake(asked);
    assert.equal(answer.body[0].result.protocolVersion, given, asked);
    assert.deepEqual(answer.body[0].result.capabilities, { tools: {} });
    assert.equal(answer.headers["mcp-session-id"], undefined);
  }
  const initialized = await site.send("/mcp", { headers, body: JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }) });
  assert.deepEqual([initialized.status, initialized.text], [202, ""]);
  const bad = await site.send("/mcp", {
    headers: { ...headers, "mcp-protocol-version": "1999-01-01" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list", params: {} }),
  });
  assert.equal(bad.status, 400);
});
