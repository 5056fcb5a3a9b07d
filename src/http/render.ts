// Turns a view and its data into an HTML page inside the one layout. Must never happen: a page without the security
// headers, or a value of outside in a page without escaping (views print with `<%= %>`; raw output is for our own icons).
import { readFileSync } from "node:fs";
import { join } from "node:path";
import ejs from "ejs";
import type { Request, Response } from "express";
import type { Clock } from "../clock.js";
import { VIEWS_DIR, assetUrls } from "./assets.js";
import { allowFormAction } from "./guard.js";
import { createIcons } from "./icons.js";
import type { BrowserPerson } from "./session.js";
import { dateWords, outsideText } from "./words.js";

export interface PageData extends Record<string, unknown> {
  /** For the browser's tab; the view has its own h1. */
  title: string;
  /** `narrow` (default): one card, for a task. `wide`: lists. */
  shape?: "narrow" | "wide";
  /** Which entry of the navigation this page is. */
  section?: "connections" | "account" | "admin";
  /** No navigation and no name of the signed-in person. */
  bare?: boolean;
}

export interface PageOptions {
  status?: number;
  /** Where the forms of this page may lead besides our own origin. */
  formAction?: string[];
}

export interface Renderer {
  page(req: Request, res: Response, view: string, data: PageData, options?: PageOptions): void;
}

/** Who is looking; http/session.ts knows. */
export interface Visitor {
  person(req: Request): BrowserPerson | null;
  csrf(req: Request): string;
}

/** Views get besides their data: person, csrf, sandbox, icon(name), date(d), iso(d), outside(text), asset(name), publicHost. */
export function createRenderer(deps: { publicUrl: string; sandbox: () => boolean; clock: Clock; visitor: Visitor }): Renderer {
  const asset = assetUrls();
  const icon = createIcons();
  const template = createTemplates();

  function page(req: Request, res: Response, view: string, data: PageData, options: PageOptions = {}): void {
    const locals = {
      shape: "narrow",
      section: null,
      bare: false,
      person: deps.visitor.person(req),
      // Only when a form prints it: an error page for somebody without a session must not begin one.
      csrf: { toString: () => deps.visitor.csrf(req) },
      sandbox: deps.sandbox(),
      publicHost: new URL(deps.publicUrl).host,
      icon,
      asset,
      date: (date: Date | null) => (date === null ? "never" : dateWords(date, deps.clock.now())),
      iso: (date: Date) => date.toISOString(),
      outside: (text: string, charactersMax?: number) => outsideText(text, charactersMax),
      ...data,
    };
    const body = template(view)(locals);
    const html = template("layout")({ ...locals, body });
    allowFormAction(res, ...(options.formAction ?? []));
    res.status(options.status ?? 200).type("html").send(html);
  }

  return { page };
}

function createTemplates(): (view: string) => ejs.TemplateFunction {
  const compiled = new Map<string, ejs.TemplateFunction>();
  return (view) => {
    const known = compiled.get(view);
    if (known) return known;
    const filename = join(VIEWS_DIR, `${view}.ejs`);
    const template = ejs.compile(readFileSync(filename, "utf8"), { filename, root: VIEWS_DIR, cache: true });
    compiled.set(view, template);
    return template;
  };
}
