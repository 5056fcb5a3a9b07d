// The person's pages on a loopback port over the fake vault, with a sign-in that is a cookie `person=<sub>`.
import type { AddressInfo } from "node:net";
import express, { type RequestHandler } from "express";
import { systemClock, type Clock } from "../../src/clock.js";
import type { Connector } from "../../src/connectors/connector.js";
import { OutbandError } from "../../src/errors.js";
import { createAssets } from "../../src/http/assets.js";
import { requestContext, securityHeaders } from "../../src/http/guard.js";
import { notFound, pageErrors } from "../../src/http/problem.js";
import { createRenderer } from "../../src/http/render.js";
import type { BrowserPerson } from "../../src/http/session.js";
import { asIdentifier } from "../../src/ids.js";
import { createLog } from "../../src/log.js";
import { createConnectionsPages } from "../../src/pages/connections.js";
import { createConnectPages } from "../../src/pages/connect.js";
import { createHomePage } from "../../src/pages/home.js";
import type { PageSession } from "../../src/pages/page.js";
import { createFakeVault, type FakeVault } from "./fakeVault.js";

export const PEOPLE: Record<string, BrowserPerson> = {
  ann: { sub: asIdentifier("ann"), email: "ann@people.test", name: "Ann Ferreira", role: "user" },
  bo: { sub: asIdentifier("bo"), email: "bo@people.test", name: null, role: "user" },
  root: { sub: asIdentifier("root"), email: "root@people.test", name: "Root", role: "admin" },
};

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
}

export interface PageSite extends FakeVault {
  origin: string;
  lines: string[];
  /** `as` is a key of PEOPLE. Redirects are not followed. A form is sent with the right CSRF token unless it names its own. */
  visit(path: string, options?: { as?: string; method?: string; form?: Record<string, string>; cookie?: string; headers?: Record<string, string> }): Promise<Answer>;
  close(): Promise<void>;
}

const CSRF = "the-token-of-this-session";

export async function openPageSite(options: { connectors: Connector[]; publicUrl?: string; sandbox?: boolean; port?: number; clock?: Clock }): Promise<PageSite> {
  const fake = createFakeVault();
  const clock = options.clock ?? systemClock;
  const lines: string[] = [];
  const log = createLog({ level: "debug", write: (line) => lines.push(line) });
  const app = express();
  const server = app.listen(options.port ?? 0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const origin = `http://localhost:${(server.address() as AddressInfo).port}`;
  const publicUrl = options.publicUrl ?? origin;
  const session = fakeSession();
  const render = createRenderer({ publicUrl, sandbox: () => options.sandbox ?? false, clock, visitor: { person: session.person, csrf: () => CSRF } });
  const connectorOf = ({ connector }: { connector: string }): Connector => {
    const known = options.connectors.find(({ name }) => name === connector);
    if (!known) throw new Error(`no connector ${connector}`);
    return known;
  };
  const deps = { vault: fake.vault, render, session, connectorOf, publicUrl, clock };
  app.disable("x-powered-by");
  app.use(requestContext({ publicUrl, clock }), securityHeaders(publicUrl));
  app.use("/assets", createAssets());
  app.use(createHomePage(deps), createConnectPages(deps), createConnectionsPages(deps));
  app.use(notFound, pageErrors(log, render));

  return Object.assign(fake, {
    origin,
    lines,
    visit: async (path: string, visit: Parameters<PageSite["visit"]>[1] = {}) => {
      const cookie = [visit.as ? `person=${visit.as}` : "", visit.cookie ?? ""].filter((part) => part !== "").join("; ");
      const answer = await fetch(origin + path, {
        method: visit.method ?? (visit.form ? "POST" : "GET"),
        redirect: "manual",
        headers: { ...(cookie === "" ? {} : { cookie }), ...visit.headers },
        ...(visit.form ? { body: new URLSearchParams({ _csrf: CSRF, ...visit.form }) } : {}),
      });
      return { status: answer.status, headers: answer.headers, text: await answer.text() };
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  });
}

function fakeSession(): PageSession {
  const person = (req: { headers: { cookie?: string | undefined } }): BrowserPerson | null => PEOPLE[/(?:^|; )person=(\w+)/.exec(req.headers.cookie ?? "")?.[1] ?? ""] ?? null;
  const requirePerson: RequestHandler = (req, res, next) => {
    if (person(req)) next();
    else res.status(303).location("/login").set("x-kept-way-back", req.originalUrl).end();
  };
  const csrfGuard: RequestHandler = (req, _res, next) => {
    const sent: unknown = (req.body as { _csrf?: unknown } | undefined)?._csrf;
    next(sent === CSRF ? undefined : new OutbandError("csrf_failed"));
  };
  return { person, requirePerson, csrfGuard };
}
