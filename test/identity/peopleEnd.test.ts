// A person who is disabled or deleted: everything of theirs ends with the act, whatever is under way, on both databases.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { createApp } from "../../src/app.js";
import { readSettings } from "../../src/config/config.js";
import { systemClock } from "../../src/clock.js";
import type { PersonAnswers } from "../support/awkwardPerson.js";
import type { Browser } from "../support/browser.js";
import { connect, consent, KINDS, retryOf } from "../support/journey.js";
import { callTool, linkOf, mcp, outcomeOf } from "../support/mcpCall.js";
import { approve, attempt, codeOf, exchange, refresh, registered, type TestClient, tokensFor } from "../support/oauthClient.js";
import { ADMIN_KEY, freePort, type Outband, PASSWORD, type Person, startOutband } from "../support/outband.js";
import { silentLog } from "../support/silentLog.js";

const TOKEN = "POST /google/token";
const REVOKE = "POST /google/revoke";
/** Of the two at the practice Google, the one whose grant nobody else here holds: a shared one is not taken back. */
const ALONE = { person: "tomas" };

for (const kind of KINDS) {
  describe(`people who end (${kind})`, () => {
    let outband: Outband;
    let client: TestClient;
    before(async () => {
      outband = await startOutband({ kind, connections: ["gmail"] });
      client = await registered(outband.url);
      assert.equal((await outband.api("POST", "/users", { sub: "root", email: "root@people.example", password: PASSWORD, role: "admin" })).status, 201);
    });
    after(() => outband.close());

    const pathOf = (person: { sub: string }) => `/users/${encodeURIComponent(person.sub)}`;
    const disable = (person: Person) => outband.api("PATCH", pathOf(person), { role: "disabled" });
    const remove = (person: { sub: string }) => outband.api("DELETE", pathOf(person));
    const accountsOf = async (person: Person) => (await outband.api("GET", `/accounts?identifier=${encodeURIComponent(person.sub)}`)).body.data as { id: string; status: string; status_reason: string | null }[];
    const isSignedOut = async (browser: Browser) => (await browser.get("/account")).location === `${outband.url}/login`;

    /** Everything that a person can hold: browsers, an app's grant, a session token, a connected account, an open link. */
    async function grown(name: string, upstream: PersonAnswers = {}) {
      const person = await outband.person(name);
      const browser = await person.signIn();
      const phone = await person.signIn();
      const tokens = await tokensFor(outband.url, browser, client);
      const asked = await callTool(outband.url, person.token, "summarize_inbox");
      assert.equal((await connect(linkOf(asked), browser, upstream)).status, 200);
      assert.deepEqual((await accountsOf(person)).map(({ status }) => status), ["ACTIVE"]);
      const link = await outband.api("POST", "/authorization-links", { connection_name: "gmail", identifier: person.sub, label: "second" });
      assert.equal(link.status, 201, JSON.stringify(link.body));
      const started = attempt(outband.url, client);
      const code = codeOf(await approve(browser, started));
      return { person, browser, phone, tokens, link: link.body as { id: string; url: string }, started, code };
    }

    async function assertShutOut(held: Awaited<ReturnType<typeof grown>>): Promise<void> {
      const { person, browser, phone, tokens, link, started, code } = held;
      // The very next request of each kind, all at once: none of them may profit from another.
      const [web, mobile, byGrant, bySession, renewed, redeemed, authorize, page] = await Promise.all([
        isSignedOut(browser),
        isSignedOut(phone),
        mcp(outband.url, tokens.access, "tools/list", {}),
        mcp(outband.url, person.token, "tools/list", {}),
        refresh(outband.url, client, tokens.refresh),
        exchange(outband.url, client, started, code),
        browser.get(attempt(outband.url, client).url).then((first) => browser.follow(first)),
        browser.get(link.url),
      ]);
      assert.deepEqual([web, mobile], [true, true], "browser sessions");
      assert.deepEqual([byGrant.status, bySession.status], [401, 401], "access token, session token");
      assert.deepEqual([renewed.status, renewed.body["error"], redeemed.status, redeemed.body["error"]], [400, "invalid_grant", 400, "invalid_grant"]);
      assert.match(authorize.url, /\/login$/, "the /oauth session");
      assert.notEqual(page.status, 200, "the open link's page");
      const login = await browser.get("/login");
      const again = await browser.post("/login", { email: person.email, password: PASSWORD }, { from: login });
      assert.equal(again.status, 401);
      assert.match(again.text, /do not belong together/);
      for (const [method, path, body] of [
        ["POST", "/session-tokens", { identifier: person.sub, ttl_s: 60 }],
        ["POST", "/authorization-links", { connection_name: "gmail", identifier: person.sub }],
        ["POST", "/accounts", { connection_name: "gmail", identifier: person.sub, credential: { type: "oauth", access_token: "x" } }],
      ] as const) {
        assert.equal((await outband.api(method, path, body)).status, 422, path);
      }
    }

    test("disabled: sessions, grants, codes, access tokens and session tokens are refused from the next request on, open links are void", async () => {
      const held = await grown("dis");
      const bystander = await grown("by1");
      outband.provider.resetCounts();
      assert.equal((await disable(held.person)).status, 200);
      await assertShutOut(held);
      const link = await outband.api("GET", `/authorization-links/${held.link.id}`);
      assert.deepEqual([link.body.status, link.body.reason], ["failed", "shut_out"]);
      // What they connected is kept, and nothing is taken back at the provider: they may come back.
      assert.equal((await accountsOf(held.person)).find(({ status }) => status === "ACTIVE")?.status, "ACTIVE");
      assert.equal(outband.provider.count(REVOKE), 0);

      assert.equal((await mcp(outband.url, bystander.tokens.access, "tools/list", {})).status, 200);
      assert.equal(await isSignedOut(bystander.browser), false);

      // Let in again, they sign in anew; what was open before stays shut.
      assert.equal((await outband.api("PATCH", pathOf(held.person), { role: "user" })).status, 200);
      assert.equal((await mcp(outband.url, held.tokens.access, "tools/list", {})).status, 401);
      assert.equal(await isSignedOut(held.phone), true);
      assert.equal((await refresh(outband.url, client, held.tokens.refresh)).status, 400);
      const back = await held.person.signIn();
      assert.notEqual((await back.get(held.link.url)).status, 200);
      assert.equal(await isSignedOut(back), false);
    });

    test("deleted: all of that, and the accounts are taken back at the provider and gone", async () => {
      const held = await grown("del", ALONE);
      outband.provider.resetCounts();
      assert.equal((await remove(held.person)).status, 204);
      await assertShutOut(held);
      assert.equal(outband.provider.count(REVOKE), 1);
      assert.deepEqual(await accountsOf(held.person), []);
      assert.equal((await outband.api("GET", `/authorization-links/${held.link.id}`)).status, 404);
      assert.deepEqual([(await remove(held.person)).status, (await disable(held.person)).status], [404, 404]);
      const acts = (await outband.api("GET", "/users")).body.data as { sub: string }[];
      assert.ok(!acts.some(({ sub }) => sub === held.person.sub));
    });

    test("somebody who comes again under a deleted person's sub finds nothing of theirs, and no old token works", async () => {
      const held = await grown("again");
      assert.equal((await remove(held.person)).status, 204);
      const anew = await outband.person("again");
      assert.equal(anew.sub, held.person.sub);
      assert.deepEqual(await accountsOf(anew), []);
      for (const token of [held.person.token, held.tokens.access]) assert.equal((await mcp(outband.url, token, "tools/list", {})).status, 401);
      assert.equal((await refresh(outband.url, client, held.tokens.refresh)).status, 400);
      assert.equal((await exchange(outband.url, client, held.started, held.code)).status, 400);
      assert.deepEqual([await isSignedOut(held.browser), await isSignedOut(held.phone)], [true, true]);
      assert.equal((await mcp(outband.url, anew.token, "tools/list", {})).status, 200);
      // An app that was let in before has to ask again.
      const browser = await anew.signIn();
      assert.match((await browser.get("/account")).text, /None\. An app that wants/);
    });

    for (const [word, end] of [
      ["disabled", disable],
      ["deleted", remove],
    ] as const) {
      test(`a call that waits for the person ends when they are ${word}, long before its leg is over`, async () => {
        const person = await outband.person(`wait-${word}`);
        const asked = await callTool(outband.url, person.token, "summarize_inbox");
        const begun = Date.now();
        const waiting = callTool(outband.url, person.token, "summarize_inbox", {}, retryOf(asked, "accept"));
        // The wait has begun once the answer is recorded.
        await until(async () => (await outband.api("GET", "/events?type=elicitation.answered&limit=200")).body.data.some((event: { data: { identifier?: string } }) => event.data.identifier === person.sub));
        assert.ok([200, 204].includes((await end(person)).status));
        const answer = await waiting;
        assert.ok(Date.now() - begun < 15_000, `${Date.now() - begun} ms`);
        assert.equal(answer.body.result.isError, true, JSON.stringify(answer.body));
        assert.equal(outcomeOf(answer).outcome === "done", false);
        assert.equal((await callTool(outband.url, person.token, "summarize_inbox", {}, retryOf(asked, "accept"))).status, 401);
      });

      test(`a consent under way when the person is ${word} connects nothing: what the provider gave is given back`, async () => {
        const person = await outband.person(`flight-${word}`);
        const browser = await person.signIn();
        const asked = await callTool(outband.url, person.token, "summarize_inbox");
        const callback = await consent(linkOf(asked), browser, ALONE);
        outband.provider.resetCounts();
        const held = outband.provider.hold(TOKEN, { at: "after" });
        const landing = browser.get(callback);
        await held.arrived;
        assert.ok([200, 204].includes((await end(person)).status));
        held.release();
        const page = await landing;
        assert.ok(!/is connected|Connected/.test(page.text), page.text);
        await until(async () => outband.provider.count(REVOKE) === 1);
        assert.ok(!(await accountsOf(person)).some(({ status }) => status === "ACTIVE"));
      });
    }

    test("a refresh under way does not bring a deleted person's account back, and its new tokens are given back", async () => {
      const person = await outband.person("refresh");
      const asked = await callTool(outband.url, person.token, "summarize_inbox");
      assert.equal((await connect(linkOf(asked), await person.signIn(), ALONE)).status, 200);
      const [account] = await accountsOf(person);
      outband.provider.resetCounts();
      const held = outband.provider.hold(TOKEN, { at: "after" });
      const refreshing = outband.api("POST", `/accounts/${account?.id}/refresh`);
      await held.arrived;
      assert.equal((await remove(person)).status, 204);
      const revoked = outband.provider.count(REVOKE);
      assert.equal(revoked, 1);
      held.release();
      assert.notEqual((await refreshing).body.status, "ACTIVE");
      await until(async () => outband.provider.count(REVOKE) === 2);
      assert.deepEqual(await accountsOf(person), []);
    });

    test("a token that an app renews in the moment of the act is refused as well", async () => {
      const person = await outband.person("renew");
      for (let round = 0; round < 5; round++) {
        const { refresh: renewal } = await tokensFor(outband.url, await person.signIn(), client);
        const [renewed] = await Promise.all([refresh(outband.url, client, renewal), disable(person)]);
        if (renewed.status === 200) {
          assert.equal((await mcp(outband.url, String(renewed.body["access_token"]), "tools/list", {})).status, 401);
          assert.equal((await refresh(outband.url, client, String(renewed.body["refresh_token"]))).status, 400);
        }
        await outband.api("PATCH", pathOf(person), { role: "user" });
        assert.equal((await refresh(outband.url, client, String(renewed.body["refresh_token"] ?? renewal))).status, 400, "nor later");
      }
    });

    test("a credential that a server puts in while the person is deleted is not left behind", async () => {
      const person = await outband.person("put");
      const held = outband.provider.hold(/userinfo|profile/);
      const putting = outband.api("POST", "/accounts", { connection_name: "gmail", identifier: person.sub, credential: { type: "oauth", access_token: "ya29.put-in-while-deleting" } });
      const first = await Promise.race([held.arrived.then(() => "held"), putting.then(() => "answered")]);
      assert.equal((await remove(person)).status, 204);
      held.release();
      await putting;
      assert.deepEqual(await accountsOf(person), [], first);
    });

    test("a provider that is down does not keep a person from being deleted", async () => {
      const held = await grown("down", ALONE);
      const before = outband.provider.count(REVOKE);
      outband.provider.fault({ match: REVOKE, status: 503, times: 5 });
      assert.equal((await remove(held.person)).status, 204);
      assert.ok(outband.provider.count(REVOKE) > before);
      outband.provider.clearFaults();
      assert.deepEqual(await accountsOf(held.person), []);
    });

    test("the last administrator can be neither disabled, lowered nor deleted, also by two at once; a second one frees the first", async () => {
      const root = { sub: "root" };
      for (const role of ["disabled", "user", "viewer"]) assert.equal((await outband.api("PATCH", pathOf(root), { role })).status, 403, role);
      assert.equal((await remove(root)).status, 403);
      assert.equal((await outband.api("POST", "/users", { sub: "root2", email: "root2@people.example", password: PASSWORD, role: "admin" })).status, 201);
      const both = await Promise.all([remove(root), remove({ sub: "root2" })]);
      assert.deepEqual(both.map(({ status }) => status).sort(), [204, 403]);
      const left = (await outband.api("GET", "/users?limit=200")).body.data.filter(({ role }: { role: string }) => role === "admin");
      assert.equal(left.length, 1);
    });

    test("only a key with the scope admin may disable or delete", async () => {
      const person = await outband.person("scope");
      const key = await outband.api("POST", "/api-keys", { name: "manager", scopes: ["read", "execute", "manage"] });
      assert.equal((await outband.api("PATCH", pathOf(person), { role: "disabled" }, key.body.key)).status, 403);
      assert.equal((await outband.api("DELETE", pathOf(person), undefined, key.body.key)).status, 403);
      assert.equal((await mcp(outband.url, person.token, "tools/list", {})).status, 200);
    });

    test("each act is in the audit: who was shut out or removed, by which key", async () => {
      const person = await outband.person("audited");
      await disable(person);
      await remove(person);
      const rows = await auditOf(outband, person.sub);
      if (rows === null) return;
      assert.ok(rows.includes("person.updated") && rows.includes("person.removed"), rows.join(" "));
    });
  });
}

