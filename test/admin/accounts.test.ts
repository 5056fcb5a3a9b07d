// Accounts, overview and audit on the dashboard, over real HTTP and on both databases.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { hidden, submit, type Visitors, visitors } from "../support/adminSite.js";
import { connect, KINDS } from "../support/journey.js";
import { mcp } from "../support/mcpCall.js";
import { registered, tokensFor } from "../support/oauthClient.js";
import { type Outband, type Page, type Person, startOutband } from "../support/outband.js";

const EVIL = `<script>alert("1")</script>\u202e<b>`;
const ACCOUNT_LINK = /href="\/admin\/accounts\/(ca_\w+)"/g;

for (const kind of KINDS) {
  describe(`accounts on the dashboard (${kind})`, () => {
    let outband: Outband;
    let who: Visitors;
    let mara: Person;
    /** Connected as a person does it, so that it has an upstream identity and a story. */
    let grown: string;

    before(async () => {
      outband = await startOutband({ kind });
      who = await visitors(outband);
      mara = await outband.person("mara");
      const page = await connectGmail(mara);
      assert.equal(page.status, 200, page.text);
      grown = (await outband.api("GET", `/accounts?identifier=${mara.sub}`)).body.data[0].id;
    });

    async function connectGmail(person: Person): Promise<Page> {
      const browser = await person.signIn();
      const asked = await browser.post("/connections/connect", { connection_name: "gmail" }, { from: await browser.get("/connections") });
      return connect(asked.location ?? "", browser);
    }

    const statusOf = async (id: string) => {
      const { status, body } = await outband.api("GET", `/accounts/${id}`);
      return status === 200 ? [body.status, body.status_reason].filter(Boolean).join(" ") : status;
    };
    const idsIn = (page: Page): string[] => [...page.text.matchAll(ACCOUNT_LINK)].map((match) => match[1] ?? "");

    async function put(sub: string, connection = "gmail", label = ""): Promise<string> {
      const made = await outband.api("POST", "/accounts", { connection_name: connection, identifier: sub, label, credential: { type: "oauth", access_token: `at-${sub}-${label}` } });
      assert.equal(made.status, 201, JSON.stringify(made.body));
      return made.body.id;
    }

    test("one account's page: upstream identity, person, permissions in words, and its whole story", async () => {
      const page = await who.admin.get(`/admin/accounts/${grown}`);
      assert.equal(page.status, 200);
      for (const part of ["mara.lindqvist@harbourlight.example", "mara@people.example", mara.sub, "Read your mail", "Connected", grown, "Link made", "Account connected"]) assert.ok(page.text.includes(part), part);
      assert.doesNotMatch(page.text, /All of it/);
    });

    test("the list is filtered by connection, status and person, by e-mail address or identifier, alone and together", async () => {
      const bo = await outband.person("bo");
      const ids = { gmail: await put(bo.sub), work: await put(bo.sub, "gmail", "work"), slack: await put(bo.sub, "slack") };
      await outband.api("DELETE", `/accounts/${ids.work}`);
      const listed = async (query: string): Promise<string[]> => idsIn(await who.admin.get(`/admin/accounts?${query}`)).sort();
      const sorted = (...some: string[]): string[] => some.sort();
      assert.deepEqual(await listed(`person=${bo.sub}`), sorted(ids.gmail, ids.work, ids.slack));
      assert.deepEqual(await listed("person=BO@people.example"), sorted(ids.gmail, ids.work, ids.slack));
      assert.deepEqual(await listed("person=BO"), []);
      assert.deepEqual(await listed("person=bo@people.example&connection=slack"), [ids.slack]);
      assert.deepEqual(await listed(`person=${bo.sub}&status=REVOKED`), [ids.work]);
      assert.deepEqual(await listed(`person=${bo.sub}&status=REVOKED&connection=slack`), []);
      const none = await who.admin.get("/admin/accounts?connection=none");
      assert.match(none.text, /No account fits this/);
      const kept = await who.admin.get("/admin/accounts?connection=slack&status=ACTIVE&person=bo@people.example");
      assert.match(kept.text, /<option value="slack" selected>/);
      assert.match(kept.text, /<option value="ACTIVE" selected>/);
      assert.match(kept.text, /value="bo@people\.example"/);
    });

    test("pages of the list hold every account once, newest first, also when one is added meanwhile; the filter goes along", async () => {
      const many = await outband.person("many");
      const made: string[] = [];
      for (let index = 0; index < 101; index++) made.push(await put(many.sub, "slack", `n${index}`));
      const seen: string[] = [];
      let path: string | null = `/admin/accounts?person=${many.sub}&connection=slack`;
      let pages = 0;
      while (path !== null) {
        const page: Page = await who.admin.get(path);
        seen.push(...idsIn(page));
        pages += 1;
        if (pages === 1) await put(many.sub, "slack", "late");
        const next: string | undefined = /<a class="button small" href="([^"]+)">Older/.exec(page.text)?.[1];
        path = next?.replaceAll("&amp;", "&") ?? null;
        if (path !== null) assert.match(path, /connection=slack.*cursor=|cursor=.*connection=slack/);
        assert.equal(/Back to the newest/.test(page.text), pages > 1);
      }
      assert.deepEqual([pages, seen], [3, made.toReversed()]);
    });

    test("disconnecting: the confirm page changes nothing; its form erases here, tells the provider, and says an administrator did it", async () => {
      const person = await outband.person("leaver");
      await connectGmail(person);
      const id = (await outband.api("GET", `/accounts?identifier=${person.sub}`)).body.data[0].id;
      outband.provider.resetCounts();
      const path = `/admin/accounts/${id}/disconnect`;
      const confirm = await who.admin.get(path);
      assert.match(confirm.text, /Disconnect Gmail\?/);
      assert.match(confirm.text, /leaver@people\.example/);
      assert.deepEqual([await statusOf(id), outband.provider.count(/revoke/)], ["ACTIVE", 0]);
      const done = await who.admin.post(path, hidden(confirm.text), { from: confirm });
      assert.equal(done.location, `${outband.url}/admin/accounts/${id}?done=disconnected`, done.text);
      assert.equal(await statusOf(id), "REVOKED disconnected_by_admin");
      const page = await who.admin.follow(done);
      for (const part of ["An administrator disconnected it.", "Account disconnected", "Access taken back at the provider", "admin@people.example"]) assert.ok(page.text.includes(part), part);

      // What was agreed to was a disconnect; the entry is not removed by sending the same form again.
      const again = await who.admin.post(path, hidden(confirm.text), { from: confirm });
      assert.equal(again.location, `${outband.url}${path}`);
      assert.equal(await statusOf(id), "REVOKED disconnected_by_admin");
      const removed = await submit(who.admin, path, {});
      assert.match(removed.location ?? "", /\/admin\/accounts\?done=removed$/);
      assert.equal(await statusOf(id), 404);
      assert.equal((await who.admin.get(`/admin/accounts/${id}`)).status, 404);
      assert.match((await who.admin.get(`/admin/audit?account=${id}`)).text, /Account removed/);
    });

    test("an account that was connected since its removal was asked about is neither removed nor disconnected", async () => {
      const person = await outband.person("returner");
      const id = await put(person.sub, "slack");
      await outband.api("DELETE", `/accounts/${id}`);
      const confirm = await who.admin.get(`/admin/accounts/${id}/disconnect`);
      assert.match(confirm.text, /Remove this account\?/);
      await put(person.sub, "slack");
      const late = await who.admin.post(`/admin/accounts/${id}/disconnect`, hidden(confirm.text), { from: confirm });
      assert.equal(late.location, `${outband.url}/admin/accounts/${id}/disconnect`);
      assert.equal(await statusOf(id), "ACTIVE");
    });

    test("names that people, clients and providers chose are text on every screen, without hidden characters", async () => {
      const person = await outband.person("evil");
      await outband.api("PATCH", `/users/${person.sub}`, { name: "<script>name</script>" });
      const sub = (await outband.api("GET", `/accounts/${grown}`)).body.external_account.id;
      outband.provider.fault({ match: "GET /google/userinfo", status: 200, body: { sub, email: `x@${EVIL}`, name: EVIL } });
      const page = await connectGmail(person);
      assert.equal(outband.provider.faultsLeft(), 0, page.text);
      const account = (await outband.api("GET", `/accounts?identifier=${person.sub}`)).body.data[0];
      assert.equal(account.external_account.name, EVIL, JSON.stringify(account));
      const odd = await outband.api("POST", "/users", { sub: `<img/src="x">'&`, email: "odd@people.example", name: "odd", role: "user" });
      assert.equal(odd.status, 201, JSON.stringify(odd.body));
      await put(odd.body.sub, "slack", `"><script>label`);
      for (const path of ["/admin", "/admin/accounts", `/admin/accounts/${account.id}`, `/admin/accounts/${account.id}/disconnect`, "/admin/audit", `/admin/accounts?person=${encodeURIComponent(odd.body.sub)}`, `/admin/audit?person=${encodeURIComponent(`"><script>`)}&action=${encodeURIComponent(`"><script>`)}`]) {
        const shown = await who.admin.get(path);
        assert.equal(shown.status, 200, path);
        assert.doesNotMatch(shown.text, /<script|<b>|<img|\u202e/i, path);
      }
      assert.match((await who.admin.get(`/admin/accounts/${account.id}`)).text, /&lt;script&gt;alert/);
    });

    test("the audit names an app by its own word, marked as such, beside a piece of its id; and what is an administrator's own is not done as one", async () => {
      const cells = async (query: string): Promise<string[]> =>
        [...(await who.admin.get(`/admin/audit?${query}`)).text.matchAll(/<td class="by"[^>]*>(.*?)<\/td>/g)].map(([, cell = ""]) => cell.replace(/<[^>]*>/g, "").replace(/\s+/g, " ").trim());
      const [plain, evil] = [await registered(outband.url, { client_name: "Desk helper" }), await registered(outband.url, { client_name: EVIL })];
      const asks = async (token: string): Promise<void> => assert.equal((await mcp(outband.url, token, "tools/call", { name: "slack_list_channels", arguments: {} })).status, 200);
      const lee = await outband.person("lee");
      const browser = await lee.signIn();
      for (const client of [plain, evil]) await asks((await tokensFor(outband.url, browser, client)).access);
      await asks(lee.token);
      const told = await cells(`person=${lee.email}&action=elicitation.asked`);
      const short = (id: string): string => `${id.slice(0, 8)}…`;
      assert.deepEqual(told, [
        `${lee.email} through the admin API key`,
        `${lee.email} through &lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt;&lt;b&gt; unverified name ${short(evil.id)}`,
        `${lee.email} through Desk helper unverified name ${short(plain.id)}`,
      ]);
      assert.equal((await connectGmail({ ...lee, signIn: async () => who.admin })).status, 200);
      const admin = (await outband.api("GET", "/users")).body.data.find(({ role }: { role: string }) => role === "admin");
      assert.deepEqual(await cells(`person=${admin.email}&action=account.connected`), [admin.email]);
    });

    test("the overview counts accounts by status and names what needs an operator, with the reason", async () => {
      const before = (await outband.api("GET", "/connections/gmail")).body;
      const person = await outband.person("stuck");
      await connectGmail(person);
      const id = (await outband.api("GET", `/accounts?identifier=${person.sub}`)).body.data[0].id;
      outband.provider.fault({ match: "POST /google/token", status: 401, body: { error: "invalid_client" } });
      await outband.api("POST", `/accounts/${id}/refresh`);
      assert.equal(await statusOf(id), "ERROR client_rejected");
      const counted = (await outband.api("GET", "/accounts?status=ACTIVE&limit=200")).body.data.length;
      const page = await who.admin.get("/admin");
      assert.match(page.text, new RegExp(`status=ACTIVE"><strong>${counted}</strong>`));
      assert.match(page.text, /Gmail: 1 account is out of order/);
      assert.match(page.text, /Gmail does not accept the client id or secret\. Put the client id or secret right/);
      assert.match((await who.admin.get(`/admin/accounts/${id}`)).text, /ERROR client_rejected/);

      // Put right on the connection's form, it is tried again without the person.
      const { google } = outband.provider;
      const form = await who.admin.get("/admin/connections/gmail/edit");
      const endpoints = Object.fromEntries(Object.entries(before.endpoints).map(([name, url]) => [`endpoint.${name}`, String(url)]));
      const saved = await who.admin.post("/admin/connections/gmail/edit", { ...hidden(form.text), ...endpoints, title: "Gmail", client_id: google.clientId, client_secret: google.clientSecret.reveal() }, { from: form });
      assert.match(saved.location ?? "", /done=saved$/, saved.text);
      assert.equal(await statusOf(id), "ACTIVE");
      assert.doesNotMatch((await who.admin.get("/admin")).text, /out of order<\/strong>/);
    });

    test("the audit is filtered by kind, act, connection, account and person, and its rows open to the rest of what is written", async () => {
      const rows = async (query: string): Promise<string[]> => [...(await who.admin.get(`/admin/audit?${query}`)).text.matchAll(/<summary>([^<]+?)\s*(?:<|$)/g)].map((match) => match[1] ?? "");
      assert.deepEqual(await rows(`account=${grown}`), ["Account connected", "Link made"]);
      assert.deepEqual(await rows(`account=${grown}&action=link.created`), ["Link made"]);
      assert.deepEqual(await rows(`account=${grown}&category=administration`), []);
      assert.deepEqual(await rows("connection=slack&category=administration&action=connection.created"), ["Connection made"]);
      const ofMara = await rows("person=mara@people.example");
      assert.ok(ofMara.includes("Account connected") && ofMara.includes("Signed in"), ofMara.join());
      const page = await who.admin.get(`/admin/audit?account=${grown}&action=account.connected`);
      assert.match(page.text, /<dt>action<\/dt><dd class="outside">account\.connected<\/dd>/);
      assert.match(page.text, /<dt>scopes<\/dt>/);
      assert.match((await who.admin.get("/admin/audit?action=nothing.like_it")).text, /Nothing fits this/);
    });

    test("pages of the audit hold every row once, newest first, also when rows come in meanwhile", async () => {
      const seen: number[] = [];
      let path: string | null = "/admin/audit?connection=slack";
      for (let pages = 1; path !== null; pages++) {
        const page: Page = await who.admin.get(path);
        seen.push(...[...page.text.matchAll(/<dt>number<\/dt><dd[^>]*>(\d+)</g)].map((match) => Number(match[1])));
        if (pages === 1) await submit(who.admin, "/admin/connections/slack", { enabled: "true" }, "/admin/connections/slack/enabled");
        path = /<a class="button small" href="([^"]+)">Older/.exec(page.text)?.[1]?.replaceAll("&amp;", "&") ?? null;
      }
      assert.ok(seen.length > 100, `${seen.length}`);
      assert.deepEqual(seen, [...new Set(seen)].sort((a, b) => b - a));
      const again = await who.admin.get("/admin/audit?connection=slack");
      assert.equal([...again.text.matchAll(/<details>/g)].length, 50);
    });

    test("no access token, refresh token or key was in any page of an account or of the audit", async () => {
      for (const path of [`/admin/accounts/${grown}`, "/admin/accounts", "/admin/audit", "/admin"]) assert.doesNotMatch((await who.admin.get(path)).text, /\bat-person-|ya29|1\/\/|access_token|refresh_token/, path);
    });
  });
}
