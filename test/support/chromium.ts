// A real browser for journeys: Debian's chromium through playwright-core. Tests say that they were skipped where there is none.
import { existsSync } from "node:fs";
import { after } from "node:test";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";

const PATHS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const FOUND = PATHS.find((path) => existsSync(path));

/** For a test's options: `{ skip: NO_CHROMIUM }`. */
export const NO_CHROMIUM: string | false = FOUND === undefined ? "there is no chromium on this machine" : false;

const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

let shared: Promise<Browser> | null = null;
after(async () => {
  await (await shared)?.close();
});

/** A fresh profile: own cookies, own storage. JavaScript is off unless asked for: every page must work without it. */
export async function newProfile(options: { javaScript?: boolean; phone?: boolean; dark?: boolean } = {}): Promise<BrowserContext> {
  shared ??= chromium.launch({ executablePath: FOUND ?? "", args: ARGUMENTS, headless: true });
  const browser = await shared;
  return browser.newContext({
    javaScriptEnabled: options.javaScript ?? false,
    viewport: options.phone ? { width: 375, height: 740 } : { width: 1100, height: 800 },
    colorScheme: options.dark ? "dark" : "light",
  });
}

export async function signIn(page: Page, url: string, email: string, password: string): Promise<void> {
  await page.goto(`${url}/login`);
  await page.fill('input[name="email"]', email);
  await page.fill('input[name="password"]', password);
  await page.click('form[action="/login"] button[type="submit"], form button[type="submit"]');
}

export type { Page };
