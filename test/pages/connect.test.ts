import assert from "node:assert/strict";
import { after, beforeEach, test } from "node:test";
import type { LinkOutcome } from "../../src/vault/front.js";
import type { LinkView } from "../../src/vault/types.js";
import { accountView, connectionView, linkView, onlyInput } from "../support/fakeVault.js";
import { MAIL_READ, MAIL_SEND, PAGE_CONNECTORS } from "../support/pageConnectors.js";
import { openPageSite } from "../support/pageSite.js";

const TOKEN = "token-of-ann-0123456789abcdefghij";
const KEY_TOKEN = "token-of-the-key-0123456789abcdef";
const SECRET = "sk-canary-8d1f7a";

const site = await openPageSite({ connectors: PAGE_CONNECTORS });
after(() => site.close());

function linkOf(token: string): LinkView {
  const link = site.links.get(token);
  assert.ok(link);
  return link;
}

beforeEach(() => {
  site.calls.length = 0;
  site.lines.length = 0;
  site.answer = {};
  site.connections = [
    connectionView({ name: "gmail", title: "Gmail", connector: "gmail" }),
    connectionView({ name: "weather", title: "Weather", connector: "generic-api-key", method: "api_key" }),
  ];
  site.accounts = [accountView({ id: "ca_1", identifier: "ann", external: { id: "7", email: "ann@mail.test", name: null } })];
  site.links = new Map([
    [TOKEN, linkView({ id: "lnk_1", identifier: "ann", scopesRequired: [MAIL_READ], scopesRequested: [MAIL_READ, MAIL_SEND] })],
    [KEY_TOKEN, linkView({ id: "lnk_2", identifier: "ann", connectionName: "weather", connectionTitle: "Weather", connector: "generic-api-key", method: "api_key" })],
  ]);
});

const connected = (token: string): LinkOutcome => ({ kind: "connected", link: linkOf(token), account: site.accounts[0] ?? assert.fail(), repeated: false });

test("GET and HEAD change nothing and set no cookie, however often and by whomever", async () => {
  for (const method of ["GET", "HEAD", "GET"]) {
    for (const as of ["ann", "bo", undefined]) {
      const answer = await site.visit(`/connect/${TOKEN}`, { method, ...(as ? { as } : {}), headers: { "user-agent": "Slackbot-LinkExpanding 1.0" } });
      assert.equal(answer.headers.get("set-cookie"), null);
      assert.ok(answer.status < 500);
    }
  }
  assert.deepEqual(site.calls, []);
});

test("somebody who is not signed in goes to sign in, with the link as the way back", async () => {
  const answer = await site.visit(`/connect/${TOKEN}`);
  assert.equal(answer.status, 303);
  assert.equal(answer.headers.get("location"), "/login");
  assert.equal(answer.headers.get("x-kept-way-back"), `/connect/${TOKEN}`);
  assert.doesNotMatch(answer.text, /Gmail/);
});

test("the page says who, who asked, what for, and where the browser goes next", async () => {
  const { status, text, headers } = await site.visit(`/connect/${TOKEN}`, { as: "ann" });
  assert.equal(status, 200);
  assert.equal(text.match(/<h1/g)?.length, 1);
  for (const part of ["Connect Gmail", "Ann Ferreira", "ann@people.test", "Claude Code", "unverified name", "Read your mail", "Send mail as you", "Not required", "Change labels on your mail", "accounts.mail.test", "No, do not connect"]) {
    assert.ok(text.includes(part), part);
  }
  assert.ok(text.indexOf("What will not be possible") < text.indexOf("Change labels on your mail"), "what was not asked for stands under what will not be possible");
  assert.ok(text.indexOf("Send mail as you") < text.indexOf("What will not be possible"));
  assert.match(headers.get("content-security-policy") ?? "", /form-action 'self' https:\/\/accounts\.mail\.test https:\/\/\*\.accounts\.mail\.test;/);
  assert.equal(headers.get("cache-control"), "no-store");
  assert.ok(text.length < 20_000, `${text.length} bytes`);
});

