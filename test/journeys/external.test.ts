// People sign in at an external issuer: the whole program on both databases, with an issuer that can lie.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { IssuerRefusal } from "../../src/identity/external/external.js";
import { createBrowser } from "../support/browser.js";
import { type Issuer, startIssuer } from "../support/issuer.js";
import { fromPage, signInThere, throughIssuer } from "../support/issuerJourney.js";
import { KINDS } from "../support/journey.js";
import { callTool, mcp } from "../support/mcpCall.js";
import { approve, attempt, codeOf, exchange, registered, tokensFor } from "../support/oauthClient.js";
import { type Outband, PASSWORD, startOutband } from "../support/outband.js";

const ANN = { sub: "ann|1", email: "ann@people.test", name: "Ann Aaberg", groups: ["staff"] };
const BOB = { sub: "bob|2", email: "bob@people.test", name: "Bob Berg", groups: ["staff", "admins"] };
const CANARY = "canary-of-the-issuer";

for (const kind of KINDS) {
  describe(`people of an external issuer (${kind})`, () => {
    /** The address check is on: the issuer is reached because the environment names it. */
    async function start(settings: Record<string, string> = {}): Promise<{ outband: Outband; issuer: Issuer; close(): Promise<void> }> {
      const issuer = await startIssuer({ path: "/realms/people" });
      const outband = await startOutband({ kind, connections: [], settings: { ...issuer.settings, ALLOW_PRIVATE_NETWORK: "", ...settings } });
      const close = async () => {
        await outband.close();
        await issuer.close();
      };
      return { outband, issuer, close };
    }

    test("from a page that asks for a sign-in, over the issuer, back to that page; passwords of ours are gone, API keys are not", async () => {
      const { outband, issuer, close } = await start();
      assert.equal(outband.app().setupUrl, null);
      assert.ok(outband.app().notes.some((note) => note.endsWith(`${outband.url}/login/callback`)), outband.app().notes.join(" "));
      const browser = createBrowser(outband.url);
      const asked = await browser.get("/account?done=nothing");
      assert.equal(asked.location, `${outband.url}/login`);
      const login = await browser.get("/login");
      assert.match(login.text, new RegExp(`Sign in at ${new URL(issuer.url).host}`));
      assert.ok(!/type="password"|name="email"|set-up link/.test(login.text));
      const done = await browser.get(await fromPage(browser, issuer, ANN, login, { email: "ann@people.test", password: PASSWORD }));
      assert.deepEqual([done.status, done.location], [303, `${outband.url}/account?done=nothing`]);
      const account = await browser.get("/account");
      assert.match(account.text, /Ann Aaberg/);
      assert.match(account.text, /ann@people\.test/);
      assert.ok(!/type="password"|action="\/account\/name"/.test(account.text));
      for (const path of ["/account/password", "/account/name", "/setup/anything"]) {
        assert.equal((await browser.post(path, { name: "x", password: PASSWORD, current: PASSWORD }, { from: account })).status, 404, path);
      }
      assert.equal((await browser.get("/setup/anything")).status, 404);

      const people = await outband.api("GET", "/users");
      assert.deepEqual(people.body.data.map(({ sub, email, name, role, issuer: of }: Record<string, unknown>) => ({ sub, email, name, role, of })), [
        { sub: ANN.sub, email: ANN.email, name: ANN.name, role: "user", of: issuer.url },
      ]);
      assert.equal((await browser.get("/admin")).status, 404);
      await close();
    });

    test("the answer is taken in the browser that asked for it, once, under a new session id", async () => {
      const { outband, issuer, close } = await start();
      const attacker = createBrowser(outband.url);
      const planted = await throughIssuer(attacker, issuer, ANN);

      // Login CSRF: the attacker's answer in a victim's browser, with a session of its own, with a sign-in under way, and with none.
      const victim = createBrowser(outband.url);
      const login = await victim.get("/login");
      assert.equal((await victim.get(planted)).status, 400);
      const own = await fromPage(victim, issuer, BOB, login);
      assert.equal((await victim.get(planted)).status, 400);
      assert.equal((await createBrowser(outband.url).get(planted)).status, 400);
      assert.equal(issuer.count("token"), 0, "nothing was exchanged");
      assert.equal((await victim.get("/account")).location, `${outband.url}/login`);

      // Without our form's token no sign-in begins.
      assert.equal((await victim.post("/login", {})).status, 403);
      assert.equal((await victim.post("/login", {}, { from: login, headers: { "sec-fetch-site": "cross-site" } })).status, 403);

      // Fixation: the id that the browser had before is worthless afterwards.
      const before = victim.cookie("outband_session") ?? "";
      const done = await victim.get(own);
      assert.equal(done.status, 303);
      const after = victim.cookie("outband_session") ?? "";
      assert.notEqual(after, before);
      const fixed = createBrowser(outband.url);
      fixed.setCookie("outband_session", before);
      assert.equal((await fixed.get("/account")).location, `${outband.url}/login`);

      // A reload shows no error and exchanges nothing.
      const exchanged = issuer.count("token");
      assert.deepEqual([(await victim.get(own)).status, issuer.count("token")], [303, exchanged]);
      assert.match((await victim.get("/account")).text, /Bob Berg/);
      // An own path alone is kept as the way back, and never this one.
      assert.equal((await createBrowser(outband.url).get("/login/callback?code=x&state=y&iss=z")).status, 400);
      await close();
    });

    test("a refused, failed or forbidden sign-in is a calm page in our words, and the way back outlives it", async () => {
      const { outband, issuer, close } = await start({ OIDC_USER_CLAIM: "groups=staff" });
      const browser = createBrowser(outband.url);
      await browser.get("/account");
      const error = async (lies: Issuer["lies"], person: typeof ANN = ANN) => {
        issuer.lies = { text: CANARY, ...lies };
        const page = await browser.get(await throughIssuer(browser, issuer, person));
        issuer.honest();
        assert.ok(!page.text.includes(CANARY), page.text);
        assert.match(page.text, /Sign in at /, "it can be tried again from there");
        assert.equal(page.headers.get("cache-control"), "no-store");
        return page;
      };
      const denied = await error({ answer: { code: undefined, error: "access_denied", error_description: `<b>${CANARY}</b>` } });
      assert.equal(denied.status, 400);
      assert.match(denied.text, /refused or cancelled/);
      assert.equal((await error({ answer: { code: undefined, error: CANARY } })).status, 502);
      assert.equal((await error({ status: { token: 500 } })).status, 503);
      assert.equal((await error({ signer: "none" })).status, 502);
      assert.equal((await error({ idToken: { nonce: "another" } })).status, 502);
      const forbidden = await error({}, { ...ANN, groups: [] });
      assert.equal(forbidden.status, 403);
      assert.match(forbidden.text, /not allowed in here/);
      assert.equal((await browser.get("/account")).location, `${outband.url}/login`);
      assert.equal((await outband.api("GET", "/users")).body.data.length, 0);
      assert.equal((await browser.get(await throughIssuer(browser, issuer, ANN))).location, `${outband.url}/account`);
      assert.ok(!outband.logs.join("\n").includes(CANARY));
      await close();
    });

    test("an issuer that is away: the start does not wait for it, the page says so, and comes back by itself", async () => {
      const issuer = await startIssuer();
      issuer.lies = { status: { discovery: 503 } };
      const outband = await startOutband({ kind, connections: [], settings: issuer.settings });
      const browser = createBrowser(outband.url);
      const page = await browser.post("/login", {}, { from: await browser.get("/login") });
      assert.equal(page.status, 503);
      assert.match(page.text, /cannot be reached/);
      issuer.honest();
      assert.equal((await browser.get(await fromPage(browser, issuer, ANN, page))).status, 303);
      await outband.close();
      await issuer.close();
    });

    test("sign-out and a change of the person end the sessions here; another account can be chosen there", async () => {
      const { outband, issuer, close } = await start();
      const { browser } = await signInThere(outband.url, issuer, ANN);
      const account = await browser.get("/account");
      const out = await browser.post("/logout", {}, { from: account });
      assert.equal(out.location, `${outband.url}/login`);
      assert.equal((await browser.get("/account")).location, `${outband.url}/login`);

      const done = await browser.get(await throughIssuer(browser, issuer, BOB, { another: "1" }));
      assert.equal(done.status, 303);
      assert.equal(issuer.asked.at(-1)?.get("prompt"), "select_account");
      assert.match((await browser.get("/account")).text, /Bob Berg/);
      // Signed in as Bob, a sign-in that was still open in another tab turns out to be Ann's: Bob's session is over.
      const bobs = browser.cookie("outband_session") ?? "";
      await browser.get(await throughIssuer(browser, issuer, ANN, { again: "1" }, "/login?again=1"));
      assert.equal(issuer.asked.at(-1)?.get("prompt"), "login");
      assert.match((await browser.get("/account")).text, /Ann Aaberg/);
      const old = createBrowser(outband.url);
      old.setCookie("outband_session", bobs);
      assert.equal((await old.get("/account")).location, `${outband.url}/login`);
      await close();
    });

    test("/oauth stays the authorization server: an MCP client's request outlives the way over the issuer and ends in a token", async () => {
      const { outband, issuer, close } = await start();
      const client = await registered(outband.url);
      const request = attempt(outband.url, client);
      const browser = createBrowser(outband.url);
      const sent = await browser.follow(await browser.get(request.url));
      assert.match(sent.url, /\/login$/);
      const back = await browser.get(await fromPage(browser, issuer, ANN, sent));
      const consent = await browser.follow(back);
      assert.match(consent.text, /Let an app in|name="decision"/);
      assert.match(consent.text, /Ann Aaberg/);
      const action = /action="(\/oauth\/interaction\/[^"]+)"/.exec(consent.text)?.[1] ?? "";
      const answer = await exchange(outband.url, client, request, codeOf(await browser.follow(await browser.post(action, { decision: "allow", write: "yes" }, { from: consent }))));
      assert.equal(answer.status, 200, JSON.stringify(answer.body));
      const token = String(answer.body["access_token"]);
      const mine = await callTool(outband.url, token, "list_my_connections");
      assert.equal(mine.status, 200);
      assert.notEqual(mine.body.result.isError, true);

      // prompt=login asks there again, and comes back.
      const again = attempt(outband.url, client, { prompt: "login" });
      const asked = await browser.follow(await browser.get(again.url));
      assert.match(asked.text, /sign in once more/);
      const after = await browser.follow(await browser.get(await fromPage(browser, issuer, ANN, asked, { again: "1" })));
      assert.match(after.text, /name="decision"/);
      assert.equal(issuer.asked.at(-1)?.get("prompt"), "login");

      // The issuer's own tokens are not taken without OIDC_ACCEPT_TOKENS.
      const theirs = await issuer.accessToken({ sub: ANN.sub, aud: `${outband.url}/mcp` });
      assert.equal((await mcp(outband.url, theirs, "tools/list", {})).status, 401);
      const metadata = await (await fetch(`${outband.url}/.well-known/oauth-protected-resource/mcp`)).json();
      assert.deepEqual((metadata as Record<string, unknown>)["authorization_servers"], [`${outband.url}/oauth`]);
      await close();
    });

    test("OIDC_ACCEPT_TOKENS: the issuer's tokens work on /mcp for people who were here, and end with them", async () => {
      const { outband, issuer, close } = await start({ OIDC_ACCEPT_TOKENS: "true" });
      const metadata = await (await fetch(`${outband.url}/.well-known/oauth-protected-resource/mcp`)).json();
      assert.deepEqual((metadata as Record<string, unknown>)["authorization_servers"], [`${outband.url}/oauth`, issuer.url]);
      const token = (claims: Record<string, unknown> = {}) => issuer.accessToken({ sub: ANN.sub, aud: `${outband.url}/mcp`, ...claims });
      const statusOf = async (text: string) => (await mcp(outband.url, text, "tools/list", {})).status;
      assert.equal(await statusOf(await token()), 401, "nobody of this sub has signed in yet");
      assert.equal((await outband.api("GET", "/users")).body.data.length, 0, "and a token makes nobody");

      await signInThere(outband.url, issuer, ANN);
      assert.equal(await statusOf(await token()), 200);
      const call = await callTool(outband.url, await token(), "list_my_connections");
      assert.notEqual(call.body.result.isError, true);
      assert.equal(await statusOf(await token({ scope: "openid" })), 403);
      const reader = await callTool(outband.url, await token({ scope: "mcp:read" }), "disconnect_account", { connection_name: "gmail" });
      assert.deepEqual([reader.status, /insufficient_scope/.test(reader.headers.get("www-authenticate") ?? "")], [403, true]);
      assert.equal(await statusOf(await token({ aud: issuer.clientId })), 401);
      assert.equal(await statusOf(await token({ sub: BOB.sub })), 401);
      // Not for anything but MCP.
      assert.equal((await outband.api("GET", "/users", undefined, await token())).status, 401);

      const alive = await token();
      assert.equal((await outband.api("PATCH", `/users/${encodeURIComponent(ANN.sub)}`, { role: "disabled" })).status, 200);
      assert.equal(await statusOf(alive), 401);
      await outband.api("PATCH", `/users/${encodeURIComponent(ANN.sub)}`, { role: "user" });
      assert.equal(await statusOf(alive), 200);
      assert.equal((await outband.api("DELETE", `/users/${encodeURIComponent(ANN.sub)}`)).status, 204);
      assert.equal(await statusOf(alive), 401);
      issuer.lies = { status: { jwks: 500 } };
      assert.equal(await statusOf(await issuer.accessToken({ sub: ANN.sub, aud: `${outband.url}/mcp` }, { signer: "foreign", header: { kid: "new" } })), 503);
      await close();
    });

    test("ADMIN_CLAIM: who carries it may administer, until a sign-in without it", async () => {
      const { outband, issuer, close } = await start({ ADMIN_CLAIM: "groups=admins" });
      const { browser } = await signInThere(outband.url, issuer, BOB);
      assert.equal((await browser.get("/admin")).status, 200);
      const other = (await signInThere(outband.url, issuer, { ...BOB, groups: ["staff"] })).browser;
      assert.equal((await other.get("/admin")).status, 404);
      assert.equal((await browser.get("/admin")).status, 404, "in every browser");
      await close();
    });

    test("another issuer, or none, does not start on these people; the same one does", async () => {
      const { outband, issuer, close } = await start();
      await outband.restart({ OIDC_ISSUER: "https://login.example.com" });
      await outband.restart();
      await signInThere(outband.url, issuer, ANN);
      await outband.restart();
      await assert.rejects(outband.restart({ OIDC_ISSUER: "https://login.example.com" }), IssuerRefusal);
      const off = { OIDC_ISSUER: "", OIDC_CLIENT_ID: "", OIDC_CLIENT_SECRET: "" };
      await assert.rejects(outband.start(off), IssuerRefusal);
      await outband.start();
      assert.equal((await outband.api("GET", "/users")).body.data.length, 1);
      assert.equal((await outband.api("DELETE", `/users/${encodeURIComponent(ANN.sub)}`)).status, 204);
      await outband.restart(off);
      await close();
    });

    test("built-in people of before are kept and cannot sign in; what their sign-in opened is shut, a server's tokens go on", async () => {
      const issuer = await startIssuer();
      const outband = await startOutband({ kind, connections: [] });
      const person = await outband.person("before");
      const browser = await person.signIn();
      const client = await registered(outband.url);
      const { access, refresh: renewal } = await tokensFor(outband.url, browser, client);
      assert.equal((await callTool(outband.url, access, "list_my_connections")).status, 200);

      await outband.restart(issuer.settings);
      assert.equal((await browser.get("/account")).location, `${outband.url}/login`);
      assert.equal((await callTool(outband.url, access, "list_my_connections")).status, 401);
      assert.equal((await exchangeRefresh(outband.url, client.id, renewal)).status, 400);
      assert.equal((await callTool(outband.url, person.token, "list_my_connections")).status, 200);
      const approved = await approve(browser, attempt(outband.url, client));
      assert.match(approved.url, /\/login$/);
      // The issuer's person of that sub is somebody else.
      const taken = await signInThere(outband.url, issuer, { sub: person.sub, name: "Impostor" });
      assert.equal(taken.page.status, 403);
      // And the same address is no way to them either.
      const { browser: other } = await signInThere(outband.url, issuer, { ...ANN, email: person.email });
      assert.match((await other.get("/account")).text, /Ann Aaberg/);
      const people = await outband.api("GET", "/users");
      assert.deepEqual(people.body.data.map(({ sub, issuer: of }: { sub: string; issuer: string }) => [sub, of]).sort(), [[ANN.sub, issuer.url], [person.sub, "builtin"]].sort());
      await outband.close();
      await issuer.close();
    });

    test("people can be made ahead by their sub, with a role and without a password; what the issuer tells is not written over", async () => {
      const { outband, issuer, close } = await start();
      const noSub = await outband.api("POST", "/users", { email: "x@people.test" });
      assert.deepEqual([noSub.status, noSub.body.errors?.[0]?.path], [400, "sub"]);
      const withPassword = await outband.api("POST", "/users", { sub: ANN.sub, email: ANN.email, password: PASSWORD });
      assert.deepEqual([withPassword.status, withPassword.body.errors?.[0]?.path], [400, "password"]);
      const made = await outband.api("POST", "/users", { sub: ANN.sub, email: ANN.email, role: "viewer" });
      assert.deepEqual([made.status, made.body.issuer, "invitation_url" in made.body], [201, issuer.url, false]);
      const { browser, page } = await signInThere(outband.url, issuer, { ...ANN, email: "ann@new.test" });
      assert.equal(page.status, 303);
      assert.equal((await browser.get("/admin")).status, 200);
      const path = `/users/${encodeURIComponent(ANN.sub)}`;
      for (const change of [{ email: "ann@other.test" }, { name: "Other" }, { password: PASSWORD }]) assert.equal((await outband.api("PATCH", path, change)).status, 400, JSON.stringify(change));
      const promoted = await outband.api("PATCH", path, { role: "admin" });
      assert.deepEqual([promoted.status, promoted.body.email], [200, "ann@new.test"]);
      assert.equal((await outband.api("PATCH", path, { role: "disabled" })).status, 403, "the last administrator");
      await close();
    });
  });
}

