import assert from "node:assert/strict";
import { after, beforeEach, test } from "node:test";
import { FAILURES } from "../../src/pages/linkFailures.js";
import type { LinkFailure } from "../../src/vault/front.js";
import { accountView, connectionView, linkView, onlyInput } from "../support/fakeVault.js";
import { MAIL_READ, PAGE_CONNECTORS } from "../support/pageConnectors.js";
import { openPageSite } from "../support/pageSite.js";

const BROWSER = "B".repeat(43);
const ANSWER = "/connect/callback/gmail?state=st4te&code=c0de&iss=https%3A%2F%2Faccounts.mail.test";
const IN = { as: "ann", cookie: `outband_browser=${BROWSER}` };

const site = await openPageSite({ connectors: PAGE_CONNECTORS });
after(() => site.close());

const link = linkView({ id: "lnk_1", identifier: "ann", scopesRequired: [MAIL_READ] });
const account = accountView({ id: "ca_1", identifier: "ann", external: { id: "7", email: "ann<b>@mail.test", name: "Ann" } });

beforeEach(() => {
  site.calls.length = 0;
  site.answer = {};
  site.connections = [connectionView({ name: "gmail", title: "Gmail", connector: "gmail" })];
});

const fail = (failure: LinkFailure, own = link, missing: { name: string; title: string }[] = []): void => {
  site.answer.callback = { kind: "failed", link: own, failure, missing, repeated: false };
};

test("the vault gets the address below PUBLIC_URL, this browser's value and the signed-in person, whatever Host says", async () => {
  site.answer.callback = { kind: "connected", link, account, repeated: false };
  await site.visit(ANSWER, { ...IN, headers: { "x-forwarded-host": "evil.test", "x-forwarded-proto": "https" } });
  const { connectionName, url, person, browser } = onlyInput<{ connectionName: string; url: URL; person: unknown; browser: string }>(site);
  assert.equal(connectionName, "gmail");
  assert.equal(url.href, `${site.origin}${ANSWER}`);
  assert.deepEqual(person, { kind: "browser", sub: "ann", role: "user" });
  assert.equal(browser, BROWSER);
});

test("success names the upstream account as text and says where to go on", async () => {
  site.answer.callback = { kind: "connected", link, account, repeated: false };
  const { status, text } = await site.visit(ANSWER, IN);
  assert.equal(status, 200);
  assert.match(text, /<h1>Gmail is connected<\/h1>/);
  assert.match(text, /ann&lt;b&gt;@mail\.test/);
  assert.match(text, /You can close this tab and go back to <span class="outside">Claude Code<\/span>/);
  assert.doesNotMatch(text, /st4te|c0de/);
});

test("a doubled callback shows what became of the first, and no success over an account that is no longer connected", async () => {
  site.answer.callback = { kind: "connected", link, account, repeated: true };
  assert.equal((await site.visit(ANSWER, IN)).status, 200);
  site.answer.callback = { kind: "connected", link, account: { ...account, status: "REVOKED", statusReason: "revoked_at_provider" }, repeated: true };
  const { status, text } = await site.visit(ANSWER, IN);
  assert.equal(status, 410);
  assert.doesNotMatch(text, /is connected/);
});

test("with a return_to the browser goes there, with the link's id and the caller's state", async () => {
  site.answer.callback = { kind: "connected", link: { ...link, returnTo: "https://app.test/back?tab=2", callerState: "mine & yours" }, account, repeated: false };
  const answer = await site.visit(ANSWER, IN);
  assert.equal(answer.status, 303);
  assert.equal(answer.headers.get("location"), "https://app.test/back?tab=2&link_id=lnk_1&state=mine+%26+yours");
  for (const returnTo of ["javascript:alert(1)", "data:text/html,x", "not a url"]) {
    site.answer.callback = { kind: "connected", link: { ...link, returnTo }, account, repeated: false };
    assert.equal((await site.visit(ANSWER, IN)).status, 200, returnTo);
  }
});

test("every failure has its own heading and status, one h1, and something to do next", async () => {
  const headings = new Set<string>();
  for (const failure of Object.keys(FAILURES) as LinkFailure[]) {
    fail(failure);
    const { status, text } = await site.visit(ANSWER, IN);
    assert.equal(status, FAILURES[failure].status, failure);
    const [, heading] = /<h1>([^<]+)<\/h1>/.exec(text) ?? [];
    assert.ok(heading && !headings.has(heading), failure);
    headings.add(heading);
    assert.match(text, /action="\/connections\/retry"|href="\/connections"|href="">Look again/, failure);
    assert.doesNotMatch(text, /st4te|c0de|undefined|\[object/, failure);
  }
});

test("saying no at the provider ends calmly; only our own trouble is a 5xx", () => {
  assert.equal(FAILURES.denied.status, 200);
  for (const failure of ["wrong_browser", "wrong_person"] as const) assert.equal(FAILURES[failure].status, 403);
  assert.equal(FAILURES.unknown_state.status, 400);
  const broken = (Object.keys(FAILURES) as LinkFailure[]).filter((failure) => FAILURES[failure].status >= 500);
  assert.deepEqual(broken.sort(), ["client_rejected", "not_stored", "provider_error", "provider_unavailable"]);
});

test("a missing permission is named, with a fresh link on offer", async () => {
  fail("scope_missing", link, [{ name: MAIL_READ, title: "Read your mail" }]);
  const { text } = await site.visit(ANSWER, IN);
  assert.match(text, /<li>Read your mail<\/li>/);
  assert.match(text, /action="\/connections\/retry"[\s\S]*name="link_id" value="lnk_1"/);
});

test("to a wrong person or browser nothing of the link is shown", async () => {
  for (const failure of ["wrong_person", "wrong_browser", "unknown_state"] as const) {
    fail(failure, linkView({ id: "lnk_9", identifier: "bo" }));
    assert.doesNotMatch((await site.visit(ANSWER, IN)).text, /Gmail|Claude|lnk_9/, failure);
  }
  fail("expired", linkView({ id: "lnk_9", identifier: "bo" }));
  assert.doesNotMatch((await site.visit(ANSWER, IN)).text, /Gmail|Claude|lnk_9/, "somebody else's link, whatever the failure");
});

test("a browser without our cookie is judged by the vault at once; no sign-in stands in between", async () => {
  fail("wrong_browser");
  assert.equal((await site.visit(ANSWER)).status, 403);
  assert.deepEqual({ ...onlyInput<object>(site), url: null }, { connectionName: "gmail", url: null, person: null, browser: null });
});

test("the right browser whose session ended signs in first and comes back with its answer; nothing is exchanged before", async () => {
  fail("wrong_person");
  const answer = await site.visit(ANSWER, { cookie: `outband_browser=${BROWSER}` });
  assert.equal(answer.status, 303);
  assert.equal(answer.headers.get("x-kept-way-back"), ANSWER);
  assert.equal(onlyInput<{ person: unknown }>(site).person, null);
});

test("HEAD exchanges nothing, and a posted answer (form_post) is a clean 405", async () => {
  assert.equal((await site.visit(ANSWER, { ...IN, method: "HEAD" })).status, 200);
  for (const as of ["ann", undefined]) {
    const posted = await site.visit("/connect/callback/gmail", { ...(as ? { as } : {}), form: { state: "st4te", code: "c0de" } });
    assert.equal(posted.status, 405);
    assert.equal(posted.headers.get("allow"), "GET, HEAD");
    assert.match(posted.text, /<h1>/);
    assert.doesNotMatch(posted.text, /st4te|c0de/);
  }
  assert.deepEqual(site.calls, []);
});
