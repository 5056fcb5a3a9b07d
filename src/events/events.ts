// The outbox: an event is written in the transaction of the change it tells of, or not at all (contract section 8).
// Must never happen: a secret in `data`; an event for a change that was rolled back.
import { systemClock } from "../clock.js";
import type { Tx } from "../db/client.js";
import type { Prisma } from "../db/generated/client.js";
import { newId } from "../ids.js";

export type AccountEventType =
  | "connected_account.created"
  | "connected_account.authorization_link_created"
  | "connected_account.status_updated"
  | "connected_account.updated"
  | "connected_account.token_refreshed"
  | "connected_account.token_refresh_failed"
  | "connected_account.deleted";

export type ElicitationEventType = "elicitation.requested" | "elicitation.answered" | "elicitation.settled";
export type EventType = AccountEventType | ElicitationEventType;

export interface NewEvent {
  type: EventType;
  accountId: string;
  accountSequence: bigint;
  /** The account as in the vault API, without a secret; snake_case. */
  data: Prisma.InputJsonObject;
}

export async function appendEvent(tx: Pick<Tx, "event">, event: NewEvent): Promise<void> {
  await tx.event.create({ data: { ...event, id: newId(systemClock, "evt") }, select: { id: true } });
}

/** What a reader of events gets: contract section 8. */
export interface EventEnvelope {
  spec_version: "1";
  id: string;
  type: string;
  occurred_at: string;
  account_sequence: number;
  object: "connected_account";
  data: unknown;
}

export interface EventFilter {
  after?: string | undefined;
  type?: string | undefined;
  accountId?: string | undefined;
  limit: number;
}

/** Oldest first. `after` is an event id; an unknown one gives null. */
export async function listEvents(db: Pick<Tx, "event">, filter: EventFilter): Promise<{ data: EventEnvelope[]; more: boolean } | null> {
  const from = filter.after === undefined ? null : await db.event.findUnique({ where: { id: filter.after }, select: { sequence: true } });
  if (filter.after !== undefined && !from) return null;
  const rows = await db.event.findMany({
    where: {
      ...(from ? { sequence: { gt: from.sequence } } : {}),
      ...(filter.type === undefined ? {} : { type: filter.type }),
      ...(filter.accountId === undefined ? {} : { accountId: filter.accountId }),
    },
    orderBy: { sequence: "asc" },
    take: filter.limit + 1,
  });
  return {
    data: rows.slice(0, filter.limit).map((row) => ({
      spec_version: "1",
      id: row.id,
      type: row.type,
      occurred_at: row.occurredAt.toISOString(),
      account_sequence: Number(row.accountSequence),
      object: "connected_account",
      data: row.data,
    })),
    more: rows.length > filter.limit,
  };
}
