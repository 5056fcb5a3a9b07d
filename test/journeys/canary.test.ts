// A whole journey, mishaps included, and then every secret of it looked for where it must not be: log, output, answers,
// what providers are asked, audit, events, every table, every file. Each way of looking must find what was planted for it.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { before, describe, test } from "node:test";
import { type Browser, createBrowser, formAction } from "../support/browser.js";
import { IN_ANSWERS, IN_PROVIDER_REQUESTS, judge } from "../support/carriers.js";
import { type EchoingApi, startEchoingApi } from "../support/echoingApi.js";
import { connect, consent, KINDS, retryOf } from "../support/journey.js";
import { callTool, linkOf, mcp, outcomeOf } from "../support/mcpCall.js";
import { type Secret, needlesOf, printableIn, searcherFor } from "../support/needles.js";
import { approve, attempt, codeOf, exchange, json, LOOPBACK_REDIRECT, refresh, register, type TestClient } from "../support/oauthClient.js";
import { ADMIN_KEY, type Outband, PASSWORD, type Person, startOutband } from "../support/outband.js";
import { captureOutput, type Output } from "../support/output.js";
import { dumpTables, type Place, readFiles, withoutTable } from "../support/rawDatabase.js";
import { HARVESTED, secretsOf } from "../support/secretsOf.js";
import { type Exchange, recordWire, type Wire } from "../support/wire.js";

const key = (prefix: string): string => prefix + randomBytes(24).toString("base64url");

