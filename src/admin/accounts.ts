// /admin/accounts: everybody's connected accounts, one account's facts and its story, disconnecting it. Must never happen:
// a disconnect without the confirm page's POST.
import { type Request, Router } from "express";
import { OutbandError } from "../errors.js";
import type { AccountView } from "../vault/types.js";
import { auditRows, subOf } from "./audit.js";
import { type AdminDeps, actorOf, adminsOnly, changing, doneOf, formValues, pathText, queryText, seeOther, showScreen, withQuery } from "./page.js";
import { isStatus, labelWords, personWords, reasonWords, remedyWords, scopeWords, STATUSES, upstreamName } from "./words.js";

const PAGE_ROWS = 50;
const AUDIT_ROWS = 20;
/** Fixed sentences: the address may say which, never what. */
const DONE: Readonly<Record<string, string>> = {
  disconnected: "Disconnected. The credential was erased here and is being taken back at the service.",
  removed: "The account was removed.",
};

export function accountScreens(deps: AdminDeps): Router {
  const { vault, session } = deps;
  const admins = adminsOnly(session);
  const router = Router();

  router.get("/admin/accounts", async (req, res) => {
    const asked = { connection: queryText(req, "connection"), person: queryText(req, "person"), status: queryText(req, "status") };
    const cursor = queryText(req, "cursor");
    const [connections, page] = await Promise.all([
      vault.connections.list(),
      vault.accounts.list({
        connectionName: asked.connection || undefined,
        identifier: asked.person === "" ? undefined : await subOf(deps, asked.person),
        status: isStatus(asked.status) ? asked.status : undefined,
        limit: PAGE_ROWS,
        cursor: cursor || undefined,
      }),
    ]);
    const people = await deps.people.named(page.data.map(({ identifier }) => identifier));
    showScreen(deps, req, res, {
      view: "accounts",
      tab: "accounts",
      title: "Accounts",
      asked,
      isFiltered: Object.values(asked).some((value) => value !== ""),
      connections: connections.map(({ name, title }) => ({ name, title })),
      statuses: STATUSES,
      accounts: page.data.map((account) => ({ ...accountWords(account), person: personWords(account.identifier, people) })),
      first: cursor === "" ? null : withQuery("/admin/accounts", asked),
      next: page.nextCursor === null ? null : withQuery("/admin/accounts", { ...asked, cursor: page.nextCursor }),
      done: doneOf(req, DONE),
    });
  });

  router.get("/admin/accounts/:id", async (req, res) => {
    const account = await need(req);
    const [connection, audit, people] = await Promise.all([
      vault.connections.get(account.connectionName),
      deps.audit({ accountId: account.id, limit: AUDIT_ROWS }),
      deps.people.named([account.identifier]),
    ]);
    showScreen(deps, req, res, {
      view: "account",
      tab: "accounts",
      title: `${account.connectionTitle} account`,
      account: { ...accountWords(account), person: personWords(account.identifier, people) },
      scopes: connection ? scopeWords(account.scopes, deps.connectorOf(connection)) : [],
      audit: await auditRows(deps, audit.data),
      isAuditWhole: audit.nextCursor === null,
      done: doneOf(req, DONE),
    });
  });

  router.get("/admin/accounts/:id/disconnect", admins, async (req, res) => {
    const account = await need(req);
    const people = await deps.people.named([account.identifier]);
    showScreen(deps, req, res, {
      view: "accountDisconnect",
      tab: "accounts",
      title: `${isRemovable(account) ? "Remove" : "Disconnect"} a ${account.connectionTitle} account`,
      account: { ...accountWords(account), person: personWords(account.identifier, people) },
    });
  });

  router.post("/admin/accounts/:id/disconnect", ...changing(session), async (req, res) => {
    const account = await need(req);
    const purge = isRemovable(account);
    // It changed since the confirm page was shown: what was agreed to is not what would be done.
    if (formValues(req)["what"] !== (purge ? "remove" : "disconnect")) return seeOther(res, `/admin/accounts/${account.id}/disconnect`);
    await vault.accounts.disconnect(actorOf(session, req), account.id, { purge });
    if (purge) seeOther(res, "/admin/accounts", { done: "removed" });
    else seeOther(res, `/admin/accounts/${account.id}`, { done: "disconnected" });
  });

  return router;

  async function need(req: Request): Promise<AccountView> {
    const account = await vault.accounts.get(pathText(req, "id"));
    if (!account) throw new OutbandError("not_found");
    return account;
  }
}

/** Nothing to disconnect: an entry in the list, which can only be removed. */
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
    label: labelWords(account.label),
    status: account.status,
    words: STATUSES[account.status],
    reason: reasonWords(account.statusReason, account.connectionTitle),
    remedy: remedyWords(account),
    reasonCode: account.statusReason,
    upstream: upstreamName(account),
    external: account.external,
    tokenExpiresAt: account.tokenExpiresAt,
    lastUsedAt: account.lastUsedAt,
    lastRefreshedAt: account.lastRefreshedAt,
    createdAt: account.createdAt,
    updatedAt: account.updatedAt,
    removable: isRemovable(account),
  };
}
