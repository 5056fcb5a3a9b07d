import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { SessionData } from "express-session";
import { createSealer } from "../../src/crypto/dataKeys.js";
import { createKeyRing } from "../../src/crypto/keyring.js";
import { hashToken } from "../../src/crypto/tokens.js";
import type { Database } from "../../src/db/client.js";
import { BrowserSessionStore, SESSION_IDLE_MS, SESSION_LIFE_MS } from "../../src/http/sessionStore.js";
import type { User } from "../../src/identity/users.js";
import { hiddenFields } from "../support/browser.js";
import { eachDatabase } from "../support/database.js";
import { openIdentitySite, PASSWORD, TEST_MASTER_KEY, type IdentitySite } from "../support/identitySite.js";
import { createShiftedClock, type ShiftedClock } from "../support/shiftedClock.js";

const HOUR_MS = 3_600_000;

eachDatabase("browser sessions", (open) => {
  let db: Database;
  let clock: ShiftedClock;
  let site: IdentitySite;
  let ann: User;
  let bo: User;

  before(async () => {
    db = await open();
    clock = createShiftedClock();
    site = await openIdentitySite({ db, clock });
    ann = await site.person("ann");
    bo = await site.person("bo");
  });
  after(() => site.close());

  const sidOf = (cookie: string | undefined): string => decodeURIComponent(cookie ?? "").replace(/^s:/, "").split(".")[0] ?? "";

  test("the cookie is HttpOnly, Lax and for the whole site, and the id changes at sign-in: a planted one is worthless", async () => {
    const browser = site.browser();
    const login = await browser.get("/login");
    const before = browser.cookie("outband_session");
    assert.match(login.headers.get("set-cookie") ?? "", /^outband_session=.+; Path=\/; Expires=.+; HttpOnly; SameSite=Lax$/);
    const signedIn = await site.signIn(browser, ann);
    assert.equal(signedIn.status, 303);
    assert.equal(signedIn.location, `${site.origin}/connections`);
    const after = browser.cookie("outband_session");
    assert.notEqual(after, before);
    // Whoever knew the cookie of before is nobody.
    const attacker = site.browser();
    attacker.setCookie("outband_session", before ?? "");
    assert.equal((await attacker.get("/connections")).location, `${site.origin}/login`);
    assert.equal((await browser.get("/connections")).text, "hello ann@people.test");
  });

  test("the table holds neither the id of a cookie nor the session's data in clear", async () => {
    const browser = await site.signedIn(ann);
    const sid = sidOf(browser.cookie("outband_session"));
    const page = await browser.get("/account");
    const row = await db.prisma.browserSession.findUniqueOrThrow({ where: { idHash: hashToken(sid) } });
    assert.equal(row.sub, ann.sub);
    const whole = JSON.stringify(row) + Buffer.from(row.data).toString("latin1");
    assert.ok(!whole.includes(sid));
    assert.ok(!whole.includes(hiddenFields(page.text)._csrf ?? ""));
  });

  test("a cookie that was changed, or of a stranger's making, begins a new session", async () => {
    const browser = await site.signedIn(ann);
    const cookie = browser.cookie("outband_session") ?? "";
    for (const wrong of [`${cookie.slice(0, -3)}AAA`, sidOf(cookie), "s%3Afixed.by-me", ""]) {
      const other = site.browser();
      other.setCookie("outband_session", wrong);
      assert.equal((await other.get("/connections")).status, 303);
      await other.get("/login");
      assert.notEqual(other.cookie("outband_session"), wrong);
    }
  });

  test("the form token is there from the sign-in on: two first pages opened at once do not each make one", async () => {
    const browser = await site.signedIn(ann);
    const dataOf = async (): Promise<Uint8Array> => {
      return (await db.prisma.browserSession.findUniqueOrThrow({ where: { idHash: hashToken(sidOf(browser.cookie("outband_session"))) } })).data;
    };
    const before = await dataOf();
    const page = await browser.get("/account");
    assert.match(hiddenFields(page.text)._csrf ?? "", /^[0-9a-f]{64}$/);
    assert.deepEqual(await dataOf(), before);
  });

  test("after sign-in the person is back where they wanted to go, once", async () => {
    const browser = site.browser();
    assert.equal((await browser.get("/connections?tab=2")).location, `${site.origin}/login`);
    assert.equal((await site.signIn(browser, ann)).location, `${site.origin}/connections?tab=2`);
    assert.equal((await browser.get("/login")).location, `${site.origin}/connections`);
  });

  test("a way back from the outside is not taken", async () => {
    const browser = site.browser();
    const page = await browser.get("/login?back=https://evil.test&return_to=//evil.test&wayBack=//evil.test");
    const answer = await browser.post("/login", { email: ann.email, password: PASSWORD, back: "//evil.test", wayBack: "//evil.test" }, { from: page });
    assert.equal(answer.location, `${site.origin}/connections`);
    for (const back of ["//evil.test", "https://evil.test", "/\\evil.test", "/login"]) {
      const away = await site.signedIn(ann);
      const account = await away.get("/account");
      assert.equal((await away.post("/logout", { back }, { from: account })).location, `${site.origin}/login`, back);
    }
  });

  test("a form without its token, with another session's, or from another site changes nothing", async () => {
    const browser = await site.signedIn(ann);
    const other = await site.signedIn(bo);
    const page = await browser.get("/account");
    const foreign = await other.get("/account");
    const refused = [
      await browser.post("/account/name", { name: "Mallory" }),
      await browser.post("/account/name", { name: "Mallory" }, { from: foreign }),
      await browser.post("/account/name", { name: "Mallory", _csrf: "" }),
      await browser.post("/account/name", { name: "Mallory" }, { from: page, headers: { "sec-fetch-site": "cross-site" } }),
      await browser.post("/account/name", { name: "Mallory" }, { from: page, headers: { "sec-fetch-site": "same-site" } }),
      await browser.post("/account/name", { name: "Mallory" }, { from: page, headers: { origin: "https://evil.test" } }),
      await browser.post("/logout", {}),
    ];
    assert.deepEqual(refused.map(({ status }) => status), refused.map(() => 403));
    assert.equal((await site.users.find(ann.sub))?.name, "ann");
    assert.equal((await browser.get("/connections")).status, 200);
    // What browsers really send from a page without a referrer.
    const headers = { "sec-fetch-site": "same-origin", origin: "null" };
    assert.equal((await browser.post("/account/name", { name: "ann" }, { from: page, headers })).status, 303);
  });

  test("the sign-in form is guarded too: nobody is signed in as somebody else's account from another site", async () => {
    const browser = site.browser();
    const page = await browser.get("/login");
    const victim = site.browser();
    const fields = { email: ann.email, password: PASSWORD };
    assert.equal((await victim.post("/login", fields)).status, 403);
    assert.equal((await victim.post("/login", { ...fields, ...hiddenFields(page.text) })).status, 403);
    assert.equal((await victim.get("/connections")).status, 303);
    assert.equal((await browser.post("/login", fields, { from: page })).status, 303);
  });

  test("a session that ended is not brought back by a request that had read it before", async () => {
    const browser = await site.signedIn(ann);
    const sid = sidOf(browser.cookie("outband_session"));
    const idHash = hashToken(sid);
    const ring = await createKeyRing({ current: TEST_MASTER_KEY, previous: [] });
    const store = new BrowserSessionStore({ db, clock, sealer: createSealer({ ring, db, clock }) });
    const read = await new Promise<SessionData>((resolve, reject) => store.get(sid, (error, data) => (data ? resolve(data) : reject(error))));
    assert.equal(read.sub, ann.sub);
    await site.sessions.endSessionsOf(ann.sub);
    await new Promise((resolve) => store.set(sid, { ...read, wayBack: "/x" }, resolve));
    clock.advance(HOUR_MS);
    await new Promise((resolve) => store.touch(sid, read, resolve));
    assert.equal(await db.prisma.browserSession.count({ where: { idHash } }), 0);
    assert.equal((await browser.get("/connections")).status, 303);
  });

  test("a sign-out ends the session for good", async () => {
    const browser = await site.signedIn(ann);
    const cookie = browser.cookie("outband_session") ?? "";
    const page = await browser.get("/account");
    const out = await browser.post("/logout", {}, { from: page });
    assert.equal(out.location, `${site.origin}/login`);
    assert.match(out.headers.get("set-cookie") ?? "", /outband_session=;.*Expires=Thu, 01 Jan 1970/);
    const copy = site.browser();
    copy.setCookie("outband_session", cookie);
    assert.equal((await copy.get("/connections")).status, 303);
    assert.equal(await db.prisma.browserSession.count({ where: { idHash: hashToken(sidOf(cookie)) } }), 0);
  });

  test("a person who is disabled is nobody at the next request", async () => {
    const cy = await site.person("cy");
    const browser = await site.signedIn(cy);
    await db.prisma.user.update({ where: { sub: cy.sub }, data: { role: "disabled" } });
    assert.equal((await browser.get("/connections")).status, 303);
    assert.equal((await site.signIn(browser, cy)).status, 401);
  });

  test("a session ends after 12 idle hours, and after 7 days however busy", async () => {
    const idle = await site.signedIn(ann);
    const busy = await site.signedIn(bo);
    clock.advance(SESSION_IDLE_MS - HOUR_MS);
    assert.equal((await busy.get("/connections")).status, 200);
    clock.advance(HOUR_MS + 1_000);
    assert.equal((await idle.get("/connections")).status, 303);
    assert.equal((await busy.get("/connections")).status, 200);
    for (let hours = 12; hours + 8 < SESSION_LIFE_MS / HOUR_MS; hours += 8) {
      clock.advance(8 * HOUR_MS);
      assert.equal((await busy.get("/connections")).status, 200, `after ${hours} hours`);
    }
    clock.advance(8 * HOUR_MS);
    assert.equal((await busy.get("/connections")).status, 303);
  });

  test("a plain visit makes no session and no cookie", async () => {
    const before = await db.prisma.browserSession.count();
    const browser = site.browser();
    assert.equal((await browser.get("/nowhere")).status, 404);
    assert.equal(browser.cookies().size, 0);
    assert.equal(await db.prisma.browserSession.count(), before);
  });
});

eachDatabase("behind https", (open) => {
  test("the cookie has the __Host- name and Secure, whatever the proxy says about the scheme", async () => {
    const site = await openIdentitySite({ db: await open(), publicUrl: "https://outband.test" });
    try {
      for (const scheme of [null, "http", "https"]) {
        const page = await site.browser().get("/login", scheme === null ? {} : { "x-forwarded-proto": scheme });
        assert.match(page.headers.get("set-cookie") ?? "", /^__Host-outband_session=.+; Path=\/; Expires=.+; HttpOnly; Secure; SameSite=Lax$/);
      }
    } finally {
      await site.close();
    }
  });
});
