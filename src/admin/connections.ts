// /admin/connections: the list, one connection's page, switching it off and on, deleting it. connectionForm.ts makes and edits.
// Must never happen: a delete without the confirm page's POST; accounts taken along that the confirm page did not count.
import { type Request, type Response, Router } from "express";
import { OutbandError } from "../errors.js";
import type { AccountTally } from "../vault/front.js";
import type { ConnectionView } from "../vault/types.js";
import { countsOf, gapsOf } from "./attention.js";
import { ENDPOINT_WORDS } from "./connectionFields.js";
import { connectionForms } from "./connectionForm.js";
import { ENDPOINTS } from "./connectionInput.js";
import { type AdminDeps, actorOf, adminsOnly, changing, doneOf, formValues, pathText, seeOther, showScreen } from "./page.js";
import { scopeWords } from "./words.js";

const DONE: Readonly<Record<string, string>> = {
  created: "The connection was made.",
  saved: "The changes were saved.",
  reset: "The changes were saved. The old credentials were erased; each person has to connect again.",
  unchanged: "Nothing was different, so nothing was changed.",
  on: "Switched on.",
  off: "Switched off. Tools of this connection refuse from the next call on.",
  deleted: "The connection was deleted.",
};

export function connectionScreens(deps: AdminDeps): Router {
  const { vault, session, connectorOf, publicUrl } = deps;
  const admins = adminsOnly(session);
  const router = Router();

  router.get("/admin/connections", async (req, res) => {
    const [connections, tally] = await Promise.all([vault.connections.list(), vault.accounts.tally()]);
    showScreen(deps, req, res, {
      view: "connections",
      tab: "connections",
      title: "Connections",
      connections: connections.map((view) => ({ ...connectionWords(view), counts: countsOf(of(tally, view)).filter(({ count }) => count > 0) })),
      done: doneOf(req, DONE),
    });
  });

  router.use(connectionForms(deps));

  router.get("/admin/connections/:name", async (req, res) => {
    const view = await need(req);
    const tally = of(await vault.accounts.tally(), view);
    const connector = connectorOf(view);
    showScreen(deps, req, res, {
      view: "connection",
      tab: "connections",
      title: view.title,
      connection: { ...view, ...connectionWords(view), tools: connector.tools.map(({ title }) => title) },
      counts: countsOf(tally),
      scopes: scopeWords(view.scopes, connector),
      always: connector.scopes.filter(({ required }) => required),
      endpoints: ENDPOINTS.flatMap((name) => (view.endpoints[name] === undefined ? [] : [{ title: ENDPOINT_WORDS[name].title, url: view.endpoints[name] }])),
      settings: Object.keys(view.settings).length === 0 ? null : JSON.stringify(view.settings, null, 2),
      done: doneOf(req, DONE),
    });
  });

  router.post("/admin/connections/:name/enabled", ...changing(session), async (req, res) => {
    const view = await need(req);
    const enabled = formValues(req)["enabled"] === "true";
    await vault.connections.update(actorOf(session, req), view.name, { enabled });
    seeOther(res, `/admin/connections/${view.name}`, { done: enabled ? "on" : "off" });
  });

  router.get("/admin/connections/:name/delete", admins, async (req, res) => showDelete(req, res, await need(req)));

  router.post("/admin/connections/:name/delete", ...changing(session), async (req, res) => {
    const view = await need(req);
    const { typed = "", accounts = "" } = formValues(req);
    const isCounted = accounts !== "0";
    if (accounts !== String(total(await vault.accounts.tally(), view))) return showDelete(req, res, view, { status: 409, problem: null });
    if (isCounted && typed.trim() !== view.name) return showDelete(req, res, view, { status: 400, problem: "This is not the name of the connection. Nothing was deleted." });
    try {
      await vault.connections.remove(actorOf(session, req), view.name, { disconnect: isCounted });
    } catch (thrown) {
      // Somebody connected at this very moment.
      if (thrown instanceof OutbandError && thrown.code === "connection_in_use") return showDelete(req, res, view, { status: 409, problem: null });
      throw thrown;
    }
    seeOther(res, "/admin/connections", { done: "deleted" });
  });

  return router;

  async function showDelete(req: Request, res: Response, view: ConnectionView, wrong: { status: number; problem: string | null } = { status: 200, problem: null }): Promise<void> {
    const tally = await vault.accounts.tally();
    showScreen(deps, req, res, {
      view: "connectionDelete",
      tab: "connections",
      title: `Delete ${view.title}`,
      status: wrong.status,
      connection: { ...connectionWords(view), origin: view.origin },
      accounts: total(tally, view),
      connected: total(tally.filter(({ status }) => status === "ACTIVE"), view),
      changed: wrong.status === 409,
      problem: wrong.problem,
    });
  }

  async function need(req: Request): Promise<ConnectionView> {
    const view = await vault.connections.get(pathText(req, "name"));
    if (!view) throw new OutbandError("not_found");
    return view;
  }

  function connectionWords(view: ConnectionView) {
    const connector = connectorOf(view);
    const { name, title, enabled, sandbox } = view;
    return { name, title, enabled, sandbox, connector: view.connector, connectorTitle: connector.title, gaps: gapsOf(view, connector, publicUrl) };
  }
}

function total(tally: readonly AccountTally[], view: ConnectionView): number {
  return of(tally, view).reduce((sum, { count }) => sum + count, 0);
}

function of(tally: readonly AccountTally[], view: ConnectionView): AccountTally[] {
  return tally.filter(({ connectionName }) => connectionName === view.name);
}
