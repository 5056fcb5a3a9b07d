// Connections of operators: what is refused before it is stored, and what the generic connectors become (contract, section 7).
import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import { systemClock } from "../../src/clock.js";
import { type ConnectionShape, createRegistry } from "../../src/connectors/registry.js";
import { createEgress } from "../../src/net/egress.js";

const registry = createRegistry();
const egress = createEgress({ allowPrivateNetwork: [], clock: systemClock });

function shape(connector: string, more: Partial<ConnectionShape> = {}): ConnectionShape {
  return { connector, endpoints: {}, settings: {}, scopes: [], ...more };
}

function problems(connector: string, more: Partial<ConnectionShape>): string[] {
  return registry.check(shape(connector, more), (url) => egress.refuses(url)).map((problem) => problem.path);
}

test("the connectors that ship, and their tools in the order of the contract", () => {
  assert.deepEqual(
    registry.list().map((one) => one.name),
    ["gmail", "slack", "generic-oauth", "generic-api-key"],
  );
  assert.deepEqual(
    registry.get("gmail")?.tools.map((tool) => tool.name),
    ["summarize_inbox", "gmail_list_messages", "gmail_get_message", "gmail_send_message"],
  );
  assert.deepEqual(
    registry.get("slack")?.tools.map((tool) => tool.name),
    ["slack_list_channels", "slack_post_message"],
  );
  assert.equal(registry.get("nope"), null);
  assert.equal(registry.forConnection(shape("nope")), null);
  assert.equal(registry.forConnection(shape("__proto__")), null);
});

test("every tool: names within bounds, words for a model, strict schemas that become JSON Schema, no account or idempotency_key of its own", () => {
  for (const connector of registry.list()) {
    for (const tool of connector.tools) {
      assert.match(tool.name, /^[a-z][a-z0-9_]{1,63}$/);
      assert.ok(tool.title.length > 5 && tool.description.length > 60, tool.name);
      const input = z.toJSONSchema(tool.input, { io: "input" });
      const output = z.toJSONSchema(tool.output);
      assert.equal(input.additionalProperties, false, tool.name);
      assert.equal(output.additionalProperties, false, tool.name);
      const properties = input.properties as Record<string, { description?: string }>;
      assert.equal("account" in properties || "idempotency_key" in properties, false, tool.name);
      for (const [name, property] of Object.entries(properties)) assert.ok(property.description, `${tool.name}.${name} says what it is`);
      assert.equal(tool.input.safeParse({ ...sample(tool.name), surprise: 1 }).success, false, `${tool.name} refuses unknown keys`);
      assert.equal(tool.input.safeParse(sample(tool.name)).success, true, tool.name);
      assert.equal(tool.effect === "read" && tool.hints.destructive, false);
    }
  }
});

function sample(tool: string): Record<string, unknown> {
  const samples: Record<string, Record<string, unknown>> = {
    gmail_get_message: { id: "18c" },
    gmail_send_message: { to: ["a@x.test"], subject: "s", body: "b" },
    slack_post_message: { text: "hi" },
  };
  return samples[tool] ?? {};
}

test("a connection that needs nothing more has no problems", () => {
  assert.deepEqual(problems("gmail", {}), []);
  assert.deepEqual(problems("slack", { settings: { confirm_sends: "always" } }), []);
  assert.deepEqual(problems("generic-oauth", { endpoints: { issuer: "https://id.example.com" }, scopes: ["openid", "email"] }), []);
  assert.deepEqual(
    problems("generic-api-key", {
      endpoints: { api: "https://api.example.com/v2" },
      settings: {
        api_key: { in: "header", name: "X-Key" },
        fields: [{ name: "key", title: "Key", secret: true }],
        probe: { method: "GET", path: "/me", status: 200 },
      },
    }),
    [],
  );
});

test("what is missing or wrong is told by its path, each at once, and the value is never repeated", () => {
  assert.deepEqual(problems("nope", {}), ["connector"]);
  assert.deepEqual(problems("generic-oauth", {}), ["endpoints.authorization"]);
  assert.deepEqual(problems("generic-oauth", { endpoints: { authorization: "https://a.example.com" } }), ["endpoints.authorization"]);
  assert.deepEqual(
    problems("generic-oauth", { endpoints: { issuer: "https://a.example.com" }, settings: { identity: { path: "/me", id: "id" } } }),
    ["endpoints.api"],
  );
  assert.deepEqual(problems("generic-api-key", {}), ["endpoints.api"]);
  assert.deepEqual(problems("gmail", { settings: { confirm_sends: "sometimes", canary_x: 1 } }).sort(), [
    "settings",
    "settings.confirm_sends",
  ]);
  assert.deepEqual(problems("slack", { scopes: ["ok:read", "two words", 'q"'] }), ["scopes.1", "scopes.2"]);
  assert.deepEqual(
    problems("gmail", { endpoints: { canary: "https://x.example.com", token: "ftp://x.example.com", api: "https://x.example.com?q=1" } }),
    ["endpoints.?", "endpoints.token", "endpoints.api"],
  );
  const told = JSON.stringify(
    registry.check(
      shape("gmail", { endpoints: { canary: "https://canary.test", token: "canary" }, settings: { canary: 1 }, scopes: ["canary canary"] }),
    ),
  );
  assert.equal(told.includes("canary"), false);
});

