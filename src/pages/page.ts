// What the person's pages share: the signed-in person, small forms, and whose thing it is.
// Must never happen: an answer that differs between somebody else's id and one that does not exist.
import express, { type Request, type RequestHandler } from "express";
import type { Clock } from "../clock.js";
import type { Connector } from "../connectors/connector.js";
import { OutbandError } from "../errors.js";
import type { Renderer } from "../http/render.js";
import type { BrowserPerson } from "../http/session.js";
import type { BrowserPrincipal } from "../identity/principal.js";
import type { Vault } from "../vault/front.js";
import type { ConnectionView } from "../vault/types.js";

/** The part of the browser session that these pages use; http/session.ts gives it. */
export interface PageSession {
  person(req: Request): BrowserPerson | null;
  /** Keeps the address of a GET and goes to sign-in. */
  requirePerson: RequestHandler;
  csrfGuard: RequestHandler;
}

export interface PageDeps {
  vault: Vault;
  render: Renderer;
  session: PageSession;
  /** The connector as this connection shapes it, for its words: scopes, fields, hosts. */
  connectorOf(connection: Pick<ConnectionView, "connector" | "endpoints" | "settings" | "scopes">): Connector;
  publicUrl: string;
  clock: Clock;
}

/** Keys and labels are short; nothing here takes an upload. */
const FORM_BYTES_MAX = 64 * 1024;

/** The body of a form, before its CSRF token is checked. */
export const formBody: RequestHandler = express.urlencoded({ extended: false, limit: FORM_BYTES_MAX, parameterLimit: 50 });

/** A POST from a browser whose session has ended changes nothing and starts over at a page that asks to sign in. */
export function needPerson(session: PageSession, pageOf: (req: Request) => string): RequestHandler {
  return (req, res, next) => {
    if (session.person(req)) next();
    else if (req.method === "GET" || req.method === "HEAD") void session.requirePerson(req, res, next);
    else res.status(303).location(pageOf(req)).end();
  };
}

export function personOf(session: PageSession, req: Request): BrowserPerson {
  const person = session.person(req);
  if (!person) throw new OutbandError("unauthorized");
  return person;
}

export function principalOf(person: BrowserPerson): BrowserPrincipal {
  return { kind: "browser", sub: person.sub, role: person.role };
}

/** One text field of a form; a field sent twice counts as not sent. */
export function formText(req: Request, name: string): string {
  const body: unknown = req.body;
  if (typeof body !== "object" || body === null || !Object.hasOwn(body, name)) return "";
  const value: unknown = (body as Record<string, unknown>)[name];
  return typeof value === "string" ? value : "";
}

/** The name of something, out of a form. */
export function formName(req: Request, name: string): string {
  return asName(formText(req, name));
}

export function pathText(req: Request, name: string): string {
  const value: unknown = req.params[name];
  return typeof value === "string" ? asName(value) : "";
}

/** Nothing has a name with a NUL in it: PostgreSQL takes one in no text, and a look-up would fail instead of finding nothing. */
function asName(text: string): string {
  return text.includes("\0") ? "" : text;
}
