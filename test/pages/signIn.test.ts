import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Database } from "../../src/db/client.js";
import { TRIES_PER_EMAIL } from "../../src/identity/signInLimits.js";
import type { Page } from "../support/browser.js";
import { eachDatabase } from "../support/database.js";
import { openIdentitySite, PASSWORD, type IdentitySite } from "../support/identitySite.js";

/** What an outsider can tell two answers apart by. */
function outside(page: Page): unknown {
  const headers = [...page.headers].filter(([name]) => !["date", "x-request-id", "set-cookie", "etag"].includes(name));
  const text = page.text.replace(/value="[^"]*"/g, "").replace(/req_\w+/g, "");
  return { status: page.status, headers: headers.map(([name]) => name), text };
}

eachDatabase("sign-in pages", (open) => {
  let db: Database;
  let site: IdentitySite;

  before(async () => {
    db = await open();
    site = await openIdentitySite({ db });
  });
  after(() => site.close());

  test("while there is no administrator, /login says where the set-up link is; the link signs its maker in, once", async () => {
    const browser = site.browser();
    assert.match((await browser.get("/login")).text, /terminal where it was started/);
    const token = (await site.users.makeSetupLink()).reveal();
    // Preview bots and reloads change nothing.
    for (const method of ["GET", "GET", "HEAD"]) assert.equal((await fetch(`${site.origin}/setup/${token}`, { method })).status, 200);
    const unknown = await site.browser().get("/setup/unknown-token");
    assert.equal(unknown.status, 410);
    assert.match(unknown.text, /Start the program again: it then prints a new one-time set-up link/);
    assert.doesNotMatch(unknown.text, /href="\/(?:connections|login)"/, "neither leads anywhere yet");

    const page = await browser.get(`/setup/${token}`);
    const fields = { email: "root@people.test", name: "Root", password: PASSWORD, password_again: PASSWORD };
    assert.equal((await browser.post(`/setup/${token}`, fields)).status, 403);
    const short = await browser.post(`/setup/${token}`, { ...fields, password: "short", password_again: "short" }, { from: page });
    assert.equal(short.status, 400);
    assert.match(short.text, /at least 10 characters/);
    assert.ok(!short.text.includes('value="short"'));
    const differ = await browser.post(`/setup/${token}`, { ...fields, password_again: `${PASSWORD}x` }, { from: page });
    assert.match(differ.text, /The two passwords differ/);
    const all = await browser.post(`/setup/${token}`, { email: "root", name: "R".repeat(101), password: "short", password_again: "shorter" }, { from: page });
    for (const words of [/not an e-mail address/, /at most 100 printable/, /at least 10 characters/, /The two passwords differ/]) assert.match(all.text, words);
    const done = await browser.post(`/setup/${token}`, fields, { from: page });
    assert.equal(done.location, `${site.origin}/connections`);
    assert.equal((await browser.get("/connections")).text, "hello root@people.test");

    const root = (await site.users.list()).data.find(({ email }) => email === "root@people.test");
    assert.ok(root?.lastSignInAt);
    assert.equal(root.lastSignInAt.getTime(), root.createdAt.getTime(), "the link signed her in");
    const used = await browser.get(`/setup/${token}`);
    assert.equal(used.status, 410);
    assert.match(used.text, /href="\/login"/);
    assert.doesNotMatch(used.text, /Start the program again/);
    const late = site.browser();
    const login = await late.get("/login");
    assert.equal((await late.post(`/setup/${token}`, { ...fields, email: "late@people.test" }, { from: login })).status, 410);
    assert.ok(!login.text.includes("terminal where it was started"));
  });

  test("a wrong password, an unknown e-mail, a disabled person and one without a password get the same answer", async () => {
    const [dan, eve, fay] = [await site.person("dan"), await site.person("eve"), await site.users.create({ email: "fay@people.test", role: "user" })];
    await site.users.update(eve.sub, { role: "disabled" });
    const answers: unknown[] = [];
    for (const [email, password] of [
      [dan.email, "wrong password"],
      ["nobody@people.test", PASSWORD],
      [eve.email, PASSWORD],
      [fay.email, PASSWORD],
      [fay.email, ""],
    ] as const) {
      const browser = site.browser();
      const page = await browser.post("/login", { email, password }, { from: await browser.get("/login") });
      assert.equal(page.status, 401);
      assert.match(page.text, /do not belong together/);
      answers.push(outside(page));
    }
    for (const answer of answers) assert.deepEqual(answer, answers[0]);
  });

  test("after too many tries the answer is 429 with a time, for a known and an unknown e-mail alike", async () => {
    const gus = await site.person("gus");
    const answers: unknown[] = [];
    for (const email of [gus.email, "noone@people.test"]) {
      const browser = site.browser();
      const login = await browser.get("/login");
      for (let round = 0; round < TRIES_PER_EMAIL.triesMax; round++) await browser.post("/login", { email, password: "wrong password" }, { from: login });
      const page = await browser.post("/login", { email, password: PASSWORD }, { from: login });
      assert.equal(page.status, 429);
      assert.ok(Number(page.headers.get("retry-after")) > 0);
      answers.push(outside(page));
    }
    assert.deepEqual(answers[0], answers[1]);
  });

  test("an invitation link sets the invited person's password and shows whose it is", async () => {
    const ida = await site.users.create({ email: "ida@people.test", role: "viewer" });
    const token = (await site.users.makeInvitation(ida.sub)).reveal();
    const browser = site.browser();
    const page = await browser.get(`/setup/${token}`);
    assert.match(page.text, /ida@people.test/);
    const bad = await browser.post(`/setup/${token}`, { name: "", password: "ida@people.test", password_again: "x" }, { from: page });
    assert.match(bad.text, /must not be the e-mail address/);
    assert.match(bad.text, /The two passwords differ/);
    assert.equal((await site.users.find(ida.sub))?.lastSignInAt, null);
    const done = await browser.post(`/setup/${token}`, { email: "evil@people.test", name: "Ida", password: PASSWORD, password_again: PASSWORD }, { from: page });
    assert.equal(done.status, 303);
    assert.equal((await browser.get("/connections")).text, "hello ida@people.test");
    const signedIn = await site.users.find(ida.sub);
    assert.equal(signedIn?.role, "viewer");
    assert.ok(signedIn?.lastSignInAt && signedIn.lastSignInAt >= signedIn.createdAt, "the link signed her in");
    assert.equal((await browser.get(`/setup/${token}`)).status, 410);
  });

  test("a password changes with the old one alone; every other session ends, this one goes on under a new id", async () => {
    const jo = await site.person("jo");
    const [here, there] = [await site.signedIn(jo), await site.signedIn(jo)];
    const page = await here.get("/account");
    const next = "a longer new password";
    const wrong = await here.post("/account/password", { current: "wrong password", password: next, password_again: next }, { from: page });
    assert.equal(wrong.status, 400);
    assert.match(wrong.text, /not your password/);
    const all = await here.post("/account/password", { current: "wrong password", password: "short", password_again: "shorter" }, { from: page });
    for (const words of [/not your password/, /at least 10 characters/, /The two passwords differ/]) assert.match(all.text, words);
    assert.equal((await there.get("/connections")).status, 200);
    const id = here.cookie("outband_session");
    const done = await here.post("/account/password", { current: PASSWORD, password: next, password_again: next }, { from: page });
    assert.equal(done.location, `${site.origin}/account?done=password`);
    assert.notEqual(here.cookie("outband_session"), id);
    assert.equal((await here.get("/connections")).status, 200);
    assert.equal((await there.get("/connections")).status, 303);
    assert.equal(await site.users.verifyPassword(jo.email, PASSWORD), null);
    assert.ok(await site.users.verifyPassword(jo.email, next));
  });

  test("pages of the account are for signed-in people, and print what people wrote as text", async () => {
    const browser = site.browser();
    assert.equal((await browser.get("/account")).location, `${site.origin}/login`);
    const kim = await site.users.create({ email: `"<script>alert(1)</script>"@people.test`, name: "<b>Kim</b>", password: PASSWORD, role: "user" });
    const page = await (await site.signedIn(kim)).get("/account?done=<script>");
    assert.equal(page.status, 200);
    assert.ok(!page.text.includes("<script>") && !page.text.includes("<b>Kim"));
    assert.match(page.text, /&lt;b&gt;Kim/);
  });

  test("nothing of a sign-in is in the log", async () => {
    const lou = await site.person("lou");
    await site.signedIn(lou);
    const log = site.lines.join("\n");
    assert.ok(!log.includes(PASSWORD) && !log.includes(lou.email));
    assert.equal((await site.browser().get("/logout")).status, 405);
  });
});