test("the form may end at the app that the person returns to: a provider that asks nothing goes on at once", async () => {
  site.links.set(TOKEN, { ...linkOf(TOKEN), returnTo: "https://app.example.test:8443/done?x=1" });
  const { headers } = await site.visit(`/connect/${TOKEN}`, { as: "ann" });
  assert.match(headers.get("content-security-policy") ?? "", / https:\/\/app\.example\.test:8443; frame-ancestors/);
});

test("only a provider that the operator described may hand on to hosts nobody named, and only by https", async () => {
  const formAction = async (): Promise<string> => /form-action ([^;]+)/.exec((await site.visit(`/connect/${TOKEN}`, { as: "ann" })).headers.get("content-security-policy") ?? "")?.[1] ?? "";
  assert.ok(!(await formAction()).split(" ").includes("https:"));
  site.connections = [connectionView({ name: "gmail", title: "Own", connector: "generic-oauth", endpoints: { authorization: "https://id.company.test/authorize" } })];
  assert.deepEqual((await formAction()).split(" "), ["'self'", "https://id.company.test", "https://*.id.company.test", "https:"]);
});

test("a name that a client gave itself is text, without what could disguise it", async () => {
  site.links.set(TOKEN, { ...linkOf(TOKEN), clientName: '<img src=x onerror=alert(1)>\u202Etxt.exe"' });
  const { text } = await site.visit(`/connect/${TOKEN}`, { as: "ann" });
  assert.ok(text.includes("&lt;img src=x onerror=alert(1)&gt;txt.exe"));
  assert.doesNotMatch(text, /<img|\u202e/i);
});

test("another person gets a 403 that names nobody and says nothing about the link", async () => {
  for (const path of [`/connect/${TOKEN}`, `/connect/${KEY_TOKEN}`]) {
    const { status, text } = await site.visit(path, { as: "bo" });
    assert.equal(status, 403);
    assert.doesNotMatch(text, /Gmail|Weather|Claude|Ann|ann@|bo@|Read your mail|accounts\.mail\.test/);
    assert.ok(text.includes(`name="back" value="${path}"`), "and a way to sign out that comes back");
  }
});

test("another person's POST starts, refuses and keeps nothing", async () => {
  for (const [path, form] of [[`/connect/${TOKEN}`, {}], [`/connect/${TOKEN}/refuse`, {}], [`/connect/${KEY_TOKEN}/key`, { "field.api_key": SECRET }]] as const) {
    assert.equal((await site.visit(path, { as: "bo", form })).status, 403);
  }
  assert.deepEqual(site.calls, []);
});

test("an unknown token is a 404 page, whoever asks", async () => {
  const { status, text } = await site.visit("/connect/no-such-token-0123456789", { as: "ann" });
  assert.equal(status, 404);
  assert.match(text, /<h1>Page not found/);
});

test("the button starts the flow: this browser's cookie, then the provider", async () => {
  site.answer.start = { kind: "redirect", url: "https://accounts.mail.test/o/auth?state=s" };
  const answer = await site.visit(`/connect/${TOKEN}`, { as: "ann", form: {} });
  assert.equal(answer.status, 303);
  assert.equal(answer.headers.get("location"), "https://accounts.mail.test/o/auth?state=s");
  const cookie = /^outband_browser=([\w-]{43}); Max-Age=86400; Path=\/; Expires=[^;]+; HttpOnly; SameSite=Lax$/.exec(answer.headers.get("set-cookie") ?? "");
  assert.ok(cookie, answer.headers.get("set-cookie") ?? "no cookie");
  assert.deepEqual(site.calls, [{ name: "start", input: { token: TOKEN, person: { kind: "browser", sub: "ann", role: "user" }, browser: cookie[1] } }]);
});

