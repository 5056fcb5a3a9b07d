// The audit trail: one row in the same transaction as the act. Append-only; nothing here updates or deletes a row.
// Must never happen: a secret, a message body or a call's arguments in a row; data released before its row is durable.
import type { Prisma } from "../db/generated/client.js";
import type { Principal } from "../identity/principal.js";

export type AuditCategory = "authorization" | "tool_call" | "token_lifecycle" | "administration";

export interface AuditRow {
  category: AuditCategory;
  /** What was done, `noun.verb`: `link.created`, `tool.executed`, `account.disconnected`. */
  action: string;
  actor: Principal;
  identifier?: string | undefined;
  connectionName?: string | undefined;
  accountId?: string | undefined;
  linkId?: string | undefined;
  tool?: string | undefined;
  /** `ok`, or an outcome of the contract. */
  outcome: string;
  reason?: string | undefined;
  /** Small facts: keys asked, action answered, counts. Never free text from outside. */
  detail?: Record<string, string | number | boolean | null | string[]> | undefined;
  requestId?: string | undefined;
  traceId?: string | undefined;
}

/** Whatever can insert an audit row: the database, or an open transaction. */
export interface AuditTarget {
  auditEntry: Pick<Prisma.TransactionClient["auditEntry"], "create">;
}

export async function recordAudit(target: AuditTarget, row: AuditRow): Promise<void> {
  await target.auditEntry.create({ data: columns(row), select: { id: true } });
}

function columns(row: AuditRow): Prisma.AuditEntryCreateInput {
  const actor = row.actor;
  return {
    category: row.category,
    action: row.action,
    actorKind: actor.kind === "browser" ? (actor.role === "admin" ? "admin" : "person") : actor.kind,
    actorSub: actor.kind === "person" || actor.kind === "browser" ? actor.sub : null,
    clientId: actor.kind === "person" ? actor.clientId : null,
    apiKeyId: actor.kind === "api_key" ? actor.keyId : actor.kind === "person" ? actor.apiKeyId : null,
    identifier: row.identifier ?? null,
    connectionName: row.connectionName ?? null,
    accountId: row.accountId ?? null,
    linkId: row.linkId ?? null,
    tool: row.tool ?? null,
    outcome: row.outcome,
    reason: row.reason ?? null,
    detail: row.detail ?? {},
    requestId: row.requestId ?? null,
    traceId: row.traceId ?? null,
  };
}
