// Browser sessions: who the person at the browser is, the sign-in and the sign-out. Must never happen: a session id that
// survives a sign-in (fixation), a way back that leaves this origin, a person who was disabled and still acts.
import type { Request, RequestHandler, Response } from "express";
import session from "express-session";
import type { Clock } from "../clock.js";
import type { KeyRing } from "../crypto/keyring.js";
import type { Sealer } from "../crypto/seal.js";
import type { Database } from "../db/client.js";
import type { Identifier } from "../ids.js";
import { createCsrfGuard, csrfToken } from "./csrf.js";
import { ownPath } from "./ownPath.js";
import { BrowserSessionStore, SESSION_LIFE_MS } from "./sessionStore.js";

export { csrfToken };

export interface BrowserPerson {
  sub: Identifier;
  email: string;
  name: string | null;
  role: "user" | "viewer" | "admin";
}

type EndHook = (req: Request, res: Response, sub: string | null) => Promise<void>;

export interface Sessions {
  /** The cookie session and the person behind it, for every route that shows or takes pages. */
  middleware: RequestHandler[];
  /** Gives the browser a new session id and keeps the way back. Another person was signed in: their session ends first. */
  signIn(req: Request, sub: string): Promise<void>;
  /** Ends the session of this browser. Pages after it begin a new one. */
  signOut(req: Request, res: Response): Promise<void>;
  /** Ends every session of the person, on all browsers. */
  endSessionsOf(sub: string): Promise<void>;
  /** After the body parser, on every POST of a form. */
  csrfGuard: RequestHandler;
  /** Called when a session ends or its person changes, with the person that was. */
  onEnd(hook: EndHook): void;
}

export interface SessionDeps {
  db: Pick<Database, "prisma">;
  sealer: Sealer;
  ring: KeyRing;
  publicUrl: string;
  clock: Clock;
  /** Null: unknown or disabled. */
  loadPerson: (sub: string) => Promise<BrowserPerson | null>;
}

const DEFAULT_WAY_BACK = "/connections";

const people = new WeakMap<object, BrowserPerson>();

export function currentPerson(req: Request): BrowserPerson | null {
  return people.get(req) ?? null;
}

/** Pages for signed-in people: anybody else goes to sign in first, and comes back to what they asked for. */
export const requirePerson: RequestHandler = (req, res, next) => {
  if (currentPerson(req) !== null) return next();
  if (req.method === "GET" || req.method === "HEAD") keepWayBack(req, req.originalUrl);
  res.redirect(303, "/login");
};

/** Keeps an own path for after the sign-in. `targets`: origins or schemes it leads on to. Anything else is dropped in silence. */
export function keepWayBack(req: Request, path: string, targets: string[] = []): void {
  const own = ownPath(path);
  if (own === null || !req.session) return;
  req.session.wayBack = own;
  req.session.wayBackTargets = targets;
}

/** The kept way back, once. */
export function takeWayBack(req: Request): string {
  const kept = ownPath(req.session?.wayBack);
  if (req.session) {
    delete req.session.wayBack;
    delete req.session.wayBackTargets;
  }
  return kept ?? DEFAULT_WAY_BACK;
}

export function wayBackTargets(req: Request): string[] {
  return req.session?.wayBackTargets ?? [];
}

/** When the person of this session signed in, and the own path they did it for; null: nobody did. */
export function signedIn(req: Request): { atMs: number; wayBack: string | null } | null {
  const atMs = req.session?.signedInAtMs;
  return atMs === undefined ? null : { atMs, wayBack: req.session.signedInFor ?? null };
}

export function createSessions(deps: SessionDeps): Sessions {
  const https = deps.publicUrl.startsWith("https:");
  const store = new BrowserSessionStore(deps);
  const hooks: EndHook[] = [];
  const cookieName = sessionCookieName(deps.publicUrl);
  const cookie = { path: "/", httpOnly: true, sameSite: "lax", secure: https } as const;

  // express-session keeps the array that it is given and signs with its first entry; it is filled anew before each request,
  // because the master key may be exchanged while the program runs.
  const secrets = cookieSecrets(deps.ring);
  const currentSecrets: RequestHandler = (_req, _res, next) => {
    secrets.splice(0, secrets.length, ...cookieSecrets(deps.ring));
    next();
  };
  const cookieSession = session({
    store,
    name: cookieName,
    secret: secrets,
    genid: () => deps.clock.randomBytes(32).toString("base64url"),
    resave: false,
    saveUninitialized: false,
    // The scheme is PUBLIC_URL's, whatever stands in front of us: see pinScheme.
    proxy: true,
    cookie: { ...cookie, maxAge: SESSION_LIFE_MS },
  });

  const loadPerson: RequestHandler = async (req, _res, next) => {
    const sub = req.session?.sub;
    if (sub !== undefined && !people.has(req)) {
      const person = await deps.loadPerson(sub);
      if (person !== null) people.set(req, person);
      else {
        delete req.session.sub;
        delete req.session.signedInAtMs;
      }
    }
    next();
  };

  async function ended(req: Request, res: Response, sub: string | null): Promise<void> {
    people.delete(req);
    for (const hook of hooks) await hook(req, res, sub);
  }

  return {
    middleware: [pinScheme(https), currentSecrets, cookieSession, loadPerson],
    csrfGuard: createCsrfGuard(deps.publicUrl),
    onEnd: (hook) => {
      hooks.push(hook);
    },
    signIn: async (req, sub) => {
      const before = req.session.sub ?? null;
      const { wayBack, wayBackTargets } = req.session;
      if (before !== null && before !== sub && req.res) await ended(req, req.res, before);
      await regenerate(req);
      req.session.sub = sub;
      req.session.signedInAtMs = deps.clock.now();
      if (wayBack !== undefined) Object.assign(req.session, { wayBack, wayBackTargets, signedInFor: wayBack });
      // Now, not with the first page: two pages opened at once would each make one, and the form of one of them fail.
      csrfToken(req);
      const person = await deps.loadPerson(sub);
      if (person !== null) people.set(req, person);
      await save(req);
    },
    signOut: async (req, res) => {
      await ended(req, res, req.session?.sub ?? null);
      await destroy(req);
      res.clearCookie(cookieName, cookie);
    },
    endSessionsOf: (sub) => store.endAllOf(sub),
  };
}

function cookieSecrets(ring: KeyRing): string[] {
  return ring.derive("browser_session").map(({ key }) => key.toString("base64url"));
}

/** `__Host-` needs Secure, and browsers drop such a name without it: on http loopback a plain name. */
export function sessionCookieName(publicUrl: string): string {
  return publicUrl.startsWith("https:") ? "__Host-outband_session" : "outband_session";
}

/** express-session holds a secure cookie back unless the request looks secure; what the proxies say must not decide that. */
function pinScheme(https: boolean): RequestHandler {
  return (req, _res, next) => {
    req.headers["x-forwarded-proto"] = https ? "https" : "http";
    next();
  };
}

function regenerate(req: Request): Promise<void> {
  return new Promise((resolve, reject) => {
    req.session.regenerate((error: unknown) => (error ? reject(error) : resolve()));
  });
}

function destroy(req: Request): Promise<void> {
  return new Promise((resolve, reject) => {
    if (!req.session) return resolve();
    req.session.destroy((error: unknown) => (error ? reject(error) : resolve()));
  });
}

function save(req: Request): Promise<void> {
  return new Promise((resolve, reject) => {
    req.session.save((error: unknown) => (error ? reject(error) : resolve()));
  });
}
