// The practice Google's authorization endpoint: checks the request, lets a person be chosen, asks for consent, sends the answer back.
// Must never happen: a redirect to an address that is not allowed, or a code without consent and PKCE.
import type { Request, Response } from "express";
import type { Endpoint } from "../endpoint.js";
import { sendTrouble } from "../page.js";
import { personByHint, personBySub, type PracticePerson } from "../people.js";
import { isAllowedRedirect, redirectWith } from "../redirect.js";
import { type Parameters, parametersOf } from "../request.js";
import type { Shelf } from "../shelf.js";
import { sendChooser, sendConsent } from "./consentPage.js";
import type { GoogleDeps } from "./google.js";
import { asGranted, googleScope } from "./scopes.js";

export interface AuthorizationRequest {
  redirectUri: string;
  state: string | null;
  nonce: string | null;
  scopes: string[];
  codeChallenge: string;
  offline: boolean;
  prompt: string[];
  includeGranted: boolean;
  loginHint: string | null;
  person: PracticePerson | null;
  answered: boolean;
}

export interface AuthorizationCode {
  redirectUri: string;
  codeChallenge: string;
  nonce: string | null;
  person: PracticePerson;
  scopes: string[];
  withRefresh: boolean;
  /** The grant made from it; a second use ends that grant (RFC 6749 section 4.1.2). */
  grantId: string | null;
}

const SINGLE = [
  "client_id",
  "redirect_uri",
  "response_type",
  "scope",
  "state",
  "nonce",
  "code_challenge",
  "code_challenge_method",
  "prompt",
];
/** base64url of a SHA-256. */
const CHALLENGE = /^[A-Za-z0-9_-]{43}$/;

type Reading = { ok: true; request: AuthorizationRequest } | { ok: false; error: string; description: string };

function readRequest(query: Parameters, redirectUri: string): Reading {
  const no = (error: string, description: string): Reading => ({ ok: false, error, description });
  const prompt = (query.get("prompt") ?? "").split(" ").filter(Boolean);
  const scopes = [...new Set((query.get("scope") ?? "").split(" ").filter(Boolean))];
  if (query.get("response_type") !== "code") return no("unsupported_response_type", "Only response_type=code is offered.");
  if (scopes.length === 0) return no("invalid_request", "Missing required parameter: scope");
  if (scopes.some((scope) => !googleScope(scope))) return no("invalid_scope", "Some requested scopes were invalid.");
  if (query.get("code_challenge_method") !== "S256") return no("invalid_request", "PKCE with code_challenge_method=S256 is required here.");
  if (!CHALLENGE.test(query.get("code_challenge") ?? "")) return no("invalid_request", "code_challenge is missing or malformed.");
  if (prompt.includes("none")) return no("login_required", "The sandbox always shows its pages.");
  return {
    ok: true,
    request: {
      redirectUri,
      state: query.get("state"),
      nonce: query.get("nonce"),
      scopes,
      codeChallenge: query.get("code_challenge") as string,
      offline: query.get("access_type") === "offline",
      prompt,
      includeGranted: query.get("include_granted_scopes") === "true",
      loginHint: query.get("login_hint"),
      person: null,
      answered: false,
    },
  };
}

