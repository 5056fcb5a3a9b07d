// /admin/audit: the audit trail, newest first, filtered and in pages. Reads only.
import { type Request, Router } from "express";
import type { AuditFilter, AuditView } from "../audit/read.js";
import { outsideText } from "../http/words.js";
import { type AdminDeps, queryText, showScreen, withQuery } from "./page.js";
import { ACTIONS, actionWords, actorWords, CATEGORIES, isCategory, outcomeWords, personWords } from "./words.js";

const PAGE_ROWS = 50;

export function auditScreens(deps: AdminDeps): Router {
  const router = Router();
  router.get("/admin/audit", async (req, res) => {
    const asked = askedFor(req);
    const filter: AuditFilter = {
      category: isCategory(asked.category) ? asked.category : undefined,
      action: asked.action || undefined,
      connectionName: asked.connection || undefined,
      accountId: asked.account || undefined,
      identifier: asked.person === "" ? undefined : await subOf(deps, asked.person),
    };
    const cursor = queryText(req, "cursor");
    const page = await deps.audit({ ...filter, limit: PAGE_ROWS, ...(cursor === "" ? {} : { cursor }) });
    showScreen(deps, req, res, {
      view: "audit",
      tab: "audit",
      title: "Audit",
      asked,
      isFiltered: Object.values(asked).some((value) => value !== ""),
      categories: CATEGORIES,
      actions: ACTIONS,
      rows: await auditRows(deps, page.data),
      first: cursor === "" ? null : withQuery("/admin/audit", asked),
      next: page.nextCursor === null ? null : withQuery("/admin/audit", { ...asked, cursor: page.nextCursor }),
    });
  });
  return router;
}

function askedFor(req: Request) {
  return {
    category: queryText(req, "category"),
    action: queryText(req, "action"),
    connection: queryText(req, "connection"),
    person: queryText(req, "person"),
    account: queryText(req, "account"),
  };
}

/** People are asked for by e-mail address; whoever is not one of ours, by their bare identifier. */
export async function subOf(deps: Pick<AdminDeps, "people">, text: string): Promise<string> {
  return (text.includes("@") ? await deps.people.subOf(text) : null) ?? text;
}

/** Rows as they are printed, here and on other screens. */
export async function auditRows(deps: Pick<AdminDeps, "people" | "clients">, rows: readonly AuditView[]) {
  const [people, keys, clients] = await Promise.all([
    deps.people.named(rows.flatMap(({ actor, identifier }) => [actor.sub, identifier])),
    deps.people.keyNames(rows.map(({ actor }) => actor.apiKeyId)),
    deps.clients.named(rows.map(({ actor }) => actor.clientId)),
  ]);
  return rows.map((row) => ({
    occurredAt: row.occurredAt,
    action: actionWords(row),
    actor: actorWords(row, { people, keys, clients }),
    // Their own act is not said twice.
    person: row.identifier === null || row.identifier === row.actor.sub ? null : personWords(row.identifier, people),
    connectionName: row.connectionName,
    accountId: row.accountId,
    tool: row.tool,
    outcome: outcomeWords(row.outcome),
    reason: row.reason === null || row.reason === row.outcome ? null : outsideText(row.reason.replaceAll("_", " "), 120),
    facts: factsOf(row),
  }));
}

/** The rest of a row, for whoever looks into one. */
function factsOf(row: AuditView): { name: string; value: string }[] {
  const { actor } = row;
  const columns: [string, string | null][] = [
    ["action", row.action],
    ["number", row.id],
    ["person", row.identifier],
    ["actor", actor.sub],
    ["client", actor.clientId],
    ["API key", actor.apiKeyId],
    ["account", row.accountId],
    ["link", row.linkId],
    ["request", row.requestId],
    ["trace", row.traceId],
  ];
  const detail = Object.entries(row.detail).map(([name, value]): [string, string | null] => [name.replaceAll("_", " "), detailText(value)]);
  return [...columns, ...detail].flatMap(([name, value]) => (value === null || value === "" ? [] : [{ name, value: outsideText(value, 300) }]));
}

function detailText(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  return Array.isArray(value) ? value.map(String).join(", ") : String(value);
}
