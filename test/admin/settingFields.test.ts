// Settings as fields of a form and back: nothing that is stored is lost or made up by opening the form and saving it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseJson, settingFields, settingsFrom, settingText } from "../../src/admin/settingFields.js";
import { createRegistry } from "../../src/connectors/registry.js";

const registry = createRegistry();

/** Stored settings as their form shows them, with some fields typed over. */
function saved(connector: string, stored: Record<string, unknown>, typed: Record<string, string> = {}) {
  const fields = settingFields(connector) ?? [];
  const texts = Object.fromEntries(fields.map((field) => [field.path, settingText(field, stored)]));
  return settingsFrom(fields, (path) => ({ ...texts, ...typed })[path] ?? "", stored);
}

const STORED: [string, Record<string, unknown>][] = [
  ["gmail", {}],
  ["gmail", { confirm_sends: "off" }],
  ["slack", { confirm_sends: "new_recipients" }],
  ["generic-oauth", {}],
  ["generic-oauth", { token_auth: "none", pkce: true, identity: { path: "/me", id: "id", email: "mail", name: "n" } }],
  ["generic-oauth", { pkce: false }],
  ["generic-api-key", { api_key: { in: "header" } }],
  ["generic-api-key", { api_key: { in: "header", name: "x-key", prefix: "Token " }, probe: { method: "POST", path: "/me", status: 204 } }],
  ["generic-api-key", { api_key: { in: "query", name: "key" }, fields: [{ name: "api_key", title: "Key", secret: true }] }],
  ["generic-api-key", { api_key: { in: "basic" } }],
];

test("what is stored comes back as it was when its form is saved untouched, for every connector", () => {
  for (const [connector, stored] of STORED) assert.deepEqual(saved(connector, stored), { settings: stored, problems: [] }, connector);
});

test("each of these is what the connector itself takes", () => {
  for (const [connector, settings] of STORED) {
    const endpoints: Record<string, string> = connector.startsWith("generic-") ? { issuer: "https://issuer.example", api: "https://api.example" } : {};
    if (connector === "generic-api-key") delete endpoints["issuer"];
    assert.deepEqual(registry.check({ connector, settings, endpoints, scopes: [] }), [], JSON.stringify(settings));
  }
});

test("a member that has no field is kept, and what is stored is not changed in place", () => {
  const stored = { confirm_sends: "always", later: { added: 1 } };
  assert.deepEqual(saved("gmail", stored, { confirm_sends: "off" }).settings, { confirm_sends: "off", later: { added: 1 } });
  assert.deepEqual(stored, { confirm_sends: "always", later: { added: 1 } });
});

test("a field that belongs to another choice is dropped with it", () => {
  const stored = { api_key: { in: "header", name: "x-key", prefix: "Token " }, probe: { path: "/me", status: 204 } };
  assert.deepEqual(saved("generic-api-key", stored, { "api_key.in": "basic", "probe.path": "" }).settings, { api_key: { in: "basic" } });
});

test("every connector that ships has its fields or gets the JSON field, and a made-up name gets no other's", () => {
  for (const { name } of registry.list()) assert.ok(settingFields(name) !== null, name);
  for (const name of ["constructor", "__proto__", "none"]) assert.equal(settingFields(name), null);
});

test("a number that is none and JSON that is none are told, and the text is not repeated", () => {
  const stored = { api_key: { in: "header" }, probe: { path: "/me" } };
  const { problems } = saved("generic-api-key", stored, { "probe.status": "canary", fields: '{"canary": }' });
  assert.deepEqual(problems.map(({ path }) => path), ["probe.status", "fields"]);
  assert.doesNotMatch(JSON.stringify(problems), /canary/);
});

test("the place where JSON ends is told by line and character, on every shape of mistake", () => {
  for (const text of ["{", "[1,", '{"a"', "nul", "{'a': 1}", "[1] 2", '{"a": 1,}', '"\n"']) {
    const parsed = parseJson(text);
    assert.equal(parsed.ok, false, text);
    assert.match(parsed.ok ? "" : parsed.problem, /^This is not JSON: (?:it ends too early|look at line \d+, character \d+)\.$/, text);
  }
  assert.deepEqual(parseJson("[1]"), { ok: true, value: [1] });
});
