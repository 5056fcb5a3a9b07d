// The practice Google's authorization endpoint and pages: what it lets through, and what it never does.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import * as client from "openid-client";
import type { Sandbox } from "../../../src/sandbox/sandbox.js";
import { authorizeAs, formsOf } from "../../support/awkwardPerson.js";
import { beginGoogle, googleClient, googleUrl, grantGoogle, openSandboxForTests, PUBLIC_URL, READONLY, SEND } from "../support.js";

let sandbox: Sandbox;
before(async () => {
  sandbox = await openSandboxForTests();
});

for (const auth of ["post", "basic"] as const) {
  test(`openid-client goes the whole way: discovery, PKCE, nonce, iss, id_token, userinfo, refresh, revocation (client_secret_${auth})`, async () => {
    const configuration = await googleClient(sandbox, auth);
    const flow = await beginGoogle(configuration, ["openid", "email", "profile", READONLY]);
    const back = await authorizeAs(flow.url, { person: "Tomás" });
    assert.equal(back.origin + back.pathname, `${PUBLIC_URL}/connect/callback/gmail`);
    assert.equal(back.searchParams.get("iss"), sandbox.google.endpoints.issuer);

    const tokens = await client.authorizationCodeGrant(configuration, back, flow.checks);
    assert.equal(tokens.expiresIn(), 3600);
    assert.equal(tokens.token_type, "bearer");
    assert.equal(tokens.claims()?.email, "tomas.okafor@harbourlight.example");
    const person = await client.fetchUserInfo(configuration, tokens.access_token, tokens.claims()?.sub ?? "");
    assert.equal(person.name, "Tomás Okafor");

    const refreshed = await client.refreshTokenGrant(configuration, tokens.refresh_token ?? "");
    assert.notEqual(refreshed.access_token, tokens.access_token);
    assert.equal(refreshed.refresh_token, undefined, "Google does not rotate");
    await client.refreshTokenGrant(configuration, tokens.refresh_token ?? "");

    await client.tokenRevocation(configuration, refreshed.access_token);
    await assert.rejects(client.refreshTokenGrant(configuration, tokens.refresh_token ?? ""), { error: "invalid_grant" });
    await assert.rejects(client.fetchUserInfo(configuration, tokens.access_token, client.skipSubjectCheck));
  });
}

test("a refresh token comes only with access_type=offline and a consent that was shown", async () => {
  const fresh = await openSandboxForTests();
  const online = await grantGoogle(fresh, [READONLY], { params: { prompt: "consent" } });
  assert.equal(online.refresh_token, undefined);
  const shown = await grantGoogle(fresh, [READONLY], { params: { access_type: "offline", prompt: "consent" } });
  assert.ok(shown.refresh_token);
  const silent = await grantGoogle(fresh, [READONLY], { params: { access_type: "offline" } });
  assert.equal(silent.refresh_token, undefined, "granted before and no prompt=consent: no consent page, no refresh token");
  assert.equal(fresh.counts()["POST /google/consent"], 2);
});

test("an unticked box is not granted, and the rest is", async () => {
  const tokens = await grantGoogle(sandbox, [READONLY, SEND], { untick: [SEND] });
  assert.deepEqual(tokens.scope?.split(" "), ["openid", "https://www.googleapis.com/auth/userinfo.email", READONLY]);
});

test("include_granted_scopes joins what the same person granted before", async () => {
  const fresh = await openSandboxForTests();
  await grantGoogle(fresh, [READONLY]);
  const joined = await grantGoogle(fresh, [SEND], {
    params: { prompt: "consent", access_type: "offline", include_granted_scopes: "true" },
  });
  assert.ok(joined.scope?.includes(READONLY) && joined.scope.includes(SEND));
  const other = await grantGoogle(fresh, [SEND], { person: "Tomás", params: { prompt: "consent", include_granted_scopes: "true" } });
  assert.ok(!other.scope?.includes(READONLY), "never what another person granted");
});

test("Deny goes back with access_denied, state and iss, and without a code", async () => {
  const back = await authorizeAs(googleUrl(sandbox, { prompt: "consent" }), { decision: "deny" });
  assert.equal(back.searchParams.get("error"), "access_denied");
  assert.equal(back.searchParams.get("state"), "state-1");
  assert.equal(back.searchParams.get("iss"), sandbox.google.endpoints.issuer);
  assert.equal(back.searchParams.get("code"), null);
});

test("login_hint chooses the person; prompt=select_account asks all the same", async () => {
  const hinted = await fetch(googleUrl(sandbox, { login_hint: "Tomas.Okafor@harbourlight.example", prompt: "consent" }));
  assert.match(await hinted.text(), /tomas\.okafor@<wbr>harbourlight\.example[\s\S]*Allow/);
  const asked = await fetch(googleUrl(sandbox, { login_hint: "tomas.okafor@harbourlight.example", prompt: "select_account" }));
  assert.match(await asked.text(), /Choose a practice account/);
});

