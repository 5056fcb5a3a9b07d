// oauth.v2.access of the practice Slack, in Slack's own shape: HTTP 200 whatever happens, `ok` says what it was, a user's token is
// nested under `authed_user`, a bot's is at the top. With token rotation on, refresh answers come here too.
import { createHash } from "node:crypto";
import type { Request, Response } from "express";
import type { Endpoint } from "../endpoint.js";
import type { IssuedTokens } from "../grants.js";
import { checkClient, type Parameters, parametersOf } from "../request.js";
import type { Shelf } from "../shelf.js";
import type { SlackCode } from "./authorize.js";
import type { SlackDeps } from "./slack.js";
import { APP_ID, BOT, TEAM } from "./workspace.js";

const SINGLE = ["grant_type", "code", "redirect_uri", "code_verifier", "refresh_token", "client_id", "client_secret"];

/** What every answer carries beside the tokens. */
const PLACE = { app_id: APP_ID, team: { id: TEAM.id, name: TEAM.name }, enterprise: null, is_enterprise_install: false };

function tokenFields(issued: IssuedTokens): Record<string, unknown> {
  return {
    scope: issued.scopes.join(","),
    access_token: issued.access,
    token_type: issued.grant.kind,
    ...(issued.refresh !== null && { refresh_token: issued.refresh }),
    ...(issued.expiresInS !== null && { expires_in: issued.expiresInS }),
  };
}

export function slackAccessEndpoints(deps: SlackDeps & { codes: Shelf<SlackCode> }): Endpoint[] {
  const { codes, grants, client, store } = deps;

  const refuse = (res: Response, error: string): Response => res.set("Cache-Control", "no-store").json({ ok: false, error });

  async function answer(res: Response, fields: Record<string, unknown>): Promise<Response> {
    await store.save();
    return res.set("Cache-Control", "no-store").json({ ok: true, ...PLACE, ...fields });
  }

  async function exchange(res: Response, form: Parameters): Promise<Response> {
    const code = codes.get(form.get("code") ?? "");
    if (!code) return refuse(res, "invalid_code");
    if (code.grantIds.length > 0) {
      for (const id of code.grantIds) grants.revoke(id);
      await store.save();
      return refuse(res, "code_already_used");
    }
    if (form.get("redirect_uri") !== code.redirectUri) return refuse(res, "bad_redirect_uri");
    const verifier = form.get("code_verifier");
    const challenge = createHash("sha256")
      .update(verifier ?? "")
      .digest("base64url");
    if (code.codeChallenge !== null && challenge !== code.codeChallenge) return refuse(res, "invalid_code_verifier");

    const withRefresh = deps.policy.rotatesRefreshTokens;
    const issue = (kind: "user" | "bot", scopes: string[]): IssuedTokens | null =>
      scopes.length > 0 ? grants.issue({ person: code.person, kind, scopes, withRefresh }) : null;
    const user = issue("user", code.userScopes);
    const bot = issue("bot", code.botScopes);
    code.grantIds = [user, bot].flatMap((issued) => (issued ? [issued.grant.id] : []));
    return answer(res, {
      authed_user: { id: code.person, ...(user && tokenFields(user)) },
      ...(bot && { ...tokenFields(bot), bot_user_id: BOT.userId }),
    });
  }

  async function refresh(res: Response, form: Parameters): Promise<Response> {
    const outcome = grants.refresh(form.get("refresh_token") ?? "");
    if (outcome.status === "reused") await store.save();
    if (outcome.status !== "ok") return refuse(res, "invalid_refresh_token");
    const bot = outcome.grant.kind === "bot";
    return answer(res, { ...tokenFields(outcome), authed_user: { id: outcome.grant.person }, ...(bot && { bot_user_id: BOT.userId }) });
  }

  async function access(req: Request, res: Response): Promise<Response> {
    const form = parametersOf(req.method === "GET" ? req.query : req.body);
    const checked = checkClient(req, form, client);
    if (form.repeated(SINGLE)) return refuse(res, "invalid_arguments");
    if (checked.id !== client.clientId) return refuse(res, "invalid_client_id");
    if (!checked.ok) return refuse(res, "bad_client_secret");
    const grantType = form.get("grant_type");
    if (grantType === null || grantType === "authorization_code") return exchange(res, form);
    if (grantType === "refresh_token") return refresh(res, form);
    return refuse(res, "invalid_grant_type");
  }

  return [
    { method: "POST", path: "/slack/api/oauth.v2.access", run: access },
    { method: "GET", path: "/slack/api/oauth.v2.access", run: access },
  ];
}
