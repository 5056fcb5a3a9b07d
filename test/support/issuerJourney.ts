// Steps of a sign-in at the external issuer that several journeys share.
import assert from "node:assert/strict";
import { type Browser, createBrowser, type Page } from "./browser.js";
import type { Claims, Issuer } from "./issuer.js";

/** From our button to the issuer's answer: the address of the callback, not yet opened. */
export async function throughIssuer(browser: Browser, issuer: Issuer, person: Claims & { sub: string }, fields: Record<string, string> = {}, path = "/login"): Promise<string> {
  const page = await browser.get(path);
  assert.equal(page.status, 200, page.text);
  return fromPage(browser, issuer, person, page, fields);
}

export async function fromPage(browser: Browser, issuer: Issuer, person: Claims & { sub: string }, page: Page, fields: Record<string, string> = {}): Promise<string> {
  const start = await browser.post("/login", fields, { from: page });
  assert.equal(start.status, 303, start.text);
  assert.ok(start.location?.startsWith(`${issuer.url}/`), start.location ?? "no location");
  issuer.person = person;
  const answer = await fetch(start.location ?? "", { redirect: "manual" });
  assert.equal(answer.status, 302, await answer.text());
  return answer.headers.get("location") ?? "";
}

/** The whole way; the page that the callback answered with. */
export async function signInThere(url: string, issuer: Issuer, person: Claims & { sub: string }, browser = createBrowser(url)): Promise<{ browser: Browser; page: Page }> {
  return { browser, page: await browser.get(await throughIssuer(browser, issuer, person)) };
}