export function authorizeEndpoints(
  deps: GoogleDeps & { requests: Shelf<AuthorizationRequest>; codes: Shelf<AuthorizationCode> },
): Endpoint[] {
  const { requests, codes, grants, issuer, publicUrl, client } = deps;

  function redirect(res: Response, request: { redirectUri: string; state: string | null }, answer: Record<string, string>): Response {
    return redirectWith(res, request.redirectUri, { state: request.state, iss: issuer(), ...answer });
  }

  function sendCode(
    res: Response,
    request: AuthorizationRequest,
    person: PracticePerson,
    scopes: readonly string[],
    consented: boolean,
  ): Response {
    request.answered = true;
    const before = request.includeGranted ? grants.live(person.sub).flatMap((grant) => grant.scopes) : [];
    const code = codes.put({
      redirectUri: request.redirectUri,
      codeChallenge: request.codeChallenge,
      nonce: request.nonce,
      person,
      scopes: asGranted([...scopes, ...before]),
      // As at Google: only with access_type=offline, and only when the consent page was shown.
      withRefresh: request.offline && consented,
      grantId: null,
    });
    return redirect(res, request, { code, scope: asGranted([...scopes, ...before]).join(" ") });
  }

  /** The consent page, unless everything asked was granted before and nobody insists on it. */
  function goOn(res: Response, id: string, request: AuthorizationRequest, person: PracticePerson): Response {
    request.person = person;
    const granted = grants.live(person.sub).flatMap((grant) => grant.scopes);
    const covered = asGranted(request.scopes).every((scope) => granted.includes(scope));
    if (covered && !request.prompt.includes("consent")) return sendCode(res, request, person, request.scopes, false);
    return sendConsent(res, { id, person, scopes: request.scopes, returnTo: publicUrl() });
  }

  function openRequest(req: Request, res: Response): { id: string; form: Parameters; request: AuthorizationRequest } | null {
    const form = parametersOf(req.body);
    const id = form.get("request") ?? "";
    const request = requests.get(id);
    if (request && !request.answered) return { id, form, request };
    sendTrouble(res, {
      owner: "google",
      status: 400,
      title: "This page is out of date",
      text: "The request was answered already, or waited too long. Go back to the program that sent you and start again.",
    });
    return null;
  }

  return [
    {
      method: "GET",
      path: "/google/authorize",
      run(req, res) {
        const query = parametersOf(req.query);
        const redirectUri = query.get("redirect_uri") ?? "";
        const trouble = (status: number, title: string, text: string, code: string) =>
          sendTrouble(res, { owner: "google", status, title, text, code });
        const twice = query.repeated(SINGLE);
        if (twice) return trouble(400, "The request is not valid", `A parameter came more than once: ${twice}`, "invalid_request");
        if (query.get("client_id") !== client.clientId) {
          return trouble(
            401,
            "Unknown client",
            "No program is registered here under this client id. If the sandbox was reset, restart Outband.",
            "invalid_client",
          );
        }
        if (!isAllowedRedirect(redirectUri, publicUrl())) {
          return trouble(
            400,
            "The way back is not registered",
            "The answer may only go to a page of the program that is registered here. The address in the request is none.",
            "redirect_uri_mismatch",
          );
        }
        const reading = readRequest(query, redirectUri);
        if (!reading.ok) {
          return redirect(
            res,
            { redirectUri, state: query.get("state") },
            { error: reading.error, error_description: reading.description },
          );
        }
        const { request } = reading;
        const id = requests.put(request);
        const hinted = request.loginHint === null ? undefined : personByHint(request.loginHint);
        if (hinted && !request.prompt.includes("select_account")) return goOn(res, id, request, hinted);
        return sendChooser(res, { id });
      },
    },
    {
      method: "POST",
      path: "/google/account",
      run(req, res) {
        const open = openRequest(req, res);
        if (!open) return res;
        const person = personBySub(open.form.get("person") ?? "");
        // No person named: "use another account" on the consent page.
        if (!person) return sendChooser(res, { id: open.id });
        return goOn(res, open.id, open.request, person);
      },
    },
    {
      method: "POST",
      path: "/google/consent",
      run(req, res) {
        const open = openRequest(req, res);
        if (!open) return res;
        const { request, form } = open;
        if (!request.person) return sendChooser(res, { id: open.id });
        const ticked = form.all("scope");
        const scopes = request.scopes.filter((scope) => googleScope(scope)?.signIn || ticked.includes(scope));
        if (form.get("decision") === "allow" && scopes.length > 0) return sendCode(res, request, request.person, scopes, true);
        request.answered = true;
        return redirect(res, request, { error: "access_denied" });
      },
    },
  ];
}
