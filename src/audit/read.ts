// Reading the audit trail, newest first. Must never happen: a page that skips or repeats a row because rows came in meanwhile.
import type { Prisma } from "../db/generated/client.js";
import { OutbandError } from "../errors.js";
import type { AuditCategory } from "./audit.js";

export interface AuditView {
  id: string;
  occurredAt: Date;
  category: AuditCategory;
  action: string;
  actor: { kind: string; sub: string | null; clientId: string | null; apiKeyId: string | null };
  /** The person whose account it is. */
  identifier: string | null;
  connectionName: string | null;
  accountId: string | null;
  linkId: string | null;
  tool: string | null;
  outcome: string;
  reason: string | null;
  detail: Record<string, unknown>;
  requestId: string | null;
  traceId: string | null;
}

export interface AuditFilter {
  category?: AuditCategory | undefined;
  action?: string | undefined;
  accountId?: string | undefined;
  identifier?: string | undefined;
  connectionName?: string | undefined;
  limit?: number | undefined;
  cursor?: string | undefined;
}

export interface AuditPage {
  data: AuditView[];
  nextCursor: string | null;
}

export interface AuditSource {
  auditEntry: Pick<Prisma.TransactionClient["auditEntry"], "findMany">;
}

const LIMIT_DEFAULT = 50;
const LIMIT_MAX = 200;

/** Throws invalid_request for a cursor that was not made here. */
export async function listAudit(source: AuditSource, filter: AuditFilter): Promise<AuditPage> {
  const limit = Math.min(Math.max(filter.limit ?? LIMIT_DEFAULT, 1), LIMIT_MAX);
  const { category, action, accountId, identifier, connectionName, cursor } = filter;
  const rows = await source.auditEntry.findMany({
    where: {
      ...(category === undefined ? {} : { category }),
      ...(action === undefined ? {} : { action }),
      ...(accountId === undefined ? {} : { accountId }),
      ...(identifier === undefined ? {} : { identifier }),
      ...(connectionName === undefined ? {} : { connectionName }),
      ...(cursor === undefined ? {} : { id: { lt: idOf(cursor) } }),
    },
    orderBy: { id: "desc" },
    take: limit + 1,
  });
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return { data: page.map(viewOf), nextCursor: rows.length > limit && last ? cursorOf(last.id) : null };
}

function viewOf(row: Prisma.AuditEntryGetPayload<object>): AuditView {
  const { actorKind, actorSub, clientId, apiKeyId, ...rest } = row;
  return {
    ...rest,
    id: row.id.toString(),
    category: row.category as AuditCategory,
    actor: { kind: actorKind, sub: actorSub, clientId, apiKeyId },
    detail: row.detail as Record<string, unknown>,
  };
}

function cursorOf(id: bigint): string {
  return Buffer.from(id.toString()).toString("base64url");
}

function idOf(cursor: string): bigint {
  const text = cursor.length <= 32 ? Buffer.from(cursor, "base64url").toString("latin1") : "";
  // 18 digits: more would not be an id of the column (int8) either, and PostgreSQL would refuse it with an error of its own.
  if (!/^\d{1,18}$/.test(text)) throw new OutbandError("invalid_request", { problems: [{ path: "cursor", message: "This cursor was not made here." }] });
  return BigInt(text);
}
