import assert from "node:assert/strict";
import { after, beforeEach, test } from "node:test";
import { OutbandError } from "../../src/errors.js";
import { statusWords } from "../../src/pages/words.js";
import type { AccountView, LinkRequest, StatusReason } from "../../src/vault/types.js";
import { accountView, connectionView, linkView, onlyInput } from "../support/fakeVault.js";
import { MAIL_READ, PAGE_CONNECTORS } from "../support/pageConnectors.js";
import { openPageSite, type Answer } from "../support/pageSite.js";

const site = await openPageSite({ connectors: PAGE_CONNECTORS });
after(() => site.close());

beforeEach(() => {
  site.calls.length = 0;
  site.renameError = null;
  site.connections = [
    connectionView({ name: "gmail", title: "Gmail", connector: "gmail" }),
    connectionView({ name: "slack", title: "Slack", connector: "slack" }),
    connectionView({ name: "weather", title: "Weather", connector: "generic-api-key", method: "api_key", enabled: false }),
  ];
  site.accounts = [
    accountView({ id: "ca_1", identifier: "ann", external: { id: "1", email: "ann@mail.test", name: "Ann" }, scopes: [MAIL_READ, "openid"] }),
    accountView({ id: "ca_2", identifier: "ann", label: "work", status: "EXPIRED", statusReason: "refresh_rejected" }),
    accountView({ id: "ca_3", identifier: "ann", label: "old", status: "REVOKED", statusReason: "disconnected_by_admin" }),
    accountView({ id: "ca_9", identifier: "bo", label: "private", external: { id: "9", email: "bo@secret.test", name: null } }),
  ];
  site.links = new Map([
    ["t1", linkView({ id: "lnk_1", identifier: "ann", label: "work", scopesRequired: [MAIL_READ], returnTo: "https://app.test/", callerState: "s", status: "expired" })],
    ["t9", linkView({ id: "lnk_9", identifier: "bo" })],
  ]);
});

const asked = (): LinkRequest => onlyInput<{ request: LinkRequest }>(site).request;

function assertGoesToFreshLink(answer: Answer): void {
  assert.equal(answer.status, 303);
  assert.equal(answer.headers.get("location"), "/connect/fresh-token-of-the-fake-vault");
}

test("the list shows a person's own accounts with status, reason and what to do, and nobody else's", async () => {
  const { status, text } = await site.visit("/connections", { as: "ann" });
  assert.equal(status, 200);
  assert.equal(text.match(/<h1/g)?.length, 1);
  for (const part of ["ann@mail.test", "Connected", "work", "Needs you", "no longer honours", "Reconnect", "An administrator disconnected it", "Connect Slack"]) assert.ok(text.includes(part), part);
  assert.doesNotMatch(text, /bo@|private|ca_9|Weather/);
});

test("a connection that is switched off is shown to those with an account on it, and offers nothing", async () => {
  site.accounts.push(accountView({ id: "ca_4", identifier: "ann", connectionName: "weather", connectionTitle: "Weather", connector: "generic-api-key" }));
  const { text } = await site.visit("/connections", { as: "ann" });
  assert.match(text, /switched off/);
  assert.doesNotMatch(text, /Connect another Weather/);
});

test("somebody who is not signed in sees nothing and comes back after it", async () => {
  for (const path of ["/connections", "/connections/ca_1", "/connections/ca_1/disconnect"]) {
    const answer = await site.visit(path);
    assert.equal(answer.headers.get("location"), "/login");
    assert.equal(answer.headers.get("x-kept-way-back"), path);
    assert.equal(answer.text, "");
  }
});