test("on another issuer the program says one sentence on stderr and exits with 78", { timeout: 60_000 }, async () => {
  const issuer = await startIssuer();
  const outband = await startOutband({ kind: "embedded", connections: [], settings: issuer.settings });
  await signInThere(outband.url, issuer, ANN);
  await outband.close();
  const server = fileURLToPath(new URL("../../src/server.ts", import.meta.url));
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const env = {
    PATH: process.env["PATH"] ?? "",
    PORT: new URL(outband.url).port,
    DATA_DIR: outband.dataDir,
    MASTER_KEY: Buffer.from("0123456789abcdef0123456789abcdef").toString("base64"),
    SANDBOX: "off",
    OIDC_ISSUER: "https://login.example.com",
    OIDC_CLIENT_ID: "outband",
    OIDC_CLIENT_SECRET: "secret",
  };
  const child = spawn(process.execPath, ["--import", "tsx", server], { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  child.stderr.on("data", (bytes: Buffer) => {
    output += bytes.toString();
  });
  const [code] = (await once(child, "exit")) as [number];
  assert.equal(code, 78, output);
  assert.match(output, /^outband: OIDC_ISSUER names another issuer than http:\/\/localhost:\d+, where .*\.\n$/);
  await issuer.close();
});

function exchangeRefresh(url: string, clientId: string, refreshToken: string) {
  return fetch(`${url}/oauth/token`, { method: "POST", body: new URLSearchParams({ grant_type: "refresh_token", client_id: clientId, refresh_token: refreshToken }) });
}