test("endpoints at private, link-local and plain-http addresses are refused by the egress's own rule", () => {
  for (const url of [
    "http://api.example.com",
    "https://10.0.0.1",
    "https://169.254.169.254/latest",
    "https://127.0.0.1",
    "https://user:pass@api.example.com",
    "https://api.example.com/#x",
    "not a url",
  ]) {
    assert.deepEqual(problems("generic-api-key", { endpoints: { api: url } }), ["endpoints.api"], url);
  }
});

test("settings that could split a header, take over one, or leave the API's path are refused", () => {
  const endpoints = { api: "https://api.example.com" };
  for (const settings of [
    { api_key: { in: "header", name: "X-Key\r\nX-Evil" } },
    { api_key: { in: "header", name: "Host" } },
    { api_key: { in: "header", name: "cookie" } },
    { api_key: { in: "header", name: "X-Key", prefix: "a\r\nb" } },
    { api_key: { in: "cookie", name: "x" } },
    { api_key: { in: "query", name: "a&b" } },
    { probe: { method: "DELETE", path: "/me" } },
    { probe: { method: "GET", path: "//evil.test" } },
    { probe: { method: "GET", path: "me" } },
    { fields: [] },
    { fields: [{ name: "Bad Name", title: "x", secret: true }] },
  ]) {
    assert.notDeepEqual(problems("generic-api-key", { endpoints, settings }), [], JSON.stringify(settings));
  }
});

test("a generic API key connection: where the key goes, what is asked, how it is tried", () => {
  const made = (settings: Record<string, unknown>) =>
    registry.forConnection(shape("generic-api-key", { endpoints: { api: "https://api.example.com" }, settings }))?.method;
  const plain = made({});
  assert.ok(plain?.kind === "api_key");
  assert.deepEqual(plain.placement, { in: "header", name: "authorization", prefix: "Bearer " });
  assert.deepEqual(plain.fields, [{ name: "api_key", title: "API key", secret: true }]);
  assert.equal(plain.probe, null);
  const own = made({ api_key: { in: "header", name: "X-Key" }, probe: { path: "/me" } });
  assert.ok(own?.kind === "api_key");
  assert.deepEqual(own.placement, { in: "header", name: "X-Key", prefix: "" });
  assert.deepEqual(own.probe, { method: "GET", path: "/me", status: 200 });
  const basic = made({ api_key: { in: "basic" } });
  assert.ok(basic?.kind === "api_key");
  assert.deepEqual(
    basic.fields.map((field) => [field.name, field.secret]),
    [
      ["username", false],
      ["password", true],
    ],
  );
});

test("a generic OAuth connection: PKCE unless turned off, OpenID only with a written issuer, no scope that must be granted", () => {
  const made = (more: Partial<ConnectionShape>) => {
    const connector = registry.forConnection(shape("generic-oauth", more));
    assert.ok(connector?.method.kind === "oauth");
    return { connector, method: connector.method };
  };
  const openid = made({ endpoints: { issuer: "https://id.example.com" }, scopes: ["openid", "mail"] });
  assert.deepEqual([openid.method.pkce, openid.method.openid, openid.method.tokenAuth], [true, true, "client_secret_post"]);
  assert.deepEqual(openid.connector.scopes, [{ name: "mail", title: "mail", required: false }]);
  const bare = made({
    endpoints: { authorization: "https://a.example.com", token: "https://b.example.com" },
    scopes: ["openid"],
    settings: { pkce: false, token_auth: "none" },
  });
  assert.deepEqual([bare.method.pkce, bare.method.openid, bare.method.tokenAuth, bare.method.revoke], [false, false, "none", null]);
});

test("an operator's endpoints go over the connector's, the others stay", () => {
  const made = registry.forConnection(shape("gmail", { endpoints: { token: "https://proxy.example.com/token" } }));
  assert.equal(made?.endpoints.token, "https://proxy.example.com/token");
  assert.equal(made?.endpoints.api, "https://gmail.googleapis.com");
  assert.equal(registry.get("gmail")?.endpoints.token, "https://oauth2.googleapis.com/token", "the shipped one is as it was");
});

test("stored settings that no longer fit are an error of ours, not a guess", () => {
  assert.throws(() => registry.forConnection(shape("gmail", { settings: { confirm_sends: "bogus" } })), {
    name: "OutbandError",
    code: "internal",
  });
});
