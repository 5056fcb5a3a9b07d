// OAuth as it goes over the wire: what the person is sent with, what the code is exchanged with, whose account it is, and how a
// grant is given back (F02, F03, F07; RFC 6749, 7009, 7636, 9207; OpenID Connect Core).
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { type TestContext, test } from "node:test";
import { systemClock } from "../../../src/clock.js";
import type { Connector, Endpoints } from "../../../src/connectors/connector.js";
import { shapeOAuth } from "../../../src/connectors/generic/oauth.js";
import { gmail } from "../../../src/connectors/gmail/connector.js";
import { createOAuthClient, type OAuthTarget } from "../../../src/connectors/methods/oauth.js";
import { slack } from "../../../src/connectors/slack/connector.js";
import { Secret } from "../../../src/crypto/secret.js";
import { createEgress } from "../../../src/net/egress.js";
import { type Answer, type Provider, type Received, startProvider } from "../support.js";

const REDIRECT = "https://gw.test/connect/callback/x";
const oauth = createOAuthClient({ egress: createEgress({ allowPrivateNetwork: true, clock: systemClock }), clock: systemClock });
const flow = { state: new Secret("state-1"), nonce: new Secret("nonce-1"), verifier: new Secret("verifier-".padEnd(43, "x")) };

function targetAt(origin: string, connector: Connector, endpoints: Endpoints = {}): OAuthTarget {
  return {
    connector,
    endpoints: {
      issuer: origin,
      authorization: `${origin}/authorize`,
      token: `${origin}/token`,
      revocation: `${origin}/revoke`,
      userinfo: `${origin}/userinfo`,
      api: `${origin}/api`,
      ...endpoints,
    },
    clientId: "client-1",
    clientSecret: new Secret("secret + / ="),
  };
}

const generic = shapeOAuth({}, { endpoints: {}, scopes: [] });

function callback(query: string): { url: URL; redirectUri: string } & typeof flow {
  return { url: new URL(`http://127.0.0.1:3000/connect/callback/x?${query}`), redirectUri: REDIRECT, ...flow };
}

function idToken(claims: Record<string, unknown>): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const now = Math.floor(Date.now() / 1000);
  return `${part({ alg: "RS256" })}.${part({ aud: "client-1", iat: now, exp: now + 60, nonce: "nonce-1", sub: "g-1", ...claims })}.${"s".repeat(86)}`;
}

async function providerWith(t: TestContext, answers: Record<string, Answer | ((received: Received) => Answer)>): Promise<Provider> {
  return startProvider(t, (received) => {
    const found = answers[received.path];
    return typeof found === "function" ? found(received) : (found ?? { status: 404, text: "no" });
  });
}

const TOKEN = { access_token: "at-1", token_type: "Bearer", expires_in: 3600, refresh_token: "rt-1" };

test("F03, F07: Google is asked for offline access and its consent page, with PKCE S256, a nonce and the account to choose", async () => {
  const target = targetAt("https://g.test", gmail, gmail.endpoints);
  const url = await oauth.authorizationUrl(target, {
    redirectUri: REDIRECT,
    ...flow,
    scopes: ["https://www.googleapis.com/auth/gmail.readonly"],
    loginHint: "ann@x.test",
  });
  assert.equal(url.origin + url.pathname, "https://accounts.google.com/o/oauth2/v2/auth");
  assert.deepEqual(Object.fromEntries(url.searchParams), {
    access_type: "offline",
    prompt: "consent",
    redirect_uri: REDIRECT,
    state: "state-1",
    scope: "openid email https://www.googleapis.com/auth/gmail.readonly",
    nonce: "nonce-1",
    login_hint: "ann@x.test",
    code_challenge: createHash("sha256").update(flow.verifier.reveal()).digest("base64url"),
    code_challenge_method: "S256",
    client_id: "client-1",
    response_type: "code",
  });
});

test("Slack is asked for user scopes, comma separated, without PKCE: posting is done as the person", async () => {
  const url = await oauth.authorizationUrl(targetAt("https://s.test", slack, slack.endpoints), {
    redirectUri: REDIRECT,
    ...flow,
    scopes: ["channels:read", "chat:write"],
    loginHint: "a@x.test",
  });
  assert.deepEqual(Object.fromEntries(url.searchParams), {
    redirect_uri: REDIRECT,
    state: "state-1",
    user_scope: "channels:read,chat:write",
    client_id: "client-1",
    response_type: "code",
  });
});

