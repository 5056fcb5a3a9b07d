// Who may call what: every call by every kind of key (contract section 7). A matrix, so that a new call is either in it or
// fails the count.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { accountRoutes } from "../../src/api/accounts.js";
import { connectionRoutes } from "../../src/api/connections.js";
import { eventRoutes } from "../../src/api/events.js";
import { peopleRoutes } from "../../src/api/people.js";
import { toolRoutes } from "../../src/api/tools.js";
import { callTool } from "../support/mcpCall.js";
import { movableClock } from "../support/movableClock.js";
import { ADMIN_KEY, type Outband, startOutband } from "../support/outband.js";
import { CALLS, named, PATHS, type Scope } from "./calls.js";
import { assertProblem } from "./pin.js";

const SCOPES: readonly Scope[] = ["read", "execute", "manage", "admin"];

describe("scopes of the vault API", () => {
  let outband: Outband;
  const clock = movableClock();
  const keys = new Map<string, string>();

  before(async () => {
    outband = await startOutband({ clock, connections: ["gmail"] });
    for (const scope of SCOPES) keys.set(scope, await makeKey([scope]));
    keys.set("all but admin", await makeKey(["read", "execute", "manage"]));
    keys.set("the settings' own", ADMIN_KEY);
    keys.set("expired", await makeKey(["admin"], new Date(clock.now() + 60_000)));
    clock.forward(61_000);
    const deleted = await outband.api("POST", "/api-keys", { name: "deleted", scopes: ["admin"] });
    assert.equal((await outband.api("DELETE", `/api-keys/${deleted.body.id}`)).status, 204);
    keys.set("deleted", deleted.body.key);
    keys.set("another person's guess", `obk_${"A".repeat(43)}`);
  });

  async function makeKey(scopes: Scope[], expiresAt?: Date): Promise<string> {
    const made = await outband.api("POST", "/api-keys", { name: scopes.join(" "), scopes, ...(expiresAt ? { expires_at: expiresAt.toISOString() } : {}) });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    return made.body.key;
  }

  const HELD: Record<string, readonly Scope[]> = {
    read: ["read"],
    execute: ["execute"],
    manage: ["manage"],
    admin: SCOPES,
    "all but admin": ["read", "execute", "manage"],
    "the settings' own": SCOPES,
    expired: [],
    deleted: [],
    "another person's guess": [],
  };
  const NOBODY = ["expired", "deleted", "another person's guess"];

  for (const call of CALLS) {
    test(`${call.method} ${call.path}${call.body ? ` {${Object.keys(call.body).join(", ")}}` : ""} needs ${call.scope}`, async () => {
      for (const [name, key] of keys) {
        const answer = await outband.api(call.method, named(call, "nowhere"), call.body, key);
        if (NOBODY.includes(name)) assertProblem(answer, 401, "unauthorized");
        else if (HELD[name]?.includes(call.scope)) assert.equal(answer.status, call.status, `${name}: ${JSON.stringify(answer.body)}`);
        else assertProblem(answer, 403, "insufficient_scope");
      }
    });
  }

  test("without a credential, or with something that is none: 401 and how to come back, whatever the address", async () => {
    for (const path of ["/connections", "/users", "/nothing-here"]) {
      for (const authorization of [undefined, "", "Bearer", "Bearer ", "Basic YTpi", `Token ${ADMIN_KEY}`, `Bearer ${ADMIN_KEY} x`, `Bearer "${ADMIN_KEY}"`, ADMIN_KEY, `Bearer ${"x".repeat(5_000)}`, "Bearer é"]) {
        const headers: Record<string, string> = authorization === undefined ? {} : { authorization: Buffer.from(authorization).toString("latin1") };
        const answer = await fetch(`${outband.url}/api/v1${path}`, { headers });
        assert.match(answer.headers.get("www-authenticate") ?? "", /^Bearer\b/);
        assertProblem({ status: answer.status, headers: answer.headers, body: await answer.json() }, 401, "unauthorized");
      }
      // A credential in the address would lie in logs and histories.
      assert.equal((await fetch(`${outband.url}/api/v1${path}?access_token=${ADMIN_KEY}`)).status, 401);
    }
    const answer = await fetch(`${outband.url}/api/v1/connections`, { headers: { authorization: `bEARER ${ADMIN_KEY}` } });
    assert.equal(answer.status, 200, "the scheme is case-insensitive (RFC 9110, section 11.1)");
  });

  test("a key is read before anything else: a stranger's body, type and address say nothing", async () => {
    for (const init of [{ body: "{", headers: { "content-type": "application/json" } }, { body: "x", headers: { "content-type": "text/plain" } }, { body: "x".repeat(400_000), headers: { "content-type": "application/json" } }]) {
      assert.equal((await fetch(`${outband.url}/api/v1/users`, { method: "POST", ...init })).status, 401);
    }
    assert.equal((await fetch(`${outband.url}/api/v1/users/%ff`)).status, 401);
    const withKey = { authorization: `Bearer ${keys.get("read")}`, "content-type": "application/json" };
    assert.equal((await fetch(`${outband.url}/api/v1/users`, { method: "POST", body: "{", headers: withKey })).status, 403);
  });

  test("a person's session token is no key of the API, and a key is no token of the MCP endpoint", async () => {
    const person = await outband.person("minted");
    assertProblem(await outband.api("GET", "/connections", undefined, person.token), 401, "unauthorized");
    assert.equal((await callTool(outband.url, keys.get("execute") ?? "", "list_my_connections")).status, 401);
  });

  test("a session token dies with the key that made it", async () => {
    const person = await outband.person("mortal");
    const key = await outband.api("POST", "/api-keys", { name: "agent", scopes: ["execute"] });
    const { token } = (await outband.api("POST", "/session-tokens", { identifier: person.sub, ttl_s: 600 }, key.body.key)).body;
    assert.equal((await callTool(outband.url, token, "list_my_connections")).status, 200);
    await outband.api("DELETE", `/api-keys/${key.body.id}`);
    assert.equal((await callTool(outband.url, token, "list_my_connections")).status, 401);
  });

  test("a session token asks for no more than it was given: without mcp:write a writing tool is refused", async () => {
    const person = await outband.person("reader");
    const minted = await outband.api("POST", "/session-tokens", { identifier: person.sub, ttl_s: 600, scopes: ["mcp:read"] }, keys.get("execute"));
    const answer = await callTool(outband.url, minted.body.token, "gmail_send_message", { to: ["kim@people.example"], subject: "s", body: "b" });
    assert.equal(answer.status, 403, JSON.stringify(answer.body));
    for (const scopes of [["admin"], ["read"], ["mcp:admin"], []]) {
      assert.equal((await outband.api("POST", "/session-tokens", { identifier: person.sub, ttl_s: 600, scopes }, keys.get("execute"))).status, 400);
    }
  });

  test("the keys of the settings and of the data folder are an administrator's, are in no list and cannot be deleted", async () => {
    const own = (await readFile(join(outband.dataDir, "cli.key"), "utf8")).trim();
    assert.equal((await outband.api("GET", "/users", undefined, own)).status, 200);
    const { data } = (await outband.api("GET", "/api-keys?limit=200")).body;
    for (const { id, hint } of data) assert.deepEqual([/^key_[0-9A-Za-z]{22}$/.test(id), own.startsWith(hint) || ADMIN_KEY.startsWith(hint)], [true, false]);
    const id = `key_fixed_${createHash("sha256").update(own).digest("hex").slice(0, 16)}`;
    assertProblem(await outband.api("DELETE", `/api-keys/${id}`), 404, "not_found");
  });
});

test("the matrix knows every call that there is", () => {
  const nothing = {} as never;
  const rows = [connectionRoutes(nothing), accountRoutes(nothing), toolRoutes(nothing), eventRoutes(nothing), peopleRoutes(nothing)].flat();
  const told = rows.map(({ method, path }) => `${method.toUpperCase()} ${path.replace(/:\w+/, "*")}`);
  assert.deepEqual(told.sort(), PATHS.map(({ method, path }) => `${method} ${path}`).sort());
});
