// What time does to the vault's rows: links run out, untouched PENDING accounts and old records go. Safe on several
// instances at once: every statement is conditional. Must never happen: an account that held a grant swept away.
import { recordAudit } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import type { Database } from "../db/client.js";
import { appendAccountEvent } from "./accountEvents.js";
import type { LinkBook } from "./link.js";
import type { Keeper } from "./keep.js";
import type { AppCheck } from "./verification.js";

const DAY_MS = 24 * 3600 * 1000;
const PENDING_KEPT_MS = 7 * DAY_MS;
const LINKS_KEPT_MS = 30 * DAY_MS;
/** An exchange that has not settled by then belongs to a process that died. */
const EXCHANGE_AT_MOST_MS = 60_000;
const BATCH = 200;

export interface SweepDeps {
  db: Database;
  clock: Clock;
  book: LinkBook;
  keeper: Keeper;
  appCheck: Pick<AppCheck, "sweep">;
  executionRetentionDays: number;
  eventRetentionDays: number;
  auditRetentionDays: number;
}

export function createSweep(deps: SweepDeps): () => Promise<void> {
  const { db, clock } = deps;

  return async function sweep(): Promise<void> {
    await expireLinks();
    await deps.appCheck.sweep();
    await dropPending();
    const now = clock.now();
    await db.prisma.authorizationLink.deleteMany({ where: { settledAt: { lt: new Date(now - LINKS_KEPT_MS) } } });
    await db.prisma.toolExecution.deleteMany({ where: { expiresAt: { lt: new Date(now) } } });
    await db.prisma.elicitation.deleteMany({ where: { askedAt: { lt: new Date(now - deps.executionRetentionDays * DAY_MS) } } });
    await db.prisma.event.deleteMany({ where: { occurredAt: { lt: new Date(now - deps.eventRetentionDays * DAY_MS) } } });
    await db.prisma.auditEntry.deleteMany({ where: { occurredAt: { lt: new Date(now - deps.auditRetentionDays * DAY_MS) } } });
  };

  async function expireLinks(): Promise<void> {
    const now = clock.now();
    const due = await db.prisma.authorizationLink.findMany({
      where: {
        settledAt: null,
        OR: [{ exchangedAt: null, expiresAt: { lt: new Date(now) } }, { exchangedAt: { lt: new Date(now - EXCHANGE_AT_MOST_MS) }, grantSealed: null }],
      },
      select: { id: true },
      take: BATCH,
    });
    for (const { id } of due) {
      const link = await deps.book.byId(id);
      if (!link) continue;
      const died = link.exchangedAt !== null;
      await deps.keeper.settleFailed(link, died ? "not_stored" : "expired", died ? "not_stored" : "link_expired", { kind: "system" });
    }
  }

  async function dropPending(): Promise<void> {
    const old = await db.prisma.connectedAccount.findMany({
      // With the row its links would go, and a grant that waits on one unreturned.
      where: { status: "PENDING", updatedAt: { lt: new Date(clock.now() - PENDING_KEPT_MS) }, links: { none: { grantSealed: { not: null } } } },
      include: { connection: true },
      take: BATCH,
    });
    for (const account of old) {
      await db.transaction(async (tx) => {
        const still = await tx.connectedAccount.updateMany({
          where: { id: account.id, status: "PENDING", generation: account.generation, updatedAt: account.updatedAt },
          data: { updatedAt: account.updatedAt },
        });
        if (still.count !== 1) return;
        await appendAccountEvent(tx, { accountId: account.id, type: "connected_account.deleted" });
        await recordAudit(tx, {
          category: "token_lifecycle",
          action: "account.swept",
          actor: { kind: "system" },
          identifier: account.identifier,
          accountId: account.id,
          connectionName: account.connection.name,
          outcome: "ok",
        });
        await tx.connectedAccount.delete({ where: { id: account.id } });
      });
    }
  }
}