const NOT_OURS = [
  "http://localhost:3000/connect/callback/",
  "http://localhost:3000/connect/callback/gmail/",
  "http://localhost:3000/connect/callback/gmail?x=1",
  "http://localhost:3000/connect/callback/../../evil",
  "http://localhost:3000/connect/callback/%2e%2e",
  "http://localhost:3000@evil.test/connect/callback/gmail",
  "http://localhost:30000/connect/callback/gmail",
  "https://localhost:3000/connect/callback/gmail",
  "http://127.0.0.1:3000/connect/callback/gmail",
  "https://evil.test/connect/callback/gmail",
  "javascript:alert(1)",
  "",
];
for (const redirectUri of NOT_OURS) {
  test(`no redirect to ${redirectUri || "nowhere"}`, async () => {
    const answer = await fetch(googleUrl(sandbox, { redirect_uri: redirectUri }), { redirect: "manual" });
    assert.equal(answer.status, 400);
    assert.equal(answer.headers.get("location"), null);
    assert.match(await answer.text(), /redirect_uri_mismatch/);
  });
}

test("an unknown client gets a page, never a redirect", async () => {
  const answer = await fetch(googleUrl(sandbox, { client_id: "somebody-else" }), { redirect: "manual" });
  assert.equal(answer.status, 401);
  assert.equal(answer.headers.get("location"), null);
});

test("a parameter that comes twice is refused, never chosen from", async () => {
  const answer = await fetch(`${googleUrl(sandbox)}&redirect_uri=https%3A%2F%2Fevil.test`, { redirect: "manual" });
  assert.equal(answer.status, 400);
  assert.equal(answer.headers.get("location"), null);
});

const REFUSED: [string, Record<string, string | null>, string][] = [
  ["no PKCE", { code_challenge: null, code_challenge_method: null }, "invalid_request"],
  ["PKCE plain", { code_challenge_method: "plain" }, "invalid_request"],
  ["a malformed challenge", { code_challenge: "short" }, "invalid_request"],
  ["an unknown scope", { scope: "openid https://www.googleapis.com/auth/everything" }, "invalid_scope"],
  ["no scope", { scope: null }, "invalid_request"],
  ["the implicit flow", { response_type: "token" }, "unsupported_response_type"],
  ["prompt=none", { prompt: "none" }, "login_required"],
];
for (const [what, change, error] of REFUSED) {
  test(`${what} goes back with ${error}, state and iss`, async () => {
    const answer = await fetch(googleUrl(sandbox, change), { redirect: "manual" });
    const back = new URL(answer.headers.get("location") ?? "");
    assert.equal(back.searchParams.get("error"), error);
    assert.equal(back.searchParams.get("state"), "state-1");
    assert.equal(back.searchParams.get("iss"), sandbox.google.endpoints.issuer);
    assert.equal(back.searchParams.get("code"), null);
  });
}

test("a consent form answered twice gives one code", async () => {
  const page = await (await fetch(googleUrl(sandbox, { login_hint: "mara.lindqvist@harbourlight.example", prompt: "consent" }))).text();
  const form = formsOf(page).find((one) => one.action === "/google/consent");
  const body = new URLSearchParams([...(form?.fields ?? []), ["decision", "allow"], ["scope", READONLY]]);
  const send = () => fetch(`${sandbox.origin}/google/consent`, { method: "POST", body, redirect: "manual" });
  const first = await send();
  assert.ok(new URL(first.headers.get("location") ?? "").searchParams.get("code"));
  const second = await send();
  assert.equal(second.status, 400);
  assert.equal(second.headers.get("location"), null);
});

test("a made-up request id, a scope that was not asked and a person who is not there grant nothing", async () => {
  const post = (path: string, body: Record<string, string>) =>
    fetch(`${sandbox.origin}${path}`, { method: "POST", body: new URLSearchParams(body), redirect: "manual" });
  assert.equal((await post("/google/consent", { request: "made-up", decision: "allow" })).status, 400);

  const chooser = formsOf(await (await fetch(googleUrl(sandbox, { prompt: "consent" }))).text())[0];
  const request = chooser?.fields[0]?.[1] ?? "";
  assert.match(await (await post("/google/consent", { request, decision: "allow", scope: READONLY })).text(), /Choose a practice account/);
  assert.match(await (await post("/google/account", { request, person: "1" })).text(), /Choose a practice account/);
  await post("/google/account", { request, person: "104417725539301846207" });
  const answer = await post("/google/consent", { request, decision: "allow", scope: SEND });
  assert.equal(new URL(answer.headers.get("location") ?? "").searchParams.get("scope"), "openid");
});
