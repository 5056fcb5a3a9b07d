// /login when people sign in at an external issuer: the way there and the way back. Must never happen: an answer taken that
// this browser's session did not ask for (login CSRF); a session id from before the sign-in that lives on (fixation); the
// issuer's own words on a page.
import { Router, type Request, type RequestHandler, type Response } from "express";
import { OutbandError } from "../errors.js";
import { getRequestId } from "../http/guard.js";
import type { Renderer } from "../http/render.js";
import { currentPerson, takeWayBack, wayBackTargets, type Sessions } from "../http/session.js";
import { CALLBACK_PATH, type ExternalSignIn, SignInFailure, type SignInFlow, type SignInTrouble } from "../identity/external/external.js";
import type { Users } from "../identity/users.js";
import { fieldsOf } from "./formFields.js";

declare module "express-session" {
  interface SessionData {
    /** Sign-ins at the external issuer that this browser has begun, oldest first. */
    signInFlows?: SignInFlow[];
  }
}

/** One for each tab that a person left open. */
const FLOWS_MAX = 5;

export interface ExternalPageDeps {
  external: ExternalSignIn;
  users: Pick<Users, "countFailedSignIn">;
  sessions: Sessions;
  render: Renderer;
}

interface Words {
  status: number;
  tone: "warn" | "error";
  sentence: string;
}

const TROUBLE: Readonly<Record<SignInTrouble | "too_often", Words>> = {
  denied: { status: 400, tone: "warn", sentence: "You were not signed in, because that was refused or cancelled there. Nothing was changed." },
  ended: { status: 400, tone: "warn", sentence: "This sign-in has ended, or it began in another browser. Start again here." },
  not_allowed: { status: 403, tone: "warn", sentence: "You are known there, but not allowed in here. The people who run this installation can change that." },
  unavailable: { status: 503, tone: "error", sentence: "The place where people sign in cannot be reached at the moment. Try again in a minute." },
  broken: { status: 502, tone: "error", sentence: "The sign-in came back with an answer that cannot be accepted. Try again; if it happens twice, tell the people who run this installation." },
  too_often: { status: 429, tone: "error", sentence: "There were too many tries. Wait a little before the next one." },
};

export function createExternalPages(deps: ExternalPageDeps, form: RequestHandler[]): Router {
  const { external, users, sessions } = deps;
  const router = Router();

  router.get("/login", (req, res) => {
    const again = req.query.again !== undefined;
    if (currentPerson(req) !== null && !again) return res.redirect(303, takeWayBack(req));
    show(deps, req, res, { again });
  });

  router.post("/login", ...form, async (req, res) => {
    const asked = fieldsOf(req, ["again", "another"]);
    const again = asked.again !== "";
    try {
      const { url, flow } = await external.begin({ again, another: asked.another !== "", address: req.ip });
      req.session.signInFlows = [...(req.session.signInFlows ?? []), flow].slice(-FLOWS_MAX);
      res.redirect(303, url);
    } catch (thrown) {
      if (thrown instanceof OutbandError && thrown.code === "rate_limited") {
        res.setHeader("Retry-After", String(thrown.retryAfterS ?? 60));
        return show(deps, req, res, { again, trouble: "too_often" });
      }
      if (!(thrown instanceof SignInFailure)) throw thrown;
      show(deps, req, res, { again, trouble: thrown.trouble });
    }
  });

  router.get(CALLBACK_PATH, async (req, res) => {
    const flow = takeFlow(req);
    // A reload, or a tab beside the one that has done it.
    if (flow === null && currentPerson(req) !== null) return res.redirect(303, takeWayBack(req));
    if (flow === null) return show(deps, req, res, { trouble: "ended" });
    const at = req.originalUrl.indexOf("?");
    try {
      const user = await external.finish(req.originalUrl.slice(at), flow, { requestId: getRequestId(req) });
      await sessions.signIn(req, user.sub);
      res.redirect(303, takeWayBack(req));
    } catch (thrown) {
      if (!(thrown instanceof SignInFailure)) throw thrown;
      if (thrown.trouble !== "ended") users.countFailedSignIn();
      show(deps, req, res, { again: flow.again, trouble: thrown.trouble });
    }
  });

  return router;
}

/** The flow that the answer belongs to, once. */
function takeFlow(req: Request): SignInFlow | null {
  const { state } = req.query;
  const flows = req.session.signInFlows ?? [];
  const flow = flows.find((one) => one.state === state) ?? null;
  if (flow !== null) req.session.signInFlows = flows.filter((one) => one !== flow);
  return flow;
}

function show(deps: ExternalPageDeps, req: Request, res: Response, shown: { again?: boolean; trouble?: keyof typeof TROUBLE }): void {
  const words = shown.trouble === undefined ? null : TROUBLE[shown.trouble];
  const data = { title: "Sign in", bare: true, host: deps.external.host, again: shown.again ?? false, problem: words?.sentence ?? null, tone: words?.tone ?? "error" };
  // Issuers pass people on from host to host, and Chromium holds every hop that follows a form against this list. The form
  // has no field that somebody could want.
  const formAction = ["https:", new URL(deps.external.issuer).origin, ...wayBackTargets(req)];
  deps.render.page(req, res, "loginElsewhere", data, { status: words?.status ?? 200, formAction });
}