test("F02: client_secret_post puts id and secret into the body of exchange and refresh, and sends no Authorization", async (t) => {
  const provider = await providerWith(t, { "/token": { body: TOKEN } });
  const target = targetAt(provider.origin, generic);
  await oauth.exchange(target, callback("state=state-1&code=c-1"));
  await oauth.refresh(target, new Secret("rt-1"));
  const [exchange, refresh] = provider.to("/token");
  assert.deepEqual(Object.fromEntries(exchange?.form ?? []), {
    grant_type: "authorization_code",
    code: "c-1",
    redirect_uri: REDIRECT,
    code_verifier: flow.verifier.reveal(),
    client_id: "client-1",
    client_secret: "secret + / =",
  });
  assert.deepEqual(Object.fromEntries(refresh?.form ?? []), {
    grant_type: "refresh_token",
    refresh_token: "rt-1",
    client_id: "client-1",
    client_secret: "secret + / =",
  });
  for (const received of [exchange, refresh]) assert.equal(received?.headers.authorization, undefined);
});

test("client_secret_basic puts them into the header, `none` sends no secret at all", async (t) => {
  const provider = await providerWith(t, { "/token": { body: TOKEN } });
  await oauth.refresh(
    targetAt(provider.origin, shapeOAuth({ token_auth: "client_secret_basic" }, { endpoints: {}, scopes: [] })),
    new Secret("rt"),
  );
  await oauth.refresh(targetAt(provider.origin, shapeOAuth({ token_auth: "none" }, { endpoints: {}, scopes: [] })), new Secret("rt"));
  const [basic, none] = provider.to("/token");
  assert.match(basic?.headers.authorization ?? "", /^Basic /);
  assert.equal(basic?.form.has("client_secret"), false);
  assert.equal(none?.headers.authorization, undefined);
  assert.deepEqual([none?.form.get("client_id"), none?.form.has("client_secret")], ["client-1", false]);
});

test("RFC 9207: an answer of another issuer is refused, and its code is not sent", async (t) => {
  const provider = await providerWith(t, { "/token": { body: TOKEN } });
  const target = targetAt(provider.origin, generic);
  const refused = { kind: "iss_mismatch" };
  await assert.rejects(oauth.exchange(target, callback("state=state-1&code=c&iss=https://evil.test")), refused);
  await assert.rejects(
    oauth.exchange(target, callback(`state=state-1&code=c&iss=${provider.origin}/`)),
    refused,
    "compared as written, not as a URL",
  );
  const noIssuer = { ...target, endpoints: { ...target.endpoints, issuer: undefined } as Endpoints };
  await assert.rejects(
    oauth.exchange(noIssuer, callback("state=state-1&code=c&iss=https://evil.test")),
    refused,
    "with no issuer written down, the origin we sent the person to counts",
  );
  assert.equal(provider.to("/token").length, 0);

  await oauth.exchange(target, callback(`state=state-1&code=c&iss=${provider.origin}`));
  await oauth.exchange(noIssuer, callback(`state=state-1&code=c&iss=${provider.origin}/realms/a`));
  await oauth.exchange(target, callback("state=state-1&code=c"));
  assert.equal(provider.to("/token").length, 3);
});

test("a callback with another state, without a code, or with a doubled parameter sends nothing", async (t) => {
  const provider = await providerWith(t, { "/token": { body: TOKEN } });
  const target = targetAt(provider.origin, generic);
  for (const [query, reason] of [
    ["state=other&code=c", "state_mismatch"],
    ["code=c", "state_mismatch"],
    ["state=state-1", "no_code"],
    ["state=state-1&code=", "no_code"],
    ["state=state-1&code=c&code=d", "doubled_parameter"],
    ["state=state-1&state=state-1&code=c", "doubled_parameter"],
  ] as const) {
    await assert.rejects(oauth.exchange(target, callback(query)), { kind: "malformed", reason }, query);
  }
  assert.equal(provider.received.length, 0);
});

test("OpenID: an id_token of another nonce, audience or issuer, or none at all, is refused; a right one names the person", async (t) => {
  let claims: Record<string, unknown> | null = null;
  const provider: Provider = await providerWith(t, {
    "/token": () => ({ body: { ...TOKEN, ...(claims ? { id_token: idToken({ iss: provider.origin, ...claims }) } : {}) } }),
  });
  const target = targetAt(provider.origin, gmail);
  for (const wrong of [null, { nonce: "other" }, { nonce: undefined }, { aud: "other" }, { iss: "https://evil.test" }, { exp: 1 }]) {
    claims = wrong;
    await assert.rejects(
      oauth.exchange(target, callback("state=state-1&code=c")),
      { kind: "malformed", maybeConsumed: true },
      JSON.stringify(wrong),
    );
  }
  claims = { email: "ann@x.test" };
  const answer = await oauth.exchange(target, callback("state=state-1&code=c"));
  assert.deepEqual(answer.subject, { id: "g-1", email: "ann@x.test", name: null });
  assert.equal(answer.expiresInS, 3600, "F02: the access token's life, not the id_token's");
});

