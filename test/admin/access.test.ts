// Who may see which screen of the dashboard, and who may change something: every screen, by role and method, on real HTTP.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { createBrowser } from "../support/browser.js";
import { type Browser, type Outband, type Page, startOutband } from "../support/outband.js";
import { submit, type Visitors, visitors } from "../support/adminSite.js";

const READING = ["/admin", "/admin/connections", "/admin/connections/gmail", "/admin/accounts", "/admin/accounts/ACCOUNT", "/admin/audit"];
const FORMS = [
  "/admin/new-connection",
  "/admin/new-connection/gmail",
  "/admin/connections/gmail/edit",
  "/admin/connections/gmail/delete",
  "/admin/accounts/ACCOUNT/disconnect",
];
const CHANGES: [string, Record<string, string>][] = [
  ["/admin/new-connection/generic-oauth", { name: "sneaked", "endpoint.issuer": "https://issuer.example" }],
  ["/admin/connections/gmail/edit", { title: "Changed" }],
  ["/admin/connections/gmail/enabled", { enabled: "false" }],
  ["/admin/connections/gmail/delete", { typed: "gmail", accounts: "1" }],
  ["/admin/accounts/ACCOUNT/disconnect", { what: "disconnect" }],
];

describe("who may do what on the dashboard", () => {
  let outband: Outband;
  let who: Visitors;
  let account: string;
  const at = (path: string): string => path.replace("ACCOUNT", account);

  before(async () => {
    outband = await startOutband();
    who = await visitors(outband);
    const owner = await outband.person("owner");
    const made = await outband.api("POST", "/accounts", { connection_name: "gmail", identifier: owner.sub, credential: { type: "oauth", access_token: "at-1" } });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    account = made.body.id;
  });

  /** Nothing of what the changes above would do has happened. */
  async function assertUntouched(): Promise<void> {
    const gmail = await outband.api("GET", "/connections/gmail");
    assert.deepEqual([gmail.status, gmail.body.title, gmail.body.enabled], [200, "Gmail", true]);
    assert.equal((await outband.api("GET", "/connections/sneaked")).status, 404);
    assert.equal((await outband.api("GET", `/accounts/${account}`)).body.status, "ACTIVE");
  }

  /** A page without what differs by itself: the reference and the token. */
  const bare = ({ status, text }: Page): string => `${status} ${text.replace(/req_\w+/g, "").replace(/name="_csrf" value="[^"]*"/g, "")}`;

  const tokenOf = async (browser: Browser): Promise<Page> => browser.get("/account");

  test("an administrator sees every screen, titled and in the dashboard's frame", async () => {
    for (const path of [...READING, ...FORMS]) {
      const page = await who.admin.get(at(path));
      assert.equal(page.status, 200, path);
      assert.match(page.text, /<title>[^<]+ · Admin · Outband<\/title>/, path);
      assert.equal(page.text.match(/<h1/g)?.length, 1, path);
      assert.match(page.text, /<nav class="tabs" aria-label="Admin">/, path);
      assert.equal(page.headers.get("cache-control"), "no-store", path);
    }
  });

  test("a viewer reads, finds no form or button that changes something, and is refused one", async () => {
    for (const path of READING) {
      const page = await who.viewer.get(at(path));
      assert.equal(page.status, 200, path);
      const posts = [...page.text.matchAll(/<form [^>]*method="post" action="([^"]+)"/g)].map((match) => match[1]);
      assert.deepEqual(posts, ["/logout"], path);
      assert.doesNotMatch(page.text, /\/(?:edit|delete|disconnect)"|new-connection/, path);
    }
    for (const path of FORMS) assert.equal((await who.viewer.get(at(path))).status, 403, path);
    const from = await tokenOf(who.viewer);
    for (const [path, fields] of CHANGES) assert.equal((await who.viewer.post(at(path), fields, { from })).status, 403, path);
    await assertUntouched();
  });

  test("to a person without a role there is no dashboard: the 404 of any unknown address, whatever the method", async () => {
    const from = await tokenOf(who.user);
    const nowhere = { GET: await who.user.get("/no/such/page"), POST: await who.user.post("/no/such/page", {}, { from }) };
    assert.equal(nowhere.GET.status, 404);
    for (const path of [...READING, ...FORMS, "/admin/no-such-screen", "/ADMIN"]) assert.equal(bare(await who.user.get(at(path))), bare(nowhere.GET), path);
    for (const [path, fields] of CHANGES) assert.equal(bare(await who.user.post(at(path), fields, { from })), bare(nowhere.POST), path);
    assert.doesNotMatch((await who.user.get("/connections")).text, /href="\/admin"/);
    await assertUntouched();
  });

  test("somebody who is not signed in goes to sign-in from every address alike, and comes back; a POST changes nothing", async () => {
    for (const path of [...READING, ...FORMS, "/admin/no-such-screen"]) {
      const page = await createBrowser(outband.url).get(at(path));
      assert.deepEqual([page.status, page.location, page.text.includes("Gmail")], [303, `${outband.url}/login`, false], path);
    }
    for (const [path, fields] of CHANGES) {
      const page = await createBrowser(outband.url).post(at(path), fields);
      assert.deepEqual([page.status, page.location], [303, `${outband.url}/admin`], path);
    }
    await assertUntouched();

    const late = await outband.person("late");
    await outband.api("PATCH", `/users/${late.sub}`, { role: "admin" });
    const browser = createBrowser(outband.url);
    await browser.get("/admin/audit?category=administration");
    const login = await browser.get("/login");
    const done = await browser.post("/login", { email: late.email, password: "correct horse battery" }, { from: login });
    assert.equal(done.location, `${outband.url}/admin/audit?category=administration`);
  });

  test("a role that is taken away is gone at the next click", async () => {
    const fallen = await outband.person("fallen");
    await outband.api("PATCH", `/users/${fallen.sub}`, { role: "admin" });
    const browser = await fallen.signIn();
    assert.equal((await browser.get("/admin")).status, 200);
    await outband.api("PATCH", `/users/${fallen.sub}`, { role: "user" });
    assert.equal((await browser.get("/admin")).status, 404);
  });

  test("without the form's token, with another session's, or from another site, nothing is changed", async () => {
    const own = await tokenOf(who.admin);
    const foreign = await tokenOf(who.viewer);
    for (const [path, fields] of CHANGES) {
      assert.equal((await who.admin.post(at(path), fields)).status, 403, path);
      assert.equal((await who.admin.post(at(path), fields, { from: foreign })).status, 403, path);
      assert.equal((await who.admin.post(at(path), fields, { from: own, headers: { "sec-fetch-site": "cross-site" } })).status, 403, path);
    }
    await assertUntouched();
  });

  test("an unknown connection, connector, account or screen is a 404, on every method", async () => {
    const from = await tokenOf(who.admin);
    for (const path of ["/admin/connections/none", "/admin/connections/none/edit", "/admin/connections/none/delete", "/admin/new-connection/none", "/admin/accounts/ca_none", "/admin/accounts/ca_none/disconnect", "/admin/accounts/%00", "/admin/connections/constructor", "/admin/none"]) {
      assert.equal((await who.admin.get(path)).status, 404, path);
      if (!/^\/admin\/(?:accounts|connections)\/[^/]+$/.test(path)) assert.equal((await who.admin.post(path, { name: "x" }, { from })).status, 404, path);
    }
  });

  test("addresses that nobody made are refused or show nothing, and never break a page", async () => {
    for (const path of ["/admin/accounts?cursor=x", "/admin/audit?cursor=x", "/admin/audit?cursor=OTk5OTk5OTk5OTk5OTk5OTk5OTk5"]) assert.equal((await who.admin.get(path)).status, 400, path);
    for (const path of ["/admin/accounts?person=%00", "/admin/accounts?status=NONE&status=x", "/admin/audit?category=__proto__&action=%00&account=%F0%9F%98%80", "/admin?done=constructor", "/admin/connections?done=constructor", `/admin/audit?person=${"x".repeat(3_000)}`]) {
      const page = await who.admin.get(path);
      assert.equal(page.status, 200, path);
      assert.doesNotMatch(page.text, /native code/);
    }
  });

  test("what an administrator does stands in the audit under their name", async () => {
    const done = await submit(who.admin, "/admin/connections/slack", { enabled: "false" }, "/admin/connections/slack/enabled");
    assert.equal(done.status, 303);
    const audit = await who.admin.get("/admin/audit?action=connection.updated&connection=slack");
    assert.match(audit.text, /Connection changed/);
    assert.match(audit.text, /admin@people\.example<\/span>\s*<span[^>]*>as administrator/);
  });
});
