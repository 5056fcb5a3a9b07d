// The practice Slack Web API: one row per method, with the scopes it needs. Errors come with HTTP 200 and `ok:false`.
// Must never happen: an answer to a token that is unknown, expired or revoked, or that shows a private channel to a stranger.
import type { Request, Response } from "express";
import type { Endpoint } from "../endpoint.js";
import type { CheckedToken } from "../grants.js";
import { bearerOf, parametersOf } from "../request.js";
import { type SlackCall, type SlackMethod, SlackRefusal } from "./call.js";
import { CHANNEL_METHODS } from "./channelMethods.js";
import { createHistory } from "./history.js";
import { PEOPLE_METHODS } from "./peopleMethods.js";
import type { SlackDeps } from "./slack.js";
import { BOT } from "./workspace.js";

const TOKEN_ERRORS: Record<Exclude<CheckedToken["status"], "ok">, string> = {
  unknown: "invalid_auth",
  expired: "token_expired",
  revoked: "token_revoked",
};

export function slackMethodEndpoints(deps: SlackDeps): Endpoint[] {
  const { grants, store, clock } = deps;
  const history = createHistory({ store, clock });

  function callOf(req: Request, token: string | null): SlackCall {
    const query = parametersOf(req.query);
    const body = typeof req.body === "object" && req.body !== null ? (req.body as Record<string, unknown>) : {};
    if (token === null) throw new SlackRefusal("not_authed");
    const checked = grants.check(token);
    if (checked.status !== "ok") throw new SlackRefusal(TOKEN_ERRORS[checked.status]);
    const raw = (name: string): unknown => (Object.hasOwn(body, name) ? body[name] : query.get(name));
    const text = (name: string): string | null => {
      const value = raw(name);
      return typeof value === "string" && value !== "" ? value : typeof value === "number" ? String(value) : null;
    };
    return {
      user: checked.grant.kind === "bot" ? BOT.userId : checked.grant.person,
      bot: checked.grant.kind === "bot",
      scopes: checked.scopes,
      history,
      text,
      flag: (name) => raw(name) === true || ["true", "1"].includes(String(raw(name))),
      object(name) {
        const value = raw(name);
        if (typeof value !== "string") return value;
        try {
          return JSON.parse(value) as unknown;
        } catch {
          return value;
        }
      },
      need(...scopes) {
        if (scopes.some((scope) => checked.scopes.includes(scope))) return;
        throw new SlackRefusal("missing_scope", { needed: scopes[0], provided: checked.scopes.join(",") });
      },
      revokeSelf: () => void grants.revoke(checked.grant.id),
    };
  }

  function serve(method: SlackMethod) {
    return async (req: Request, res: Response): Promise<Response> => {
      res.set("Cache-Control", "no-store");
      try {
        const call = callOf(req, bearerOf(req) ?? parametersOf(req.body).get("token"));
        res.set("X-OAuth-Scopes", call.scopes.join(","));
        const answer = method.run(call);
        if (method.writes) await store.save();
        return res.json({ ok: true, ...answer });
      } catch (error) {
        if (!(error instanceof SlackRefusal)) throw error;
        return res.json(error.fields);
      }
    };
  }

  const methods = [...PEOPLE_METHODS, ...CHANNEL_METHODS].flatMap((method): Endpoint[] => {
    const path = `/slack/api/${method.name}`;
    const run = serve(method);
    return [
      { method: "GET", path, run },
      { method: "POST", path, run },
    ];
  });
  const unknown = (_req: Request, res: Response): Response => res.json({ ok: false, error: "unknown_method" });
  return [
    ...methods,
    { method: "GET", path: "/slack/api/:method", run: unknown },
    { method: "POST", path: "/slack/api/:method", run: unknown },
  ];
}
