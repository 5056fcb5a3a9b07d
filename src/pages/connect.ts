// The hosted authorization page: /connect/{token}. Must never happen: a GET that changes anything (preview bots and mail
// scanners open links); anything about a link shown to another person than its own; a person named on a link that needs no
// sign-in (an app verifies it); a key echoed, also when it is refused.
import { Router, type Request, type RequestHandler, type Response } from "express";
import type { ApiKeyMethod, Connector } from "../connectors/connector.js";
import { cleanField } from "../connectors/methods/apiKey.js";
import { OutbandError } from "../errors.js";
import type { LinkFailure } from "../vault/front.js";
import type { BrowserPrincipal } from "../identity/principal.js";
import type { ConnectionView, LinkView } from "../vault/types.js";
import { createBrowserBinding } from "./browser.js";
import { createCallbackPages } from "./callback.js";
import { showFailure, showOutcome, showUsed } from "./outcome.js";
import { formBody, formText, needPerson, pathText, personOf, principalOf, type PageDeps } from "./page.js";
import { askerOf, labelWords, scopesLeftOut, scopeWords, type ScopeWords, statusWords } from "./words.js";

export function createConnectPages(deps: PageDeps): Router {
  const { vault, session, render } = deps;
  const browser = createBrowserBinding(deps);
  const signedIn = needPerson(session, (req) => `/connect/${encodeURIComponent(pathText(req, "token"))}`);
  const router = Router();
  // Contract 5.7: the browser stands for the person, whoever is signed in at it.
  const opened: RequestHandler = async (req, res, next) => {
    if ((await vault.links.byToken(pathText(req, "token")))?.verification === "app") next();
    else await signedIn(req, res, next);
  };

  // First: "callback" would pass for a token.
  router.use(createCallbackPages(deps));

  router.get("/connect/:token", opened, async (req, res) => {
    const link = await usableLink(req, res);
    if (link) await showConnect(req, res, link);
  });

  router.post("/connect/:token", opened, formBody, session.csrfGuard, async (req, res) => {
    const link = await usableLink(req, res, "oauth");
    if (!link) return;
    const outcome = await vault.links.start({ token: pathText(req, "token"), person: holderOf(req, link), browser: browser.ensure(req, res) });
    if (outcome.kind === "redirect") res.status(303).location(outcome.url).end();
    else showOutcome(deps, req, res, outcome);
  });

  router.post("/connect/:token/key", opened, formBody, session.csrfGuard, async (req, res) => {
    const link = await usableLink(req, res, "api_key");
    if (link) await takeKey(req, res, link);
  });

  router.post("/connect/:token/refuse", opened, formBody, session.csrfGuard, async (req, res) => {
    const link = await usableLink(req, res);
    if (!link) return;
    showOutcome(deps, req, res, await vault.links.refuse({ token: pathText(req, "token"), person: holderOf(req, link) }));
  });

  return router;

  function holderOf(req: Request, link: LinkView): BrowserPrincipal | null {
    return link.verification === "app" ? null : principalOf(personOf(session, req));
  }

  /** The link, when it is this person's and still open; else the page that says why not is sent and there is null. */
  async function usableLink(req: Request, res: Response, method?: LinkView["method"]): Promise<LinkView | null> {
    const link = await vault.links.byToken(pathText(req, "token"));
    if (!link || (method && link.method !== method)) throw new OutbandError("not_found");
    if (link.verification !== "app" && link.identifier !== personOf(session, req).sub) {
      render.page(req, res, "connectWrongPerson", { title: "This link is for another sign-in", bare: true, back: `/connect/${pathText(req, "token")}` }, { status: 403 });
      return null;
    }
    switch (link.status) {
      case "open":
      case "started":
        if (link.reason !== "awaiting_verification") return link;
        showFailure(deps, req, res, "already_used", link);
        return null;
      case "completed": {
        const account = await vault.accounts.get(link.accountId);
        showUsed(deps, req, res, link, account && account.status !== "ACTIVE" ? statusWords(account, link.connectionTitle).sentence : null);
        return null;
      }
      case "expired":
        showFailure(deps, req, res, "expired", link);
        return null;
      case "denied":
        showFailure(deps, req, res, "denied", link, { status: 410 });
        return null;
      case "failed":
        showFailure(deps, req, res, link.reason?.startsWith("not_verified") ? "not_verified" : "already_used", link);
        return null;
      default:
        return link.status satisfies never;
    }
  }

  async function showConnect(req: Request, res: Response, link: LinkView, errors: KeyErrors = NO_ERRORS): Promise<void> {
    const connection = await vault.connections.get(link.connectionName);
    if (!connection?.enabled) return showFailure(deps, req, res, "connection_disabled", link);
    const connector = deps.connectorOf(connection);
    const person = link.verification === "app" ? null : personOf(session, req);
    const data = {
      title: `${errors === NO_ERRORS ? "" : "Error: "}Connect ${link.connectionTitle}`,
      // A task page: nothing here leads elsewhere but its own buttons.
      bare: true,
      link,
      token: pathText(req, "token"),
      who: person && (person.name ? { name: person.name, email: person.email } : { name: person.email, email: null }),
      // Without a sign-in, the app that vouches for the person is what they can recognise.
      app: person || link.returnTo === null ? null : new URL(link.returnTo).host,
      asker: askerOf(link),
      // A label may say whose account it is.
      label: link.label === "" || !person ? null : labelWords(link.label),
      possible: possibleWords(link, connector),
      leftOut: scopesLeftOut([...link.scopesRequested, ...link.scopesRequired], connector),
      host: hostOf(connection, connector),
      errors,
    };
    if (connector.method.kind === "oauth") render.page(req, res, "connect", data, { formAction: formTargets(connection, connector, link) });
    else {
      const keyData = { ...data, fields: connector.method.fields, tried: connector.method.probe !== null };
      render.page(req, res, "connectKey", keyData, { status: errors.status, formAction: originsOf(link.returnTo) });
    }
  }

  async function takeKey(req: Request, res: Response, link: LinkView): Promise<void> {
    const connection = await vault.connections.get(link.connectionName);
    const method = connection ? deps.connectorOf(connection).method : null;
    if (!connection?.enabled || method?.kind !== "api_key") return showFailure(deps, req, res, "connection_disabled", link);
    const { fields, errors } = readKey(req, method);
    if (errors.fields.size > 0) return showConnect(req, res, link, errors);
    const outcome = await vault.links.submitKey({ token: pathText(req, "token"), person: holderOf(req, link), fields });
    const again = outcome.kind === "failed" ? ON_THE_FORM[outcome.failure] : undefined;
    if (again === undefined) return showOutcome(deps, req, res, outcome);
    return showConnect(req, res, link, { fields: new Map(), whole: again.sentence, status: again.status });
  }
}

