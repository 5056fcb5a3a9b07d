// The app check (contract 5.7) over real HTTP, on both databases: people of somebody's app connect without a sign-in here,
// and their grant belongs to nobody until that app's server has said whose it is. The forbidden side is asserted each time.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { type App, createApp } from "../../src/app.js";
import { systemClock } from "../../src/clock.js";
import { readSettings } from "../../src/config/config.js";
import type { PersonAnswers } from "../support/awkwardPerson.js";
import { type Browser, createBrowser, type Page } from "../support/browser.js";
import { newProfile, NO_CHROMIUM } from "../support/chromium.js";
import { connect, consent, finish, KINDS, retryOf } from "../support/journey.js";
import { type KeyedApi, startKeyedApi } from "../support/keyedApi.js";
import { callTool, linkOf, mcp, outcomeOf } from "../support/mcpCall.js";
import { type MovableClock, movableClock } from "../support/movableClock.js";
import { ADMIN_KEY, type Answer, freePort, type Outband, startOutband } from "../support/outband.js";
import { startVerifyingApp, type VerifyingApp } from "../support/verifyingApp.js";

const EXCHANGE = "POST /google/token";
const REVOKE = "POST /google/revoke";
const FIVE_MINUTES_MS = 300_000;
const READ = "https://www.googleapis.com/auth/gmail.readonly";

/** Time that a test moves, and minute passes that a test runs. */
interface Clockwork extends MovableClock {
  minute(): void;
}

function clockwork(): Clockwork {
  const passes = new Set<() => void>();
  const clock = movableClock();
  return {
    ...clock,
    every(ms, run) {
      if (ms === 60_000) passes.add(run);
      const stop = systemClock.every(ms, run);
      return () => {
        passes.delete(run);
        stop();
      };
    },
    minute() {
      for (const pass of passes) pass();
    },
  };
}