for (const kind of KINDS) {
  describe(`no secret outside its place (${kind})`, () => {
    const planted: Secret = { kind: "planted", value: `planted-${randomBytes(9).toString("hex")}` };
    const master = randomBytes(32).toString("base64");
    /** What the journey types or is set up with; the rest is read off the wire. */
    const typed: Secret[] = [
      { kind: "master key", value: master },
      { kind: "admin key", value: ADMIN_KEY },
      { kind: "password", value: PASSWORD },
      { kind: "password of the set-up", value: "seven herons on a fence" },
      { kind: "password of the invitation", value: "nine lemons in a drawer" },
      { kind: "new password", value: "four ladders by the lake" },
      { kind: "wrong password", value: "not the horse she meant" },
      { kind: "key in a header", value: key("hk_live_") },
      { kind: "key in a header", value: key("hk_next_") },
      { kind: "key in a query", value: key("qk/live+") },
      { kind: "refused key", value: key("bad_") },
      { kind: "malformed key", value: key("torn_") },
      { kind: "put access token", value: key("ya29.put-") },
    ];
    const typedAs = (name: string, nth = 0): string => typed.filter((secret) => secret.kind === name)[nth]?.value ?? "";

    let outband: Outband;
    let api: EchoingApi;
    let wire: Wire;
    let output: Output;
    let alice: Person;
    let browser: Browser;
    let admin: Browser;
    let client: TestClient;
    let clientSecret: string;
    let access: string;
    const portOf = (origin: string): number => Number(new URL(origin).port);
    const lastOf = (path: RegExp): Exchange | undefined => wire.of(portOf(outband.provider.origin), path).at(-1);
    /** Her first account there. */
    const accountOf = async (connection: string) => (await outband.api("GET", `/accounts?identifier=${alice.sub}&connection_name=${connection}`)).body.data.at(-1);
    /** The bearer that the program used last at the provider's API. */
    const bearer = (path: RegExp): string => lastOf(path)?.request.headers.find(([name]) => name === "authorization")?.[1] ?? "";

    before(async () => {
      wire = recordWire();
      output = captureOutput((text) => text.trim() === planted.value);
      outband = await startOutband({ kind, settings: { MASTER_KEY: master, SETTLE_WAIT_MS: "2000", SETTLE_LEG_MS: "1000" } });
      outband.provider.setPolicy("slack", { accessTtlS: 43_200, rotatesRefreshTokens: true });
      api = await startEchoingApi();
      for (const [name, settings] of [
        ["ledger", { probe: { method: "GET", path: "/v1/me", status: 200 } }],
        ["meter", { api_key: { in: "query", name: "key" }, probe: { method: "GET", path: "/v2/me", status: 200 } }],
      ] as const) {
        const made = await outband.api("POST", "/connections", { name, connector: "generic-api-key", title: name, endpoints: { api: api.origin }, settings });
        assert.equal(made.status, 201, JSON.stringify(made.body));
      }
    });

    test("journey: set-up, invitation, a wrong and a right password, a new one", async () => {
      const setupUrl = outband.app().setupUrl ?? "";
      typed.push({ kind: "set-up token", value: setupUrl.split("/").at(-1) ?? "" });
      admin = createBrowser(outband.url);
      const password = typedAs("password of the set-up");
      const claimed = await admin.post(setupUrl, { email: "root@people.example", password, password_again: password }, { from: await admin.get(setupUrl) });
      assert.equal(claimed.status, 303, claimed.text);

      const invited = await outband.api("POST", "/users", { email: "invited@people.example", role: "viewer" });
      const guest = createBrowser(outband.url);
      const taken = { password: typedAs("password of the invitation"), password_again: typedAs("password of the invitation") };
      const welcome = await guest.get(invited.body.invitation_url);
      assert.equal((await guest.post(invited.body.invitation_url, { ...taken, password_again: "another" }, { from: welcome })).status, 400);
      assert.equal((await guest.post(invited.body.invitation_url, taken, { from: welcome })).status, 303);
      assert.equal((await guest.get(invited.body.invitation_url)).status >= 400, true);

      alice = await outband.person("alice");
      browser = createBrowser(outband.url);
      const login = await browser.get("/login");
      assert.equal((await browser.post("/login", { email: alice.email, password: typedAs("wrong password") }, { from: login })).status, 401);
      await alice.signIn(browser);
      const account = await browser.get("/account");
      const changed = { current: PASSWORD, password: typedAs("new password"), password_again: typedAs("new password") };
      assert.equal((await browser.post("/account/password", { ...changed, current: typedAs("wrong password") }, { from: account })).status, 400);
      assert.equal((await browser.post("/account/password", changed, { from: account })).status, 303);
      assert.equal((await outband.api("PATCH", `/users/${alice.sub}`, { password: PASSWORD })).status, 200);
      browser = await alice.signIn();
    });

    test("journey: an OAuth client registers, gets a code, redeems, refreshes, errs, is denied and revokes", async () => {
      const made = await register(outband.url, { token_endpoint_auth_method: "client_secret_post" });
      assert.equal(made.status, 201, JSON.stringify(made.body));
      client = { id: String(made.body.client_id), redirectUri: LOOPBACK_REDIRECT };
      clientSecret = String(made.body.client_secret);
      const proof = { client_secret: clientSecret };
      const fresh = createBrowser(outband.url);
      const request = attempt(outband.url, client);
      await fresh.follow(await fresh.get(request.url));
      await fresh.follow(await alice.signIn(fresh).then(() => fresh.get(request.url)));
      const code = codeOf(await approve(fresh, request));
      const first = await exchange(outband.url, client, request, code, proof);
      assert.equal(first.status, 200, JSON.stringify(first.body));
      const second = await refresh(outband.url, client, String(first.body.refresh_token), proof);
      assert.equal(second.status, 200, JSON.stringify(second.body));
      access = String(second.body.access_token);

      // On a grant of their own: the mistakes.
      const other = attempt(outband.url, client);
      const otherCode = codeOf(await approve(browser, other));
      assert.equal((await exchange(outband.url, client, { ...other, verifier: request.verifier }, otherCode, proof)).status, 400);
      const third = attempt(outband.url, client);
      const thirdCode = codeOf(await approve(browser, third));
      assert.equal((await exchange(outband.url, client, third, thirdCode, { client_secret: `${clientSecret}x` })).status, 401);
      const tokens = await exchange(outband.url, client, third, thirdCode, proof);
      assert.equal((await exchange(outband.url, client, third, thirdCode, proof)).status, 400);
      assert.equal((await refresh(outband.url, client, String(tokens.body.refresh_token), proof)).status, 400);
      await json(`${outband.url}/oauth/revoke`, { method: "POST", body: new URLSearchParams({ client_id: client.id, ...proof, token: String(tokens.body.refresh_token) }) });
      const denied = await approve(browser, attempt(outband.url, client), { decision: "deny" });
      assert.match(denied.location ?? "", /error=access_denied/);
      const page = await browser.get(attempt(outband.url, client, { redirect_uri: "https://elsewhere.example/callback" }).url);
      assert.equal(page.status, 400);
      await browser.get(attempt(outband.url, client, { response_type: "token" }).url);
      await browser.get(attempt(outband.url, client, { resource: "https://elsewhere.example/mcp" }).url);
      await createBrowser(outband.url).get(`/oauth/interaction/${/oauth\/interaction\/([\w-]+)/.exec(wire.exchanges.map(({ path }) => path).join(" "))?.[1]}`);
    });

    test("journey: Gmail, with a preview, a wrong person, a wrong browser, a lost session and a reload", async () => {
      const asked = await callTool(outband.url, access, "summarize_inbox");
      const link = linkOf(asked);
      const stranger = await (await outband.person("stranger")).signIn();
      assert.equal((await createBrowser(outband.url).get(link)).status, 303);
      const wrong = await stranger.get(link);
      assert.equal(wrong.status, 403);
      const callback = await consent(link, browser);
      assert.equal((await stranger.get(callback)).status, 403);
      assert.equal((await browser.get(callback.replace("/callback/gmail", "/callback/slack"))).status, 400);
      assert.equal((await browser.post(callback, {})).status, 405);
      await fetch(callback.replace("localhost", "127.0.0.1"), { redirect: "manual", headers: { accept: "text/html" } });
      browser.setCookie("outband_session", "gone");
      assert.equal((await browser.get(callback)).location, `${outband.url}/login`);
      const back = await browser.post("/login", { email: alice.email, password: PASSWORD }, { from: await browser.get("/login") });
      assert.equal(back.location, callback);
      const connected = await browser.get(callback);
      assert.match(connected.text, /harbourlight/);
      assert.equal((await browser.get(callback)).status, 200);
      assert.equal((await browser.get(link)).status >= 400, true);
      const digest = await callTool(outband.url, access, "summarize_inbox", {}, retryOf(asked, "accept"));
      assert.equal(digest.body.result.isError, undefined, JSON.stringify(digest.body));
      const left = await stranger.post("/logout", { back: new URL(link).pathname }, { from: wrong });
      assert.equal(left.location, link);
    });

    test("journey: Slack from the connections page, a post, a rename, a reconnect", async () => {
      const page = await browser.get("/connections");
      const started = await browser.post("/connections/connect", { connection_name: "slack", label: "" }, { from: page });
      const done = await connect(started.location ?? "", browser);
      assert.equal(done.status, 200, done.text);
      const posted = await callTool(outband.url, alice.token, "slack_post_message", { channel: "#random", text: `Hello ${planted.value}`, idempotency_key: "once" });
      assert.equal(posted.body.result.isError, undefined, JSON.stringify(posted.body));
      const { id } = await accountOf("slack");
      assert.equal((await browser.post(`/connections/${id}/label`, { label: planted.value }, { from: await browser.get(`/connections/${id}`) })).status, 303);
      assert.equal((await outband.api("PATCH", `/accounts/${(await accountOf("gmail")).id}`, { label: planted.value })).status, 200);
      const again = await browser.post(`/connections/${id}/reconnect`, {}, { from: page });
      assert.equal((await connect(again.location ?? "", browser)).status, 200);
    });

    test("journey: keys of an API, in a header and in a query: malformed, refused, untried, kept, replaced", async () => {
      for (const [connection, good] of [
        ["ledger", typedAs("key in a header")],
        ["meter", typedAs("key in a query")],
      ] as const) {
        api.keys.add(good);
        const link = (await outband.api("POST", "/authorization-links", { connection_name: connection, identifier: alice.sub })).body.url;
        const form = await browser.get(link);
        const type = async (value: string) => (await browser.post(`${link}/key`, { "field.api_key": value }, { from: form })).status;
        assert.equal(await type(`${typedAs("malformed key")}\n${typedAs("malformed key")}`), 422);
        assert.equal(await type(typedAs("refused key")), 422);
        api.next = "break";
        assert.equal(await type(good), 503);
        api.next = "cut";
        assert.equal(await type(good), 503);
        assert.equal(await type(` \ufeff${good} `), 200);
      }
      const { id } = await accountOf("ledger");
      const replaced = (value: string) => outband.api("PUT", `/accounts/${id}/credential`, { credential: { type: "api_key", fields: { api_key: value } } });
      assert.equal((await replaced(typedAs("refused key"))).status >= 400, true);
      assert.equal((await replaced(`${typedAs("malformed key")}\u0007`)).status >= 400, true);
      api.keys.add(typedAs("key in a header", 1));
      assert.equal((await replaced(typedAs("key in a header", 1))).status, 200);
    });

    test("journey: an obk key works, mints a session token, and ends; the API is given what it cannot read", async () => {
      const made = await outband.api("POST", "/api-keys", { name: "back end", scopes: ["read", "execute", "manage"] });
      const { id, key: obk } = made.body;
      const run = await outband.api("POST", "/tools/gmail_list_messages/execute", { identifier: alice.sub, arguments: {} }, obk);
      assert.equal(run.status, 200, JSON.stringify(run.body));
      const minted = await outband.api("POST", "/session-tokens", { identifier: alice.sub, ttl_s: 60 }, obk);
      assert.equal(minted.status, 201);
      assert.equal((await outband.api("POST", "/api-keys", { name: "more", scopes: ["admin"] }, obk)).status, 403);
      const put = (credential: unknown, more = {}) => outband.api("POST", "/accounts", { connection_name: "gmail", identifier: "person-stranger", credential, ...more }, obk);
      const token = typedAs("put access token");
      assert.equal((await put({ type: "oauth", access_token: token, [token]: token })).status, 400);
      assert.equal((await put({ type: token, access_token: token })).status, 400);
      assert.equal((await put({ type: "oauth", access_token: token }, { connection_name: token })).status, 400);
      await put({ type: "oauth", access_token: token });
      const torn = await fetch(`${outband.url}/api/v1/accounts`, { method: "POST", headers: { authorization: `Bearer ${obk}`, "content-type": "application/json" }, body: `{"credential": "${token}` });
      assert.equal(torn.status, 400);
      assert.equal((await outband.api("GET", `/accounts?${obk}=${obk}&cursor=${minted.body.token}`, undefined, obk)).status, 400);
      await outband.api("GET", `/accounts/${obk}`, undefined, obk);
      assert.equal((await outband.api("POST", "/api-keys", { name: "kept", scopes: ["read"] })).status, 201);
      assert.equal((await outband.api("DELETE", `/api-keys/${id}`)).status, 204);
      assert.equal((await outband.api("GET", "/accounts", undefined, obk)).status, 401);
      assert.equal((await callTool(outband.url, minted.body.token, "list_my_connections")).status, 401);
    });

    test("journey: links that an app verifies: the right answer, a wrong code, another person, no answer", async () => {
      const made = await outband.api("POST", "/api-keys", { name: "app", scopes: ["execute"], return_to_origins: ["https://app.example"] });
      const grantTo = async (identifier: string) => {
        const link = await outband.api("POST", "/authorization-links", { connection_name: "gmail", identifier, verification: "app", return_to: "https://app.example/back" }, made.body.key);
        const back = new URL((await connect(link.body.url, createBrowser(outband.url))).location ?? "");
        const code = back.searchParams.get("verification_code") ?? "";
        return (body: Record<string, string>) => outband.api("POST", `/authorization-links/${link.body.id}/verify`, { verification_code: code, identifier, ...body }, made.body.key);
      };
      const [right, other] = [await grantTo("app-person-1"), await grantTo("app-person-2")];
      await grantTo("app-person-3");
      assert.deepEqual([(await right({ verification_code: typedAs("put access token") })).status, (await right({})).status, (await right({})).status], [422, 200, 410]);
      assert.equal((await other({ identifier: "app-person-1" })).status, 422);
    });

    test("journey: providers that say tokens back, in every place an error has", async () => {
      const messages = /gmail\/v1\/users\/\{user\}\/messages$/;
      const call = (tool: string, args = {}) => callTool(outband.url, access, tool, args);
      const token = bearer(/\/messages$/);
      const bare = token.replace("Bearer ", "");
      const parrot = { error: { code: bare, message: token, status: bare, errors: [{ reason: bare, message: token }], details: [{ reason: token }] }, [bare]: token };
      for (const status of [400, 403, 404, 429, 500]) {
        outband.provider.fault({ match: messages, status, headers: { "Retry-After": "9", "WWW-Authenticate": token, "X-Token": bare }, body: parrot });
        const failed = await call("gmail_list_messages");
        assert.equal(failed.body.result.isError, true, JSON.stringify(failed.body));
        assert.equal(outband.provider.faultsLeft(), 0);
      }
      outband.provider.fault({ match: messages, status: 200, headers: { "Content-Type": "text/html" }, body: `<title>${token}</title>` });
      assert.equal((await call("gmail_list_messages")).body.result.isError, true);
      // Refused once: refreshed, and the call goes on.
      outband.provider.fault({ match: messages, status: 401, body: parrot });
      const renewed = await call("gmail_list_messages");
      assert.equal(renewed.body.result.isError, undefined, JSON.stringify(renewed.body));
      assert.notEqual(bearer(/\/messages$/), token);

      await call("slack_list_channels");
      const slackToken = bearer(/conversations\.list/);
      for (const error of [slackToken, "channel_not_found"]) {
        outband.provider.fault({ match: /conversations\.list/, status: 200, body: { ok: false, error, needed: slackToken, provided: slackToken, response_metadata: { messages: [slackToken] } } });
        assert.equal((await call("slack_list_channels")).body.result.isError, true);
      }
      outband.provider.fault({ match: /chat\.postMessage/, status: 500, body: slackToken });
      assert.equal(outcomeOf(await call("slack_post_message", { channel: "#random", text: "Again" })).outcome, "outcome_unknown");
    });

    test("journey: refreshes that work, fail with the refresh token said back, are lost, and end the grant", async () => {
      const { id } = await accountOf("gmail");
      const slack = await accountOf("slack");
      const renew = async (account: string) => {
        const { status, body } = await outband.api("POST", `/accounts/${account}/refresh`);
        assert.equal(outband.provider.faultsLeft(), 0);
        return [status, body.status_reason ?? body.code ?? null];
      };
      assert.deepEqual(await renew(id), [200, null]);
      assert.deepEqual(await renew(slack.id), [200, null]);
      const parrotOf = (token: string, error: string) => ({ error, error_description: `No ${token}`, error_uri: `https://provider.example/?${token}`, [token]: token });
      const faults: ((token: string) => { status: number; body: unknown })[] = [
        (token) => ({ status: 500, body: parrotOf(token, "server_error") }),
        (token) => ({ status: 400, body: parrotOf(token, token) }),
        (token) => ({ status: 200, body: { refresh_token: token } }),
        (token) => ({ status: 200, body: `<p>${token}` }),
      ];
      // Each on an account of its own: after a failed try, an account rests.
      const fresh = async (label: string) => {
        const link = (await outband.api("POST", "/authorization-links", { connection_name: "gmail", identifier: alice.sub, label })).body;
        assert.equal((await connect(link.url, browser)).status, 200);
        return { account: link.account_id, token: JSON.parse(lastOf(/google\/token/)?.answer.body ?? "{}").refresh_token };
      };
      for (const [index, fault] of faults.entries()) {
        const { account, token } = await fresh(`renewed ${index}`);
        outband.provider.fault({ match: "POST /google/token", ...fault(token) });
        assert.deepEqual(await renew(account), [503, "provider_unavailable"]);
      }
      const ended = await fresh("ended");
      outband.provider.fault({ match: "POST /google/token", status: 400, body: parrotOf(ended.token, `invalid_grant: ${ended.token}`) });
      assert.deepEqual(await renew(ended.account), [200, "refresh_rejected"]);
      outband.provider.fault({ match: /oauth\.v2\.access/, status: 200, body: { ok: false, error: "invalid_refresh_token", detail: lastOf(/oauth\.v2\.access/)?.request.body } });
      assert.deepEqual(await renew(slack.id), [200, "refresh_rejected"]);
      const reauth = await callTool(outband.url, access, "gmail_list_messages", { account: "ended" });
      assert.equal(reauth.body.result.resultType, "input_required", JSON.stringify(reauth.body));
      assert.equal((await connect(linkOf(reauth), browser)).status, 200);
    });

    test("journey: an exchange that fails with the code said back, a no in each place, a link that nobody opens", async () => {
      const bob = await outband.person("bob");
      const his = await bob.signIn();
      const ask = () => callTool(outband.url, bob.token, "summarize_inbox");
      const secret = outband.provider.google.clientSecret.reveal();
      let link = linkOf(await ask());
      for (const body of ["invalid_client", "invalid_grant", "server_error"]) {
        const callback = await consent(link, his, { person: "Tomás" });
        const code = new URL(callback).searchParams.get("code") ?? "";
        outband.provider.fault({ match: "POST /google/token", status: body === "server_error" ? 500 : 400, body: { error: body, error_description: `${code} ${secret}`, [code]: secret } });
        const failed = await his.get(callback);
        assert.equal(failed.status >= 400, true, failed.text);
        const retried = /name="link_id" value="([^"]+)"/.exec(failed.text)?.[1];
        link = retried === undefined ? "" : ((await his.post("/connections/retry", { link_id: retried }, { from: failed })).location ?? "");
        if (link === "") link = (await his.post("/connections/connect", { connection_name: "gmail" }, { from: await his.get("/connections") })).location ?? "";
      }
      const denied = new URL(await consent(link, his, { decision: "deny" }));
      denied.searchParams.set("error_description", denied.searchParams.get("state") ?? "");
      denied.searchParams.set("error", denied.searchParams.get("state") ?? "");
      assert.equal((await his.get(denied.href)).status >= 400, true);
      const refused = (await his.post("/connections/connect", { connection_name: "slack" }, { from: await his.get("/connections") })).location ?? "";
      const page = await his.get(refused);
      assert.equal((await his.post(formAction(page.text, `${new URL(refused).pathname}/refuse`), {}, { from: page })).status, 200);
      const asked = await ask();
      assert.equal(asked.body.result.resultType, "input_required", JSON.stringify(asked.body));
      const declined = await callTool(outband.url, bob.token, "summarize_inbox", {}, retryOf(asked, "decline"));
      assert.equal(outcomeOf(declined).outcome, "declined");
      const again = await his.post("/connections/connect", { connection_name: "gmail" }, { from: await his.get("/connections") });
      assert.equal((await connect(again.location ?? "", his, { person: "Tomás" })).status, 200);
    });

    test("journey: error pages, a bearer in the wrong place, a state that was bent", async () => {
      const link = linkOf(await callTool(outband.url, alice.token, "summarize_inbox", { account: "unopened" }));
      assert.equal((await browser.get(`${link}/nothing`)).status, 404);
      assert.equal((await browser.get(`/connect/%E0%A4%A/${new URL(link).pathname}`)).status, 400);
      assert.equal((await browser.post(link, { _csrf: `${browser.cookie("outband_session")}` })).status, 403);
      assert.equal((await browser.get(`${outband.url}/connect/callback/gmail?code=${new URL(link).pathname.slice(-43)}&state=${new URL(link).pathname.slice(-43)}`)).status, 400);
      // A NUL, which PostgreSQL takes in no text: nothing is found there, and that is no error of ours.
      const nul = "nothing\0here";
      const tried: [string, number][] = [];
      for (const path of ["/connections/", "/connect/", "/connect/callback/", "/setup/", "/admin/accounts/", "/admin/connections/", "/oauth/interaction/"]) tried.push([path, (await admin.get(path + encodeURIComponent(nul))).status]);
      const forms: [string, string, Record<string, string>][] = [
        ["/connections/connect", "/connections", { connection_name: nul }],
        ["/connections/connect", "/connections", { connection_name: "gmail", label: nul, another: "1" }],
        ["/connections/retry", "/connections", { link_id: nul }],
        ["/account/name", "/account", { name: nul }],
        ["/account/password", "/account", { current: nul, password: nul }],
        [link, link, {}],
      ];
      for (const [path, page, fields] of forms) tried.push([path, (await browser.post(path, fields, { from: await browser.get(page) })).status]);
      const nobody = createBrowser(outband.url);
      tried.push(["/login", (await nobody.post("/login", { email: nul, password: nul }, { from: await nobody.get("/login") })).status]);
      for (const tool of ["summarize_inbox", "disconnect_account"]) tried.push([tool, (await callTool(outband.url, alice.token, tool, { account: nul, connection_name: nul })).status]);
      tried.push(["slack_post_message", (await callTool(outband.url, alice.token, "slack_post_message", { channel: nul, text: nul, idempotency_key: nul, account: nul })).status]);
      tried.push(["/oauth/authorize", (await browser.get(attempt(outband.url, { ...client, id: nul }).url)).status]);
      tried.push(["/oauth/token", (await refresh(outband.url, { ...client, id: nul }, nul)).status]);
      tried.push(["/oauth/register", (await register(outband.url, { client_name: nul, redirect_uris: [`http://127.0.0.1/${nul}`] })).status]);
      tried.push(["/api/v1/users", (await outband.api("POST", "/users", { email: "nul@people.example", name: nul })).status]);
      tried.push(["/api/v1/accounts", (await outband.api("GET", `/accounts/${encodeURIComponent(nul)}`)).status]);
      assert.deepEqual(tried.filter(([, status]) => status >= 500), []);
      for (const bad of [clientSecret, `${access}x`, ADMIN_KEY, browser.cookie("outband_browser") ?? ""]) assert.equal((await callTool(outband.url, bad, "list_my_connections")).status, 401);
      assert.equal((await fetch(`${outband.url}/mcp?access_token=${access}`, { method: "POST" })).status, 401);
      const asked = await callTool(outband.url, alice.token, "summarize_inbox", { account: "unopened" });
      const bent = retryOf(asked, "accept");
      assert.equal((await callTool(outband.url, alice.token, "summarize_inbox", { account: "other" }, bent)).body.error.code, -32602);
      await mcp(outband.url, access, access, { name: access, arguments: {} });
      await mcp(outband.url, access, "tools/call", { name: access, arguments: { [access]: access } });
      await callTool(outband.url, access, "gmail_list_messages", { [access]: access, max_results: access });
      await fetch(`${outband.url}/mcp`, { method: "POST", headers: { authorization: `Bearer ${access}`, "content-type": "application/json" }, body: `{"token":"${access}` });
    });

    test("journey: a database that fails in the midst of a sign-in, a link, a callback, a key, a token", { skip: kind === "embedded" }, async () => {
      const url = outband.databaseUrl ?? "";
      const link = (await outband.api("POST", "/authorization-links", { connection_name: "gmail", identifier: alice.sub, label: "late" })).body.url;
      const callback = await consent(link, browser);
      const bearerOf = async (token: string) => (await callTool(outband.url, token, "list_my_connections")).status;
      const statuses: number[] = [];
      await withoutTable(url, "authorization_link", async () => {
        for (const path of [link, callback]) statuses.push((await browser.get(path)).status);
        statuses.push((await outband.api("POST", "/authorization-links", { connection_name: "gmail", identifier: alice.sub, state: clientSecret })).status);
      });
      await withoutTable(url, "connected_account", async () => {
        const credential = { type: "oauth", access_token: typedAs("put access token"), refresh_token: typedAs("put access token") };
        statuses.push((await outband.api("POST", "/accounts", { connection_name: "gmail", identifier: alice.sub, label: "lost", credential })).status);
      });
      await withoutTable(url, "user_account", async () => {
        const nobody = createBrowser(outband.url);
        const page = await nobody.get("/login");
        statuses.push(page.status, (await nobody.post("/login", { email: alice.email, password: PASSWORD }, { from: page })).status, await bearerOf(alice.token), await bearerOf(access));
      });
      await withoutTable(url, "oauth_record", async () => {
        statuses.push((await refresh(outband.url, client, access, { client_secret: clientSecret })).status, (await browser.get(attempt(outband.url, client).url)).status, await bearerOf(access));
      });
      await withoutTable(url, "browser_session", async () => {
        statuses.push((await browser.get(link)).status);
      });
      await withoutTable(url, "api_key", async () => {
        statuses.push((await outband.api("POST", "/api-keys", { name: "lost", scopes: ["read"] })).status, (await outband.api("GET", "/accounts", undefined, "obk_nobody")).status);
      });
      assert.ok(statuses.filter((status) => status >= 500).length >= statuses.length - 2, statuses.join());
      assert.ok(outband.logs.filter((line) => line.includes('"level":"error"')).length >= 5);
    });

    test("journey: disconnected by the person and by the operator, purged; a person removed; a restart; all that can be read is read", async () => {
      const slack = await accountOf("slack");
      const page = await browser.get(`/connections/${slack.id}/disconnect`);
      assert.equal((await browser.post(`/connections/${slack.id}/disconnect`, {}, { from: page })).status, 303);
      assert.equal((await outband.api("DELETE", `/accounts/${(await accountOf("ledger")).id}?purge=true`)).status, 200);
      outband.provider.resetCounts();
      assert.equal((await outband.api("DELETE", "/users/person-bob")).status, 204);
      assert.equal(outband.provider.count("POST /google/revoke"), 1);
      await outband.restart();
      const { id } = await accountOf("gmail");
      const links = wire.of(portOf(outband.url), /\/authorization-links$/).map(({ answer }) => JSON.parse(answer.body).id);
      const paths = ["/connections", "/connections/gmail", "/connectors", "/accounts", `/accounts/${id}`, `/authorization-links/${links[0]}`, "/users", "/api-keys", "/tools", "/events?limit=200"];
      for (const path of paths) assert.ok([200, 404].includes((await outband.api("GET", path)).status), path);
      const pages = ["/admin", "/admin/connections", "/admin/connections/gmail", "/admin/connections/gmail/edit", "/admin/connections/meter/edit", "/admin/accounts", `/admin/accounts/${id}`, "/admin/audit"];
      for (const path of pages) assert.equal((await admin.get(path)).status, 200, path);
      for (const path of ["/connections", `/connections/${id}`, "/account"]) assert.equal((await browser.get(path)).status, 200, path);
      for (const path of ["/healthz", "/readyz", "/nothing"]) await fetch(outband.url + path);
      await browser.post("/logout", {}, { from: await browser.get("/connections") });
    });

    describe("and then", () => {
      let secrets: Secret[];
      let ours: Exchange[];
      let theirs: Exchange[];
      let tables: Place[];
      let files: Place[];
      const namesIn = (places: Place[], wanted: readonly Secret[]): string[] => {
        const searcher = searcherFor(wanted);
        return places.flatMap(({ name, text }) => [...new Set(searcher.find(text).map((secret) => `${secret.kind} in ${name}`))]);
      };

      before(async () => {
        const [ourPort, theirPort] = [portOf(outband.url), portOf(outband.provider.origin)];
        await outband.close();
        ours = wire.of(ourPort);
        theirs = [...wire.of(theirPort), ...wire.of(api.port)];
        wire.stop();
        const harvested = secretsOf(wire.exchanges, ({ port }) => (port === ourPort ? "ours" : port === theirPort ? "provider" : null));
        secrets = [...typed, ...harvested, { kind: "upstream client secret", value: outband.provider.slack.clientSecret.reveal() }];
        files = kind === "embedded" ? readFiles(outband.dataDir) : [];
        tables = await dumpTables(outband.databaseUrl === null ? { dataDir: outband.dataDir } : { databaseUrl: outband.databaseUrl });
      });

      test("every kind of secret was met", () => {
        const met = new Set(secrets.map((secret) => secret.kind));
        assert.deepEqual(HARVESTED.filter((one) => !met.has(one)), []);
        assert.deepEqual(secrets.filter(({ value }) => value.length < 16).map((secret) => secret.kind), []);
      });

      test("the search finds a secret whole, in part, escaped, in base64 and in hex", () => {
        const value = `1//${randomBytes(24).toString("base64url")}`;
        const { find } = searcherFor([{ kind: "one", value }]);
        const framed = (text: string) => `"before ${text} behind"`;
        const forms = [value, value.slice(0, 22), value.slice(-22), encodeURIComponent(value), value.replaceAll("/", "\\/"), Buffer.from(value).toString("hex")];
        for (const lead of ["", "a", "ab", "abc"]) for (const form of ["base64", "base64url"] as const) forms.push(Buffer.from(`${lead}${value}}`).toString(form));
        for (const form of forms) assert.equal(find(framed(form)).length, 1, form);
        assert.equal(find(printableIn(Buffer.concat([randomBytes(64), Buffer.from([0]), Buffer.from(value), Buffer.from([0])]))).length, 1);
        assert.equal(find(framed(randomBytes(4000).toString("base64"))).length, 0);
        assert.ok(needlesOf(value).length >= 10);
      });

      test("what was planted is found: in the log, in the output, in answers, at the provider, in events, in tables, in files", () => {
        const { find } = searcherFor([planted]);
        process.stdout.write(`${planted.value}\n`);
        process.stderr.write(`${planted.value}\n`);
        assert.equal(find(output.text()).length, 1);
        assert.ok(output.text().includes(`${planted.value}\n${planted.value}\n`));
        // A refused request is in the log by its id: lines are there to be searched.
        const id = ours.find(({ answer }) => answer.status === 404)?.answer.headers.find(([name]) => name === "x-request-id")?.[1] ?? "";
        assert.ok(searcherFor([{ kind: "request id", value: id }]).find(outband.logs.join("\n")).length > 0);
        assert.equal(find([...outband.logs, `{"message":"${planted.value}"}`].join("\n")).length, 1);
        assert.ok(judge(ours, "answer", [], searcherFor([planted])).leaks.some((leak) => leak.includes("body of 200 GET /connections")));
        assert.ok(judge(theirs, "request", [], searcherFor([planted])).leaks.some((leak) => leak.includes("chat.postMessage")));
        const [session] = secrets.filter((secret) => secret.kind === "session token");
        assert.ok(session && judge(ours, "answer", [], searcherFor([session])).leaks.length > 0, "without its row, a lawful carrier is a leak");
        const found = namesIn(tables, [planted]);
        for (const table of ["connected_account", "event"]) assert.ok(found.includes(`planted in ${table}`), found.join());
        if (kind === "embedded") assert.ok(namesIn(files, [planted]).some((place) => place.includes("database/")), "in the files");
      });

      test("no secret in the log, on stdout or on stderr", () => {
        assert.doesNotMatch(output.text(), /(?:Warning|Error): /);
        assert.ok(outband.logs.length > 10);
        assert.deepEqual(searcherFor(secrets).find(outband.logs.join("\n")).map((secret) => secret.kind), []);
        assert.deepEqual(searcherFor(secrets).find(output.text()).map((secret) => secret.kind), []);
      });

      test("no secret in an answer, except in its lawful carrier", () => {
        const { leaks, unused } = judge(ours, "answer", IN_ANSWERS, searcherFor(secrets));
        assert.deepEqual({ leaks, unused }, { leaks: [], unused: [] });
      });

      test("no secret at a provider, except where it belongs", () => {
        const { leaks, unused } = judge(theirs, "request", IN_PROVIDER_REQUESTS, searcherFor(secrets));
        assert.deepEqual({ leaks, unused }, { leaks: [], unused: [] });
      });

      test("no secret in the audit and the events, nor in any other table, as text or as bytes", () => {
        const names = tables.filter(({ text }) => text !== "").map(({ name }) => name);
        for (const name of ["audit_entry", "event", "connected_account", "authorization_link", "oauth_record", "browser_session", "api_key", "user_account", "connection", "tool_execution", "elicitation", "signing_key", "data_key"]) assert.ok(names.includes(name), name);
        assert.deepEqual(namesIn(tables, secrets), []);
        assert.deepEqual(tables.filter(({ text }) => /"+d"+:\s*"+[\w-]{43}/.test(text)).map(({ name }) => name), [], "a private key in clear");
      });

      test("no secret in any file of the data folder", { skip: kind !== "embedded" }, () => {
        assert.ok(files.length > 100);
        assert.deepEqual(namesIn(files, secrets), []);
      });
    });
  });
}