test("an id_token of a refresh is not read: one that does not check must not cost the rotated refresh token", async (t) => {
  const provider = await providerWith(t, { "/token": { body: { ...TOKEN, refresh_token: "rt-2", id_token: "not.a.token" } } });
  const answer = await oauth.refresh(targetAt(provider.origin, gmail), new Secret("rt-1"));
  assert.deepEqual([answer.access.reveal(), answer.refresh?.reveal(), answer.subject], ["at-1", "rt-2", null]);
});

test("granted scopes come from the answer; an answer without them means as asked for (RFC 6749 section 5.1)", async (t) => {
  let scope: unknown;
  const provider = await providerWith(t, { "/token": () => ({ body: { ...TOKEN, ...(scope === undefined ? {} : { scope }) } }) });
  const target = targetAt(provider.origin, generic);
  const granted = async (given: unknown) => {
    scope = given;
    return (await oauth.refresh(target, new Secret("rt"))).scopes;
  };
  assert.equal(await granted(undefined), null);
  assert.deepEqual(await granted("a b a"), ["a", "b"]);
  assert.deepEqual(await granted("repo,user:email"), ["repo", "user:email"]);
  assert.deepEqual(await granted(["a", "b"]), ["a", "b"]);
  assert.deepEqual(await granted(""), []);
  assert.equal(await granted(null), null);
});

test("F02, F03: odd but usable token answers are used: no expiry, no refresh token, numbers as text, odd token types", async (t) => {
  let body: Record<string, unknown> = {};
  const provider = await providerWith(t, { "/token": () => ({ body }) });
  const target = targetAt(provider.origin, generic);
  const read = async (given: Record<string, unknown>) => {
    body = { access_token: "at", token_type: "bearer", ...given };
    const answer = await oauth.refresh(target, new Secret("rt"));
    return [answer.refresh?.reveal() ?? null, answer.expiresInS];
  };
  assert.deepEqual(await read({}), [null, null]);
  assert.deepEqual(await read({ refresh_token: null, expires_in: null }), [null, null]);
  assert.deepEqual(await read({ refresh_token: "", expires_in: 0 }), [null, null]);
  assert.deepEqual(await read({ expires_in: "3599" }), [null, 3599]);
  assert.deepEqual(await read({ expires_in: -1 }), [null, null]);
  assert.deepEqual(await read({ expires_in: "never" }), [null, null]);
  assert.deepEqual(await read({ token_type: "bot", refresh_token: "r" }), ["r", null]);
  assert.deepEqual(await read({ token_type: undefined }), [null, null]);
});

test("F02: Slack's user token, nested in authed_user, is the token; rotation on and off both work", async (t) => {
  let body: Record<string, unknown> = {};
  const provider = await providerWith(t, { "/token": () => ({ body }) });
  const target = targetAt(provider.origin, slack);
  body = {
    ok: true,
    app_id: "A1",
    team: { id: "T1" },
    authed_user: { id: "U1", scope: "identify,channels:read,chat:write", access_token: "xoxp-1", token_type: "user" },
  };
  const still = await oauth.exchange(target, callback("state=state-1&code=c"));
  assert.deepEqual(
    [still.access.reveal(), still.refresh, still.expiresInS, still.scopes],
    ["xoxp-1", null, null, ["channels:read", "chat:write"]],
  );
  assert.equal(provider.to("/token")[0]?.form.has("code_verifier"), false, "PKCE stays off");

  body = {
    ok: true,
    authed_user: {
      id: "U1",
      scope: "channels:read",
      access_token: "xoxe.xoxp-1",
      token_type: "user",
      refresh_token: "xoxe-1",
      expires_in: 43_200,
    },
  };
  const rotating = await oauth.exchange(target, callback("state=state-1&code=c"));
  assert.deepEqual([rotating.access.reveal(), rotating.refresh?.reveal(), rotating.expiresInS], ["xoxe.xoxp-1", "xoxe-1", 43_200]);

  body = {
    ok: true,
    access_token: "xoxe.xoxp-2",
    token_type: "user",
    scope: "channels:read",
    refresh_token: "xoxe-2",
    expires_in: 43_200,
    authed_user: { id: "U1" },
  };
  const refreshed = await oauth.refresh(target, new Secret("xoxe-1"));
  assert.deepEqual([refreshed.access.reveal(), refreshed.refresh?.reveal(), refreshed.tokenType], ["xoxe.xoxp-2", "xoxe-2", "bearer"]);

  body = { ok: false, error: "invalid_code" };
  await assert.rejects(oauth.exchange(target, callback("state=state-1&code=c")), { kind: "invalid_grant", reason: "invalid_code" });
});

