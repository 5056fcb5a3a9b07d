// /admin: how many accounts in which state, what needs an operator, what happened last. Reads only.
import { Router } from "express";
import { attentionOf, countsOf } from "./attention.js";
import { auditRows } from "./audit.js";
import { type AdminDeps, showScreen } from "./page.js";

const AUDIT_ROWS = 8;

export function overviewScreen(deps: AdminDeps): Router {
  const { vault, connectorOf, publicUrl } = deps;
  const router = Router();
  router.get("/admin", async (req, res) => {
    const [connections, tally, audit] = await Promise.all([vault.connections.list(), vault.accounts.tally(), deps.audit({ limit: AUDIT_ROWS })]);
    const attention = attentionOf(connections.map((view) => ({ view, connector: connectorOf(view) })), tally, publicUrl);
    showScreen(deps, req, res, {
      view: "overview",
      tab: "overview",
      title: "Overview",
      counts: countsOf(tally),
      accounts: tally.reduce((sum, { count }) => sum + count, 0),
      connections: connections.length,
      switchedOff: connections.filter(({ enabled }) => !enabled).length,
      attention,
      audit: await auditRows(deps, audit.data),
    });
  });
  return router;
}
