// The way to the external issuer and back in a real Chromium, without JavaScript: its rules for forms, redirects and cookies.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { newProfile, NO_CHROMIUM } from "../support/chromium.js";
import { startIssuer } from "../support/issuer.js";
import { attempt, registered } from "../support/oauthClient.js";
import { startOutband } from "../support/outband.js";

describe("in a real browser", { skip: NO_CHROMIUM }, () => {
  test("the button leads over the issuer back to the page that was asked for, also to an app's consent page; sign-out ends it", async () => {
    const issuer = await startIssuer();
    issuer.person = { sub: "ann", email: "ann@people.test", name: "Ann Aaberg" };
    const outband = await startOutband({ connections: [], settings: issuer.settings });
    const page = await (await newProfile()).newPage();
    const problems: string[] = [];
    page.on("console", (message) => problems.push(message.text()));

    const client = await registered(outband.url);
    await page.goto(attempt(outband.url, client).url);
    assert.match(page.url(), /\/login$/);
    await page.getByRole("button", { name: /^Sign in at localhost/ }).click();
    await page.waitForURL(/\/oauth\/interaction\//);
    assert.match(await page.locator("main").innerText(), /Ann Aaberg/);

    await page.goto(`${outband.url}/account`);
    assert.match(await page.locator("main").innerText(), /You sign in at localhost/);
    await page.getByRole("button", { name: /sign out/i }).click();
    await page.waitForURL(/\/login$/);
    await page.goto(`${outband.url}/account`);
    assert.match(page.url(), /\/login$/);
    issuer.lies = { answer: { code: undefined, error: "access_denied" } };
    await page.getByRole("button", { name: /another account/ }).click();
    assert.match(await page.locator("main").innerText(), /refused or cancelled/);
    issuer.honest();
    await page.getByRole("button", { name: /^Sign in at localhost/ }).click();
    assert.equal(page.url(), `${outband.url}/account`);
    assert.deepEqual(problems.filter((text) => /Content Security Policy|Refused/.test(text)), []);
    await outband.close();
    await issuer.close();
  });
});