test("a second flow in the same browser keeps the first one's cookie", async () => {
  site.answer.start = { kind: "redirect", url: "https://accounts.mail.test/o/auth?state=s" };
  const value = "A".repeat(43);
  const answer = await site.visit(`/connect/${TOKEN}`, { as: "ann", form: {}, cookie: `outband_browser=${value}` });
  assert.match(answer.headers.get("set-cookie") ?? "", new RegExp(`^outband_browser=${value};`));
});

test("a planted cookie of another shape is replaced", async () => {
  site.answer.start = { kind: "redirect", url: "https://accounts.mail.test/o/auth?state=s" };
  const answer = await site.visit(`/connect/${TOKEN}`, { as: "ann", form: {}, cookie: "outband_browser=planted" });
  assert.doesNotMatch(answer.headers.get("set-cookie") ?? "", /planted/);
});

test("on https the cookie is bound to the host and to TLS", async () => {
  const https = await openPageSite({ connectors: PAGE_CONNECTORS, publicUrl: "https://vault.example.test" });
  try {
    https.links.set(TOKEN, linkOf(TOKEN));
    https.connections.push(connectionView({ name: "gmail", title: "Gmail", connector: "gmail" }));
    https.answer.start = { kind: "redirect", url: "https://accounts.mail.test/" };
    const cookie = (await https.visit(`/connect/${TOKEN}`, { as: "ann", form: {} })).headers.get("set-cookie") ?? "";
    assert.match(cookie, /^__Host-outband_browser=[\w-]{43};.* Path=\/;.* HttpOnly; Secure; SameSite=Lax$/);
    assert.doesNotMatch(cookie, /Domain/i);
  } finally {
    await https.close();
  }
});

test("a POST without the form's token, or without a session, changes nothing", async () => {
  assert.equal((await site.visit(`/connect/${TOKEN}`, { as: "ann", form: { _csrf: "guessed" } })).status, 403);
  const gone = await site.visit(`/connect/${TOKEN}`, { form: {} });
  assert.equal(gone.status, 303);
  assert.equal(gone.headers.get("location"), `/connect/${TOKEN}`);
  assert.deepEqual(site.calls, []);
});

test("the person can say no, and reads a calm page that names who asked", async () => {
  site.answer.refuse = { kind: "failed", link: linkOf(TOKEN), failure: "denied", missing: [], repeated: false };
  const { status, text } = await site.visit(`/connect/${TOKEN}/refuse`, { as: "ann", form: {} });
  assert.equal(status, 200);
  assert.match(text, /You said no to Gmail/);
  assert.match(text, /Claude Code/);
  assert.deepEqual(site.calls.map(({ name }) => name), ["refuse"]);
});

test("expired, used and refused links have their own page with what to do, and no button that starts them", async () => {
  for (const [status, heading] of [["expired", "This link has run out"], ["completed", "This link was already used"], ["denied", "You said no to"], ["failed", "This link was already used"]] as const) {
    site.links.set(TOKEN, { ...linkOf(TOKEN), status });
    for (const form of [undefined, {}]) {
      const answer = await site.visit(`/connect/${TOKEN}`, { as: "ann", ...(form ? { form } : {}) });
      assert.equal(answer.status, 410, status);
      assert.ok(answer.text.includes(heading), status);
      assert.doesNotMatch(answer.text, new RegExp(`action="/connect/${TOKEN}"`));
    }
  }
  assert.deepEqual(site.calls, []);
});

test("a used link tells what is true now, not what once was", async () => {
  site.links.set(TOKEN, { ...linkOf(TOKEN), status: "completed" });
  assert.match((await site.visit(`/connect/${TOKEN}`, { as: "ann" })).text, /Gmail is connected/);
  site.accounts = [accountView({ id: "ca_1", identifier: "ann", status: "REVOKED", statusReason: "disconnected_by_user" })];
  const { text } = await site.visit(`/connect/${TOKEN}`, { as: "ann" });
  assert.doesNotMatch(text, /is connected/);
  assert.match(text, /You disconnected it/);
});

