// A signed-in person's own accounts: /connections. Must never happen: another person's account read or changed (their id
// and one that does not exist get the same 404); a disconnect without the confirm page's POST.
import { Router, type Request, type Response } from "express";
import { OutbandError } from "../errors.js";
import { clientIdOf } from "../identity/principal.js";
import type { AccountView, ConnectionView, LinkCreated, LinkRequest } from "../vault/types.js";
import { formBody, formName, formText, needPerson, pathText, personOf, principalOf, type PageDeps } from "./page.js";
import { labelWords, scopeWords, statusWords, upstreamName } from "./words.js";

/** Fixed sentences for the page after a change: the address may say which, never what. */
const DONE: Record<string, string> = {
  disconnected: "Disconnected. The credential was erased here and is being taken back at the service.",
  renamed: "The label was changed.",
  removed: "The entry was removed.",
};

export function createConnectionsPages(deps: PageDeps): Router {
  const { vault, session, render } = deps;
  const signedIn = needPerson(session, () => "/connections");
  const change = [signedIn, formBody, session.csrfGuard];
  const router = Router();

  router.get("/connections", signedIn, async (req, res) => showList(req, res));

  router.post("/connections/connect", ...change, async (req, res) => {
    const connectionName = formName(req, "connection_name");
    const label = formText(req, "label").trim();
    const another = formText(req, "another") !== "";
    if (another) {
      const problem = await labelProblem(req, connectionName, label);
      if (problem) return showList(req, res, { connectionName, problem });
    }
    const made = await createLink(req, { connectionName, label }).catch((thrown: unknown) => asLabelProblem(thrown));
    if (typeof made === "string") return showList(req, res, { connectionName, problem: made });
    goTo(res, made);
  });

  // From an outcome page: the same account, the same permissions, a fresh link.
  router.post("/connections/retry", ...change, async (req, res) => {
    const link = await vault.links.get(formName(req, "link_id"));
    if (!link || link.identifier !== personOf(session, req).sub) throw new OutbandError("not_found");
    goTo(res, await createLink(req, { connectionName: link.connectionName, label: link.label, scopesRequired: link.scopesRequired, returnTo: link.returnTo, callerState: link.callerState }));
  });

  router.get("/connections/:id", signedIn, async (req, res) => showAccount(req, res, await ownAccount(req)));

  router.post("/connections/:id/label", ...change, async (req, res) => {
    const account = await ownAccount(req);
    const label = formText(req, "label").trim();
    const renamed = await vault.accounts.rename(principalOf(personOf(session, req)), account.id, label).catch((thrown: unknown) => asLabelProblem(thrown));
    if (typeof renamed === "string") return showAccount(req, res, account, renamed);
    res.status(303).location(`/connections/${account.id}?done=renamed`).end();
  });

  router.post("/connections/:id/reconnect", ...change, async (req, res) => {
    const account = await ownAccount(req);
    goTo(res, await createLink(req, { connectionName: account.connectionName, label: account.label }));
  });

  router.get("/connections/:id/disconnect", signedIn, async (req, res) => {
    const account = await ownAccount(req);
    render.page(req, res, "disconnect", { title: `Disconnect ${account.connectionTitle}`, section: "connections", account: accountWords(account), removes: isRemovable(account) });
  });

  router.post("/connections/:id/disconnect", ...change, async (req, res) => {
    const account = await ownAccount(req);
    const purge = isRemovable(account);
    await vault.accounts.disconnect(principalOf(personOf(session, req)), account.id, { purge });
    res.status(303).location(`/connections?done=${purge ? "removed" : "disconnected"}`).end();
  });

  return router;

  async function showList(req: Request, res: Response, wrong: { connectionName: string; problem: string } | null = null): Promise<void> {
    const [connections, accounts] = await Promise.all([vault.connections.list(), vault.accounts.ofPerson(personOf(session, req).sub)]);
    const groups = connections
      .map((connection) => ({
        connection: { name: connection.name, title: connection.title, connector: connection.connector, sandbox: connection.sandbox, enabled: connection.enabled },
        accounts: accounts.filter((account) => account.connectionName === connection.name).map(accountWords),
        offers: offersOf(connection),
        problem: wrong?.connectionName === connection.name ? wrong.problem : null,
      }))
      // What is switched off is worth a card only to somebody who has an account on it.
      .filter((group) => group.connection.enabled || group.accounts.length > 0);
    render.page(req, res, "connections", { title: `${wrong ? "Error: " : ""}Your connections`, shape: "wide", section: "connections", groups, done: doneOf(req) }, { status: wrong ? 422 : 200 });
  }

  async function showAccount(req: Request, res: Response, account: AccountView, problem: string | null = null): Promise<void> {
    const connection = await vault.connections.get(account.connectionName);
    const permissions = connection ? scopeWords(account.scopes, deps.connectorOf(connection)) : [];
    const data = { title: `${problem === null ? "" : "Error: "}${account.connectionTitle} account`, section: "connections" as const, account: accountWords(account), permissions, method: connection?.method ?? "oauth", enabled: connection?.enabled ?? false, problem, done: doneOf(req) };
    render.page(req, res, "connectionAccount", data, { status: problem === null ? 200 : 422 });
  }

  /** This person's account of that id; for everybody else it does not exist. */
  async function ownAccount(req: Request): Promise<AccountView> {
    const account = await vault.accounts.get(pathText(req, "id"));
    if (!account || account.identifier !== personOf(session, req).sub) throw new OutbandError("not_found");
    return account;
  }

  async function createLink(req: Request, wanted: Pick<LinkRequest, "connectionName" | "label"> & Partial<LinkRequest>): Promise<LinkCreated> {
    const actor = principalOf(personOf(session, req));
    const made = await vault.links.create(actor, { identifier: actor.sub, askedBy: "page", clientId: clientIdOf(actor), clientName: null, tool: null, ...wanted });
    // The loop guard counts what clients ask; this is the person.
    if (made === "asked_too_often") throw new OutbandError("rate_limited");
    return made;
  }

  /** "Add another" must not quietly become a reconnect of one that is there. */
  async function labelProblem(req: Request, connectionName: string, label: string): Promise<string | null> {
    if (label === "") return "Give the other account a label, such as “work”.";
    const accounts = await vault.accounts.ofPerson(personOf(session, req).sub);
    const taken = accounts.some((account) => account.connectionName === connectionName && account.label === label && account.status !== "PENDING");
    return taken ? "You already have an account with this label." : null;
  }

  function offersOf(connection: ConnectionView): string[] {
    const { scopes } = deps.connectorOf(connection);
    return scopeWords(scopes.map((scope) => scope.name), { scopes }).filter((words) => !words.technical).map((words) => words.title);
  }
}

