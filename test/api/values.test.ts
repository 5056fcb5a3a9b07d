// Anything at all in place of any value of a sound body: refused or taken, never a fault of ours, and nothing of it comes back
// in a refusal.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { KINDS } from "../support/journey.js";
import { ADMIN_KEY, type Outband, startOutband } from "../support/outband.js";
import { assertProblem } from "./pin.js";
import { type RawAnswer, rawHttp } from "./rawHttp.js";

const HEADERS = { authorization: `Bearer ${ADMIN_KEY}`, "content-type": "application/json" };

const VALUES: readonly unknown[] = [
  null,
  true,
  -1,
  2 ** 53,
  1e308,
  "",
  "a\u0000b",
  "\ud800",
  "\u202e\u2066\ufeff\u2028",
  "e\u0301 🦊 .. %00 / + ' \" \\",
  "javascript:alert(1)",
  "http://169.254.169.254/",
  "0000-01-01T00:00:00Z",
  "9999-12-31T23:59:59.999999-23:59",
  "2024-02-30T00:00:00Z",
  "x".repeat(100_000),
  [],
  [["a"]],
  Array.from({ length: 20_000 }, () => 0),
  {},
  JSON.parse('{"__proto__":{"admin":true}}'),
];

/** Sound bodies of things that can be made, so that what is stored goes through the database too. */
const MADE: readonly { method: string; path: string; body: Record<string, unknown>; undo?: (made: RawAnswer) => string }[] = [
  {
    method: "POST",
    path: "/connections",
    body: {
      name: "fuzz",
      connector: "generic-oauth",
      title: "F",
      client_id: "c",
      client_secret: "s",
      scopes: ["a"],
      endpoints: { issuer: "https://issuer.example", api: "https://api.example" },
      settings: { pkce: true, identity: { path: "/me", id: "id" } },
      enabled: true,
      request_allow: [{ method: "GET", path_prefix: "/v1" }],
    },
    undo: () => "/connections/fuzz",
  },
  { method: "PATCH", path: "/connections/slack", body: { title: "Slack", client_id: "c", client_secret: "s", scopes: ["a"], settings: {}, enabled: true } },
  {
    method: "POST",
    path: "/accounts",
    body: { connection_name: "gmail", identifier: "person-fuzz", label: "l", credential: { type: "oauth", access_token: "at-1", refresh_token: "rt-1", expires_at: "2098-01-01T00:00:00Z", scopes: ["a"] } },
  },
  { method: "POST", path: "/authorization-links", body: { connection_name: "gmail", identifier: "person-fuzz", label: "l", scopes: ["a"], verification: "sign_in", state: "s" } },
  {
    method: "POST",
    path: "/tools/gmail_send_message/execute",
    body: { identifier: "person-fuzz", account: "none", arguments: { to: ["kim@people.example"], subject: "s", body: "b" }, idempotency_key: "k" },
  },
  { method: "POST", path: "/session-tokens", body: { identifier: "person-fuzz", ttl_s: 60, endpoint: "/mcp", scopes: ["mcp:read"] } },
  { method: "POST", path: "/users", body: { sub: "fuzz", email: "fuzz@people.example", name: "F", role: "user" }, undo: (made) => `/users/${encodeURIComponent(made.body.sub)}` },
  {
    method: "POST",
    path: "/api-keys",
    body: { name: "fuzz", scopes: ["read"], return_to_origins: ["https://app.example"], expires_at: "2098-01-01T00:00:00Z" },
    undo: (made) => `/api-keys/${made.body.id}`,
  },
];

// Both databases are PostgreSQL to a value; the real one is the quicker of the two.
for (const kind of KINDS.slice(-1)) {
  describe(`values in bodies (${kind})`, () => {
    let outband: Outband;
    const send = (method: string, path: string, body?: string) => rawHttp(outband.url, { method, path: `/api/v1${path}`, headers: HEADERS, ...(body === undefined ? {} : { body }) });

    before(async () => {
      outband = await startOutband({ kind });
      await outband.person("fuzz");
    });

    for (const { method, path, body, undo } of MADE) {
      test(`${method} ${path}`, async () => {
        const sound = await send(method, path, JSON.stringify(body));
        assert.ok(sound.status < 300 || sound.status === 409, sound.text);
        if (undo && sound.status === 201) await send("DELETE", undo(sound));
        for (const at of placesOf(body)) {
          for (const value of VALUES) {
            const answer = await send(method, path, JSON.stringify(replaced(body, at, value)));
            const told = `${at.join(".")} = ${JSON.stringify(value).slice(0, 60)}: ${answer.status} ${answer.text.slice(0, 300)}`;
            assert.ok(answer.status < 500, told);
            if (answer.status >= 400) assertProblem(answer, answer.status, answer.body.code);
            assert.ok(answer.text.length < 8_000, told);
            if (undo && answer.status === 201) assert.equal((await send("DELETE", undo(answer))).status, 204, told);
          }
        }
        assert.deepEqual(outband.logs.filter((line) => line.includes('"request failed"')), []);
      });
    }

    test("JSON that is nested deeper than a stack", async () => {
      for (const [open, close] of [["[", "]"], ['{"a":', "}"]] as const) {
        const deep = `${open.repeat(20_000)}1${close.repeat(20_000)}`;
        for (const text of [`{"identifier":"person-fuzz","arguments":{"a":${deep}}}`, `{"identifier":"person-fuzz","arguments":${deep}}`]) {
          assertProblem(await send("POST", "/tools/summarize_inbox/execute", text), 400, "invalid_request");
        }
        assertProblem(await send("POST", "/connections", `{"name":"deep","connector":"gmail","settings":{"a":${deep}}}`), 400, "invalid_request");
      }
    });
  });
}

type Path = readonly (string | number)[];

/** Every value of a body, and every object and list in it. */
function placesOf(value: unknown, at: Path = []): Path[] {
  const below = typeof value === "object" && value !== null ? Object.entries(value).flatMap(([key, item]) => placesOf(item, [...at, Array.isArray(value) ? Number(key) : key])) : [];
  return at.length === 0 ? below : [at, ...below];
}

function replaced(body: unknown, [step, ...rest]: Path, value: unknown): unknown {
  if (step === undefined) return value;
  const copy: Record<string | number, unknown> = Array.isArray(body) ? ([...body] as unknown as Record<number, unknown>) : { ...(body as Record<string, unknown>) };
  copy[step] = replaced(copy[step], rest, value);
  return copy;
}
