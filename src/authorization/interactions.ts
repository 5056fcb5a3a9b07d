// The steps of an authorization that a person takes: sign in (our own page), then say yes or no to a client. Must never
// happen: a yes without a form of ours, by another person than the one asked, or for a scope that was not shown.
import type { Request, RequestHandler, Response } from "express";
import { recordAudit } from "../audit/audit.js";
import type { Database } from "../db/client.js";
import type { Renderer } from "../http/render.js";
import { getRequestId } from "../http/guard.js";
import { currentPerson, keepWayBack, signedIn, type BrowserPerson } from "../http/session.js";
import { clientWords, isDocumentClient, redirectTarget } from "./clients.js";
import { ROUTES } from "./configuration.js";
import { OIDCProviderError, type Client, type Interaction, type Provider } from "./oidcProvider.js";
import { isMcpScope, MCP_SCOPES, scopeList } from "./scopes.js";

export interface InteractionDeps {
  provider: Provider;
  render: Renderer;
  db: Pick<Database, "prisma">;
}

type Pending = { interaction: Interaction; client: Client };

export function createInteractions(deps: InteractionDeps): { show: RequestHandler; answer: RequestHandler } {
  const { provider, render, db } = deps;

  /** Null: there is none any more, and the page that says so is sent. */
  async function pending(req: Request, res: Response): Promise<Pending | null> {
    try {
      const interaction = await provider.interactionDetails(req, res);
      const client = interaction.uid === req.params.uid ? await provider.Client.find(String(interaction.params.client_id)) : undefined;
      if (client) return { interaction, client };
    } catch (error) {
      // The cookie is gone, it ran out, it was answered in another tab, or the person changed.
      if (!(error instanceof OIDCProviderError) || error.status >= 500) throw error;
    }
    render.page(req, res, "authorizationError", { title: "Sign-in request has ended", ended: true, code: null, text: null }, { status: 400 });
    return null;
  }

  async function show(req: Request, res: Response): Promise<void> {
    const found = await pending(req, res);
    if (found === null) return;
    const { interaction, client } = found;
    const person = currentPerson(req);
    const target = redirectTarget(String(interaction.params.redirect_uri));
    if (person === null || mustSignInAgain(req, interaction)) {
      keepWayBack(req, pathOf(interaction), target ? [target.source] : []);
      return res.redirect(303, person === null ? "/login" : "/login?again=1");
    }
    const holder = interaction.session?.accountId;
    // Somebody else began this request, or signed in since: it starts over, as the person who is here now.
    if (holder !== undefined && holder !== person.sub) return res.redirect(303, restartPath(interaction));
    if (interaction.prompt.name === "login") {
      const ts = Math.floor((signedIn(req)?.atMs ?? 0) / 1000);
      return provider.interactionFinished(req, res, { login: { accountId: person.sub, ts } }, { mergeWithLastSubmission: false });
    }
    render.page(req, res, "consent", consentPage(interaction, client, person), { formAction: target ? [target.source] : [] });
  }

  async function answer(req: Request, res: Response): Promise<void> {
    const found = await pending(req, res);
    if (found === null) return;
    const { interaction, client } = found;
    const person = currentPerson(req);
    const isTheirs = person !== null && interaction.prompt.name === "consent" && interaction.session?.accountId === person.sub;
    if (!isTheirs) return res.redirect(303, restartPath(interaction));
    const form = req.body as { decision?: unknown; write?: unknown } | undefined;
    const scopes = form?.decision === "allow" ? chosenScopes(interaction, form.write === "yes") : [];
    const allowed = scopes.length > 0;
    const grantId = allowed ? await makeGrant(interaction, client, person, scopes) : undefined;
    // Before the answer leaves: no code without its row.
    await recordAudit(db.prisma, {
      category: "authorization",
      action: allowed ? "client.approved" : "client.denied",
      actor: { kind: "browser", sub: person.sub, role: person.role },
      identifier: person.sub,
      outcome: allowed ? "ok" : "denied",
      detail: { client_id: client.clientId, dynamic: !isDocumentClient(client), scopes, redirect: redirectTarget(String(interaction.params.redirect_uri))?.place ?? null },
      requestId: getRequestId(req),
    });
    const result = allowed ? { consent: { grantId } } : { error: "access_denied", error_description: "The person said no." };
    await provider.interactionFinished(req, res, result, { mergeWithLastSubmission: allowed });
  }

  async function makeGrant(interaction: Interaction, client: Client, person: BrowserPerson, scopes: string[]): Promise<string> {
    const grant = new provider.Grant({ accountId: person.sub, clientId: client.clientId });
    const asked = scopeList(interaction.params.scope);
    const refused = asked.filter((scope) => isMcpScope(scope) && !scopes.includes(scope));
    grant.addOIDCScope([...asked.filter((scope) => !isMcpScope(scope)), ...scopes]);
    if (refused.length > 0) grant.rejectOIDCScope(refused);
    for (const resource of resourcesOf(interaction)) {
      grant.addResourceScope(resource, scopes);
      if (refused.length > 0) grant.rejectResourceScope(resource, refused);
    }
    return grant.save();
  }

  return { show, answer };
}

/** prompt=login and max_age ask for a fresh sign-in: one that was made for this very request. */
function mustSignInAgain(req: Request, interaction: Interaction): boolean {
  const { name, reasons } = interaction.prompt;
  if (name !== "login" || !reasons.some((reason) => reason === "login_prompt" || reason === "max_age")) return false;
  return signedIn(req)?.wayBack !== pathOf(interaction);
}

function pathOf(interaction: Interaction): string {
  return `/oauth/interaction/${interaction.uid}`;
}

/** The scopes that the form offered and the person left on. */
function chosenScopes(interaction: Interaction, write: boolean): string[] {
  return offeredScopes(interaction).flatMap(({ scope, optional }) => (optional && !write ? [] : [scope]));
}

function offeredScopes(interaction: Interaction) {
  const asked = scopeList(interaction.params.scope);
  return MCP_SCOPES.filter(({ scope }) => asked.includes(scope)).map((words) => {
    // Without anything else left, leaving it out would be a no: that is what the other button is for.
    return { ...words, optional: words.scope === "mcp:write" && asked.includes("mcp:read") };
  });
}

function consentPage(interaction: Interaction, client: Client, person: BrowserPerson) {
  const words = clientWords(client);
  return {
    title: "Let an app in?",
    uid: interaction.uid,
    client: words,
    target: redirectTarget(String(interaction.params.redirect_uri)),
    scopes: offeredScopes(interaction),
    who: { name: person.name ?? person.email, email: person.name === null ? null : person.email },
    back: restartPath(interaction),
  };
}

function resourcesOf(interaction: Interaction): string[] {
  const { resource } = interaction.params;
  return (Array.isArray(resource) ? resource : [resource]).filter((value) => typeof value === "string");
}

/** The request from its beginning, with the parameters that were checked then. */
function restartPath(interaction: Interaction): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(interaction.params)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (typeof item === "string" || typeof item === "number") query.append(name, String(item));
    }
  }
  return `/oauth${ROUTES.authorization}?${query}`;
}