test("a connection that is switched off says so, and starts nothing", async () => {
  site.connections = [connectionView({ name: "gmail", title: "Gmail", connector: "gmail", enabled: false })];
  const { status, text } = await site.visit(`/connect/${TOKEN}`, { as: "ann" });
  assert.equal(status, 403);
  assert.match(text, /Gmail is switched off here/);
});

test("what the sandbox makes is marked, and what it does not is not", async () => {
  assert.doesNotMatch((await site.visit(`/connect/${TOKEN}`, { as: "ann" })).text, /sandbox/i);
  site.links.set(TOKEN, { ...linkOf(TOKEN), sandbox: true });
  assert.match((await site.visit(`/connect/${TOKEN}`, { as: "ann" })).text, /class="badge warn">sandbox/);
});

test("a key form has the connector's fields, hides what is secret and asks the browser not to keep it", async () => {
  const { text } = await site.visit(`/connect/${KEY_TOKEN}`, { as: "ann" });
  assert.match(text, /<label for="field-api_key">API key<\/label>/);
  assert.match(text, /name="field\.api_key" type="password" autocomplete="off"/);
  assert.match(text, /name="field\.account_id" type="text" autocomplete="off"/);
  assert.match(text, /aria-describedby="field-account_id-hint"/);
  assert.match(text, /api\.weather\.test/);
});

test("a key is handed on without what pasting adds, and the page after it says connected", async () => {
  site.answer.submitKey = connected(KEY_TOKEN);
  const { status, text } = await site.visit(`/connect/${KEY_TOKEN}/key`, { as: "ann", form: { "field.account_id": " a1 ", "field.api_key": `\ufeff ${SECRET}\r\n`, "field.other": "x", account_id: "y" } });
  assert.equal(status, 200);
  assert.match(text, /is connected/);
  assert.deepEqual(onlyInput<{ fields: unknown }>(site).fields, { account_id: "a1", api_key: SECRET });
});

test("a malformed key is refused by its field, goes nowhere, and is never echoed", async () => {
  for (const value of [`${SECRET}\nmore`, `${SECRET}\u0007`, `${SECRET}é`, "", " \ufeff "]) {
    const { status, text } = await site.visit(`/connect/${KEY_TOKEN}/key`, { as: "ann", form: { "field.account_id": "acct-canary-11", "field.api_key": value } });
    assert.equal(status, 422);
    assert.match(text, /id="field-api_key"[^>]*aria-describedby="field-api_key-error" aria-invalid="true"/);
    assert.doesNotMatch(text, /id="field-account_id"[^>]*aria-invalid/);
    assert.doesNotMatch(text, /canary/);
  }
  assert.deepEqual(site.calls, []);
  assert.doesNotMatch(site.lines.join("\n"), /canary/);
});

test("a key that the provider refused can be typed again at once, and is never echoed", async () => {
  for (const failure of ["key_refused", "key_malformed", "provider_unavailable"] as const) {
    site.answer.submitKey = { kind: "failed", link: linkOf(KEY_TOKEN), failure, missing: [], repeated: false };
    const { status, text } = await site.visit(`/connect/${KEY_TOKEN}/key`, { as: "ann", form: { "field.account_id": "a1", "field.api_key": SECRET } });
    assert.equal(status, failure === "provider_unavailable" ? 503 : 422, failure);
    assert.match(text, /role="alert"/);
    assert.match(text, new RegExp(`action="/connect/${KEY_TOKEN}/key"`));
    assert.doesNotMatch(text, /canary/);
  }
});

test("a key is not taken for an OAuth link, nor a start for a key link", async () => {
  assert.equal((await site.visit(`/connect/${TOKEN}/key`, { as: "ann", form: { "field.api_key": SECRET } })).status, 404);
  assert.equal((await site.visit(`/connect/${KEY_TOKEN}`, { as: "ann", form: {} })).status, 404);
  assert.deepEqual(site.calls, []);
});