for (const kind of KINDS) {
  describe(`the app check (${kind})`, () => {
    let outband: Outband;
    let clock: Clockwork;
    let app: VerifyingApp;
    let keyed: KeyedApi;
    let key: string;
    const asApp = (method: string, path: string, body?: unknown, by = key): Promise<Answer> => outband.api(method, path, body, by);
    const verify = (linkId: string, code: string, identifier: string, by = key) => asApp("POST", `/authorization-links/${linkId}/verify`, { verification_code: code, identifier }, by);

    before(async () => {
      clock = clockwork();
      outband = await startOutband({ kind, clock });
      app = await startVerifyingApp();
      keyed = await startKeyedApi();
      key = await newKey("the app");
      app.verify = (linkId, body) => asApp("POST", `/authorization-links/${linkId}/verify`, body);
      const made = await outband.api("POST", "/connections", { name: "ledger", connector: "generic-api-key", title: "Ledger", endpoints: { api: keyed.origin }, settings: { probe: { method: "GET", path: "/v1/me", status: 200 } } });
      assert.equal(made.status, 201, JSON.stringify(made.body));
    });

    async function newKey(name: string, scopes = ["execute", "read"]): Promise<string> {
      const made = await outband.api("POST", "/api-keys", { name, scopes, return_to_origins: [app.origin] });
      assert.equal(made.status, 201, JSON.stringify(made.body));
      return made.body.key;
    }

    /** A connection of its own, so that grants of other tests are on none of its accounts. */
    async function ownConnection(name: string): Promise<string> {
      const { clientId, clientSecret, endpoints } = outband.provider.google;
      const made = await outband.api("POST", "/connections", { name, connector: "gmail", client_id: clientId, client_secret: clientSecret.reveal(), endpoints });
      assert.equal(made.status, 201, JSON.stringify(made.body));
      return name;
    }

    async function newLink(identifier: string, more: Record<string, unknown> = {}): Promise<{ id: string; url: string; account_id: string }> {
      const made = await asApp("POST", "/authorization-links", { connection_name: "gmail", identifier, verification: "app", return_to: app.returnTo, ...more });
      assert.equal(made.status, 201, JSON.stringify(made.body));
      return made.body;
    }

    /** Through the consent, by a browser that knows nobody here: the address at the app, not yet opened. */
    async function consented(url: string, answers: PersonAnswers = {}, browser: Browser = createBrowser(outband.url)): Promise<URL> {
      const page = await connect(url, browser, answers);
      assert.equal(page.status, 303, page.text);
      return new URL(page.location ?? "");
    }
    const codeIn = (back: URL): string => back.searchParams.get("verification_code") ?? "";

    async function waiting(identifier: string, more: Record<string, unknown> = {}, answers: PersonAnswers = {}) {
      const link = await newLink(identifier, more);
      return { ...link, code: codeIn(await consented(link.url, answers)) };
    }

    const statusOf = async (accountId: string) => {
      const { status, body } = await outband.api("GET", `/accounts/${accountId}`);
      return status === 200 ? [body.status, body.status_reason] : status;
    };
    const linkStatus = async (id: string) => {
      const { body } = await asApp("GET", `/authorization-links/${id}`);
      return [body.status, body.reason ?? null];
    };
    const eventsOf = async (accountId: string): Promise<{ type: string; data: Record<string, unknown> }[]> => (await outband.api("GET", `/events?account_id=${accountId}`)).body.data;
    const liveGrants = (person: string) => outband.provider.grants.google.live().filter((grant) => grant.person === person).length;
    const problem = (answer: Answer) => [answer.status, answer.body.code, answer.body.reason ?? null];

    test("an app's person connects without a sign-in: nobody is named, the grant waits, the app's right answer makes it the account's", async () => {
      const link = await newLink("app-user/1");
      const browser = createBrowser(outband.url);
      const page = await browser.get(link.url);
      assert.equal(page.status, 200, page.text);
      assert.doesNotMatch(page.text, /You are|app-user/);
      assert.ok(page.text.includes(new URL(app.origin).host), "the app that vouches is named");
      assert.deepEqual(await statusOf(link.account_id), ["PENDING", "awaiting_user"]);

      const back = await consented(link.url, {}, browser);
      assert.equal(back.origin + back.pathname, `${app.origin}/back`);
      assert.deepEqual([...back.searchParams.keys()].sort(), ["link_id", "tab", "verification_code"]);
      assert.match(codeIn(back), /^[\w-]{43}$/);
      assert.deepEqual(await statusOf(link.account_id), ["PENDING", "awaiting_verification"]);
      assert.deepEqual(await linkStatus(link.id), ["started", "awaiting_verification"]);
      const early = await outband.api("POST", "/tools/gmail_list_messages/execute", { identifier: "app-user/1", arguments: {} });
      assert.deepEqual(problem(early), [409, "not_connected", "awaiting_verification"]);

      const answer = await verify(link.id, codeIn(back), "app-user/1");
      assert.equal(answer.status, 200, JSON.stringify(answer.body));
      assert.deepEqual([answer.body.id, answer.body.account_id, answer.body.status, answer.body.reason], [link.id, link.account_id, "completed", undefined]);
      assert.deepEqual(await statusOf(link.account_id), ["ACTIVE", null]);
      const used = await outband.api("POST", "/tools/gmail_list_messages/execute", { identifier: "app-user/1", arguments: {} });
      assert.equal(used.status, 200, JSON.stringify(used.body));

      // Single use: neither again, nor for anybody else.
      assert.deepEqual(problem(await verify(link.id, codeIn(back), "app-user/1")), [410, "link_gone", "completed"]);
      assert.deepEqual(problem(await verify(link.id, codeIn(back), "app-user/2")), [410, "link_gone", "completed"]);
      const told = (await eventsOf(link.account_id)).map(({ type, data }) => [type, data["old_status"] ?? null, data["status"], data["status_reason"]]);
      assert.deepEqual(told, [
        ["connected_account.created", null, "PENDING", "awaiting_user"],
        ["connected_account.authorization_link_created", null, "PENDING", "awaiting_user"],
        ["connected_account.status_updated", "PENDING", "PENDING", "awaiting_verification"],
        ["connected_account.status_updated", "PENDING", "ACTIVE", null],
      ]);
      const opened = await browser.get(link.url);
      assert.equal(opened.status, 410);
      assert.doesNotMatch(opened.text, /app-user|harbourlight|\/connections/);
    });

    test("the app's own state comes back with the code, and its identifiers round-trip byte for byte", async () => {
      for (const identifier of ["a b+c/%2F..", "Zoe\u0301", "Zo\u00e9", "ZOE"]) {
        const link = await newLink(identifier, { state: "s & t=1", label: "mail" });
        const back = await consented(link.url);
        assert.equal(back.searchParams.get("state"), "s & t=1");
        assert.equal((await verify(link.id, codeIn(back), identifier)).status, 200, identifier);
      }
      const link = await waiting("Zoe\u0301");
      assert.deepEqual(problem(await verify(link.id, link.code, "Zo\u00e9")), [422, "verification_failed", "wrong_identifier"]);
    });

    test("another identifier: given back upstream, the link failed, the account what it was; the right one comes too late", async () => {
      const name = await ownConnection("otherid");
      const link = await waiting("owner-1", { connection_name: name }, { person: "Tomás" });
      const before = liveGrants("117902266418850379153");
      outband.provider.resetCounts();
      assert.deepEqual(problem(await verify(link.id, link.code, "owner-2")), [422, "verification_failed", "wrong_identifier"]);
      assert.equal(outband.provider.count(REVOKE), 1);
      assert.equal(liveGrants("117902266418850379153"), before - 1);
      assert.deepEqual(await linkStatus(link.id), ["failed", "not_verified"]);
      assert.deepEqual(await statusOf(link.account_id), ["PENDING", "awaiting_user"]);
      assert.deepEqual(problem(await verify(link.id, link.code, "owner-1")), [410, "link_gone", "not_verified"]);
      assert.equal((await outband.api("GET", "/accounts?identifier=owner-2")).body.data.length, 0);
      assert.equal(outband.provider.count(REVOKE), 1);
    });

    test("a wrong code is no word about the identifier, and the third one ends the wait", async () => {
      const name = await ownConnection("wrongcode");
      const spared = await waiting("typo", { connection_name: name });
      const wrong = "x".repeat(43);
      for (const identifier of ["typo", "nobody"]) assert.deepEqual(problem(await verify(spared.id, wrong, identifier)), [422, "verification_failed", "wrong_code"]);
      assert.equal((await verify(spared.id, spared.code, "typo")).status, 200);

      const ended = await waiting("typo", { connection_name: name, label: "second" }, { person: "Tomás" });
      outband.provider.resetCounts();
      for (let tries = 1; tries <= 3; tries += 1) {
        assert.deepEqual(problem(await verify(ended.id, wrong, "typo")), [422, "verification_failed", "wrong_code"]);
        assert.equal(outband.provider.count(REVOKE), tries < 3 ? 0 : 1);
      }
      assert.deepEqual(problem(await verify(ended.id, ended.code, "typo")), [410, "link_gone", "not_verified"]);
      assert.deepEqual(await statusOf(spared.account_id), ["ACTIVE", null]);
    });

    test("no answer in five minutes: the app comes too late, and the sweeper ends it for those who never come", async () => {
      const name = await ownConnection("silence");
      const late = await waiting("late", { connection_name: name });
      const never = await waiting("never", { connection_name: name }, { person: "Tomás" });
      outband.provider.resetCounts();
      clock.forward(FIVE_MINUTES_MS - 5_000);
      clock.minute();
      assert.deepEqual(await linkStatus(never.id), ["started", "awaiting_verification"]);
      clock.forward(5_000);
      assert.deepEqual(await linkStatus(never.id), ["failed", "not_verified"]);
      assert.deepEqual(problem(await verify(late.id, late.code, "late")), [410, "link_gone", "not_verified"]);
      clock.minute();
      for (const until = Date.now() + 10_000; outband.provider.count(REVOKE) < 2 && Date.now() < until; ) await clock.sleep(50);
      assert.equal(outband.provider.count(REVOKE), 2);
      assert.deepEqual(await statusOf(never.account_id), ["PENDING", "awaiting_user"]);
      assert.deepEqual(problem(await verify(never.id, never.code, "never")), [410, "link_gone", "not_verified"]);
    });

    test("an account in use keeps what it has: through a wait, a refusal, another upstream identity; the same one renews it", async () => {
      const name = await ownConnection("inuse");
      const first = await waiting("steady", { connection_name: name });
      await verify(first.id, first.code, "steady");
      const works = async () => (await outband.api("POST", `/tools/${name}__gmail_list_messages/execute`, { identifier: "steady", arguments: {} })).status;
      outband.provider.resetCounts();

      const refused = await waiting("steady", { connection_name: name });
      assert.deepEqual(await statusOf(first.account_id), ["ACTIVE", null]);
      await verify(refused.id, refused.code, "somebody else");
      assert.equal(outband.provider.count(REVOKE), 0, "the account lives on the same grant upstream");
      assert.deepEqual([await statusOf(first.account_id), await works()], [["ACTIVE", null], 200]);
      const last = (await eventsOf(first.account_id)).at(-1);
      assert.deepEqual([last?.type, last?.data["link_id"], last?.data["link_status"], last?.data["link_reason"]], ["connected_account.updated", refused.id, "failed", "not_verified"]);

      const other = await waiting("steady", { connection_name: name }, { person: "Tomás" });
      assert.deepEqual(problem(await verify(other.id, other.code, "steady")), [409, "wrong_upstream_identity", null]);
      assert.equal(outband.provider.count(REVOKE), 1);
      assert.deepEqual(await linkStatus(other.id), ["failed", "wrong_identity"]);
      assert.deepEqual([await statusOf(first.account_id), await works()], [["ACTIVE", null], 200]);

      const again = await waiting("steady", { connection_name: name });
      assert.equal((await verify(again.id, again.code, "steady")).status, 200);
      assert.deepEqual([await statusOf(first.account_id), await works()], [["ACTIVE", null], 200]);
      assert.equal(outband.provider.count(REVOKE), 1);
    });

    test("while another grant of the same upstream person waits, a refused one is not taken back under it", async () => {
      const name = await ownConnection("twins");
      const refused = await waiting("twin-1", { connection_name: name });
      const kept = await waiting("twin-2", { connection_name: name });
      outband.provider.resetCounts();
      await verify(refused.id, refused.code, "twin-2");
      assert.equal(outband.provider.count(REVOKE), 0);
      assert.equal((await verify(kept.id, kept.code, "twin-2")).status, 200);
    });

    test("another browser delivers the callback: 403, no exchange; the one that began it goes on", async () => {
      const link = await newLink("browser-bound");
      const browser = createBrowser(outband.url);
      const callback = await consent(link.url, browser);
      outband.provider.resetCounts();
      const thief = createBrowser(outband.url);
      await thief.post((await newLink("thief")).url, {}, { from: await thief.get(link.url) });
      for (const other of [createBrowser(outband.url), thief]) {
        const page = await other.get(callback);
        assert.equal(page.status, 403, page.text);
        assert.doesNotMatch(page.text, /verification_code|browser-bound/);
      }
      assert.equal(outband.provider.count(EXCHANGE), 0);
      const back = await browser.get(callback);
      assert.equal(back.status, 303);
      assert.equal((await verify(link.id, codeIn(new URL(back.location ?? "")), "browser-bound")).status, 200);
    });

    test("the attacker forwards his link to a victim: the app asks for the person who is signed in there, and the victim's grant goes back", async () => {
      const name = await ownConnection("forwarded");
      const link = await newLink("attacker", { connection_name: name });
      const victims = createBrowser(outband.url);
      const back = await consented(link.url, { person: "Tomás" }, victims);
      const live = liveGrants("117902266418850379153");
      outband.provider.resetCounts();
      // The attacker knows the link's id, and may open the app's return page with whatever he can make up.
      const guess = new URL(back);
      guess.searchParams.set("verification_code", "A".repeat(43));
      assert.equal((await app.open(guess.href, "attacker")).status, 409);
      const landed = await app.open(back.href, "victim");
      assert.equal(landed.status, 409, landed.text);
      assert.deepEqual(app.verified.slice(-2).map(problem), [
        [422, "verification_failed", "wrong_code"],
        [422, "verification_failed", "wrong_identifier"],
      ]);
      assert.equal(outband.provider.count(REVOKE), 1);
      assert.equal(liveGrants("117902266418850379153"), live - 1);
      // Even with the code in hand, afterwards.
      assert.equal((await app.open(back.href, "attacker")).status, 409);
      assert.deepEqual(await statusOf(link.account_id), ["PENDING", "awaiting_user"]);
      const used = await outband.api("POST", `/tools/${name}__gmail_list_messages/execute`, { identifier: "attacker", arguments: {} });
      assert.deepEqual(problem(used), [409, "not_connected", "awaiting_user"]);
    });

    test("the attacker begins himself and sends the provider's page to a victim: the callback ends at the victim's browser, unexchanged", async () => {
      const link = await newLink("attacker-2");
      const callback = await consent(link.url, createBrowser(outband.url), { person: "Tomás" });
      outband.provider.resetCounts();
      const page = await createBrowser(outband.url).get(callback);
      assert.equal(page.status, 403);
      assert.equal(outband.provider.count(/token|revoke/), 0);
      assert.deepEqual(await statusOf(link.account_id), ["PENDING", "awaiting_user"]);
    });

    test("the attacker plants his own browser's cookie in the victim's: without the provider's code he does not get the victim's", async () => {
      const link = await newLink("attacker-3");
      const attackers = createBrowser(outband.url);
      const callback = await consent(link.url, attackers, { person: "Tomás" });
      const victims = createBrowser(outband.url);
      victims.setCookie("outband_browser", attackers.cookie("outband_browser") ?? "");
      const back = await victims.get(callback);
      assert.equal(back.status, 303);
      const made = new URL(callback);
      made.searchParams.set("code", "made-up");
      const again = await attackers.get(made.href);
      assert.equal(again.status, 410, again.text);
      assert.doesNotMatch(again.text + (again.location ?? ""), /verification_code/);
      assert.equal((await app.open(back.location ?? "", "victim")).status, 409);
      assert.deepEqual(await statusOf(link.account_id), ["PENDING", "awaiting_user"]);
    });

    test("a doubled, then a reloaded callback exchanges once and leads to the same place each time, also after a restart", async () => {
      const link = await newLink("doubler");
      const browser = createBrowser(outband.url);
      const callback = await consent(link.url, browser);
      outband.provider.resetCounts();
      const pages = await Promise.all([browser.get(callback), browser.get(callback)]);
      pages.push(await browser.get(callback));
      await outband.restart();
      pages.push(await browser.get(callback));
      assert.deepEqual(pages.map(({ status }) => status), [303, 303, 303, 303]);
      assert.equal(new Set(pages.map(({ location }) => location)).size, 1);
      assert.equal(outband.provider.count(EXCHANGE), 1);
      assert.equal((await verify(link.id, codeIn(new URL(pages[0]?.location ?? "")), "doubler")).status, 200);
      const after: Page = await browser.get(callback);
      assert.deepEqual([after.status, new URL(after.location ?? "").searchParams.get("verification_code")], [303, null]);
    });

    test("a restart between every two steps changes nothing", async () => {
      const link = await newLink("patient");
      await outband.restart();
      const browser = createBrowser(outband.url);
      const callback = await consent(link.url, browser);
      await outband.restart();
      const back = await browser.get(callback);
      await outband.restart();
      assert.equal((await verify(link.id, codeIn(new URL(back.location ?? "")), "patient")).status, 200);
      await outband.restart();
      assert.deepEqual(await statusOf(link.account_id), ["ACTIVE", null]);
    });

    test("answers at once: one makes it the account's, the others find it done; right against wrong, there is one end", async () => {
      const link = await waiting("racer");
      const answers = await Promise.all(Array.from({ length: 8 }, () => verify(link.id, link.code, "racer")));
      assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 410, 410, 410, 410, 410, 410, 410]);
      const connectedTold = (await eventsOf(link.account_id)).filter(({ data }) => data["status"] === "ACTIVE");
      assert.equal(connectedTold.length, 1);
      for (let round = 0; round < 5; round += 1) {
        const raced = await waiting(`racer-${round}`, { label: "raced" });
        const [right, wrong] = await Promise.all([verify(raced.id, raced.code, `racer-${round}`), verify(raced.id, raced.code, "another")]);
        const [status] = (await statusOf(raced.account_id)) as [string];
        assert.deepEqual([right.status, status], (await linkStatus(raced.id))[0] === "completed" ? [200, "ACTIVE"] : [410, "PENDING"]);
        assert.ok([410, 422].includes(wrong.status));
      }
    });

    test("a disconnect after the consent wins: the answer comes too late, the grant goes back, the account stays REVOKED", async () => {
      const name = await ownConnection("leaving");
      const first = await waiting("leaver", { connection_name: name });
      await verify(first.id, first.code, "leaver");
      const second = await waiting("leaver", { connection_name: name });
      outband.provider.resetCounts();
      assert.equal((await outband.api("DELETE", `/accounts/${first.account_id}`)).body.status, "REVOKED");
      assert.equal(outband.provider.count(REVOKE), 2);
      assert.deepEqual(problem(await verify(second.id, second.code, "leaver")), [410, "link_gone", "disconnected"]);
      assert.deepEqual(await statusOf(first.account_id), ["REVOKED", "disconnected_by_admin"]);
      // Nor what waits on an account that is REVOKED already; a consent that comes after it does connect.
      const third = await waiting("leaver", { connection_name: name });
      assert.deepEqual(await statusOf(first.account_id), ["REVOKED", "disconnected_by_admin"]);
      await outband.api("DELETE", `/accounts/${first.account_id}`);
      assert.deepEqual(problem(await verify(third.id, third.code, "leaver")), [410, "link_gone", "disconnected"]);
      const fourth = await waiting("leaver", { connection_name: name }, { person: "Tomás" });
      assert.equal((await verify(fourth.id, fourth.code, "leaver")).status, 200);
      assert.deepEqual(await statusOf(first.account_id), ["ACTIVE", null]);
    });

    test("a purge takes the waiting grant with it, given back first; the link is nowhere any more", async () => {
      const name = await ownConnection("purged");
      const link = await waiting("purged", { connection_name: name });
      outband.provider.resetCounts();
      assert.equal((await outband.api("DELETE", `/accounts/${link.account_id}?purge=true`)).status, 200);
      assert.equal(outband.provider.count(REVOKE), 1);
      assert.deepEqual(problem(await verify(link.id, link.code, "purged")), [404, "not_found", null]);
    });

    test("a person of ours who is deleted or shut out meanwhile connects nothing", async () => {
      const name = await ownConnection("people");
      const [gone, shut] = [await outband.person("gone"), await outband.person("shut")];
      const first = await waiting(gone.sub, { connection_name: name });
      const second = await waiting(shut.sub, { connection_name: name }, { person: "Tomás" });
      outband.provider.resetCounts();
      assert.equal((await outband.api("DELETE", `/users/${gone.sub}`)).status, 204);
      assert.equal(outband.provider.count(REVOKE), 1);
      assert.deepEqual(problem(await verify(first.id, first.code, gone.sub)), [404, "not_found", null]);
      await outband.api("PATCH", `/users/${shut.sub}`, { role: "disabled" });
      assert.ok([410, 422].includes((await verify(second.id, second.code, shut.sub)).status));
      assert.equal(outband.provider.count(REVOKE), 2);
      assert.deepEqual(await statusOf(second.account_id), ["PENDING", "awaiting_user"]);
      const refused = await asApp("POST", "/authorization-links", { connection_name: name, identifier: shut.sub, verification: "app", return_to: app.returnTo });
      assert.deepEqual(problem(refused), [422, "unknown_identifier", null]);
    });

    test("a provider that is down when the grant goes back: the link has failed all the same, and nobody gets the grant", async () => {
      const name = await ownConnection("outage");
      const link = await waiting("unlucky", { connection_name: name }, { person: "Tomás" });
      const live = liveGrants("117902266418850379153");
      outband.provider.resetCounts();
      outband.provider.fault({ match: REVOKE, times: 1, status: 503, body: "down" });
      assert.deepEqual(problem(await verify(link.id, link.code, "other")), [422, "verification_failed", "wrong_identifier"]);
      assert.deepEqual(await linkStatus(link.id), ["failed", "not_verified"]);
      assert.equal(liveGrants("117902266418850379153"), live);
      assert.deepEqual(problem(await verify(link.id, link.code, "unlucky")), [410, "link_gone", "not_verified"]);
      // When it is tried again: test/vault/farewell.test.ts.
      assert.equal(outband.provider.count(REVOKE), 1);
    });

    test("another client on the connection: refused while a grant waits, or the grant is erased and goes to nobody", async () => {
      const name = await ownConnection("rebound");
      const link = await waiting("rebound", { connection_name: name });
      outband.provider.resetCounts();
      assert.deepEqual(problem(await outband.api("PATCH", `/connections/${name}`, { client_id: "another" })), [409, "connection_in_use", null]);
      assert.equal((await outband.api("PATCH", `/connections/${name}?reset=true`, { client_id: "another" })).status, 200);
      assert.deepEqual(problem(await verify(link.id, link.code, "rebound")), [410, "link_gone", "connection_changed"]);
      assert.deepEqual(await statusOf(link.account_id), ["PENDING", "awaiting_user"]);
      assert.equal(outband.provider.count(/./), 0);
    });

    test("a permission left out, a no, a press on our no: a page that leads back to the app, no code, nothing kept", async () => {
      const name = await ownConnection("partial");
      const cases: [string, (url: string, browser: Browser) => Promise<Page>, unknown[]][] = [
        ["scope", (url, browser) => connect(url, browser, { untick: [READ] }), ["PENDING", "scope_missing"]],
        ["deny", (url, browser) => connect(url, browser, { decision: "deny" }), ["PENDING", "consent_denied"]],
        ["refuse", async (url, browser) => browser.post(`${url}/refuse`, {}, { from: await browser.get(url) }), ["PENDING", "consent_denied"]],
      ];
      for (const [identifier, act, status] of cases) {
        const link = await newLink(identifier, { connection_name: name });
        const page = await act(link.url, createBrowser(outband.url));
        assert.ok([200, 409].includes(page.status), `${identifier}: ${page.status} ${page.text}`);
        assert.ok(page.text.includes(`${app.origin}/back?tab=2&amp;link_id=${link.id}`), page.text);
        assert.doesNotMatch(page.text, /verification_code|\/connections/);
        assert.deepEqual(await statusOf(link.account_id), status);
        assert.deepEqual(problem(await verify(link.id, "x", identifier))[0], 410);
      }
    });

    test("a key is typed in without a sign-in, waits like a grant, and goes to nobody else", async () => {
      const link = await newLink("typist", { connection_name: "ledger" });
      const typed = async (url: string, value: string) => {
        const browser = createBrowser(outband.url);
        const page = await browser.get(url);
        assert.equal(page.status, 200, page.text);
        assert.doesNotMatch(page.text, /You are|typist/);
        return browser.post(`${url}/key`, { "field.api_key": value }, { from: page });
      };
      assert.equal((await typed(link.url, "bad-key-1")).status, 422);
      const back = new URL((await typed(link.url, keyed.goodKey)).location ?? "");
      assert.deepEqual(await statusOf(link.account_id), ["PENDING", "awaiting_verification"]);
      assert.equal((await verify(link.id, codeIn(back), "typist")).status, 200);
      assert.deepEqual(await statusOf(link.account_id), ["ACTIVE", null]);
      const other = await newLink("typist-2", { connection_name: "ledger" });
      const otherBack = new URL((await typed(other.url, keyed.goodKey)).location ?? "");
      assert.equal((await verify(other.id, codeIn(otherBack), "typist")).status, 422);
      assert.deepEqual(await statusOf(other.account_id), ["PENDING", "awaiting_user"]);
    });

    test("somebody who is signed in here at that browser is neither named nor asked, and gets nothing of it", async () => {
      const bystander = await outband.person("bystander");
      const browser = await bystander.signIn();
      const link = await newLink("guest-of-app");
      const page = await browser.get(link.url);
      assert.equal(page.status, 200);
      assert.doesNotMatch(page.text, /bystander/);
      const back = await consented(link.url, {}, browser);
      assert.equal((await verify(link.id, codeIn(back), "guest-of-app")).status, 200);
      assert.equal((await outband.api("GET", `/accounts?identifier=${bystander.sub}`)).body.data.length, 0);
    });

    test("who may: the key that made it, with execute; an app's link needs a way back to an allowed origin; sign_in stays as it was", async () => {
      const link = await waiting("scoped");
      const [stranger, reader] = [await newKey("another app"), await newKey("a reader", ["read"])];
      for (const other of [stranger, ADMIN_KEY]) assert.deepEqual(problem(await verify(link.id, link.code, "scoped", other)), [404, "not_found", null]);
      assert.equal((await verify(link.id, link.code, "scoped", reader)).status, 403);
      assert.equal((await verify(link.id, link.code, "scoped", "obk_nobody")).status, 401);
      assert.equal((await verify("lnk_nothing", link.code, "scoped")).status, 404);
      for (const body of [{}, { verification_code: link.code }, { verification_code: "", identifier: "scoped" }, { verification_code: link.code, identifier: "scoped", extra: 1 }]) {
        assert.equal((await asApp("POST", `/authorization-links/${link.id}/verify`, body)).status, 400);
      }
      assert.equal((await verify(link.id, link.code, "scoped")).status, 200, "none of that counted as a try");

      const ask = (more: Record<string, unknown>, by = key) => asApp("POST", "/authorization-links", { connection_name: "gmail", identifier: "unheard-of", ...more }, by);
      for (const wrong of [{ verification: "app" }, { verification: "app", return_to: "https://evil.example/" }, { verification: "app", return_to: `${app.origin}@evil.example/` }, { verification: "other", return_to: app.returnTo }]) {
        const answer = await ask(wrong);
        assert.equal(answer.status, 400, JSON.stringify(wrong));
        assert.match(answer.body.errors[0].path, /return_to|verification/);
      }
      assert.equal((await ask({ verification: "app", return_to: app.returnTo }, ADMIN_KEY)).status, 400, "a key without origins");
      assert.deepEqual(problem(await ask({ return_to: app.returnTo })), [422, "unknown_identifier", null]);
      assert.deepEqual(problem(await ask({ verification: "sign_in" })), [422, "unknown_identifier", null]);

      const open = await newLink("unfinished");
      assert.deepEqual(problem(await verify(open.id, "x".repeat(43), "unfinished")), [409, "not_connected", "awaiting_user"]);
      const member = await outband.person("member");
      const ownLink = await ask({ identifier: member.sub });
      assert.deepEqual(problem(await verify(ownLink.body.id, "x", member.sub)).slice(0, 2), [400, "invalid_request"]);
    });

    test("a key that is removed verifies nothing, and its session tokens end", async () => {
      const made = await outband.api("POST", "/api-keys", { name: "short-lived", scopes: ["execute"], return_to_origins: [app.origin] });
      const link = await asApp("POST", "/authorization-links", { connection_name: "gmail", identifier: "orphan", verification: "app", return_to: app.returnTo }, made.body.key);
      const token = (await asApp("POST", "/session-tokens", { identifier: "orphan", ttl_s: 60, verification: "app", return_to: app.returnTo }, made.body.key)).body.token;
      const code = codeIn(await consented(link.body.url));
      assert.equal((await mcp(outband.url, token, "tools/list", {})).status, 200);
      await outband.api("DELETE", `/api-keys/${made.body.id}`);
      assert.equal((await verify(link.body.id, code, "orphan", made.body.key)).status, 401);
      assert.equal((await mcp(outband.url, token, "tools/list", {})).status, 401);
      assert.deepEqual(await statusOf(link.body.account_id), ["PENDING", "awaiting_verification"]);
    });

    describe("under a session token", () => {
      const tokenFor = async (identifier: string, more: Record<string, unknown> = { verification: "app", return_to: app.returnTo }, by = key) => {
        const minted = await asApp("POST", "/session-tokens", { identifier, ttl_s: 3600, ...more }, by);
        return minted.status === 201 ? (minted.body.token as string) : minted;
      };
      const call = (token: string, options = {}) => callTool(outband.url, token, "summarize_inbox", {}, options);

      test("a call of a person whom nobody knows here asks by a link that the app verifies; the waiting retry ends with the answer", async () => {
        const token = await tokenFor("mcp-user");
        assert.ok(typeof token === "string", JSON.stringify(token));
        const asked = await call(token);
        assert.equal(asked.body.result.resultType, "input_required", JSON.stringify(asked.body));
        let ended = false;
        const retry = finish(call(token, retryOf(asked, "accept")), (options) => call(token, options)).then((end) => {
          ended = true;
          return end;
        });
        const back = await consented(linkOf(asked));
        await clock.sleep(2_500);
        assert.equal(ended, false, "consent alone is not the end of it");
        const linkId = back.searchParams.get("link_id") ?? "";
        assert.equal((await verify(linkId, codeIn(back), "mcp-user")).status, 200);
        const { answer } = await retry;
        assert.notEqual(answer.body.result.isError, true, JSON.stringify(answer.body));
      });

      test("the app says no: the waiting retry ends at once, in words, and points to the app", async () => {
        const token = await tokenFor("mcp-refused");
        assert.ok(typeof token === "string");
        const asked = await call(token);
        const retry = finish(call(token, retryOf(asked, "accept")), (options) => call(token, options));
        const back = await consented(linkOf(asked));
        await verify(back.searchParams.get("link_id") ?? "", codeIn(back), "somebody");
        const { answer } = await retry;
        assert.deepEqual([outcomeOf(answer).outcome, outcomeOf(answer).reason, outcomeOf(answer)["connect_page"]], ["not_connected", "not_verified", app.origin]);
        assert.equal(JSON.stringify(answer.body).includes(`${outband.url}/connections`), false);
      });

      test("tokens with other terms share no link; a link is verified by the key behind its token alone", async () => {
        const person = await outband.person("both-ways");
        const [byApp, bySignIn, elsewhere] = [await tokenFor(person.sub), await tokenFor(person.sub, {}), await tokenFor(person.sub, { verification: "app", return_to: `${app.origin}/elsewhere` })];
        assert.ok(typeof byApp === "string" && typeof bySignIn === "string" && typeof elsewhere === "string");
        const links = [linkOf(await call(byApp)), linkOf(await call(bySignIn)), linkOf(await call(elsewhere))];
        assert.equal(new Set(links).size, 3);
        assert.equal(linkOf(await call(byApp)), links[0], "the same terms share one");
        const [app1, signIn] = [await createBrowser(outband.url).get(links[0] ?? ""), await createBrowser(outband.url).get(links[1] ?? "")];
        assert.deepEqual([app1.status, signIn.status, new URL(signIn.location ?? "").pathname], [200, 303, "/login"]);
        const back = await consented(links[2] ?? "");
        assert.equal(back.pathname, "/elsewhere");
        const stranger = await newKey("a stranger");
        assert.equal((await verify(back.searchParams.get("link_id") ?? "", codeIn(back), person.sub, stranger)).status, 404);
        assert.equal((await verify(back.searchParams.get("link_id") ?? "", codeIn(back), person.sub)).status, 200);
      });

      test("who gets one: with sign_in people of ours alone; with app also others, but nobody who was shut out; it dies with its person", async () => {
        const refusal = async (identifier: string, more?: Record<string, unknown>) => {
          const answer = await tokenFor(identifier, more);
          return typeof answer === "string" ? "minted" : problem(answer);
        };
        assert.deepEqual(await refusal("not-ours", {}), [422, "unknown_identifier", null]);
        assert.deepEqual((await refusal("not-ours", { verification: "app" })).slice(0, 2), [400, "invalid_request"]);
        assert.deepEqual((await refusal("not-ours", { verification: "app", return_to: "https://evil.example/" })).slice(0, 2), [400, "invalid_request"]);
        assert.equal(await refusal("not-ours"), "minted");
        const person = await outband.person("mortal");
        const token = await tokenFor(person.sub);
        assert.ok(typeof token === "string");
        assert.equal((await mcp(outband.url, token, "tools/list", {})).status, 200);
        await outband.api("PATCH", `/users/${person.sub}`, { role: "disabled" });
        assert.equal((await mcp(outband.url, token, "tools/list", {})).status, 401);
        assert.deepEqual(await refusal(person.sub), [422, "unknown_identifier", null]);
        await outband.api("DELETE", `/users/${person.sub}`);
        assert.equal((await mcp(outband.url, token, "tools/list", {})).status, 401, "nobody of ours any more is not an app's person");
      });
    });

    test("the code is in no log, no event and no answer but the way back", async () => {
      const link = await waiting("canary");
      const heard = JSON.stringify([await asApp("GET", `/authorization-links/${link.id}`), await eventsOf(link.account_id), (await verify(link.id, link.code, "canary")).body]);
      assert.equal(heard.includes(link.code), false);
      assert.equal(outband.logs.some((line) => line.includes(link.code)), false);
    });

    test("the callback on one instance, the answer on another: one end", { skip: kind === "embedded" }, async () => {
      const second = await startSecond(outband);
      try {
        const there = (answer: Promise<Answer>) => answer;
        const elsewhere = (path: string, body: unknown): Promise<Answer> =>
          fetch(`${second.url}/api/v1${path}`, { method: "POST", headers: { authorization: `Bearer ${key}`, "content-type": "application/json" }, body: JSON.stringify(body) }).then(async (answer) => ({ status: answer.status, headers: answer.headers, body: await answer.json() }));
        const link = await waiting("two-instances");
        const waited = asApp("GET", `/authorization-links/${link.id}?wait_s=20`);
        const body = { verification_code: link.code, identifier: "two-instances" };
        const answers = await Promise.all([there(verify(link.id, link.code, "two-instances")), elsewhere(`/authorization-links/${link.id}/verify`, body), elsewhere(`/authorization-links/${link.id}/verify`, body)]);
        assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 410, 410]);
        assert.equal((await waited).body.status, "completed");
      } finally {
        await second.app.close();
      }
    });
  });
}

