// The practice Slack's authorization page: workspace, person, what the app may do, Allow or Cancel. No PKCE unless it is sent, as
// at Slack. Must never happen: a redirect to an address that is not allowed.
import type { Request, Response } from "express";
import type { Endpoint } from "../endpoint.js";
import { address, html } from "../html.js";
import { sendPage, sendTrouble } from "../page.js";
import { MARA, PEOPLE, personByHint, personBySlackId } from "../people.js";
import { isAllowedRedirect, redirectWith } from "../redirect.js";
import { parametersOf } from "../request.js";
import type { Shelf } from "../shelf.js";
import { BOT_TITLES, SLACK_SCOPES, splitScopes } from "./scopes.js";
import type { SlackDeps } from "./slack.js";
import { TEAM } from "./workspace.js";

export interface SlackRequest {
  redirectUri: string;
  state: string | null;
  botScopes: string[];
  userScopes: string[];
  codeChallenge: string | null;
  answered: boolean;
}

export interface SlackCode {
  redirectUri: string;
  codeChallenge: string | null;
  /** Slack user id. */
  person: string;
  botScopes: string[];
  userScopes: string[];
  grantIds: string[];
}

const PATH = "/slack/oauth/v2/authorize";
const SINGLE = ["client_id", "redirect_uri", "scope", "user_scope", "state", "code_challenge", "code_challenge_method"];

function sendAllow(res: Response, data: { id: string; request: SlackRequest; chosen: string; returnTo: string }): Response {
  const { botScopes, userScopes } = data.request;
  const lines = (scopes: string[], titles: Record<string, string>) =>
    scopes.map((scope) => html`<li class="given">${titles[scope] ?? SLACK_SCOPES[scope]} <small>${scope}</small></li>`);
  return sendPage(res, {
    owner: "slack",
    title: `Outband asks for access to ${TEAM.name}`,
    lead: html`<p>Workspace: <strong>${TEAM.domain}.sandbox.example</strong></p>`,
    body: html`<form method="post" action="${PATH}">
<input type="hidden" name="request" value="${data.id}">
<fieldset>
<legend>Which practice person are you?</legend>
${PEOPLE.map(
  (
    person,
  ) => html`<label class="choice"><input type="radio" name="person" value="${person.slackId}"${person.slackId === data.chosen && html` checked`}>
<span><b>${person.name}</b><small>${person.role}</small><small>${address(person.email)}</small></span></label>`,
)}
</fieldset>
${userScopes.length > 0 && html`<h2>What Outband may do as you</h2><ul class="plain">${lines(userScopes, {})}</ul>`}
${botScopes.length > 0 && html`<h2>What the app may do as itself</h2><ul class="plain">${lines(botScopes, BOT_TITLES)}</ul>`}
<p class="muted">After your answer you go back to <strong>${data.returnTo}</strong>.</p>
<div class="actions">
<button class="act primary" name="decision" value="allow">Allow</button>
<button class="act" name="decision" value="cancel">Cancel</button>
</div>
</form>`,
    leadsBack: true,
  });
}

export function slackAuthorizeEndpoints(deps: SlackDeps & { requests: Shelf<SlackRequest>; codes: Shelf<SlackCode> }): Endpoint[] {
  const { requests, codes, client, publicUrl } = deps;

  function redirect(res: Response, request: Pick<SlackRequest, "redirectUri" | "state">, answer: Record<string, string>): Response {
    return redirectWith(res, request.redirectUri, { ...answer, state: request.state });
  }

  /** Slack tells these on a page of its own, never at the redirect URI. */
  function trouble(res: Response, code: string, text: string): Response {
    return sendTrouble(res, { owner: "slack", status: 400, title: "Something went wrong when authorising this app", text, code });
  }

  function show(req: Request, res: Response): Response {
    const query = parametersOf(req.query);
    const botScopes = splitScopes(query.get("scope"));
    const userScopes = splitScopes(query.get("user_scope"));
    const unknown = [...botScopes, ...userScopes].find((scope) => !Object.hasOwn(SLACK_SCOPES, scope));
    const twice = query.repeated(SINGLE);
    const redirectUri = query.get("redirect_uri") ?? "";
    if (twice) return trouble(res, "invalid_request", `A parameter came more than once: ${twice}`);
    if (query.get("client_id") !== client.clientId)
      return trouble(res, "invalid_client_id", "No app is registered here under this client id.");
    if (!isAllowedRedirect(redirectUri, publicUrl())) {
      return trouble(res, "bad_redirect_uri", "redirect_uri did not match any configured URIs.");
    }
    if (botScopes.length + userScopes.length === 0) return trouble(res, "invalid_scope_requested", "No scopes requested.");
    if (unknown !== undefined) return trouble(res, "invalid_scope", "A scope in the request is not known here.");
    const challenge = query.get("code_challenge");
    if (challenge !== null && query.get("code_challenge_method") !== "S256") {
      return trouble(res, "invalid_code_challenge_method", "Only S256 is known here.");
    }
    const request: SlackRequest = {
      redirectUri,
      state: query.get("state"),
      botScopes,
      userScopes,
      codeChallenge: challenge,
      answered: false,
    };
    const chosen = personByHint(query.get("login_hint") ?? "") ?? MARA;
    return sendAllow(res, { id: requests.put(request), request, chosen: chosen.slackId, returnTo: publicUrl() });
  }

  function decide(req: Request, res: Response): Response {
    const form = parametersOf(req.body);
    const request = requests.get(form.get("request") ?? "");
    if (!request || request.answered) {
      return trouble(
        res,
        "out_of_date",
        "The request was answered already, or waited too long. Go back to the program that sent you and start again.",
      );
    }
    const person = personBySlackId(form.get("person") ?? "");
    const allow = form.get("decision") === "allow";
    if (allow && !person) {
      return sendAllow(res, { id: form.get("request") ?? "", request, chosen: "", returnTo: publicUrl() });
    }
    request.answered = true;
    if (!allow || !person) return redirect(res, request, { error: "access_denied" });
    const { redirectUri, codeChallenge, botScopes, userScopes } = request;
    return redirect(res, request, {
      code: codes.put({ redirectUri, codeChallenge, botScopes, userScopes, person: person.slackId, grantIds: [] }),
    });
  }

  return [
    { method: "GET", path: PATH, run: show },
    { method: "POST", path: PATH, run: decide },
  ];
}