interface KeyErrors {
  /** Field name → what is wrong; never the value. */
  fields: ReadonlyMap<string, string>;
  whole: string | null;
  status: number;
}

const NO_ERRORS: KeyErrors = { fields: new Map(), whole: null, status: 200 };

/** Failures after which the link is still open and the person can simply type again. */
const ON_THE_FORM: Partial<Record<LinkFailure, { status: number; sentence: string }>> = {
  key_refused: { status: 422, sentence: "The key was tried once and refused. It was not kept. Check that you copied all of it, and that it is still valid." },
  key_malformed: { status: 422, sentence: "This does not look like a key. It was not sent anywhere and was not kept." },
  provider_unavailable: { status: 503, sentence: "The key could not be tried: the service cannot be reached now. It was not kept. Try again in a few minutes." },
};

function readKey(req: Request, method: ApiKeyMethod): { fields: Record<string, string>; errors: KeyErrors } {
  const fields: Record<string, string> = {};
  const wrong = new Map<string, string>();
  for (const field of method.fields) {
    const typed = formText(req, `field.${field.name}`);
    const cleaned = cleanField(typed);
    if (typed.trim() === "") wrong.set(field.name, "Fill this in.");
    else if (cleaned.ok) fields[field.name] = cleaned.value;
    else wrong.set(field.name, cleaned.problem);
  }
  return { fields, errors: { fields: wrong, whole: null, status: 422 } };
}

/** Needed first, then what may be left out, then what every grant asks for to learn whose account it is. */
function possibleWords(link: LinkView, connector: Connector): (ScopeWords & { optional: boolean })[] {
  const base = connector.method.kind === "oauth" ? connector.method.baseScopes : [];
  const parts = [
    { scopes: link.scopesRequired, optional: false },
    { scopes: link.scopesRequested.filter((scope) => !link.scopesRequired.includes(scope) && !base.includes(scope)), optional: true },
    { scopes: base, optional: false },
  ];
  const words = parts.flatMap(({ scopes, optional }) => scopeWords(scopes, connector).map((scope) => ({ ...scope, optional })));
  return words.filter((scope, at) => words.findIndex(({ title }) => title === scope.title) === at);
}

/** The host that the browser, or the key, goes to next. */
function hostOf(connection: ConnectionView, connector: Connector): string {
  const endpoints = { ...connector.endpoints, ...connection.endpoints };
  const url = connector.method.kind === "oauth" ? (endpoints.authorization ?? endpoints.issuer) : endpoints.api;
  return url !== undefined && URL.canParse(url) ? new URL(url).host : connection.title;
}

/**
 * Where the form may lead: the provider (with its own subdomains: Slack goes on to the workspace's), and, when the
 * provider asks nothing and answers at once, the app that the person returns to. All are hops of one submission, and
 * Chromium stops at the first that is not named, without a word to the person. An operator's own provider may hand on to
 * hosts that nobody declared (a company's sign-in), hence https there.
 */
function formTargets(connection: ConnectionView, connector: Connector, link: LinkView): string[] {
  const endpoints = { ...connector.endpoints, ...connection.endpoints };
  const origins = [endpoints.authorization, endpoints.issuer].flatMap((url) => originsOf(url ?? null));
  const subdomains = origins.filter((origin) => origin.startsWith("https://")).map((origin) => origin.replace("https://", "https://*."));
  const anywhere = connection.connector.startsWith("generic-") ? ["https:"] : [];
  return [...origins, ...subdomains, ...anywhere, ...originsOf(link.returnTo)];
}

function originsOf(url: string | null): string[] {
  return url !== null && URL.canParse(url) ? [new URL(url).origin] : [];
}
