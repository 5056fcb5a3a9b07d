// What the dashboard's screens share: who may come in, forms, queries, and the frame around each screen.
// Must never happen: a person without a role here told by words or status that there is a dashboard.
import express, { type Request, type RequestHandler, type Response } from "express";
import type { AuditFilter, AuditPage } from "../audit/read.js";
import type { Clock } from "../clock.js";
import type { Connector } from "../connectors/connector.js";
import type { ConnectionShape, Registry } from "../connectors/registry.js";
import { OutbandError } from "../errors.js";
import type { Renderer } from "../http/render.js";
import type { BrowserPerson } from "../http/session.js";
import type { People } from "../identity/people.js";
import type { BrowserPrincipal } from "../identity/principal.js";
import type { Vault } from "../vault/front.js";

/** The part of the browser session that the dashboard uses; http/session.ts gives it. */
export interface AdminSession {
  person(req: Request): BrowserPerson | null;
  /** Keeps the address of a GET and goes to sign-in. */
  requirePerson: RequestHandler;
  csrfGuard: RequestHandler;
}

export interface ClientName {
  /** Unverified: the client's own word. */
  name: string | null;
  /** Proved, where the client is a metadata document. */
  provedHost: string | null;
}

export interface AdminDeps {
  vault: Pick<Vault, "connections" | "accounts">;
  registry: Pick<Registry, "get" | "list" | "check">;
  /** The connector as a connection shapes it, for its words. */
  connectorOf(connection: ConnectionShape): Connector;
  audit(filter: AuditFilter): Promise<AuditPage>;
  people: People;
  /** What clients call themselves; the authorization server knows. */
  clients: { named(ids: readonly (string | null)[]): Promise<ReadonlyMap<string, ClientName>> };
  render: Renderer;
  session: AdminSession;
  publicUrl: string;
  clock: Clock;
}

/** A connection's endpoints, scopes and settings; nothing here takes an upload. */
const FORM_BYTES_MAX = 64 * 1024;
const QUERY_CHARACTERS_MAX = 512;

/** Before every screen. For somebody without a role here the address leads nowhere: the same 404 as any other. */
export function adminGuard(session: AdminSession): RequestHandler {
  return (req, res, next) => {
    const person = session.person(req);
    if (person?.role === "user") return next("router");
    if (person) return next();
    if (req.method === "GET" || req.method === "HEAD") void session.requirePerson(req, res, next);
    else res.status(303).location("/admin").end();
  };
}

/** Screens that change something, and the forms that lead there: not for viewers. */
export function adminsOnly(session: AdminSession): RequestHandler {
  return (req, _res, next) => next(session.person(req)?.role === "admin" ? undefined : new OutbandError("forbidden"));
}

/** What stands before every POST. */
export function changing(session: AdminSession): RequestHandler[] {
  return [adminsOnly(session), express.urlencoded({ extended: false, limit: FORM_BYTES_MAX, parameterLimit: 100 }), session.csrfGuard];
}

export function actorOf(session: AdminSession, req: Request): BrowserPrincipal {
  const person = session.person(req);
  if (!person) throw new OutbandError("unauthorized");
  return { kind: "browser", sub: person.sub, role: person.role };
}

export type Tab = "overview" | "connections" | "accounts" | "audit";

/** Renders one screen inside the dashboard's frame. */
export function showScreen(
  deps: Pick<AdminDeps, "render" | "session">,
  req: Request,
  res: Response,
  screen: { view: string; tab: Tab; title: string; status?: number } & Record<string, unknown>,
): void {
  const { view, tab, title, status = 200, ...data } = screen;
  const canChange = deps.session.person(req)?.role === "admin";
  const fullTitle = `${status === 400 ? "Error: " : ""}${title} · Admin`;
  deps.render.page(req, res, `admin/${view}`, { shape: "wide", section: "admin", tab, canChange, ...data, title: fullTitle }, { status });
}

/** One value of the query; sent twice or too long counts as not sent. */
export function queryText(req: Request, name: string): string {
  const value: unknown = req.query[name];
  return typeof value === "string" && value.length <= QUERY_CHARACTERS_MAX ? printable(value).trim() : "";
}

export function pathText(req: Request, name: string): string {
  const value: unknown = req.params[name];
  return typeof value === "string" ? printable(value) : "";
}

/** Every field of a form as text; a field sent twice counts as not sent. */
export function formValues(req: Request): Readonly<Record<string, string>> {
  const body: unknown = req.body;
  if (typeof body !== "object" || body === null) return {};
  return Object.fromEntries(Object.entries(body).filter((entry): entry is [string, string] => typeof entry[1] === "string"));
}

/** PostgreSQL takes no NUL in a text, and nobody types the other control characters; line breaks and tabs stay. */
export function printable(text: string): string {
  return text.replace(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/g, "");
}

/** A path with a query, without its empty members. */
export function withQuery(path: string, query: Record<string, string | null | undefined>): string {
  const members = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== "" && entry[1] !== null && entry[1] !== undefined);
  return members.length === 0 ? path : `${path}?${new URLSearchParams(members).toString()}`;
}

/** The sentence for what was just done: the address may say which, never what. */
export function doneOf(req: Request, sentences: Readonly<Record<string, string>>): string | null {
  const done = queryText(req, "done");
  return Object.hasOwn(sentences, done) ? (sentences[done] ?? null) : null;
}

export function seeOther(res: Response, path: string, query: Record<string, string> = {}): void {
  res.status(303).location(withQuery(path, query)).end();
}
