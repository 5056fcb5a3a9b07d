import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { auth, type OAuthClientProvider, type StoredOAuthClientInformation, type StoredOAuthTokens } from "@modelcontextprotocol/client";
import { createRemoteJWKSet, decodeProtectedHeader, jwtVerify } from "jose";
import { REFRESH_LEEWAY_MS } from "../../src/authorization/adapter.js";
import type { Database } from "../../src/db/client.js";
import type { User } from "../../src/identity/users.js";
import type { Browser } from "../support/browser.js";
import { eachDatabase } from "../support/database.js";
import { openIdentitySite, type IdentitySite } from "../support/identitySite.js";
import { approve, attempt, codeOf, exchange, json, LOOPBACK_REDIRECT, refresh, register, registered, token, tokensFor } from "../support/oauthClient.js";
import { createShiftedClock, type ShiftedClock } from "../support/shiftedClock.js";

const DOCUMENT_CLIENT = "https://client.example/oauth/client.json";

eachDatabase("authorization flow", (open) => {
  let db: Database;
  let clock: ShiftedClock;
  let site: IdentitySite;
  let ann: User;
  let browser: Browser;
  const documents = new Map<string, unknown>();

  before(async () => {
    db = await open();
    clock = createShiftedClock();
    site = await openIdentitySite({ db, clock, documents });
    ann = await site.person("ann");
    browser = await site.signedIn(ann);
    documents.set(DOCUMENT_CLIENT, {
      client_id: DOCUMENT_CLIENT,
      client_name: "Document Client",
      redirect_uris: ["https://client.example/callback"],
      token_endpoint_auth_method: "none",
      grant_types: ["authorization_code", "refresh_token"],
    });
  });
  after(() => site.close());

  test("AS-01, AS-02, AS-03: metadata names our issuer and endpoints, S256 alone, iss, metadata documents, registration", async () => {
    for (const path of ["/.well-known/oauth-authorization-server/oauth", "/oauth/.well-known/openid-configuration", "/.well-known/openid-configuration/oauth"]) {
      const { status, body } = await json(site.origin + path);
      assert.equal(status, 200, path);
      assert.equal(body.issuer, `${site.origin}/oauth`);
      assert.equal(body.authorization_endpoint, `${site.origin}/oauth/authorize`);
      assert.equal(body.token_endpoint, `${site.origin}/oauth/token`);
      assert.equal(body.registration_endpoint, `${site.origin}/oauth/register`);
      assert.equal(body.revocation_endpoint, `${site.origin}/oauth/revoke`);
      assert.equal(body.jwks_uri, `${site.origin}/oauth/jwks`);
      assert.deepEqual(body.code_challenge_methods_supported, ["S256"]);
      assert.deepEqual(body.response_modes_supported, ["query"]);
      assert.equal(body.authorization_response_iss_parameter_supported, true);
      assert.equal(body.client_id_metadata_document_supported, true);
      assert.ok((body.scopes_supported as string[]).includes("mcp:write"));
    }
    const { body } = await json(`${site.origin}/oauth/jwks`);
    const keys = body.keys as Record<string, unknown>[];
    assert.equal(keys.length, 1);
    assert.deepEqual([keys[0]?.kty, keys[0]?.alg, keys[0]?.kid, keys[0]?.d], ["EC", "ES256", site.keys.current().kid, undefined]);
  });

  test("register, sign in, agree, redeem, call, refresh: tokens are JWTs of ten minutes for one endpoint", async () => {
    const client = await registered(site.origin);
    const fresh = site.browser();
    const request = attempt(site.origin, client);
    const toLogin = await fresh.follow(await fresh.get(request.url));
    assert.equal(toLogin.url, `${site.origin}/login`);
    // The form leads on to the client: its page must let the browser go there.
    assert.match(toLogin.headers.get("content-security-policy") ?? "", /form-action 'self' http:\/\/127\.0\.0\.1:33418;/);
    const consent = await fresh.follow(await site.signIn(fresh, ann));
    assert.match(consent.url, /\/oauth\/interaction\//);
    const done = await approve(fresh, request);
    assert.ok(done.location?.startsWith(LOOPBACK_REDIRECT));
    const back = new URL(done.location ?? "").searchParams;
    assert.equal(back.get("iss"), `${site.origin}/oauth`);
    assert.equal(back.get("state"), request.state);

    const { status, body, headers } = await exchange(site.origin, client, request, codeOf(done));
    assert.equal(status, 200);
    assert.match(headers.get("cache-control") ?? "", /no-store/);
    assert.equal(body.token_type, "Bearer");
    assert.equal(body.expires_in, 600);
    assert.equal(body.scope, "mcp:read mcp:write");
    const access = String(body.access_token);
    assert.equal(decodeProtectedHeader(access).typ, "at+jwt");
    // As any resource server would: by the published keys.
    const jwks = createRemoteJWKSet(new URL(`${site.origin}/oauth/jwks`));
    const { payload } = await jwtVerify(access, jwks, { issuer: `${site.origin}/oauth`, audience: `${site.origin}/mcp` });
    assert.equal(payload.sub, ann.sub);
    assert.equal((payload.exp ?? 0) - (payload.iat ?? 0), 600);

    const who = await site.mcp(access);
    assert.equal(who.status, 200);
    assert.deepEqual([who.body.sub, who.body.clientId, who.body.clientName], [ann.sub, client.id, "Test Client"]);
    const renewed = await refresh(site.origin, client, String(body.refresh_token));
    assert.equal(renewed.status, 200);
    assert.notEqual(renewed.body.refresh_token, body.refresh_token);
    assert.equal((await site.mcp(String(renewed.body.access_token))).status, 200);
  });

  test("the official client finds, registers, signs in and refreshes by itself", async () => {
    const saved: { client?: StoredOAuthClientInformation; tokens?: StoredOAuthTokens; verifier?: string; url?: URL } = {};
    const provider: OAuthClientProvider = {
      redirectUrl: LOOPBACK_REDIRECT,
      clientMetadata: { client_name: "Official", redirect_uris: [LOOPBACK_REDIRECT], grant_types: ["authorization_code", "refresh_token"], response_types: ["code"], token_endpoint_auth_method: "none" },
      state: () => "state-of-the-client",
      clientInformation: () => saved.client,
      saveClientInformation: (client) => {
        saved.client = client;
      },
      tokens: () => saved.tokens,
      saveTokens: (tokens) => {
        saved.tokens = tokens;
      },
      redirectToAuthorization: (url) => {
        saved.url = url;
      },
      saveCodeVerifier: (verifier) => {
        saved.verifier = verifier;
      },
      codeVerifier: () => saved.verifier ?? "",
    };
    const serverUrl = `${site.origin}/mcp`;
    assert.equal(await auth(provider, { serverUrl }), "REDIRECT");
    assert.equal(saved.url?.searchParams.get("resource"), serverUrl);
    const done = await approve(browser, { url: saved.url?.href ?? "", verifier: "", state: "" });
    const back = new URL(done.location ?? "").searchParams;
    assert.equal(await auth(provider, { serverUrl, authorizationCode: back.get("code") ?? "", iss: back.get("iss") ?? "" }), "AUTHORIZED");
    const first = saved.tokens;
    assert.equal((await site.mcp(first?.access_token ?? "")).status, 200);
    assert.equal(await auth(provider, { serverUrl }), "AUTHORIZED");
    assert.notEqual(saved.tokens?.refresh_token, first?.refresh_token);
    assert.equal((await site.mcp(saved.tokens?.access_token ?? "")).status, 200);
  });

  test("a code redeemed five times at once gives one answer, and its later replay ends the grant", async () => {
    const client = await registered(site.origin);
    const request = attempt(site.origin, client);
    const code = codeOf(await approve(browser, request));
    const answers = await Promise.all([1, 2, 3, 4, 5].map(() => exchange(site.origin, client, request, code)));
    const won = answers.filter(({ status }) => status === 200);
    assert.equal(won.length, 1);
    for (const { status, body } of answers.filter(({ status }) => status !== 200)) assert.deepEqual([status, body.error], [400, "invalid_grant"]);
    assert.equal((await exchange(site.origin, client, request, code)).body.error, "invalid_grant");
    // RFC 6749, section 4.1.2: what the code gave is taken back.
    assert.equal((await site.mcp(String(won[0]?.body.access_token))).body.reason, "grant");
    assert.equal((await refresh(site.origin, client, String(won[0]?.body.refresh_token))).body.error, "invalid_grant");
  });

  test("parallel refreshes within the leeway all live on; the token used again later ends the family", async () => {
    const client = await registered(site.origin);
    const first = await tokensFor(site.origin, browser, client);
    const answers = await Promise.all([1, 2, 3, 4].map(() => refresh(site.origin, client, first.refresh)));
    assert.deepEqual(answers.map(({ status }) => status), [200, 200, 200, 200]);
    for (const { body } of answers) assert.equal((await site.mcp(String(body.access_token))).status, 200);
    clock.advance(REFRESH_LEEWAY_MS + 1);
    assert.equal((await refresh(site.origin, client, first.refresh)).body.error, "invalid_grant");
    for (const { body } of answers) {
      assert.equal((await site.mcp(String(body.access_token))).body.reason, "grant");
      assert.equal((await refresh(site.origin, client, String(body.refresh_token))).body.error, "invalid_grant");
    }
  });

  test("a revoked grant is refused at the next call; nobody revokes another client's", async () => {
    const [client, other] = [await registered(site.origin), await registered(site.origin)];
    const tokens = await tokensFor(site.origin, browser, client);
    const revoke = (id: string, value: string) => json(`${site.origin}/oauth/revoke`, { method: "POST", body: new URLSearchParams({ client_id: id, token: value }) });
    await revoke(other.id, tokens.refresh);
    assert.equal((await site.mcp(tokens.access)).status, 200);
    assert.equal((await revoke(client.id, tokens.refresh)).status, 200);
    assert.deepEqual(await site.mcp(tokens.access), { status: 401, body: { code: "unauthorized", reason: "grant" } });
    assert.equal((await refresh(site.origin, client, tokens.refresh)).body.error, "invalid_grant");
  });

  test("what one client got is worthless to another", async () => {
    const [client, other] = [await registered(site.origin), await registered(site.origin)];
    const request = attempt(site.origin, client);
    const code = codeOf(await approve(browser, request));
    assert.equal((await exchange(site.origin, other, request, code)).body.error, "invalid_grant");
    assert.equal((await exchange(site.origin, client, request, code, { code_verifier: "wrong".padEnd(43, "x") })).body.error, "invalid_grant");
    assert.equal((await exchange(site.origin, client, request, code, { redirect_uri: "http://127.0.0.1:33418/other" })).body.error, "invalid_grant");
    const answer = await exchange(site.origin, client, request, code);
    assert.equal(answer.status, 200);
    assert.equal((await refresh(site.origin, other, String(answer.body.refresh_token))).body.error, "invalid_grant");
    assert.equal((await token(site.origin, { grant_type: "client_credentials", client_id: client.id })).body.error, "unsupported_grant_type");
  });

  test("a token is for the endpoint it was asked for, and for none that is not ours", async () => {
    const client = await registered(site.origin);
    const meta = await tokensFor(site.origin, browser, client, { resource: `${site.origin}/mcp/meta` });
    assert.equal((await site.mcp(meta.access, "/mcp/meta")).status, 200);
    assert.equal((await site.mcp(meta.access)).status, 401);
    // No resource asked for: the default. A slash at the end is forgiven.
    for (const resource of [null, `${site.origin}/mcp/`]) {
      const tokens = await tokensFor(site.origin, browser, client, { resource });
      assert.equal((await site.mcp(tokens.access)).status, 200);
    }
    for (const resource of ["https://elsewhere.test/mcp", `${site.origin}/api`, site.origin, "not a url"]) {
      const page = await browser.get(attempt(site.origin, client, { resource }).url);
      assert.equal(new URL(page.location ?? "").searchParams.get("error"), "invalid_target", resource);
    }
    const moved = await refresh(site.origin, client, meta.refresh, { resource: `${site.origin}/mcp` });
    assert.equal(moved.body.error, "invalid_target");
  });

  test("PKCE with S256 is required, the redirect URI must match exactly, and a wrong one is never redirected to", async () => {
    const client = await registered(site.origin, { redirect_uris: ["https://app.example/callback"] });
    const errorOf = async (change: Record<string, string | null>): Promise<string | null> => {
      const page = await browser.get(attempt(site.origin, client, change).url);
      if (page.location === null) return `page ${page.status}`;
      const { searchParams, hash } = new URL(page.location);
      return searchParams.get("error") ?? new URLSearchParams(hash.slice(1)).get("error");
    };
    assert.equal(await errorOf({ code_challenge: null }), "invalid_request");
    assert.equal(await errorOf({ code_challenge_method: "plain" }), "invalid_request");
    assert.equal(await errorOf({ code_challenge_method: null }), "invalid_request");
    assert.equal(await errorOf({ response_type: "token" }), "unsupported_response_type");
    assert.equal(await errorOf({ response_mode: "form_post" }), "page 400");
    for (const redirect of ["https://app.example/callback/", "https://app.example/callback?x=1", "https://app.example.evil.test/callback", "http://app.example/callback", "https://APP.example/callback", "javascript:alert(1)"]) {
      assert.equal(await errorOf({ redirect_uri: redirect }), "page 400", redirect);
    }
    assert.equal(await errorOf({ client_id: "nobody" }), "page 400");
    const page = await browser.get(attempt(site.origin, client, { client_id: "<script>alert(1)</script>" }).url);
    assert.ok(!page.text.includes("<script>"));
    assert.match(page.headers.get("content-security-policy") ?? "", /default-src 'none'/);
  });

  test("a native client's loopback redirect works on any port, its own scheme exactly", async () => {
    const client = await registered(site.origin, { redirect_uris: ["http://127.0.0.1/callback", "cursor://anysphere.cursor-mcp/oauth/callback"] });
    const change = { redirect_uri: "http://127.0.0.1:59999/callback" };
    const request = attempt(site.origin, client, change);
    const done = await approve(browser, request);
    assert.ok(done.location?.startsWith("http://127.0.0.1:59999/callback?"));
    assert.equal((await exchange(site.origin, client, request, codeOf(done), change)).status, 200);
    for (const redirect of ["http://127.0.0.1:59999/other", "http://evil.test:59999/callback", "cursor://anysphere.cursor-mcp/oauth/callback2", "vscode://x"]) {
      assert.equal((await browser.get(attempt(site.origin, client, { redirect_uri: redirect }).url)).status, 400, redirect);
    }
    const scheme = { redirect_uri: "cursor://anysphere.cursor-mcp/oauth/callback" };
    const page = await browser.follow(await browser.get(attempt(site.origin, client, scheme).url));
    assert.match(page.headers.get("content-security-policy") ?? "", /form-action 'self' cursor:;/);
    const agreed = await approve(browser, attempt(site.origin, client, scheme));
    assert.ok(agreed.location?.startsWith("cursor://anysphere.cursor-mcp/oauth/callback?code="));
  });

  test("a disabled or removed person's refresh token gives nothing, and neither does a code of theirs", async () => {
    const dan = await site.person("dan");
    const dans = await site.signedIn(dan);
    const client = await registered(site.origin);
    const tokens = await tokensFor(site.origin, dans, client);
    const request = attempt(site.origin, client);
    const code = codeOf(await approve(dans, request));
    await site.users.update(dan.sub, { role: "disabled" });
    assert.equal((await site.mcp(tokens.access)).status, 401);
    assert.equal((await refresh(site.origin, client, tokens.refresh)).body.error, "invalid_grant");
    assert.equal((await exchange(site.origin, client, request, code)).body.error, "invalid_grant");
    await site.users.update(dan.sub, { role: "user" });
    // What was ended stays ended.
    assert.equal((await refresh(site.origin, client, tokens.refresh)).body.error, "invalid_grant");
  });

  test("a client by its metadata document: the official order, no registration, the document's own redirect alone", async () => {
    const client = { id: DOCUMENT_CLIENT, redirectUri: "https://client.example/callback" };
    const tokens = await tokensFor(site.origin, browser, client);
    assert.equal((await site.mcp(tokens.access)).body.clientId, DOCUMENT_CLIENT);
    assert.equal((await browser.get(attempt(site.origin, client, { redirect_uri: "https://evil.test/callback" }).url)).status, 400);
    for (const id of ["https://nothing.example/client.json", "http://client.example/oauth/client.json", "https://client.example/oauth/../oauth/client.json"]) {
      assert.equal((await browser.get(attempt(site.origin, { ...client, id }).url)).status, 400, id);
    }
    documents.set("https://liar.example/c.json", { client_id: DOCUMENT_CLIENT, client_name: "Liar", redirect_uris: ["https://liar.example/cb"] });
    assert.equal((await browser.get(attempt(site.origin, { id: "https://liar.example/c.json", redirectUri: "https://liar.example/cb" }).url)).status, 400);
  });

  test("no code, token, session or cookie is in the database or the log in clear", async () => {
    const client = await registered(site.origin);
    const request = attempt(site.origin, client);
    const code = codeOf(await approve(browser, request));
    const { body } = await exchange(site.origin, client, request, code);
    const canaries = [code, request.verifier, String(body.access_token), String(body.refresh_token), ...browser.cookies().values()].map((value) => {
      return decodeURIComponent(value).replace(/^s:/, "").split(".")[0] ?? "";
    });
    const rows = await db.prisma.oAuthRecord.findMany();
    const sessions = await db.prisma.browserSession.findMany();
    const text = JSON.stringify([rows, sessions]) + [...rows.map(({ payload }) => payload), ...sessions.map(({ data }) => data)].map((bytes) => Buffer.from(bytes).toString("latin1")).join("\n") + site.lines.join("\n");
    for (const canary of canaries) assert.ok(canary.length > 15 && !text.includes(canary), `a canary of ${canary.length} characters was found`);
  });

  test("expired records and clients that nobody let in are swept; a client with a grant stays", async () => {
    const [unused, used] = [await registered(site.origin), await registered(site.origin)];
    await tokensFor(site.origin, browser, used);
    await site.server.sweep();
    assert.equal((await browser.get(attempt(site.origin, unused).url)).status, 303);
    clock.advance(15 * 86_400_000);
    await site.server.sweep();
    const again = await site.signedIn(ann);
    assert.equal((await again.get(attempt(site.origin, unused).url)).status, 400);
    assert.equal((await again.get(attempt(site.origin, used).url)).status, 303);
    assert.equal(await db.prisma.oAuthRecord.count({ where: { type: { in: ["AuthorizationCode", "Interaction"] }, expiresAt: { lt: clock.date() } } }), 0);
  });

  test("registration answers an odd body with an error of the RFC", async () => {
    for (const redirects of [undefined, [], "https://app.example/cb", [7], [""], ["no uri"], ["https://app.example/cb#x"]]) {
      const { status, body } = await register(site.origin, { redirect_uris: redirects });
      assert.equal(status, 400, JSON.stringify(redirects));
      assert.match(String(body.error), /^invalid_(redirect_uri|client_metadata|request)$/);
    }
    const raw = await json(`${site.origin}/oauth/register`, { method: "POST", headers: { "content-type": "application/json" }, body: "{" });
    assert.equal(raw.status, 400);
  });
});