/** An account without anything to disconnect is an entry in a list: it can only be removed. */
function isRemovable(account: AccountView): boolean {
  return account.status === "REVOKED" || account.status === "PENDING";
}

function accountWords(account: AccountView) {
  return {
    id: account.id,
    connectionName: account.connectionName,
    connectionTitle: account.connectionTitle,
    connector: account.connector,
    sandbox: account.sandbox,
    status: account.status,
    label: account.label,
    labelShown: labelWords(account.label),
    upstream: upstreamName(account),
    upstreamName: account.external?.email && account.external.name ? account.external.name : null,
    words: statusWords(account, account.connectionTitle),
    createdAt: account.createdAt,
    lastUsedAt: account.lastUsedAt,
    removable: isRemovable(account),
  };
}

function asLabelProblem(thrown: unknown): string {
  if (thrown instanceof OutbandError && thrown.code === "already_exists") return "You already have an account with this label.";
  const problem = thrown instanceof OutbandError ? thrown.problems?.find(({ path }) => path === "label") : undefined;
  if (!problem) throw thrown;
  return problem.message;
}

function doneOf(req: Request): string | null {
  const done = req.query.done;
  return typeof done === "string" && Object.hasOwn(DONE, done) ? (DONE[done] ?? null) : null;
}

function goTo(res: Response, link: LinkCreated): void {
  // The page stands on our own origin; the path alone keeps the browser there.
  res.status(303).location(new URL(link.url).pathname).end();
}
