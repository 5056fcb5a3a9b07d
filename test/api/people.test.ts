// People and keys over the API: what a change does to who is signed in, and that half of a change is never done.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { createBrowser } from "../support/browser.js";
import { connect } from "../support/journey.js";
import { callTool } from "../support/mcpCall.js";
import { type Outband, PASSWORD, startOutband } from "../support/outband.js";
import { assertProblem } from "./pin.js";

const OTHER_PASSWORD = "another long password";

describe("people over the vault API", () => {
  let outband: Outband;
  const api: Outband["api"] = (...given) => outband.api(...given);

  before(async () => {
    outband = await startOutband({ connections: ["gmail"] });
  });

  async function canSignIn(email: string, password: string): Promise<boolean> {
    const browser = createBrowser(outband.url);
    const done = await browser.post("/login", { email, password }, { from: await browser.get("/login") });
    return done.status === 303;
  }

  const tools = async (token: string) => (await callTool(outband.url, token, "list_my_connections")).status;

  test("a change is done whole or not at all: with a taken address, the password stays too", async () => {
    const [one, two] = [await outband.person("whole"), await outband.person("taken")];
    const change = (body: Record<string, unknown>) => api("PATCH", `/users/${one.sub}`, body);
    assertProblem(await change({ email: two.email.toUpperCase(), password: OTHER_PASSWORD }), 409, "already_exists");
    assertProblem(await change({ email: "not an address", password: OTHER_PASSWORD, name: "New" }), 400, "invalid_request", { paths: ["email"] });
    assertProblem(await change({ name: "New", password: "short" }), 400, "invalid_request", { paths: ["password"] });
    assertProblem(await change({ name: "New", password: one.email }), 400, "invalid_request", { paths: ["password"] });
    assert.deepEqual([await canSignIn(one.email, PASSWORD), await canSignIn(one.email, OTHER_PASSWORD)], [true, false]);
    const { data } = (await api("GET", "/users?limit=200")).body;
    assert.equal(data.find(({ sub }: { sub: string }) => sub === one.sub).name, "whole");
  });

  test("a new password ends the person's browser sessions; it alone opens the door", async () => {
    const person = await outband.person("rekeyed");
    const browser = await person.signIn();
    assert.equal((await browser.get("/connections")).status, 200);
    assert.equal((await api("PATCH", `/users/${person.sub}`, { password: OTHER_PASSWORD })).status, 200);
    assert.equal((await browser.get("/connections")).status, 303);
    assert.deepEqual([await canSignIn(person.email, PASSWORD), await canSignIn(person.email, OTHER_PASSWORD)], [false, true]);
  });

  test("disabled: sessions, tokens, sign-in and new tokens are refused at once", async () => {
    const person = await outband.person("disabled");
    const browser = await person.signIn();
    assert.equal(await tools(person.token), 200);
    assert.equal((await api("PATCH", `/users/${person.sub}`, { role: "disabled" })).body.role, "disabled");
    assert.deepEqual([(await browser.get("/connections")).status, await tools(person.token), await canSignIn(person.email, PASSWORD)], [303, 401, false]);
    assertProblem(await api("POST", "/session-tokens", { identifier: person.sub, ttl_s: 60 }), 422, "unknown_identifier");
    assertProblem(await api("POST", "/authorization-links", { connection_name: "gmail", identifier: person.sub }), 422, "unknown_identifier");
    assert.equal((await api("PATCH", `/users/${person.sub}`, { role: "user" })).status, 200);
    assert.equal(await canSignIn(person.email, PASSWORD), true);
  });

  test("deleted: links void, accounts given back at the provider, sessions and tokens refused; the name is free again and inherits nothing", async () => {
    const person = await outband.person("deleted");
    const browser = await person.signIn();
    const { body: link } = await api("POST", "/authorization-links", { connection_name: "gmail", identifier: person.sub });
    assert.equal((await connect(link.url, browser)).status, 200);
    const { body: open } = await api("POST", "/authorization-links", { connection_name: "gmail", identifier: person.sub, label: "work" });
    outband.provider.resetCounts();
    assert.equal((await api("DELETE", `/users/${person.sub}`)).status, 204);
    assert.equal(outband.provider.count("POST /google/revoke"), 1);
    assert.deepEqual([(await browser.get("/connections")).status, await tools(person.token), await canSignIn(person.email, PASSWORD)], [303, 401, false]);
    for (const path of [`/accounts/${link.account_id}`, `/accounts/${open.account_id}`, `/authorization-links/${open.id}`]) assertProblem(await api("GET", path), 404, "not_found");

    assert.equal((await api("POST", "/users", { sub: person.sub, email: person.email, password: PASSWORD })).status, 201);
    const again = await person.signIn();
    assert.equal((await again.get(open.url)).status, 404);
    assert.deepEqual((await api("GET", `/accounts?identifier=${person.sub}`)).body.data, []);
  });

  test("the last administrator stays one", async () => {
    const { body: admin } = await api("POST", "/users", { email: "root@people.example", password: PASSWORD, role: "admin" });
    for (const role of ["user", "viewer", "disabled"]) assertProblem(await api("PATCH", `/users/${admin.sub}`, { role }), 403, "forbidden", { reason: "last_admin" });
    assertProblem(await api("DELETE", `/users/${admin.sub}`), 403, "forbidden", { reason: "last_admin" });
    assert.equal(await canSignIn(admin.email, PASSWORD), true);
    await api("POST", "/users", { email: "second@people.example", role: "admin" });
    assert.equal((await api("PATCH", `/users/${admin.sub}`, { role: "user" })).status, 200);
  });

  test("addresses: one person each in any letter case, of any script; an invitation leads to a page", async () => {
    assertProblem(await api("POST", "/users", { email: "WHOLE@people.example" }), 409, "already_exists");
    const { body: made } = await api("POST", "/users", { email: "zoë@bücher.example", name: "Zoë" });
    assert.deepEqual([made.email, made.name], ["zoë@bücher.example", "Zoë"]);
    assert.equal((await createBrowser(outband.url).get(made.invitation_url)).status, 200);
    for (const email of ["", "nobody", "a@", "@b", "a b@c.example", "a@b\n.example", `${"x".repeat(250)}@people.example`]) assertProblem(await api("POST", "/users", { email }), 400, "invalid_request", { paths: ["email"] });
    for (const sub of ["", "a b", "é", "a\tb", "x".repeat(256)]) assertProblem(await api("POST", "/users", { sub, email: "new@people.example" }), 400, "invalid_request", { paths: ["sub"] });
    for (const name of ["", "a\u0007", "\u202eabc", "x".repeat(121)]) assertProblem(await api("POST", "/users", { name, email: "new@people.example" }), 400, "invalid_request", { paths: ["name"] });
    for (const role of ["", "Admin", "root", null, ["admin"]]) assertProblem(await api("POST", "/users", { role, email: "new@people.example" }), 400, "invalid_request", { paths: ["role"] });
    assert.equal((await api("POST", "/users", { sub: "whole-again", email: "new@people.example" })).status, 201);
    assertProblem(await api("POST", "/users", { sub: "whole-again", email: "other@people.example" }), 409, "already_exists");
  });

  test("keys that make no sense are refused at once", async () => {
    const make = (more: Record<string, unknown>) => api("POST", "/api-keys", { name: "k", scopes: ["read"], ...more });
    for (const scopes of [[], ["root"], ["READ"], "read", ["read", ""]]) assert.equal((await make({ scopes })).status, 400, JSON.stringify(scopes));
    for (const name of ["", " ", "a\u0000", "\u202e"]) assertProblem(await make({ name }), 400, "invalid_request");
    for (const expires_at of ["2001-01-01T00:00:00Z", "tomorrow", 1, "2099-01-01", "9999-12-31T23:59:59Z"]) assertProblem(await make({ expires_at }), 400, "invalid_request", { paths: ["expires_at"] });
    assertProblem(await make({ return_to_origins: Array(21).fill("https://app.example") }), 400, "invalid_request", { paths: ["return_to_origins"] });
  });
});