describe("people who end, over two instances", { skip: KINDS.length < 2 }, () => {
  test("disabled at one instance: refused at the other with the next request, and a call that waits there ends", async () => {
    const outband = await startOutband({ kind: "postgresql", connections: ["gmail"] });
    const port = await freePort();
    const read = readSettings({
      PORT: String(port),
      PUBLIC_URL: outband.url,
      DATABASE_URL: outband.databaseUrl ?? "",
      DATA_DIR: outband.dataDir,
      SANDBOX: "off",
      ALLOW_PRIVATE_NETWORK: "true",
      ADMIN_API_KEY: ADMIN_KEY,
      MASTER_KEY: Buffer.from("0123456789abcdef0123456789abcdef").toString("base64"),
    });
    assert.ok(read.ok);
    const second = await createApp({ settings: read.settings, clock: systemClock, log: silentLog });
    await second.listen();
    try {
      const there = `http://127.0.0.1:${port}`;
      const person = await outband.person("two");
      const { access } = await tokensFor(outband.url, await person.signIn(), await registered(outband.url));
      assert.equal((await mcp(there, access, "tools/list", {})).status, 200);
      const asked = await callTool(outband.url, person.token, "summarize_inbox");
      const waiting = callTool(there, person.token, "summarize_inbox", {}, retryOf(asked, "accept"));
      await until(async () => (await outband.api("GET", "/events?type=elicitation.answered")).body.data.length > 0);
      const begun = Date.now();
      assert.equal((await outband.api("PATCH", `/users/${person.sub}`, { role: "disabled" })).status, 200);
      const [byGrant, bySession] = await Promise.all([mcp(there, access, "tools/list", {}), mcp(there, person.token, "tools/list", {})]);
      assert.deepEqual([byGrant.status, bySession.status], [401, 401]);
      assert.equal((await waiting).body.result.isError, true);
      assert.ok(Date.now() - begun < 15_000);
    } finally {
      await second.close();
      await outband.close();
    }
  });
});

async function until(is: () => Promise<boolean>): Promise<void> {
  for (let round = 0; round < 400; round++) {
    if (await is()) return;
    await delay(25);
  }
  assert.fail("it never came");
}

/** Null: the API has no audit yet. */
async function auditOf(outband: Outband, sub: string): Promise<string[] | null> {
  const answer = await outband.api("GET", "/audit?limit=200");
  if (answer.status === 404) return null;
  return (answer.body.data as { action: string; identifier: string | null }[]).filter(({ identifier }) => identifier === sub).map(({ action }) => action);
}
