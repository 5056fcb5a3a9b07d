// /account: a person's own name and password, where we keep them, and the apps they let in. Must never happen: a password
// changed without the old one; a session of before that survives it.
import { Router, type Request, type RequestHandler, type Response } from "express";
import { OutbandError } from "../errors.js";
import { getRequestId } from "../http/guard.js";
import type { Renderer } from "../http/render.js";
import { currentPerson, requirePerson, type BrowserPerson, type Sessions } from "../http/session.js";
import type { BrowserPrincipal } from "../identity/principal.js";
import { personProblems } from "../identity/person.js";
import type { Users } from "../identity/users.js";
import { fieldsOf, passwordsDiffer, problemsOf, sentencesOf, type Problems } from "./formFields.js";

export interface App {
  id: string;
  name: string | null;
  provedHost: string | null;
  scopes: string[];
  since: Date;
}

export interface Apps {
  appsOf(sub: string): Promise<App[]>;
  endApp(sub: string, id: string): Promise<void>;
}

export interface AccountDeps {
  users: Users;
  sessions: Sessions;
  render: Renderer;
  apps: Apps;
  /** The host that keeps names and passwords instead; null: we do. */
  keptAt: string | null;
}

/** What a redirect after a change may say; anything else in the query says nothing. */
const DONE: Partial<Record<string, string>> = {
  name: "Your name is changed.",
  password: "Your password is changed, and you are signed out everywhere else.",
  app: "The app was removed. It is refused from its next call on.",
};

export function createAccountPages(deps: AccountDeps, form: RequestHandler[]): Router {
  const { users, sessions, apps } = deps;
  const router = Router();
  router.use("/account", requirePerson);

  router.get("/account", async (req, res) => {
    const done = typeof req.query.done === "string" ? (DONE[req.query.done] ?? null) : null;
    await show(deps, req, res, { done });
  });

  router.post("/account/apps/:id/remove", ...form, async (req, res) => {
    await apps.endApp(personOf(req).sub, String(req.params.id));
    res.redirect(303, "/account?done=app");
  });

  if (deps.keptAt !== null) return router;

  router.post("/account/name", ...form, async (req, res) => {
    const person = personOf(req);
    const { name } = fieldsOf(req, ["name"]);
    try {
      await users.update(person.sub, { name }, principalOf(person));
    } catch (error) {
      return show(deps, req, res, { problems: problemsOf(error, "name"), name });
    }
    res.redirect(303, "/account?done=name");
  });

  router.post("/account/password", ...form, async (req, res) => {
    const person = personOf(req);
    const { current, password, password_again: again } = fieldsOf(req, ["current", "password", "password_again"]);
    const problems = await changePassword(deps, req, person, { current, password, again });
    if (problems !== null) return show(deps, req, res, { problems });
    // Every session of the person ends, this one too; then this browser gets a new one.
    await sessions.endSessionsOf(person.sub);
    await sessions.signIn(req, person.sub);
    res.redirect(303, "/account?done=password");
  });

  return router;
}

/** Null: it is changed. */
async function changePassword(
  deps: AccountDeps,
  req: Request,
  person: BrowserPerson,
  asked: { current: string; password: string; again: string },
): Promise<Problems | null> {
  const problems: Problems = { ...sentencesOf(personProblems({ email: person.email, password: asked.password })), ...passwordsDiffer(asked.password, asked.again) };
  try {
    const where = { address: req.ip, requestId: getRequestId(req) };
    if (!(await deps.users.checkPassword(person.sub, asked.current, where))) problems.current = "This is not your password.";
    if (Object.keys(problems).length > 0) return problems;
    await deps.users.setPassword(person.sub, asked.password, principalOf(person));
    return null;
  } catch (error) {
    return problemsOf(error, "password");
  }
}

async function show(deps: AccountDeps, req: Request, res: Response, shown: { done?: string | null; problems?: Problems; name?: string }): Promise<void> {
  const person = personOf(req);
  const user = await deps.users.find(person.sub);
  if (user === null) throw new OutbandError("not_found");
  const data = {
    title: "Your account",
    section: "account" as const,
    email: user.email,
    name: shown.name ?? user.name ?? "",
    hasPassword: user.hasPassword,
    keptAt: deps.keptAt,
    apps: await deps.apps.appsOf(person.sub),
    done: shown.done ?? null,
    problems: shown.problems ?? {},
  };
  deps.render.page(req, res, "account", data, { status: shown.problems ? 400 : 200 });
}

function personOf(req: Request): BrowserPerson {
  const person = currentPerson(req);
  if (person === null) throw new OutbandError("unauthorized");
  return person;
}

function principalOf(person: BrowserPerson): BrowserPrincipal {
  return { kind: "browser", sub: person.sub, role: person.role };
}