/** Another instance on the same database, at a port of its own. */
async function startSecond(first: Outband): Promise<{ url: string; app: App }> {
  const port = await freePort();
  const read = readSettings({
    PORT: String(port),
    PUBLIC_URL: first.url,
    DATABASE_URL: first.databaseUrl ?? "",
    SANDBOX: "off",
    ALLOW_PRIVATE_NETWORK: "true",
    ADMIN_API_KEY: ADMIN_KEY,
    MASTER_KEY: Buffer.from("0123456789abcdef0123456789abcdef").toString("base64"),
  });
  assert.ok(read.ok);
  const app = await createApp({ settings: read.settings, clock: systemClock, log: { debug() {}, info() {}, warn() {}, error() {}, child: () => assert.fail() } });
  await app.listen();
  return { url: `http://localhost:${port}`, app };
}

describe("the app check in a real browser", { skip: NO_CHROMIUM }, () => {
  test("from the app and back: our page without a sign-in, Google's consent, 'Connected' at the app; a victim of a forwarded link is not", async () => {
    const outband = await startOutband();
    const app = await startVerifyingApp();
    const made = await outband.api("POST", "/api-keys", { name: "Fieldnotes", scopes: ["execute"], return_to_origins: [app.origin] });
    app.verify = (linkId, body) => outband.api("POST", `/authorization-links/${linkId}/verify`, body, made.body.key);
    const newLink = async (identifier: string): Promise<{ url: string; account_id: string }> =>
      (await outband.api("POST", "/authorization-links", { connection_name: "gmail", identifier, verification: "app", return_to: app.returnTo }, made.body.key)).body;
    const throughGoogle = async (user: string, link: string, person: RegExp): Promise<string> => {
      const page = await (await newProfile()).newPage();
      await page.goto(`${app.origin}/in?user=${user}`);
      await page.goto(link);
      const text = await page.locator("main").innerText();
      assert.match(text, /Asked by/);
      assert.ok(text.includes(new URL(app.origin).host));
      assert.doesNotMatch(text, /You are/);
      await page.getByRole("button", { name: /^Connect/ }).click();
      await page.getByRole("button", { name: person }).first().click();
      await page.getByRole("button", { name: /allow|continue/i }).first().click();
      await page.waitForURL(`${app.origin}/**`);
      return page.locator("h1").innerText();
    };
    const mine = await newLink("ada");
    assert.equal(await throughGoogle("ada", mine.url, /Mara/), "Connected");
    assert.equal((await outband.api("GET", `/accounts/${mine.account_id}`)).body.status, "ACTIVE");

    outband.provider.resetCounts();
    const forwarded = await newLink("mallory");
    assert.equal(await throughGoogle("victim", forwarded.url, /Tomás/), "Not connected");
    const account = (await outband.api("GET", `/accounts/${forwarded.account_id}`)).body;
    assert.deepEqual([account.status, account.external_account], ["PENDING", null]);
    assert.equal(outband.provider.count(REVOKE), 1);
    await outband.close();
  });
});