test("whose account: userinfo, never of somebody else than the id_token says, and the id_token alone when userinfo is down", async (t) => {
  let userinfo: Answer = {};
  const provider = await providerWith(t, { "/userinfo": () => userinfo });
  const target = targetAt(provider.origin, gmail);
  const subject = { id: "g-1", email: null, name: null };
  userinfo = { body: { sub: "g-1", email: "ann@x.test", name: "Ann" } };
  assert.deepEqual(await oauth.identify(target, new Secret("at"), { subject }), { id: "g-1", email: "ann@x.test", name: "Ann" });
  assert.equal(provider.to("/userinfo")[0]?.headers.authorization, "Bearer at");
  userinfo = { body: { sub: "g-2", email: "eve@x.test" } };
  await assert.rejects(oauth.identify(target, new Secret("at"), { subject }), { kind: "malformed", reason: "subject_mismatch" });
  userinfo = { status: 503, text: "down" };
  assert.deepEqual(await oauth.identify(target, new Secret("at"), { subject }), subject);
  await assert.rejects(oauth.identify(target, new Secret("at")), { kind: "transient", reason: "status_503" });
});

test("whose account: Slack's auth.test gives workspace and user, a refusal gives none", async (t) => {
  let answer: Record<string, unknown> = { ok: true, user_id: "U1", user: "ann", team_id: "T1", team: "Acme" };
  const provider = await providerWith(t, { "/api/auth.test": () => ({ body: answer }) });
  const target = targetAt(provider.origin, slack);
  assert.deepEqual(await oauth.identify(target, new Secret("xoxp")), { id: "T1:U1", email: null, name: "ann at Acme" });
  answer = { ok: false, error: "invalid_auth" };
  await assert.rejects(oauth.identify(target, new Secret("xoxp")), { kind: "malformed", reason: "no_identity" });
});

test("whose account: a generic connection's declared path, by own members only", async (t) => {
  const provider = await providerWith(t, { "/api/v1/me": { body: { data: { user: { id: 42, mail: "a@x.test" } } } } });
  const shape = (id: string) => shapeOAuth({ identity: { path: "/v1/me", id, email: "data.user.mail" } }, { endpoints: {}, scopes: [] });
  assert.deepEqual(await oauth.identify(targetAt(provider.origin, shape("data.user.id")), new Secret("at")), {
    id: "42",
    email: "a@x.test",
    name: null,
  });
  await assert.rejects(oauth.identify(targetAt(provider.origin, shape("constructor.name")), new Secret("at")), { reason: "no_identity" });
  assert.equal(await oauth.identify(targetAt(provider.origin, generic), new Secret("at")), null, "nothing declared, nothing asked");
});

test("revoking: the refresh token, once, with client authentication; a token the provider no longer knows is done (RFC 7009)", async (t) => {
  let answer: Answer = { text: "" };
  const provider = await providerWith(t, { "/revoke": () => answer });
  const target = targetAt(provider.origin, gmail);
  const tokens = { access: new Secret("at"), refresh: new Secret("rt") };
  assert.equal(await oauth.revoke(target, tokens), "done");
  assert.deepEqual(
    provider.to("/revoke").map((one) => [one.form.get("token"), one.form.get("client_id")]),
    [["rt", "client-1"]],
  );
  answer = { status: 400, body: { error: "invalid_token" } };
  assert.equal(await oauth.revoke(target, tokens), "done");
  answer = { status: 400, body: { error: "invalid_request" } };
  assert.equal(await oauth.revoke(target, tokens), "failed");
  answer = { status: 503, text: "" };
  assert.equal(await oauth.revoke(target, tokens), "failed");
  answer = { cut: true };
  assert.equal(await oauth.revoke(target, tokens), "failed");
  answer = { text: "" };
  assert.equal(await oauth.revoke(target, { access: new Secret("at-only"), refresh: null }), "done");
  assert.equal(provider.to("/revoke").at(-1)?.form.get("token"), "at-only");
});

