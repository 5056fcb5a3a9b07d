// Events about accounts: numbered per account and written in the transaction of the change they tell of.
import type { Tx } from "../db/client.js";
import { appendEvent, type EventType } from "../events/events.js";
import { type AccountRow, accountJson, accountView } from "./store.js";

/** Takes the account's next number, writes the event, and returns the row as the event tells it. */
export async function appendAccountEvent(
  tx: Tx,
  event: { accountId: string; type: EventType; more?: Record<string, string | null> },
): Promise<AccountRow> {
  const row = await tx.connectedAccount.update({
    where: { id: event.accountId },
    data: { sequence: { increment: 1 } },
    include: { connection: true },
  });
  await appendEvent(tx, {
    type: event.type,
    accountId: row.id,
    accountSequence: row.sequence,
    data: { ...accountJson(accountView(row)), ...event.more },
  });
  return row;
}
