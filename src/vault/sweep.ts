// What time does to the vault's rows: links run out, untouched PENDING accounts and old records go. Safe on several
// instances at once: every statement is conditional. Must never happen: an account that held a grant swept away.
import { recordAudit } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import type { Database } from "../db/client.js";
import { type BatchLimits, deleteOld, type OldRows } from "../db/deleteOld.js";
import { appendAccountEvent } from "./accountEvents.js";
import { deadExchanges } from "./exchangeClaim.js";
import type { LinkBook } from "./link.js";
import type { Keeper } from "./keep.js";
import type { Revoker } from "./revoke.js";
import type { AppCheck } from "./verification.js";

const DAY_MS = 24 * 3600 * 1000;
const PENDING_KEPT_MS = 7 * DAY_MS;
const LINKS_KEPT_MS = 30 * DAY_MS;
const BATCH = 200;

/** A link whose grant is still to be given back stays: see verification.ts. */
const LINKS: OldRows = { name: "links", table: "authorization_link", key: "id", where: "old.settled_at < $2::timestamptz and old.grant_sealed is null" };
const EXECUTIONS: OldRows = { name: "executions", table: "tool_execution", key: "id", where: "old.expires_at < $2::timestamptz" };
const ELICITATIONS: OldRows = { name: "elicitations", table: "elicitation", key: "id", where: "old.asked_at < $2::timestamptz" };
const EVENTS: OldRows = { name: "events", table: "event", key: "id", where: "old.occurred_at < $2::timestamptz" };
const AUDIT: OldRows = { name: "audit", table: "audit_entry", key: "id", where: "old.occurred_at < $2::timestamptz" };

export interface SweepDeps {
  db: Database;
  clock: Clock;
  book: LinkBook;
  keeper: Keeper;
  appCheck: Pick<AppCheck, "sweep">;
  revoker: Pick<Revoker, "sweep">;
  executionRetentionDays: number;
  eventRetentionDays: number;
  auditRetentionDays: number;
  /** Of one pass and table. */
  limits?: BatchLimits;
}

export function createSweep(deps: SweepDeps): () => Promise<void> {
  const { db, clock } = deps;

  return async function sweep(): Promise<void> {
    const steps = [
      expireLinks,
      deps.appCheck.sweep,
      dropPending,
      dropOld(LINKS, LINKS_KEPT_MS),
      dropOld(EXECUTIONS, 0),
      dropOld(ELICITATIONS, deps.executionRetentionDays * DAY_MS),
      dropOld(EVENTS, deps.eventRetentionDays * DAY_MS),
      dropOld(AUDIT, deps.auditRetentionDays * DAY_MS),
      deps.revoker.sweep,
    ];
    // One that fails does not keep the others from their work.
    const failed: unknown[] = [];
    for (const step of steps) await step().catch((cause: unknown) => failed.push(cause));
    if (failed.length > 0) throw failed[0];
  };

  function dropOld(rows: OldRows, keptMs: number): () => Promise<unknown> {
    return () => deleteOld(db, rows, [new Date(clock.now() - keptMs)], deps.limits);
  }

  async function expireLinks(): Promise<void> {
    const late = await db.prisma.authorizationLink.findMany({
      where: { settledAt: null, exchangedAt: null, expiresAt: { lt: clock.date() } },
      select: { id: true },
      take: BATCH,
    });
    for (const { id } of late) await settle(id, "expired", "link_expired");
    for (const id of await deadExchanges(db, BATCH)) await settle(id, "not_stored", "not_stored");
  }

  async function settle(id: string, failure: "expired" | "not_stored", reason: string): Promise<void> {
    const link = await deps.book.byId(id);
    // Somebody began the exchange since the look.
    if (link && (failure === "not_stored" || link.exchangedAt === null)) await deps.keeper.settleFailed(link, failure, reason, { kind: "system" });
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
