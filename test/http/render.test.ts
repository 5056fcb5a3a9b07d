import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { VIEWS_DIR } from "../../src/http/assets.js";
import { createIcons } from "../../src/http/icons.js";
import { dateWords, outsideText } from "../../src/http/words.js";
import { openPageSite } from "../support/pageSite.js";
import { PAGE_CONNECTORS } from "../support/pageConnectors.js";

const views = readdirSync(VIEWS_DIR, { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".ejs"))
  .map((name) => ({ name, text: readFileSync(join(VIEWS_DIR, name), "utf8") }));

test("no view holds a script, a style attribute, an event handler, or anything of a third party", () => {
  for (const { name, text } of views) {
    assert.doesNotMatch(text, /<script|<style|\sstyle=|\son[a-z]+=|javascript:|https?:\/\//i, name);
  }
});

test("views print raw only what is ours: partials, icons and the page's own body", () => {
  for (const { name, text } of views) {
    for (const [, raw] of text.matchAll(/<%-\s*([\s\S]*?)[-_]?%>/g)) {
      assert.match(raw ?? "", /^(include\("|icon\(|body\s*$)/, `${name}: <%- ${raw} %>`);
    }
  }
});

test("every form that posts carries the CSRF token", () => {
  for (const { name, text } of views) {
    for (const [form] of text.matchAll(/<form[^>]*method="post"[\s\S]*?<\/form>/g)) {
      assert.match(form, /name="_csrf" value="<%= csrf %>"|include\("\/partials\/csrf"\)/, name);
    }
  }
});

test("every field that a person fills in has a label", () => {
  for (const { name, text } of views) {
    for (const [field] of text.matchAll(/<(?:input|select|textarea)\b(?:<%[\s\S]*?%>|[^>])*>/g)) {
      // A read-only user name for password managers is shown to nobody.
      if (/type="hidden"|readonly[^>]*aria-hidden="true"/.test(field)) continue;
      const id = / id="((?:<%[\s\S]*?%>|[^"])*)"/.exec(field)?.[1];
      const labelled = id === undefined ? text.includes(`<label class="check">${field}`) || /aria-label/.test(field) : text.includes(`<label for="${id}"`);
      assert.ok(labelled, `${name}: ${field}`);
    }
  }
});

test("the style sheet loads nothing and stays small", () => {
  const css = readFileSync(join(VIEWS_DIR, "assets/outband.css"), "utf8");
  assert.doesNotMatch(css, /@import|url\(/);
  assert.ok(css.length < 24_000, `${css.length} bytes`);
});

test("icons carry no script and no style, and an unknown name is drawn too", () => {
  const icon = createIcons();
  for (const file of readdirSync(join(VIEWS_DIR, "icons"))) {
    const drawing = icon(file.replace(".svg", ""));
    assert.match(drawing, /^<svg class="icon" aria-hidden="true"/);
    assert.doesNotMatch(drawing, /<script|style=|\son[a-z]+=|href/i);
  }
  assert.equal(icon("../../../etc/passwd"), icon("plug"));
});

test("the style sheet is served for good under an address that changes with its content", async () => {
  const site = await openPageSite({ connectors: PAGE_CONNECTORS });
  try {
    const page = await site.visit("/nothing", { as: "ann" });
    const href = /href="(\/assets\/outband\.css\?v=[\w-]{12})"/.exec(page.text)?.[1];
    assert.ok(href);
    const css = await site.visit(href);
    assert.equal(css.status, 200);
    assert.match(css.headers.get("content-type") ?? "", /^text\/css/);
    assert.equal(css.headers.get("cache-control"), "public, max-age=31536000, immutable");
    assert.equal(css.headers.get("x-content-type-options"), "nosniff");
    assert.equal((await site.visit("/assets/../layout.ejs")).status, 404);
    assert.equal((await site.visit("/assets/%2e%2e/layout.ejs")).status, 404);
  } finally {
    await site.close();
  }
});

test("dates are words, with the day itself past a month", () => {
  const now = Date.UTC(2026, 4, 4, 10);
  const at = (minutes: number): string => dateWords(new Date(now + minutes * 60_000), now);
  assert.equal(at(0), "just now");
  assert.equal(at(0.5), "in less than a minute");
  assert.equal(at(-1), "1 minute ago");
  assert.equal(at(9.5), "in 9 minutes");
  assert.equal(at(-60 * 5), "5 hours ago");
  assert.equal(at(-60 * 24), "1 day ago");
  assert.equal(at(-60 * 24 * 40), "25 March 2026");
});

test("text of outside loses what could disguise it, and no more", () => {
  assert.equal(outsideText("a\u202Egnp.exe\u0000\u001b[31m\nb"), "agnp.exe [31m b");
  assert.equal(outsideText("zero\u200bwidth \u{e0041}tag"), "zerowidth tag");
  assert.equal(outsideText("👩‍👧 می‌خواهم"), "👩‍👧 می‌خواهم");
  assert.equal([...outsideText("é".repeat(500), 10)].length, 10);
  assert.ok(outsideText("x".repeat(1_000_000)).length <= 80);
});
