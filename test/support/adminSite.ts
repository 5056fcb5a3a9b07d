// Who comes to the dashboard in these tests, each with a browser of their own.
import assert from "node:assert/strict";
import type { Browser, Outband, Page } from "./outband.js";

export interface Visitors {
  admin: Browser;
  viewer: Browser;
  user: Browser;
}

export async function visitors(outband: Outband): Promise<Visitors> {
  const made: Partial<Visitors> = {};
  for (const role of ["admin", "viewer", "user"] as const) {
    const person = await outband.person(role);
    if (role !== "user") assert.equal((await outband.api("PATCH", `/users/${person.sub}`, { role })).status, 200);
    made[role] = await person.signIn();
  }
  return made as Visitors;
}

/** Posts the form of the page at `path` (its hidden fields come along) and follows to where it leads. */
export async function submit(browser: Browser, path: string, fields: Record<string, string>, action = path): Promise<Page> {
  const page = await browser.get(path);
  assert.equal(page.status, 200, `${path}: ${page.status}`);
  return browser.post(action, { ...hidden(page.text), ...fields }, { from: page });
}

/** Every hidden field of the page. */
export function hidden(html: string): Record<string, string> {
  const inputs = html.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)">/g);
  return Object.fromEntries([...inputs].map(([, name = "", value = ""]) => [name, unescaped(value)]));
}

export function unescaped(text: string): string {
  return text.replaceAll("&#34;", '"').replaceAll("&#39;", "'").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

/** What stands beside the field of this name, if anything is wrong with it. */
export function problemAt(html: string, name: string): string | null {
  const id = `f-${name.replace(/[^\w-]/g, "-")}-error`;
  const found = new RegExp(`<p class="error" id="${id}">([^<]*)</p>`).exec(html)?.[1];
  return found === undefined ? null : unescaped(found);
}

export function valueAt(html: string, name: string): string | null {
  const escaped = name.replace(/[.:]/g, "\\$&");
  const found = new RegExp(`name="${escaped}"[^>]*? value="([^"]*)"`).exec(html)?.[1];
  return found === undefined ? null : unescaped(found);
}