test("another person's account and one that does not exist get the same 404, on every route", async () => {
  const routes: [string, Record<string, string> | undefined][] = [
    ["", undefined],
    ["/disconnect", undefined],
    ["/disconnect", {}],
    ["/label", { label: "mine" }],
    ["/reconnect", {}],
  ];
  for (const [route, form] of routes) {
    const [theirs, nobodys] = await Promise.all(["ca_9", "ca_404"].map((id) => site.visit(`/connections/${id}${route}`, { as: "ann", ...(form ? { form } : {}) })));
    assert.ok(theirs && nobodys);
    assert.equal(theirs.status, 404, route);
    const bare = ({ text }: Answer): string => text.replace(/req_\w+/g, "");
    assert.equal(bare(theirs), bare(nobodys), route);
  }
  assert.equal((await site.visit("/connections/retry", { as: "ann", form: { link_id: "lnk_9" } })).status, 404);
  assert.deepEqual(site.calls, []);
});

test("connect makes a link for the person who is signed in, whatever the form says, and goes to it on this origin", async () => {
  assertGoesToFreshLink(await site.visit("/connections/connect", { as: "ann", form: { connection_name: "slack", identifier: "bo" } }));
  assert.deepEqual(asked(), { identifier: "ann", connectionName: "slack", label: "", askedBy: "page", clientId: "outband:browser", clientName: null, tool: null });
});

test("another account needs a label that is not taken", async () => {
  for (const label of ["", "  ", "work"]) {
    const { status, text } = await site.visit("/connections/connect", { as: "ann", form: { connection_name: "gmail", another: "1", label } });
    assert.equal(status, 422);
    assert.match(text, /id="label-gmail-error" role="alert"/);
  }
  assert.deepEqual(site.calls, []);
  assertGoesToFreshLink(await site.visit("/connections/connect", { as: "ann", form: { connection_name: "gmail", another: "1", label: " side project " } }));
  assert.equal(asked().label, "side project");
});

test("reconnect asks for the same account again", async () => {
  assertGoesToFreshLink(await site.visit("/connections/ca_2/reconnect", { as: "ann", form: {} }));
  assert.equal(asked().label, "work");
  assert.equal(asked().connectionName, "gmail");
});

test("a try that failed is repeated with the permissions and the way back that it had", async () => {
  assertGoesToFreshLink(await site.visit("/connections/retry", { as: "ann", form: { link_id: "lnk_1" } }));
  const { label, scopesRequired, returnTo, callerState } = asked();
  assert.deepEqual({ label, scopesRequired, returnTo, callerState }, { label: "work", scopesRequired: [MAIL_READ], returnTo: "https://app.test/", callerState: "s" });
});

test("an unknown connection is a 404", async () => {
  assert.equal((await site.visit("/connections/connect", { as: "ann", form: { connection_name: "nope" } })).status, 404);
});

test("the account's page shows its permissions in plain words and its label in a field", async () => {
  const { text } = await site.visit("/connections/ca_1", { as: "ann" });
  assert.match(text, /Read your mail/);
  assert.match(text, /See which account it is/);
  assert.match(text, /<label for="label">/);
  assert.doesNotMatch(text, new RegExp(MAIL_READ));
});

test("a rename keeps the person on the page; a label that is taken or odd is said at the field, escaped", async () => {
  const renamed = await site.visit("/connections/ca_2/label", { as: "ann", form: { label: " office " } });
  assert.equal(renamed.headers.get("location"), "/connections/ca_2?done=renamed");
  assert.equal(onlyInput<{ label: string }>(site).label, "office");
  site.renameError = new OutbandError("already_exists");
  assert.match((await site.visit("/connections/ca_2/label", { as: "ann", form: { label: "x" } })).text, /already have an account with this label/);
  site.renameError = new OutbandError("invalid_request", { problems: [{ path: "label", message: "Too <odd>." }] });
  const odd = await site.visit("/connections/ca_2/label", { as: "ann", form: { label: "<script>" } });
  assert.equal(odd.status, 422);
  assert.match(odd.text, /Too &lt;odd&gt;\./);
  assert.doesNotMatch(odd.text, /<script>/);
});