test("revoking at Slack: auth.revoke with the token; one that ran out is refreshed first, so that its refresh token dies too", async (t) => {
  const provider = await providerWith(t, {
    "/token": { body: { ok: true, access_token: "xoxe.xoxp-2", token_type: "user", refresh_token: "xoxe-2", expires_in: 43_200 } },
    "/api/auth.revoke": (received) => ({
      body: received.headers.authorization === "Bearer xoxe.xoxp-1" ? { ok: false, error: "token_expired" } : { ok: true, revoked: true },
    }),
  });
  const target = targetAt(provider.origin, slack);
  assert.equal(await oauth.revoke(target, { access: new Secret("xoxp-9"), refresh: null }), "done");
  assert.equal(
    await oauth.revoke(target, { access: new Secret("xoxe.xoxp-1"), refresh: null }),
    "failed",
    "without a refresh token it cannot be known",
  );
  assert.equal(await oauth.revoke(target, { access: new Secret("xoxe.xoxp-1"), refresh: new Secret("xoxe-1") }), "done");
  assert.equal(provider.to("/api/auth.revoke").at(-1)?.headers.authorization, "Bearer xoxe.xoxp-2");
});

test("discovery: from the issuer alone, asked once, OpenID first and RFC 8414 else; written endpoints win; another issuer's answer is refused", async (t) => {
  let issuer = "";
  const metadata = () => ({
    body: {
      issuer,
      authorization_endpoint: `${issuer}/a`,
      token_endpoint: `${issuer}/t`,
      authorization_response_iss_parameter_supported: true,
    },
  });
  const provider = await providerWith(t, { "/.well-known/oauth-authorization-server": metadata, "/t": { body: TOKEN } });
  issuer = provider.origin;
  const client = createOAuthClient({ egress: createEgress({ allowPrivateNetwork: true, clock: systemClock }), clock: systemClock });
  const target: OAuthTarget = { ...targetAt(provider.origin, generic), endpoints: { issuer: provider.origin } };
  for (const round of [1, 2]) {
    const url = await client.authorizationUrl(target, { redirectUri: REDIRECT, ...flow, scopes: [] });
    assert.equal(url.origin + url.pathname, `${provider.origin}/a`, String(round));
  }
  assert.equal(provider.to("/.well-known/openid-configuration").length, 1);
  assert.equal(provider.to("/.well-known/oauth-authorization-server").length, 1);
  await assert.rejects(
    client.exchange(target, callback("state=state-1&code=c")),
    { kind: "iss_mismatch", reason: "iss_missing" },
    "it says that it sends iss",
  );
  await client.exchange(target, callback(`state=state-1&code=c&iss=${provider.origin}`));
  assert.equal(provider.to("/t").length, 1);

  issuer = "https://evil.test";
  const fresh = createOAuthClient({ egress: createEgress({ allowPrivateNetwork: true, clock: systemClock }), clock: systemClock });
  await assert.rejects(fresh.refresh(target, new Secret("rt")), { kind: "transient", reason: "discovery_failed" });
});

test("a target without endpoints, client id or secret is an operator's matter, and nothing is sent", async (t) => {
  const provider = await providerWith(t, {});
  const target = targetAt(provider.origin, generic);
  await assert.rejects(oauth.refresh({ ...target, clientId: "" }, new Secret("rt")), { kind: "misconfigured", reason: "no_client_id" });
  await assert.rejects(oauth.refresh({ ...target, clientSecret: null }, new Secret("rt")), {
    kind: "misconfigured",
    reason: "no_client_secret",
  });
  await assert.rejects(oauth.refresh({ ...target, endpoints: {} }, new Secret("rt")), { kind: "misconfigured", reason: "no_endpoints" });
  assert.equal(provider.received.length, 0);
});

test("a provider at a private address is refused where the operator allowed none, save at the exempt origin", async (t) => {
  const provider = await providerWith(t, { "/token": { body: TOKEN } });
  const strict = createOAuthClient({ egress: createEgress({ allowPrivateNetwork: [], clock: systemClock }), clock: systemClock });
  const target = targetAt(provider.origin, generic);
  await assert.rejects(strict.refresh(target, new Secret("rt")), { kind: "transient", reason: "refused_address", maybeConsumed: false });
  assert.equal(provider.received.length, 0);
  assert.equal((await strict.refresh({ ...target, exemptOrigin: provider.origin }, new Secret("rt"))).access.reveal(), "at-1");
});
