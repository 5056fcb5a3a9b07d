import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { decodeJwt } from "jose";
import type { Database } from "../../src/db/client.js";
import type { User } from "../../src/identity/users.js";
import { formAction, type Browser, type Page } from "../support/browser.js";
import { eachDatabase } from "../support/database.js";
import { openIdentitySite, type IdentitySite } from "../support/identitySite.js";
import { approve, attempt, codeOf, exchange, LOOPBACK_REDIRECT, registered, tokensFor, type Attempt, type TestClient } from "../support/oauthClient.js";

const DOCUMENT: TestClient = { id: "https://client.example/client.json", redirectUri: "https://client.example/callback" };

eachDatabase("consent", (open) => {
  let db: Database;
  let site: IdentitySite;
  let ann: User;
  let bo: User;
  let browser: Browser;
  const documents = new Map<string, unknown>([[DOCUMENT.id, { client_id: DOCUMENT.id, client_name: "Document Client", redirect_uris: [DOCUMENT.redirectUri], token_endpoint_auth_method: "none" }]]);

  before(async () => {
    db = await open();
    site = await openIdentitySite({ db, documents });
    ann = await site.person("ann");
    bo = await site.person("bo");
    browser = await site.signedIn(ann);
  });
  after(() => site.close());

  const asks = async (request: Attempt, visitor = browser): Promise<Page> => visitor.follow(await visitor.get(request.url));
  const isConsent = (page: Page): boolean => page.status === 200 && page.text.includes('name="decision"');
  const errorIn = (page: Page): string | null => (page.location === null ? null : new URL(page.location).searchParams.get("error"));

  test("SEC-02: the page names the client as unverified, the person, the redirect host, each scope; it cannot be framed", async () => {
    const client = await registered(site.origin, { client_name: "Evil\u202e <b>Corp</b>\nInc" });
    const page = await asks(attempt(site.origin, client));
    assert.ok(isConsent(page));
    assert.match(page.text, /unverified name/);
    assert.match(page.text, /“Evil &lt;b&gt;Corp&lt;\/b&gt; Inc”/);
    assert.ok(!page.text.includes("\u202e") && !page.text.includes("<b>Corp"));
    assert.match(page.text, /ann@people\.test/);
    assert.match(page.text, /127\.0\.0\.1:33418/);
    assert.match(page.text, /Any program there could say so/);
    assert.match(page.text, /Read through the accounts/);
    assert.match(page.text, /type="checkbox" name="write" value="yes" checked/);
    assert.equal(page.headers.get("cache-control"), "no-store");
    assert.equal(page.headers.get("x-frame-options"), "DENY");
    assert.match(page.headers.get("content-security-policy") ?? "", /form-action 'self' http:\/\/127\.0\.0\.1:33418; frame-ancestors 'none'/);
  });

  test("writing is granted only if the person leaves it ticked, and is asked for again later", async () => {
    const client = await registered(site.origin);
    const read = await tokensFor(site.origin, browser, client, {}, { decision: "allow" });
    assert.equal(read.scope, "mcp:read");
    assert.equal(decodeJwt(read.access).scope, "mcp:read");
    assert.deepEqual((await site.mcp(read.access)).body.scopes, ["mcp:read"]);
    // A step-up: the client asks again, the person sees the page again.
    const stepUp = attempt(site.origin, client, { scope: "mcp:read mcp:write" });
    assert.ok(isConsent(await asks(stepUp)));
    assert.equal((await tokensFor(site.origin, browser, client)).scope, "mcp:read mcp:write");
    // A form that claims what the page did not offer gets no more than was asked.
    const less = await tokensFor(site.origin, browser, client, { scope: "mcp:read" }, { decision: "allow", write: "yes" });
    assert.equal(less.scope, "mcp:read");
  });

  test("without a scope the default is asked; OpenID Connect's scopes come along without a line of their own", async () => {
    const client = await registered(site.origin);
    assert.equal((await tokensFor(site.origin, browser, client, { scope: null })).scope, "mcp:read mcp:write");
    const request = attempt(site.origin, client, { scope: "openid offline_access mcp:read", prompt: "consent" });
    const page = await asks(request);
    assert.ok(!page.text.replace(/value="[^"]*"/g, "").includes("openid"));
    const answer = await exchange(site.origin, client, request, codeOf(await approve(browser, request)));
    assert.equal(decodeJwt(String(answer.body.id_token)).sub, ann.sub);
    assert.equal(decodeJwt(String(answer.body.id_token)).email, undefined);
  });

  test("no is told to the client with iss and state, and gives nothing; anything but yes is no", async () => {
    const client = await registered(site.origin);
    for (const fields of [{ decision: "deny" }, { decision: "deny", write: "yes" }, { write: "yes" }, { decision: "ALLOW" }] as Record<string, string>[]) {
      const request = attempt(site.origin, client);
      const page = await approve(browser, request, fields);
      const back = new URL(page.location ?? "").searchParams;
      assert.equal(back.get("error"), "access_denied");
      assert.equal(back.get("iss"), `${site.origin}/oauth`);
      assert.equal(back.get("state"), request.state);
      assert.equal(back.get("code"), null);
    }
  });

  test("SEC-01: a registered client is shown at each request, one with a document at its first and when it wants more", async () => {
    const dynamic = await registered(site.origin, { redirect_uris: ["https://app.example/cb"] });
    await tokensFor(site.origin, browser, dynamic);
    assert.ok(isConsent(await asks(attempt(site.origin, dynamic))));

    const first = await tokensFor(site.origin, browser, DOCUMENT, { scope: "mcp:read" });
    const again = attempt(site.origin, DOCUMENT, { scope: "mcp:read" });
    const page = await asks(again);
    assert.ok(page.location?.startsWith(`${DOCUMENT.redirectUri}?code=`));
    const second = await exchange(site.origin, DOCUMENT, again, codeOf(page));
    assert.notEqual((await site.mcp(String(second.body.access_token))).body.grantId, (await site.mcp(first.access)).body.grantId);
    assert.ok(isConsent(await asks(attempt(site.origin, DOCUMENT, { scope: "mcp:read mcp:write" }))));
    assert.ok(isConsent(await asks(attempt(site.origin, DOCUMENT, { scope: "mcp:read", resource: `${site.origin}/mcp/meta` }))));
    assert.ok(isConsent(await asks(attempt(site.origin, DOCUMENT, { scope: "mcp:read", prompt: "consent" }))));
    assert.match((await asks(attempt(site.origin, DOCUMENT))).text, /The app is from<\/dt><dd><strong class="mono">client\.example/);
    // What one person said counts for nobody else.
    assert.ok(isConsent(await asks(attempt(site.origin, DOCUMENT, { scope: "mcp:read" }), await site.signedIn(bo))));
  });

  test("a yes needs the page's own token: another site, another person or a bare POST gets no code", async () => {
    const client = await registered(site.origin);
    const page = await asks(attempt(site.origin, client));
    const action = formAction(page.text, "/oauth/interaction/");
    const yes = { decision: "allow", write: "yes" };
    assert.equal((await browser.post(action, yes)).status, 403);
    assert.equal((await browser.post(action, yes, { from: page, headers: { "sec-fetch-site": "cross-site" } })).status, 403);
    const bos = await site.signedIn(bo);
    const stolen = await bos.post(action, yes, { from: await bos.get("/account") });
    assert.equal(stolen.status, 400);
    assert.equal(stolen.location, null);
    const nobody = site.browser();
    assert.notEqual((await nobody.post(action, yes)).status, 303);
    assert.equal((await bos.get(action)).status, 400);
    // The page itself still works, once.
    const done = await browser.follow(await browser.post(action, yes, { from: page }));
    assert.ok(codeOf(done));
    assert.equal((await browser.post(action, yes, { from: page })).status, 400);
  });

  test("another person at the same browser starts over: nothing begun by one is ended by the other", async () => {
    const client = await registered(site.origin);
    const shared = await site.signedIn(ann);
    const page = await asks(attempt(site.origin, client), shared);
    const action = formAction(page.text, "/oauth/interaction/");
    await site.signIn(shared, bo);
    // The browser was sent to /connections, since somebody was signed in; so sign out and in.
    await shared.post("/logout", {}, { from: await shared.get("/account") });
    await site.signIn(shared, bo);
    const account = await shared.get("/account");
    assert.match(account.text, /bo@people\.test/);
    const answer = await shared.post(action, { decision: "allow", write: "yes" }, { from: account });
    assert.notEqual(answer.location?.startsWith(LOOPBACK_REDIRECT), true);
    const fresh = await asks(attempt(site.origin, client), shared);
    assert.match(fresh.text, /bo@people\.test/);
    assert.ok(!fresh.text.includes("ann@people.test"));
    const tokens = await tokensFor(site.origin, shared, client);
    assert.equal((await site.mcp(tokens.access)).body.sub, bo.sub);
  });

  test("sign-out ends the /oauth session with the browser's, and so does the end of the browser session alone", async () => {
    const client = await registered(site.origin);
    const shared = await site.signedIn(ann);
    assert.ok(isConsent(await asks(attempt(site.origin, client), shared)));
    const before = await db.prisma.oAuthRecord.count({ where: { type: "Session", sub: ann.sub } });
    assert.ok(before > 0);
    const copied = shared.cookie("outband_oauth") ?? "";
    await shared.post("/logout", {}, { from: await shared.get("/account") });
    assert.equal(await db.prisma.oAuthRecord.count({ where: { type: "Session", sub: ann.sub } }), before - 1);
    assert.ok(copied.length > 20);
    assert.equal((await asks(attempt(site.origin, client), shared)).url, `${site.origin}/login`);

    const other = await site.signedIn(ann);
    assert.ok(isConsent(await asks(attempt(site.origin, client), other)));
    await site.sessions.endSessionsOf(ann.sub);
    assert.equal((await asks(attempt(site.origin, client), other)).url, `${site.origin}/login`);
    assert.equal(errorIn(await other.get(attempt(site.origin, client, { prompt: "none" }).url)), "login_required");
    browser = await site.signedIn(ann);
  });

  test("“use another account” signs out and brings the next person to the same request", async () => {
    const client = await registered(site.origin);
    const shared = await site.signedIn(ann);
    const request = attempt(site.origin, client);
    const page = await asks(request, shared);
    const back = /name="back" value="([^"]+)"/.exec(page.text)?.[1]?.replaceAll("&amp;", "&") ?? "";
    const toLogin = await shared.follow(await shared.post("/logout", { back }, { from: page }));
    assert.equal(toLogin.url, `${site.origin}/login`);
    const consent = await shared.follow(await site.signIn(shared, bo));
    assert.match(consent.text, /bo@people\.test/);
    const done = await shared.follow(await shared.post(formAction(consent.text, "/oauth/interaction/"), { decision: "allow" }, { from: consent }));
    assert.equal(new URL(done.location ?? "").searchParams.get("state"), request.state);
    assert.equal((await exchange(site.origin, client, request, codeOf(done))).status, 200);
  });

  test("prompt=login asks for the password again, and goes on after it", async () => {
    const client = await registered(site.origin);
    const shared = await site.signedIn(ann);
    const again = await asks(attempt(site.origin, client, { prompt: "login" }), shared);
    assert.equal(again.url, `${site.origin}/login?again=1`);
    const { email } = ann;
    const consent = await shared.follow(await shared.post("/login", { email, password: "correct horse battery" }, { from: again }));
    assert.ok(isConsent(consent));
  });

  test("each answer is in the audit before it leaves, with the client and what was granted", async () => {
    const client = await registered(site.origin);
    await tokensFor(site.origin, browser, client, {}, { decision: "allow" });
    await approve(browser, attempt(site.origin, client), { decision: "deny" });
    const rows = await db.prisma.auditEntry.findMany({ where: { category: "authorization" }, orderBy: { id: "desc" }, take: 2 });
    assert.deepEqual(
      rows.map(({ action, actorSub, outcome, detail }) => ({ action, actorSub, outcome, detail })),
      [
        { action: "client.denied", actorSub: ann.sub, outcome: "denied", detail: { client_id: client.id, dynamic: true, scopes: [], redirect: "127.0.0.1:33418" } },
        { action: "client.approved", actorSub: ann.sub, outcome: "ok", detail: { client_id: client.id, dynamic: true, scopes: ["mcp:read"], redirect: "127.0.0.1:33418" } },
      ],
    );
  });

  test("a person sees the apps they let in and ends one: its tokens are refused at the next call, others go on", async () => {
    const cy = await site.person("cy");
    const cys = await site.signedIn(cy);
    const [one, two] = [await registered(site.origin, { client_name: "App One" }), await registered(site.origin, { client_name: "App Two" })];
    const tokens = await tokensFor(site.origin, cys, one);
    const others = await tokensFor(site.origin, cys, two, {}, { decision: "allow" });
    const anns = await tokensFor(site.origin, browser, one);
    const page = await cys.get("/account");
    assert.match(page.text, /App One[\s\S]*May read and act/);
    assert.match(page.text, /App Two[\s\S]*May read /);
    const app = (await site.server.appsOf(cy.sub)).find(({ name }) => name === "App One");
    const removed = await cys.post(`/account/apps/${app?.id}/remove`, {}, { from: page });
    assert.equal(removed.location, `${site.origin}/account?done=app`);
    assert.equal((await site.mcp(tokens.access)).body.reason, "grant");
    assert.equal((await site.mcp(others.access)).status, 200);
    assert.equal((await site.mcp(anns.access)).status, 200);
    assert.deepEqual((await site.server.appsOf(cy.sub)).map(({ name }) => name), ["App Two"]);
    await site.server.revokeGrantsOf(cy.sub);
    assert.equal((await site.mcp(others.access)).body.reason, "grant");
    assert.equal((await site.mcp(anns.access)).status, 200);
  });
});