test("disconnect asks first: the GET changes nothing, the POST does it once", async () => {
  const page = await site.visit("/connections/ca_1/disconnect", { as: "ann" });
  assert.match(page.text, /Disconnect Gmail\?/);
  assert.deepEqual(site.calls, []);
  const done = await site.visit("/connections/ca_1/disconnect", { as: "ann", form: {} });
  assert.equal(done.headers.get("location"), "/connections?done=disconnected");
  assert.deepEqual(site.calls, [{ name: "disconnect", input: { actor: { kind: "browser", sub: "ann", role: "user" }, id: "ca_1", options: { purge: false } } }]);
});

test("what is already disconnected can be removed from the list", async () => {
  assert.match((await site.visit("/connections/ca_3/disconnect", { as: "ann" })).text, /Remove this entry\?/);
  await site.visit("/connections/ca_3/disconnect", { as: "ann", form: {} });
  assert.deepEqual(onlyInput<{ options: unknown }>(site).options, { purge: true });
});

test("no change without the form's token", async () => {
  for (const path of ["/connections/connect", "/connections/retry", "/connections/ca_1/label", "/connections/ca_1/reconnect", "/connections/ca_1/disconnect"]) {
    assert.equal((await site.visit(path, { as: "ann", form: { _csrf: "", connection_name: "gmail", label: "x", link_id: "lnk_1" } })).status, 403, path);
  }
  assert.deepEqual(site.calls, []);
});

test("the note after a change comes from a fixed list: the address cannot put words on the page", async () => {
  assert.match((await site.visit("/connections?done=disconnected", { as: "ann" })).text, /role="status">Disconnected\./);
  for (const done of ["<b>hi", "toString", "__proto__", "constructor"]) {
    assert.doesNotMatch((await site.visit(`/connections?done=${encodeURIComponent(done)}`, { as: "ann" })).text, /role="status"/, done);
  }
});

test("what third parties wrote is text", async () => {
  site.accounts = [accountView({ id: "ca_1", identifier: "ann", label: "<i>&amp;", external: { id: "1", email: '"><script>alert(1)</script>\u202e', name: "<u>" } })];
  for (const path of ["/connections", "/connections/ca_1", "/connections/ca_1/disconnect"]) {
    assert.doesNotMatch((await site.visit(path, { as: "ann" })).text, /<script|<i>|<u>|\u202e/, path);
  }
});

test("every status and reason of the contract has words, and a button only where the person can mend it", () => {
  const reasons: Record<AccountView["status"], (StatusReason | null)[]> = {
    PENDING: ["awaiting_user", "awaiting_verification", "consent_denied", "link_expired", "scope_missing"],
    ACTIVE: [null],
    EXPIRED: ["refresh_rejected", "no_refresh_token", "token_rejected", "refresh_outcome_unknown", "connection_changed", "key_lost"],
    REVOKED: ["disconnected_by_user", "disconnected_by_admin", "revoked_at_provider"],
    ERROR: ["client_rejected", "misconfigured", "unreadable_credential"],
  };
  const sentences = new Set<string | null>();
  for (const [status, list] of Object.entries(reasons)) {
    for (const statusReason of list) {
      const words = statusWords({ status: status as AccountView["status"], statusReason }, "Gmail");
      assert.ok(!sentences.has(words.sentence), `${status}/${statusReason} has a sentence of its own`);
      sentences.add(words.sentence);
      assert.equal(words.action === null, status === "ACTIVE" || statusReason === "client_rejected" || statusReason === "misconfigured");
    }
  }
});

test("the front door brings each person to theirs", async () => {
  assert.equal((await site.visit("/", { as: "ann" })).headers.get("location"), "/connections");
  assert.equal((await site.visit("/", { as: "root" })).headers.get("location"), "/admin");
  assert.equal((await site.visit("/")).headers.get("x-kept-way-back"), "/");
});
