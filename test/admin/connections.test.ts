// Connections on the dashboard, over real HTTP: made, edited, switched, deleted; the client secret goes in and never comes out.
import assert from "node:assert/strict";
import { before, beforeEach, describe, test } from "node:test";
import { hidden, problemAt, submit, unescaped, valueAt, type Visitors, visitors } from "../support/adminSite.js";
import { type Browser, type Outband, type Page, startOutband } from "../support/outband.js";

const SECRET = "canary-client-secret-0123456789";

describe("connections on the dashboard", () => {
  let outband: Outband;
  let who: Visitors;
  let admin: Browser;
  /** Every page that the administrator was shown. */
  const shown: string[] = [];
  let number = 0;

  before(async () => {
    outband = await startOutband();
    who = await visitors(outband);
    admin = watched(who.admin);
  });

  beforeEach(() => {
    number += 1;
  });

  function watched(browser: Browser): Browser {
    const keep = async (page: Promise<Page>): Promise<Page> => {
      shown.push((await page).text);
      return page;
    };
    return { ...browser, get: (...args) => keep(browser.get(...args)), post: (...args) => keep(browser.post(...args)) };
  }

  const stored = async (name: string) => (await outband.api("GET", `/connections/${name}`)).body;
  const edit = (name: string, fields: Record<string, string>): Promise<Page> => submitEdit(admin, name, fields);

  async function submitEdit(browser: Browser, name: string, fields: Record<string, string>): Promise<Page> {
    const page = await browser.get(`/admin/connections/${name}/edit`);
    assert.equal(page.status, 200);
    return browser.post(`/admin/connections/${name}/edit`, { ...filledIn(page.text), ...fields }, { from: page });
  }

  /** A gmail connection of its own with accounts of these labels; the fake tokens are never sent anywhere. */
  async function withAccounts(labels: string[]): Promise<string> {
    const name = `mail-${number}`;
    const { google } = outband.provider;
    const made = await outband.api("POST", "/connections", { name, connector: "gmail", client_id: google.clientId, client_secret: google.clientSecret.reveal(), endpoints: google.endpoints });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const owner = await outband.person(`owner-${number}`);
    for (const label of labels) {
      const put = await outband.api("POST", "/accounts", { connection_name: name, identifier: owner.sub, label, credential: { type: "oauth", access_token: `at-${label}` } });
      assert.equal(put.status, 201, JSON.stringify(put.body));
    }
    return name;
  }

  const statuses = async (name: string): Promise<string[]> => {
    const accounts = (await outband.api("GET", `/accounts?connection_name=${name}`)).body.data;
    return accounts.map((account: { status: string; status_reason: string | null }) => [account.status, account.status_reason].join(" ").trim());
  };

  test("made, shown, edited and deleted: each step is told, and stands in the vault", async () => {
    const form = await admin.get("/admin/new-connection/gmail");
    // gmail is taken: no name is put into somebody's mouth.
    assert.equal(valueAt(form.text, "name"), "");
    const made = await submit(admin, "/admin/new-connection/gmail", { name: "office", title: "Office mail", client_id: "  the-client ", client_secret: `\ufeff${SECRET} \n`, "scope:https://www.googleapis.com/auth/gmail.send": "1" });
    assert.equal(made.location, `${outband.url}/admin/connections/office?done=created`, made.text);
    const body = await stored("office");
    assert.deepEqual([body.title, body.client_id, body.client_secret_set, body.scopes, body.settings, body.endpoints], ["Office mail", "the-client", true, ["https://www.googleapis.com/auth/gmail.send"], {}, {}]);

    const page = await admin.follow(made);
    assert.match(page.text, /The connection was made\./);
    assert.ok(page.text.includes(`<p class="paste mono">${body.redirect_uri}</p>`));
    assert.match(page.text, /Send mail as you <span class="muted">from the start/);
    assert.match(page.text, /stored, sealed/);

    const edited = await edit("office", { title: "Mail of the office", "settings.confirm_sends": "always" });
    assert.equal(edited.location, `${outband.url}/admin/connections/office?done=saved`, edited.text);
    const after = await stored("office");
    assert.deepEqual([after.title, after.client_id, after.settings], ["Mail of the office", "the-client", { confirm_sends: "always" }]);

    const confirm = await admin.get("/admin/connections/office/delete");
    assert.match(confirm.text, /Delete Mail of the office\?/);
    assert.equal((await outband.api("GET", "/connections/office")).status, 200);
    const deleted = await submit(admin, "/admin/connections/office/delete", {});
    assert.equal(deleted.location, `${outband.url}/admin/connections?done=deleted`);
    assert.equal((await outband.api("GET", "/connections/office")).status, 404);
  });

  test("the redirect URI on the form of a new connection is the one it will have", async () => {
    const bare = await startOutband({ connections: [] });
    const { admin: browser } = await visitors(bare);
    const form = await browser.get("/admin/new-connection/gmail");
    const promised = /<p class="paste mono">([^<]+)<\/p>/.exec(form.text)?.[1];
    assert.equal((await submit(browser, "/admin/new-connection/gmail", {  name: valueAt(form.text, "name") ?? "" })).status, 303);
    assert.equal(promised, (await bare.api("GET", "/connections/gmail")).body.redirect_uri);
    assert.match((await browser.get("/admin")).text, /Gmail: no client id/);
    await bare.close();
  });

  test("what is wrong stands beside its field with 400, everything at once; values stay, the secret does not, nothing is stored", async () => {
    const fields = {
      name: "Not Good",
      title: '<b>"title"</b>',
      client_id: "two\nlines",
      client_secret: SECRET,
      scopes: 'fine "bad"',
      "endpoint.issuer": "ftp://issuer.example",
      "endpoint.api": "https://api.example?q=1",
      "settings.identity.path": "no-slash",
    };
    const page = await submit(admin, "/admin/new-connection/generic-oauth", fields);
    assert.equal(page.status, 400);
    assert.match(page.text, /<title>Error: /);
    assert.match(problemAt(page.text, "name") ?? "", /Small letters/);
    assert.match(problemAt(page.text, "client_id") ?? "", /line break/);
    assert.match(problemAt(page.text, "scopes") ?? "", /one word/);
    assert.match(problemAt(page.text, "endpoint.issuer") ?? "", /https:\/\//);
    assert.match(problemAt(page.text, "endpoint.api") ?? "", /query/);
    assert.match(problemAt(page.text, "settings.identity.path") ?? "", /^This must begin with one \//);
    assert.equal(problemAt(page.text, "settings.identity.id"), "This is needed too.");
    assert.equal(problemAt(page.text, "title"), null);
    for (const name of ["name", "title", "endpoint.issuer", "endpoint.api", "settings.identity.path"] as const) assert.equal(valueAt(page.text, name), fields[name], name);
    assert.equal(valueAt(page.text, "client_secret"), "");
    assert.doesNotMatch(page.text, /<b>"title"/);
    assert.equal((await outband.api("GET", "/connections")).body.data.filter((one: { title: string }) => one.title.includes("title")).length, 0);
  });

  test("a name that is taken is told at the name", async () => {
    const page = await submit(admin, "/admin/new-connection/slack", { name: "gmail" });
    assert.equal(page.status, 400);
    assert.equal(problemAt(page.text, "name"), "There is a connection of this name.");
  });

  test("an address the installation may not reach is refused at its field", async () => {
    const strict = await startOutband({ connections: [], settings: { ALLOW_PRIVATE_NETWORK: "" } });
    const { admin: browser } = await visitors(strict);
    const page = await submit(browser, "/admin/new-connection/generic-api-key", { name: "inner", "endpoint.api": "http://169.254.169.254/latest" });
    assert.equal(page.status, 400);
    assert.notEqual(problemAt(page.text, "endpoint.api"), null, page.text);
    await strict.close();
  });

  test("a generic OAuth connection: endpoints, scopes and settings as they were typed, and back in its form", async () => {
    const made = await submit(admin, "/admin/new-connection/generic-oauth", {
      name: "crm",
      client_id: "crm-client",
      client_secret: SECRET,
      scopes: "contacts.read\n offline_access, contacts.read",
      "endpoint.authorization": "https://crm.example/authorize",
      "endpoint.token": "https://crm.example/token",
      "endpoint.api": "https://api.crm.example",
      "settings.token_auth": "client_secret_basic",
      "settings.pkce": "false",
      "settings.identity.path": "/v1/me",
      "settings.identity.id": "data.id",
      "settings.identity.email": "",
    });
    assert.equal(made.status, 303, made.text);
    const body = await stored("crm");
    assert.deepEqual(body.scopes, ["contacts.read", "offline_access"]);
    assert.deepEqual(body.endpoints, { authorization: "https://crm.example/authorize", token: "https://crm.example/token", api: "https://api.crm.example" });
    assert.deepEqual(body.settings, { token_auth: "client_secret_basic", pkce: false, identity: { path: "/v1/me", id: "data.id" } });
    const unchanged = await edit("crm", {});
    assert.match(unchanged.location ?? "", /done=unchanged$/);
    assert.deepEqual(await stored("crm"), body);
    // Emptied, a setting goes; the others stay.
    assert.match((await edit("crm", { "settings.identity.path": "", "settings.identity.id": "" })).location ?? "", /done=saved$/);
    assert.deepEqual((await stored("crm")).settings, { token_auth: "client_secret_basic", pkce: false });
  });

  test("a generic API key connection, with its JSON field: what is not JSON is told by line and character, never repeated", async () => {
    const wrong = await submit(admin, "/admin/new-connection/generic-api-key", { name: "weather", "endpoint.api": "https://api.weather.example", "settings.fields": '[\n {"name": "api_key" nonsense}]' });
    assert.equal(wrong.status, 400);
    assert.match(problemAt(wrong.text, "settings.fields") ?? "", /^This is not JSON: look at line 2, character \d+\.$/);
    const member = await submit(admin, "/admin/new-connection/generic-api-key", { name: "weather", "endpoint.api": "https://api.weather.example", "settings.fields": '[{"name": "UPPER", "title": "x"}]' });
    assert.match(problemAt(member.text, "settings.fields") ?? "", /lower case/);
    const made = await submit(admin, "/admin/new-connection/generic-api-key", {
      name: "weather",
      "endpoint.api": "https://api.weather.example",
      "settings.api_key.in": "header",
      "settings.api_key.name": "x-key",
      "settings.api_key.prefix": "Token ",
      "settings.probe.path": "/v1/me",
      "settings.probe.method": "GET",
      "settings.probe.status": "204",
      "settings.fields": '[{"name": "station", "title": "Station <1>", "secret": false}, {"name": "api_key", "title": "Key"}]',
    });
    assert.equal(made.status, 303, made.text);
    assert.deepEqual((await stored("weather")).settings, {
      api_key: { in: "header", name: "x-key", prefix: "Token " },
      probe: { path: "/v1/me", status: 204 },
      fields: [
        { name: "station", title: "Station <1>", secret: false },
        { name: "api_key", title: "Key" },
      ],
    });
    // Fields that say nothing where the key goes now are dropped, not refused.
    assert.match((await edit("weather", { "settings.api_key.in": "query", "settings.fields": "", "settings.probe.path": "" })).location ?? "", /done=saved$/);
    assert.deepEqual((await stored("weather")).settings, { api_key: { in: "query", name: "x-key" } });
    const page = await admin.get("/admin/connections/weather");
    assert.doesNotMatch(page.text, /Redirect URI|Client id/);
  });

  test("an empty secret leaves the old one; another one is taken, without touching the accounts", async () => {
    const name = await withAccounts(["one"]);
    assert.match((await edit(name, { title: "Other title", client_secret: "" })).location ?? "", /done=saved$/);
    assert.equal((await stored(name)).client_secret_set, true);
    const rows = async (): Promise<string[]> => {
      const page = await admin.get(`/admin/audit?connection=${name}&action=connection.updated`);
      return [...page.text.matchAll(/<dt>fields<\/dt><dd[^>]*>([^<]*)</g)].map((match) => match[1] ?? "");
    };
    assert.deepEqual(await rows(), ["title"]);
    assert.match((await edit(name, { client_secret: SECRET })).location ?? "", /done=saved$/);
    assert.deepEqual(await rows(), ["clientSecret", "title"]);
    assert.deepEqual(await statuses(name), ["ACTIVE"]);
  });

  test("a client id that is there can be replaced, not taken away", async () => {
    const name = await withAccounts([]);
    const page = await edit(name, { client_id: " " });
    assert.equal(page.status, 400);
    assert.match(problemAt(page.text, "client_id") ?? "", /not taken away/);
    assert.notEqual((await stored(name)).client_id, "");
  });

  test("another client with accounts on it: asked first, nothing saved until then; the secret is typed again, credentials are erased", async () => {
    const name = await withAccounts(["one", "two"]);
    const before = await stored(name);
    const asked = await edit(name, { client_id: "another-client", client_secret: SECRET, title: "New title" });
    assert.equal(asked.status, 409);
    assert.match(asked.text, /2 accounts hold credentials/);
    assert.deepEqual(await stored(name), before);
    assert.deepEqual(await statuses(name), ["ACTIVE", "ACTIVE"]);
    assert.doesNotMatch(asked.text, new RegExp(SECRET));

    const without = await admin.post(`/admin/connections/${name}/edit`, hidden(asked.text), { from: asked });
    assert.equal(without.status, 400);
    assert.match(problemAt(without.text, "client_secret") ?? "", /once more/);
    assert.deepEqual(await stored(name), before);

    const done = await admin.post(`/admin/connections/${name}/edit`, { ...hidden(without.text), client_secret: SECRET }, { from: without });
    assert.match(done.location ?? "", /done=reset$/, done.text);
    const after = await stored(name);
    assert.deepEqual([after.client_id, after.title, after.endpoints], ["another-client", "New title", before.endpoints]);
    assert.deepEqual(await statuses(name), ["EXPIRED connection_changed", "EXPIRED connection_changed"]);
  });

  test("another host with accounts on it is asked about too, and left alone when the answer is no", async () => {
    const name = await withAccounts(["one"]);
    const asked = await edit(name, { "endpoint.api": "https://elsewhere.example" });
    assert.equal(asked.status, 409);
    assert.match(asked.text, /1 account holds a credential/);
    assert.doesNotMatch(asked.text, /once more/);
    assert.match(asked.text, new RegExp(`<a class="button quiet" href="/admin/connections/${name}">Change nothing</a>`));
    assert.deepEqual(await statuses(name), ["ACTIVE"]);
  });

  test("a form that somebody else's change has overtaken saves nothing and keeps what was typed", async () => {
    const name = await withAccounts([]);
    const page = await admin.get(`/admin/connections/${name}/edit`);
    assert.equal((await outband.api("PATCH", `/connections/${name}`, { title: "Theirs" })).status, 200);
    const late = await admin.post(`/admin/connections/${name}/edit`, { ...filledIn(page.text), title: "Mine" }, { from: page });
    assert.equal(late.status, 400);
    assert.match(late.text, /Somebody changed this connection/);
    assert.equal(valueAt(late.text, "title"), "Mine");
    assert.equal((await stored(name)).title, "Theirs");
    const again = await admin.post(`/admin/connections/${name}/edit`, { ...filledIn(late.text) }, { from: late });
    assert.match(again.location ?? "", /done=saved$/);
    assert.equal((await stored(name)).title, "Mine");
  });

  test("switched off and on again with one button each", async () => {
    const name = await withAccounts([]);
    const path = `/admin/connections/${name}`;
    assert.match((await admin.get(path)).text, />Switch off</);
    const off = await submit(admin, path, {}, `${path}/enabled`);
    assert.match(off.location ?? "", /done=off$/);
    assert.equal((await stored(name)).enabled, false);
    assert.match((await admin.get("/admin/connections")).text, /switched off/);
    await submit(admin, path, {}, `${path}/enabled`);
    assert.equal((await stored(name)).enabled, true);
  });

  test("a delete that takes accounts along counts them, wants the name typed, and disconnects them", async () => {
    const name = await withAccounts(["one", "two", "three"]);
    const path = `/admin/connections/${name}/delete`;
    const confirm = await admin.get(path);
    assert.match(confirm.text, /its 3 accounts/);
    for (const typed of ["", "gmail"]) {
      const wrong = await admin.post(path, { ...hidden(confirm.text), typed }, { from: confirm });
      assert.equal(wrong.status, 400);
      assert.match(problemAt(wrong.text, "typed") ?? "", /Nothing was deleted/);
    }
    assert.deepEqual(await statuses(name), ["ACTIVE", "ACTIVE", "ACTIVE"]);
    const done = await admin.post(path, { ...hidden(confirm.text), typed: name }, { from: confirm });
    assert.match(done.location ?? "", /done=deleted$/, done.text);
    assert.equal((await outband.api("GET", `/connections/${name}`)).status, 404);
    assert.deepEqual(await statuses(name), []);
  });

  test("accounts that came after the confirm page are not taken along unseen", async () => {
    const name = await withAccounts([]);
    const path = `/admin/connections/${name}/delete`;
    const confirm = await admin.get(path);
    const owner = `person-owner-${number}`;
    await outband.api("POST", "/accounts", { connection_name: name, identifier: owner, credential: { type: "oauth", access_token: "at" } });
    const late = await admin.post(path, hidden(confirm.text), { from: confirm });
    assert.equal(late.status, 409);
    assert.match(late.text, /Nothing was deleted/);
    assert.match(late.text, /its 1 account/);
    assert.deepEqual(await statuses(name), ["ACTIVE"]);
  });

  test("a client that the environment provides is not edited here: there is no field, and a posted one is not taken", async () => {
    const provided = await startOutband({ connections: [], settings: { GOOGLE_CLIENT_ID: "from-the-environment", GOOGLE_CLIENT_SECRET: SECRET } });
    const { admin: browser } = await visitors(provided);
    const form = await browser.get("/admin/connections/gmail/edit");
    assert.doesNotMatch(form.text, /name="client_(?:id|secret)"/);
    assert.match(form.text, /come from the environment/);
    const done = await submitEdit(browser, "gmail", { client_id: "mine", client_secret: "mine", title: "Mail" });
    assert.match(done.location ?? "", /done=saved$/);
    const body = (await provided.api("GET", "/connections/gmail")).body;
    assert.deepEqual([body.client_id, body.title], ["from-the-environment", "Mail"]);
    assert.match((await browser.get("/admin/connections/gmail/delete")).text, /comes back, empty, at the next start/);
    await provided.close();
  });

  test("Slack on an http address: every page that sets it up says that it needs https, and the overview too", async () => {
    for (const path of ["/admin/new-connection/slack", "/admin/connections/slack", "/admin/connections/slack/edit", "/admin"]) assert.match((await admin.get(path)).text, /Slack takes only redirect URIs on https/, path);
    assert.doesNotMatch((await admin.get("/admin/connections/gmail")).text, /https, and this installation/);
  });

  test("titles and endpoints are printed as text, whatever they hold", async () => {
    const name = `odd-${number}`;
    const title = `<script>alert("1")</script>`;
    const made = await outband.api("POST", "/connections", { name, connector: "generic-api-key", title, endpoints: { api: "https://api.example/<i>" }, settings: { fields: [{ name: "k", title: "</pre><script>2" }] } });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    for (const path of ["", `/${name}`, `/${name}/edit`, `/${name}/delete`]) {
      const page = await admin.get(`/admin/connections${path}`);
      assert.equal(page.status, 200);
      assert.doesNotMatch(page.text, /<script|<i>/i, path);
      assert.ok(unescaped(page.text).includes(title), path);
    }
  });

  test("in all of these pages and in the log, no client secret was ever seen", () => {
    assert.ok(shown.length > 50);
    const secrets = [SECRET, outband.provider.google.clientSecret.reveal(), outband.provider.slack.clientSecret.reveal()];
    for (const secret of secrets) {
      assert.deepEqual(shown.filter((page) => page.includes(secret)).length, 0);
      assert.deepEqual(outband.logs.filter((line) => line.includes(secret)).length, 0);
    }
  });
});

/** What a browser would send of this form as it stands. */
function filledIn(html: string): Record<string, string> {
  const form = /<form class="form"[\s\S]*?<\/form>/.exec(html)?.[0] ?? "";
  const fields: Record<string, string> = { ...hidden(form) };
  for (const [tag] of form.matchAll(/<input [^>]*>/g)) {
    const name = /name="([^"]*)"/.exec(tag)?.[1];
    if (name === undefined || (tag.includes('type="checkbox"') && !tag.includes(" checked"))) continue;
    fields[name] = unescaped(/ value="([^"]*)"/.exec(tag)?.[1] ?? "");
  }
  for (const [, name = "", text = ""] of form.matchAll(/<textarea [^>]*?name="([^"]*)"[^>]*>\n?([^<]*)<\/textarea>/g)) fields[name] = unescaped(text);
  for (const [, name = "", options = ""] of form.matchAll(/<select [^>]*?name="([^"]*)"[^>]*>([\s\S]*?)<\/select>/g)) {
    fields[name] = unescaped(/value="([^"]*)" selected/.exec(options)?.[1] ?? "");
  }
  return fields;
}
