// Every call of the vault API that there is (contract section 7): its status and its body, to the last key.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { connect } from "../support/journey.js";
import { startKeyedApi } from "../support/keyedApi.js";
import { type Outband, type Person, startOutband } from "../support/outband.js";
import { assertAnswer, assertBody, assertProblem, idOf, type Pinned, TIME } from "./pin.js";

const READONLY = "https://www.googleapis.com/auth/gmail.readonly";
/** Google names `email` otherwise in its answer. */
const GRANTED = ["openid", "https://www.googleapis.com/auth/userinfo.email", READONLY];

describe("answers of the vault API", () => {
  let outband: Outband;
  let person: Person;
  const api: Outband["api"] = (...given) => outband.api(...given);

  before(async () => {
    outband = await startOutband();
    person = await outband.person("pinned");
  });

  function gmail(more: Record<string, Pinned> = {}): Record<string, Pinned> {
    const { endpoints, clientId } = outband.provider.google;
    return {
      id: idOf("conn"),
      name: "gmail",
      connector: "gmail",
      title: "Gmail",
      method: "oauth",
      client_id: clientId,
      client_secret_set: true,
      scopes: [],
      endpoints: endpoints as Record<string, string>,
      settings: {},
      request_allow: [],
      enabled: true,
      sandbox: false,
      redirect_uri: `${outband.url}/connect/callback/gmail`,
      created_at: TIME,
      updated_at: TIME,
      ...more,
    };
  }

  function account(more: Record<string, Pinned> = {}): Record<string, Pinned> {
    return {
      id: idOf("ca"),
      connection_name: "gmail",
      connector: "gmail",
      identifier: person.sub,
      label: "",
      status: "PENDING",
      status_reason: "awaiting_user",
      readiness: "needs_connection",
      external_account: null,
      scopes: [],
      token_expires_at: null,
      last_used_at: null,
      last_refreshed_at: null,
      created_at: TIME,
      updated_at: TIME,
      ...more,
    };
  }

  test("connectors", async () => {
    const { status, body } = await api("GET", "/connectors");
    assert.deepEqual([status, Object.keys(body)], [200, ["data"]]);
    assert.deepEqual(
      body.data.map((one: { name: string; title: string; method: string }) => [one.name, one.title, one.method]),
      [
        ["gmail", "Gmail", "oauth"],
        ["slack", "Slack", "oauth"],
        ["generic-oauth", "OAuth provider", "oauth"],
        ["generic-api-key", "API key", "api_key"],
      ],
    );
    assertBody(body.data[0], {
      name: "gmail",
      title: "Gmail",
      method: "oauth",
      scopes: [
        { name: READONLY, title: "Read your mail", required: true },
        { name: "https://www.googleapis.com/auth/gmail.send", title: "Send mail as you", required: false },
      ],
      fields: [],
      tools: ["summarize_inbox", "gmail_list_messages", "gmail_get_message", "gmail_send_message"],
    });
    assertBody(body.data[3], { name: "generic-api-key", title: "API key", method: "api_key", scopes: [], fields: [{ name: "api_key", title: "API key", secret: true }], tools: [] });
  });

  test("connections: listed by name, read, made, changed, deleted", async () => {
    const list = await api("GET", "/connections");
    assert.deepEqual([Object.keys(list.body), list.body.data.map((one: { name: string }) => one.name), list.body.next_cursor], [["data", "next_cursor"], ["gmail", "slack"], null]);
    assertBody(list.body.data[0], gmail());
    assertAnswer(await api("GET", "/connections/gmail"), 200, gmail());

    const settings = { api_key: { in: "header", name: "X-Key" }, probe: { method: "GET", path: "/me", status: 200 } };
    const given = { name: "weather", connector: "generic-api-key", endpoints: { api: "https://api.weather.example" }, settings, request_allow: [{ method: "GET", path_prefix: "/v1/" }] };
    const weather = { ...gmail(), ...given, title: "API key", method: "api_key", client_id: null, client_secret_set: false, redirect_uri: `${outband.url}/connect/callback/weather` };
    assertAnswer(await api("POST", "/connections", given), 201, weather);
    assertAnswer(await api("PATCH", "/connections/weather", { title: "Weather", enabled: false, request_allow: [] }), 200, { ...weather, title: "Weather", enabled: false, request_allow: [] });
    assertProblem(await api("POST", "/connections", given), 409, "already_exists");
    assertAnswer(await api("DELETE", "/connections/weather"), 204, null);
    assertProblem(await api("GET", "/connections/weather"), 404, "not_found");
  });

  test("accounts and links: from the link to the connected account, and away again", async () => {
    const link = await api("POST", "/authorization-links", { connection_name: "gmail", identifier: person.sub });
    assertAnswer(link, 201, { id: idOf("lnk"), url: new RegExp(`^${outband.url}/connect/[\\w-]{43}$`), expires_at: TIME, account_id: idOf("ca") });
    const { id, account_id } = link.body;
    assertAnswer(await api("GET", `/authorization-links/${id}`), 200, { id, account_id, status: "open", expires_at: TIME });
    assertAnswer(await api("GET", `/accounts/${account_id}`), 200, account({ id: account_id }));

    assert.equal((await connect(link.body.url, await person.signIn())).status, 200);
    assertAnswer(await api("GET", `/authorization-links/${id}`), 200, { id, account_id, status: "completed", expires_at: TIME });
    const connected = account({
      id: account_id,
      status: "ACTIVE",
      status_reason: null,
      readiness: "ready",
      // No name: that would take the scope `profile`.
      external_account: { id: /^\d+$/, email: "mara.lindqvist@harbourlight.example", name: null },
      scopes: GRANTED,
      token_expires_at: TIME,
      last_refreshed_at: TIME,
    });
    assertAnswer(await api("GET", `/accounts/${account_id}`), 200, connected);
    const list = await api("GET", `/accounts?connection_name=gmail&identifier=${person.sub}&status=ACTIVE`);
    assertAnswer(list, 200, { data: [connected], next_cursor: null });
    assertAnswer(await api("PATCH", `/accounts/${account_id}`, { label: "work" }), 200, { ...connected, label: "work" });
    assertAnswer(await api("POST", `/accounts/${account_id}/refresh`), 200, { ...connected, label: "work" });

    const run = await api("POST", "/tools/gmail_list_messages/execute", { identifier: person.sub, account: "work", arguments: { max_results: 1 } });
    assert.deepEqual([run.status, Object.keys(run.body).sort()], [200, ["data", "execution_id"]], JSON.stringify(run.body));
    assert.match(run.body.execution_id, idOf("exe"));

    const disconnected = { status: "REVOKED", status_reason: "disconnected_by_admin", readiness: "needs_reauth", token_expires_at: null };
    assertAnswer(await api("DELETE", `/accounts/${account_id}`), 200, { ...connected, ...disconnected, label: "work", last_used_at: TIME });
    assert.equal((await api("DELETE", `/accounts/${account_id}?purge=true`)).status, 200);
    for (const path of [`/accounts/${account_id}`, `/authorization-links/${id}`]) assertProblem(await api("GET", path), 404, "not_found");
  });

  test("a credential put in by a server, and replaced", async () => {
    const keyed = await startKeyedApi();
    const settings = { probe: { method: "GET", path: "/me", status: 200 } };
    await api("POST", "/connections", { name: "keyed", connector: "generic-api-key", endpoints: { api: keyed.origin }, settings });
    const put = { connection_name: "keyed", identifier: person.sub, label: "ci", credential: { type: "api_key", fields: { api_key: keyed.goodKey } } };
    const expected = account({ connection_name: "keyed", connector: "generic-api-key", label: "ci", status: "ACTIVE", status_reason: null, readiness: "ready", last_refreshed_at: TIME });
    const made = await api("POST", "/accounts", put);
    assertAnswer(made, 201, expected);
    assertAnswer(await api("PUT", `/accounts/${made.body.id}/credential`, { credential: put.credential }), 200, { ...expected, id: made.body.id });
  });

  test("tools: with their schemas, in the contract's order", async () => {
    const { status, body } = await api("GET", "/tools");
    assert.deepEqual([status, Object.keys(body), body.next_cursor], [200, ["data", "next_cursor"], null]);
    assert.deepEqual(
      body.data.map((tool: { tool_name: string; connection_name: string; writes: boolean }) => [tool.tool_name, tool.connection_name, tool.writes]),
      [
        ["summarize_inbox", "gmail", false],
        ["gmail_list_messages", "gmail", false],
        ["gmail_get_message", "gmail", false],
        ["gmail_send_message", "gmail", true],
        ["slack_list_channels", "slack", false],
        ["slack_post_message", "slack", true],
      ],
    );
    for (const tool of body.data) {
      assert.deepEqual(Object.keys(tool).sort(), ["connection_name", "description", "input_schema", "output_schema", "title", "tool_name", "writes"]);
      assert.deepEqual([tool.input_schema.type, tool.output_schema.type], ["object", "object"]);
    }
  });

  test("a tool without its account: 409 with the reason; one that there is not: 404; arguments that do not fit: 400", async () => {
    const stranger = await outband.person("stranger");
    const run = (tool: string, body: unknown) => api("POST", `/tools/${tool}/execute`, body);
    assertProblem(await run("summarize_inbox", { identifier: stranger.sub, arguments: {} }), 409, "not_connected", { reason: "not_connected" });
    assertProblem(await run("no_such_tool", { identifier: stranger.sub, arguments: {} }), 404, "not_found");
    assertProblem(await run("summarize_inbox", { identifier: stranger.sub, arguments: { max_messages: "many" } }), 400, "invalid_request");
    assertProblem(await run("summarize_inbox", { identifier: stranger.sub }), 400, "invalid_request", { paths: ["arguments"] });
  });

  test("session tokens", async () => {
    const made = await api("POST", "/session-tokens", { identifier: person.sub, ttl_s: 60 });
    assertAnswer(made, 201, { token: /^[\w-]+\.[\w-]+\.[\w-]+$/, expires_at: TIME, endpoint: "/mcp" });
    assert.ok(Math.abs(Date.parse(made.body.expires_at) - Date.now() - 60_000) < 5_000, made.body.expires_at);
    assertProblem(await api("POST", "/session-tokens", { identifier: "nobody", ttl_s: 60 }), 422, "unknown_identifier");
    assertProblem(await api("POST", "/session-tokens", { identifier: person.sub, ttl_s: 60, endpoint: "/mcp/none" }), 400, "invalid_request", { paths: ["endpoint"] });
    for (const ttl_s of [59, 86_401, 60.5, "60", null]) assertProblem(await api("POST", "/session-tokens", { identifier: person.sub, ttl_s }), 400, "invalid_request", { paths: ["ttl_s"] });
  });

  test("users: listed newest first, made with a password or an invitation, changed, removed", async () => {
    const user = { sub: "person-kim", email: "Kim@People.example", name: "Kim", role: "viewer", issuer: "builtin", created_at: TIME, last_sign_in_at: null };
    const given = { sub: user.sub, email: user.email, name: user.name, role: user.role };
    assertAnswer(await api("POST", "/users", { ...given, password: "long enough to be one" }), 201, user);
    assertProblem(await api("POST", "/users", { ...given, sub: "another", password: "long enough to be one" }), 409, "already_exists");
    const invited = await api("POST", "/users", { email: "lee@people.example" });
    const lee: Pinned = { ...user, sub: idOf("usr"), email: "lee@people.example", name: null, role: "user", invitation_url: new RegExp(`^${outband.url}/setup/[\\w-]{43}$`) };
    assertAnswer(invited, 201, lee);

    const list = await api("GET", "/users?limit=2");
    assert.deepEqual([Object.keys(list.body), list.body.data.map((one: { email: string }) => one.email)], [["data", "next_cursor"], ["lee@people.example", "Kim@People.example"]]);
    assertBody(list.body.data[1], user);
    assertAnswer(await api("PATCH", "/users/person-kim", { name: "Kim Lee", role: "user" }), 200, { ...user, name: "Kim Lee", role: "user" });
    assertAnswer(await api("DELETE", "/users/person-kim"), 204, null);
    assertProblem(await api("DELETE", "/users/person-kim"), 404, "not_found");
    assertProblem(await api("PATCH", "/users/person-kim", { name: "Kim" }), 404, "not_found");
  });

  test("API keys: shown once, listed newest first by their first characters, deleted", async () => {
    const made = await api("POST", "/api-keys", { name: "backend", scopes: ["execute", "read"], return_to_origins: ["https://app.example"], expires_at: "2099-01-01T00:00:00+02:00" });
    assertAnswer(made, 201, { id: idOf("key"), key: /^obk_[\w-]{43}$/ });
    const { data, next_cursor } = (await api("GET", "/api-keys")).body;
    assert.equal(next_cursor, null);
    assertBody(data[0], {
      id: made.body.id,
      name: "backend",
      hint: made.body.key.slice(0, 8),
      scopes: ["read", "execute"],
      return_to_origins: ["https://app.example"],
      created_at: TIME,
      expires_at: "2098-12-31T22:00:00.000Z",
      last_used_at: null,
    });
    assertAnswer(await api("DELETE", `/api-keys/${made.body.id}`), 204, null);
    assertProblem(await api("DELETE", `/api-keys/${made.body.id}`), 404, "not_found");
  });

  test("events", async () => {
    const list = await api("GET", "/events?limit=1");
    assertAnswer(list, 200, {
      data: [{ spec_version: "1", id: idOf("evt"), type: "connected_account.created", occurred_at: TIME, account_sequence: 1, object: "connected_account", data: account() }],
      next_cursor: list.body.data[0].id,
    });
  });

  test("an idle connection is kept longer than a load balancer's minute", async () => {
    assert.equal((await api("GET", "/connections")).headers.get("keep-alive"), "timeout=65");
  });

  test("every answer is JSON that nobody keeps, under the request's id", async () => {
    for (const [method, path] of [["GET", "/connections"], ["GET", "/connectors"], ["POST", "/users"], ["GET", "/nothing"]] as const) {
      const { headers } = await api(method, path, method === "POST" ? {} : undefined);
      assert.match(headers.get("content-type") ?? "", /^application\/(problem\+)?json/);
      assert.equal(headers.get("cache-control"), "no-store");
      assert.equal(headers.get("x-content-type-options"), "nosniff");
      assert.match(headers.get("x-request-id") ?? "", idOf("req"));
      assert.equal(headers.get("access-control-allow-origin"), null);
      assert.equal(headers.get("set-cookie"), null);
    }
  });
});
