// /login, /logout and /setup/{token}: the built-in sign-in, or the way to another one. Must never happen: words, a status or
// a time that tell whether an e-mail is known here; a GET that changes something; a way back that leaves this origin.
import express, { Router, type Request, type RequestHandler, type Response } from "express";
import { ERRORS, OutbandError } from "../errors.js";
import { getRequestId } from "../http/guard.js";
import { ownPath } from "../http/ownPath.js";
import { methodNotAllowed } from "../http/problem.js";
import type { Renderer } from "../http/render.js";
import { currentPerson, takeWayBack, wayBackTargets, type Sessions } from "../http/session.js";
import type { ExternalSignIn } from "../identity/external/external.js";
import { personProblems } from "../identity/person.js";
import type { User, Users } from "../identity/users.js";
import { createAccountPages, type Apps } from "./account.js";
import { createExternalPages } from "./externalSignIn.js";
import { fieldsOf, passwordsDiffer, problemsOf, sentencesOf, type Problems } from "./formFields.js";

export interface SignInDeps {
  users: Users;
  sessions: Sessions;
  render: Renderer;
  /** The MCP clients that a person let in; the authorization server knows. */
  apps: Apps;
  /** Where people sign in instead (OIDC_ISSUER). Without it they have a password here. */
  external?: ExternalSignIn | null;
}

const FORM_BYTES_MAX = "16kb";
/** One sentence for a wrong password and for nobody. */
const WRONG = "This e-mail address and password do not belong together.";
const TOO_OFTEN = "There were too many tries. Wait a little before the next one.";

export function createSignInPages(deps: SignInDeps): Router {
  const { sessions } = deps;
  const external = deps.external ?? null;
  const router = Router();
  const form = [express.urlencoded({ extended: false, limit: FORM_BYTES_MAX }), sessions.csrfGuard];

  router.use(external === null ? createPasswordPages(deps, form) : createExternalPages({ ...deps, external }, form));
  router.post("/logout", ...form, async (req, res) => {
    const { back } = fieldsOf(req, ["back"]);
    await sessions.signOut(req, res);
    // The page that was left asks for a sign-in by itself, and knows where it may lead.
    res.redirect(303, ownPath(back) ?? "/login");
  });
  router.all("/logout", methodNotAllowed("POST"));
  router.use(createAccountPages({ ...deps, keptAt: external?.host ?? null }, form));
  return router;
}

function createPasswordPages(deps: SignInDeps, form: RequestHandler[]): Router {
  const { users, sessions } = deps;
  const router = Router();

  router.get("/login", async (req, res) => {
    const again = req.query.again !== undefined;
    if (currentPerson(req) !== null && !again) return res.redirect(303, takeWayBack(req));
    await showLogin(deps, req, res, { again });
  });

  router.post("/login", ...form, async (req, res) => {
    const { email: typed, password } = fieldsOf(req, ["email", "password"]);
    // PostgreSQL takes a NUL in no text: the look-up would fail instead of finding nobody.
    const email = typed.replaceAll("\0", "\ufffd");
    const where = { address: req.ip, requestId: getRequestId(req) };
    let user: User | null;
    try {
      user = await users.verifyPassword(email, password, where);
    } catch (error) {
      if (!(error instanceof OutbandError) || error.code !== "rate_limited") throw error;
      res.setHeader("Retry-After", String(error.retryAfterS ?? 60));
      return showLogin(deps, req, res, { email, problem: TOO_OFTEN, status: 429 });
    }
    if (user === null) return showLogin(deps, req, res, { email, problem: WRONG, status: 401 });
    await sessions.signIn(req, user.sub);
    res.redirect(303, takeWayBack(req));
  });

  router.get("/setup/:token", async (req, res) => {
    const link = await users.readLink(String(req.params.token));
    if (link === null) return showGone(deps, req, res);
    showSetup(deps, req, res, link, { values: { email: "", name: "" }, problems: {} });
  });

  router.post("/setup/:token", ...form, async (req, res) => {
    const token = String(req.params.token);
    const link = await users.readLink(token);
    if (link === null) return showGone(deps, req, res);
    const { password, password_again: again, ...values } = fieldsOf(req, ["email", "name", "password", "password_again"]);
    const claim = { password, name: values.name === "" ? null : values.name };
    const email = link.purpose === "setup" ? values.email : link.email;
    let problems: Problems = { ...sentencesOf(personProblems({ ...claim, email })), ...passwordsDiffer(password, again) };
    if (Object.keys(problems).length === 0) {
      try {
        const user = await (link.purpose === "setup" ? users.claimSetup(token, { ...claim, email }) : users.claimInvitation(token, claim));
        if (user === null) return showGone(deps, req, res);
        await sessions.signIn(req, user.sub);
        return res.redirect(303, takeWayBack(req));
      } catch (error) {
        problems = problemsOf(error, "email");
      }
    }
    showSetup(deps, req, res, link, { values, problems, status: 400 });
  });

  return router;
}

type Link = NonNullable<Awaited<ReturnType<Users["readLink"]>>>;

/** Where nobody is set up yet, the way on is another link, not a page behind a sign-in. */
async function showGone(deps: SignInDeps, req: Request, res: Response): Promise<void> {
  const data = { title: "This link does not work any more", bare: true, isNew: !(await deps.users.anyAdmin()) };
  deps.render.page(req, res, "setupGone", data, { status: ERRORS.link_gone.status });
}

async function showLogin(deps: SignInDeps, req: Request, res: Response, shown: { email?: string; problem?: string; status?: number; again?: boolean }): Promise<void> {
  const data = {
    title: "Sign in",
    bare: true,
    email: shown.email ?? "",
    problem: shown.problem ?? null,
    again: shown.again ?? false,
    isNew: !(await deps.users.anyAdmin()),
  };
  deps.render.page(req, res, "login", data, { status: shown.status ?? 200, formAction: wayBackTargets(req) });
}

function showSetup(
  deps: SignInDeps,
  req: Request,
  res: Response,
  link: Link,
  shown: { values: { email: string; name: string }; problems: Problems; status?: number },
): void {
  const isSetup = link.purpose === "setup";
  const data = {
    title: isSetup ? "Set up" : "Welcome",
    bare: true,
    purpose: link.purpose,
    token: String(req.params.token),
    email: isSetup ? shown.values.email : link.email,
    name: shown.values.name || (isSetup ? "" : (link.name ?? "")),
    problems: shown.problems,
  };
  deps.render.page(req, res, "setup", data, { status: shown.status ?? 200, formAction: wayBackTargets(req) });
}
