// The hosted pages in a real Chromium, without JavaScript. Each journey asserts the forbidden side at the provider.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { newProfile, NO_CHROMIUM, type Page, signIn } from "../support/chromium.js";
import { startKeyedApi, type KeyedApi } from "../support/keyedApi.js";
import { callTool, linkOf } from "../support/mcpCall.js";
import { movableClock, type MovableClock } from "../support/movableClock.js";
import { type Outband, PASSWORD, startOutband } from "../support/outband.js";
import { retryOf } from "../support/journey.js";

const EXCHANGE = "POST /google/token";

describe("in a real browser", { skip: NO_CHROMIUM }, () => {
  let outband: Outband;
  let clock: MovableClock;
  let keyed: KeyedApi;
  before(async () => {
    clock = movableClock();
    outband = await startOutband({ clock });
    keyed = await startKeyedApi();
    const made = await outband.api("POST", "/connections", {
      name: "ledger",
      connector: "generic-api-key",
      title: "Ledger",
      endpoints: { api: keyed.origin },
      settings: { probe: { method: "GET", path: "/v1/me", status: 200 } },
    });
    assert.equal(made.status, 201, JSON.stringify(made.body));
  });

  async function personAt(name: string): Promise<{ page: Page; sub: string; token: string; email: string }> {
    const person = await outband.person(name);
    const profile = await newProfile();
    const page = await profile.newPage();
    await signIn(page, outband.url, person.email, PASSWORD);
    return { page, sub: person.sub, token: person.token, email: person.email };
  }
  const ask = async (token: string, tool = "summarize_inbox") => callTool(outband.url, token, tool);
  const statusOf = async (sub: string) => (await outband.api("GET", `/accounts?identifier=${sub}`)).body.data[0]?.status;
  const heading = (page: Page) => page.locator("h1").innerText();
  const press = (page: Page, name: RegExp | string) => page.getByRole("button", { name }).first().click();
  /** From our button to the end of the practice Google's pages. */
  async function consentAtGoogle(page: Page, decision: RegExp = /allow|continue/i): Promise<void> {
    await press(page, /^Connect/);
    await press(page, /Mara/);
    await press(page, decision);
    await page.waitForURL(`${outband.url}/**`);
  }

  test("connect by OAuth: from the link through sign-in, our page and Google's consent to 'connected as'", async () => {
    const person = await outband.person("oauth");
    const asked = await ask(person.token);
    const page = await (await newProfile()).newPage();
    outband.provider.resetCounts();
    await page.goto(linkOf(asked));
    assert.match(page.url(), /\/login$/);
    await page.fill('input[name="email"]', person.email);
    await page.fill('input[name="password"]', PASSWORD);
    await press(page, /sign in/i);
    assert.equal(page.url(), linkOf(asked));
    assert.match(await page.locator("main").innerText(), /Asked by/);
    assert.equal(outband.provider.count(/./), 0);
    await consentAtGoogle(page);
    assert.match(await page.locator("main").innerText(), /mara\.lindqvist@harbourlight\.example/);
    const answer = await callTool(outband.url, person.token, "summarize_inbox", {}, retryOf(asked, "accept"));
    assert.notEqual(answer.body.result.isError, true, JSON.stringify(answer.body));
    assert.equal(outband.provider.count(EXCHANGE), 1);
  });

  test("the pages with a password form are as wide as a telephone, and no wider", async () => {
    const page = await (await newProfile({ phone: true })).newPage();
    const width = () => page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
    const invited = await outband.api("POST", "/users", { email: "invited@people.example" });
    await page.goto(invited.body.invitation_url);
    assert.deepEqual([await heading(page), ...(await width())], ["Welcome", 375, 375]);
    await signIn(page, outband.url, (await outband.person("narrow")).email, PASSWORD);
    await page.goto(`${outband.url}/account`);
    assert.deepEqual([await heading(page), ...(await width())], ["Your account", 375, 375]);
  });

  test("connect by API key: a refused key is not kept and not echoed, the good one is kept after a try", async () => {
    const { page, sub } = await personAt("key");
    const link = await outband.api("POST", "/authorization-links", { connection_name: "ledger", identifier: sub });
    await page.goto(link.body.url);
    await page.fill('input[type="password"]', "sk_live_wrong-key-canary");
    await press(page, /^Connect/);
    assert.equal((await page.content()).includes("wrong-key-canary"), false);
    assert.equal(await statusOf(sub), "PENDING");
    await page.fill('input[type="password"]', ` \ufeff${keyed.goodKey}  `);
    await press(page, /^Connect/);
    assert.match(await heading(page), /connected/i);
    assert.equal(await statusOf(sub), "ACTIVE");
    assert.deepEqual(keyed.seen, ["Bearer sk_live_wrong-key-canary", `Bearer ${keyed.goodKey}`]);
    assert.equal((await page.content()).includes(keyed.goodKey), false);
  });

  test("deny: a calm page, no exchange, the account stays unconnected", async () => {
    const { page, sub, token } = await personAt("deny");
    await page.goto(linkOf(await ask(token)));
    outband.provider.resetCounts();
    await consentAtGoogle(page, /deny|cancel/i);
    assert.ok((await heading(page)).length > 0);
    assert.equal(outband.provider.count(EXCHANGE), 0);
    assert.equal(await statusOf(sub), "PENDING");
  });

  test("wrong person: the link names nobody, starts nothing, and offers another sign-in that works", async () => {
    const owner = await outband.person("rightful");
    const link = linkOf(await ask(owner.token));
    const { page } = await personAt("wrongful");
    outband.provider.resetCounts();
    const shown = await page.goto(link);
    assert.equal(shown?.status(), 403);
    assert.equal((await page.content()).includes(owner.email), false);
    assert.equal(await page.getByRole("button", { name: /^Connect/ }).count(), 0);
    await press(page, /another account|sign out/i);
    await page.fill('input[name="email"]', owner.email);
    await page.fill('input[name="password"]', PASSWORD);
    await press(page, /sign in/i);
    assert.equal(page.url(), link);
    assert.equal(await page.getByRole("button", { name: /^Connect/ }).count(), 1);
    assert.equal(outband.provider.count(/./), 0);
  });

  test("expired link: says so and offers the way on; nothing is started", async () => {
    const { page, sub, token } = await personAt("late");
    const link = linkOf(await ask(token));
    clock.forward(601_000);
    outband.provider.resetCounts();
    const shown = await page.goto(link);
    assert.equal(shown?.status(), 410);
    assert.match(await page.locator("main").innerText(), /expired|run out|ran out/i);
    assert.equal(await page.getByRole("button", { name: /^Connect/ }).count(), 0);
    assert.equal(outband.provider.count(/./), 0);
    assert.equal(await statusOf(sub), "PENDING");
  });

  test("doubled callback: reload and back show the outcome, and the code is exchanged once", async () => {
    const { page, sub, token } = await personAt("reload");
    outband.provider.resetCounts();
    await page.goto(linkOf(await ask(token)));
    await consentAtGoogle(page);
    const callback = page.url();
    for (let times = 0; times < 3; times += 1) {
      const again = await page.goto(callback);
      assert.equal(again?.status(), 200);
      assert.match(await page.locator("main").innerText(), /harbourlight/);
    }
    assert.equal(outband.provider.count(EXCHANGE), 1);
    assert.equal(await statusOf(sub), "ACTIVE");
  });

  test("two flows side by side in two tabs, and people's own page shows both", async () => {
    const { page, token } = await personAt("tabs");
    const second = await page.context().newPage();
    await page.goto(linkOf(await ask(token)));
    await second.goto(linkOf(await ask(token, "slack_list_channels"), "connect_slack"));
    await press(page, /^Connect/);
    await press(second, /^Connect/);
    await press(second, /allow/i);
    await second.waitForURL(`${outband.url}/**`);
    await press(page, /Mara/);
    await press(page, /allow|continue/i);
    await page.waitForURL(`${outband.url}/**`);
    await page.goto(`${outband.url}/connections`);
    const text = await page.locator("main").innerText();
    assert.match(text, /Gmail/);
    assert.match(text, /Slack/);
    assert.match(text, /harbourlight/);
  });

  test("/connections: disconnect asks first, then takes the grant back upstream", async () => {
    const { page, sub, token } = await personAt("owner");
    await page.goto(linkOf(await ask(token)));
    await press(page, /^Connect/);
    await press(page, /Tomás/);
    await press(page, /allow|continue/i);
    await page.waitForURL(`${outband.url}/**`);
    outband.provider.resetCounts();
    await page.goto(`${outband.url}/connections`);
    await page.getByRole("link", { name: /disconnect|details|manage/i }).or(page.getByRole("button", { name: /disconnect/i })).first().click();
    if ((await statusOf(sub)) === "ACTIVE") {
      const confirm = page.getByRole("button", { name: /disconnect/i }).or(page.getByRole("link", { name: /disconnect/i })).first();
      await confirm.click();
      if ((await statusOf(sub)) === "ACTIVE") await page.getByRole("button", { name: /disconnect/i }).first().click();
    }
    assert.equal(await statusOf(sub), "REVOKED");
    assert.equal(outband.provider.count(/revoke/), 1);
  });
});
