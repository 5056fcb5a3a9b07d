import assert from "node:assert/strict";
import { test } from "node:test";
import { redirectTarget, shapeClient } from "../../src/authorization/clients.js";
import { InvalidClientMetadata, type ClientMetadata } from "../../src/authorization/oidcProvider.js";

function shaped(metadata: Record<string, unknown>): ClientMetadata {
  const client = { client_id: "c", ...metadata } as ClientMetadata;
  shapeClient(client);
  return client;
}

test("https is a web client; loopback and private-use redirects are native apps", () => {
  for (const [uris, type] of [
    [["https://app.example/cb"], "web"],
    [["http://127.0.0.1:1/cb"], "native"],
    [["http://localhost/cb", "https://app.example/cb"], "native"],
    [["http://[::1]:8080/cb"], "native"],
    [["cursor://anysphere.cursor-mcp/oauth/callback"], "native"],
    [["com.example.app:/oauth"], "native"],
  ] as const) {
    assert.equal(shaped({ redirect_uris: uris, application_type: "web" }).application_type, type, uris.join(" "));
  }
});

test("SEC-08: plain http off this machine, script schemes, users and too many are refused", () => {
  for (const uri of [
    "http://app.example/cb",
    "http://127.0.0.1.evil.test/cb",
    "http://localhost.evil.test/cb",
    "http://0.0.0.0/cb",
    "javascript:alert(1)",
    "JavaScript:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "blob:https://app.example/x",
    "vbscript:x",
    "view-source:https://app.example",
    "mailto:x@app.example",
    "ws://127.0.0.1/",
    "https://user:pass@app.example/cb",
    "https://user@app.example/cb",
    "/relative",
    "",
    `https://app.example/${"x".repeat(2_000)}`,
  ]) {
    assert.throws(() => shaped({ redirect_uris: [uri] }), InvalidClientMetadata, uri.slice(0, 60));
    assert.throws(() => shaped({ redirect_uris: ["https://app.example/cb", uri] }), InvalidClientMetadata, uri.slice(0, 60));
  }
  assert.throws(() => shaped({ redirect_uris: Array.from({ length: 21 }, (_, index) => `https://app.example/${index}`) }), InvalidClientMetadata);
  assert.throws(() => shaped({ client_name: "x".repeat(201), redirect_uris: [] }), InvalidClientMetadata);
});

test("a registered scope does not cap later requests, and what is no list is left to the library", () => {
  assert.equal(shaped({ scope: "mcp:read", redirect_uris: ["https://app.example/cb"] }).scope, undefined);
  for (const redirect_uris of [undefined, null, "https://app.example", 7, [7, {}]]) shaped({ redirect_uris });
});

test("a redirect's place and the source that form-action needs", () => {
  assert.deepEqual(redirectTarget("https://app.example:8443/cb?x"), { kind: "web", place: "app.example:8443", source: "https://app.example:8443" });
  assert.deepEqual(redirectTarget("http://localhost:33418/cb"), { kind: "loopback", place: "localhost:33418", source: "http://localhost:33418" });
  assert.deepEqual(redirectTarget("cursor://x/y"), { kind: "app", place: "cursor:", source: "cursor:" });
  assert.equal(redirectTarget("nowhere"), null);
});
