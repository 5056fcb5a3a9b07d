// The written side of every question: its row in Elicitation (funnel, guard) and its audit row, in one transaction.
// Must never happen: a question or the outcome of an answer that leaves before its rows are durable.
import { type AuditRow, recordAudit } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import type { Database, Tx } from "../db/client.js";
import type { ElicitationEventType } from "../events/events.js";
import { newId } from "../ids.js";
import type { PersonPrincipal } from "../identity/principal.js";
import type { Vault } from "../vault/front.js";

/** The call that asks. */
export interface Asker {
  principal: PersonPrincipal;
  endpoint: string;
  tool: string;
  argumentsDigest: string;
  requestId: string;
  traceId: string | undefined;
}

export interface Question {
  kind: "url" | "form";
  key: string;
  round: number;
  connectionName: string | null;
  accountId: string | null;
  linkId: string | null;
}

export type AnswerAction = "accept" | "decline" | "cancel";

export interface QuestionBook {
  /** Returns the row's id. */
  asked(asker: Asker, question: Question): Promise<string>;
  /** Writes once: a retry that is sent twice adds nothing. */
  answered(asker: Asker, id: string, action: AnswerAction): Promise<void>;
  /** What became of it: `ok`, or an outcome of the contract. Writes once. */
  settled(asker: Asker, id: string, outcome: string, reason: string | null): Promise<void>;
}

export function createQuestionBook(deps: { db: Pick<Database, "transaction">; clock: Clock; vault: Pick<Vault, "events"> }): QuestionBook {
  const { db, clock, vault } = deps;

  return {
    async asked(asker, question) {
      const id = newId(clock, "elc");
      await db.transaction(async (tx) => {
        await tx.elicitation.create({
          data: {
            id,
            identifier: asker.principal.sub,
            clientId: asker.principal.clientId,
            endpoint: asker.endpoint,
            tool: asker.tool,
            argumentsDigest: asker.argumentsDigest,
            ...question,
            askedAt: clock.date(),
          },
          select: { id: true },
        });
        await recordAudit(tx, auditRow(asker, question, "elicitation.asked", "ok"));
        await tell(tx, "elicitation.requested", question, {});
      });
      return id;
    },

    async answered(asker, id, action) {
      await once(id, { answeredAt: null }, { answer: action, answeredAt: clock.date() }, async (tx, question) => {
        await recordAudit(tx, auditRow(asker, question, "elicitation.answered", action));
        await tell(tx, "elicitation.answered", question, { action });
      });
    },

    async settled(asker, id, outcome, reason) {
      await once(id, { settledAt: null }, { outcome, settledAt: clock.date() }, async (tx, question) => {
        await recordAudit(tx, { ...auditRow(asker, question, "elicitation.settled", outcome), reason: reason ?? undefined });
        await tell(tx, "elicitation.settled", question, { outcome, reason });
      });
    },
  };

  async function once(
    id: string,
    still: { answeredAt: null } | { settledAt: null },
    change: { answer: string; answeredAt: Date } | { outcome: string; settledAt: Date },
    write: (tx: Tx, question: Question) => Promise<void>,
  ): Promise<void> {
    await db.transaction(async (tx) => {
      const { count } = await tx.elicitation.updateMany({ where: { id, ...still }, data: change });
      if (count === 0) return;
      const kept = await tx.elicitation.findUniqueOrThrow({ where: { id } });
      await write(tx, { ...kept, kind: kept.kind === "url" ? "url" : "form" });
    });
  }

  /** Events are about accounts: a question that concerns none of them has its audit row alone. */
  async function tell(tx: Tx, type: ElicitationEventType, question: Question, more: Record<string, string | null>): Promise<void> {
    if (question.accountId === null) return;
    const { kind, key, linkId } = question;
    await vault.events.elicitation(tx, { type, accountId: question.accountId, more: { kind, key, link_id: linkId, ...more } });
  }
}

function auditRow(asker: Asker, question: Question, action: string, outcome: string): AuditRow {
  return {
    category: "authorization",
    action,
    actor: asker.principal,
    identifier: asker.principal.sub,
    connectionName: question.connectionName ?? undefined,
    accountId: question.accountId ?? undefined,
    linkId: question.linkId ?? undefined,
    tool: asker.tool,
    outcome,
    detail: { key: question.key, kind: question.kind, round: question.round, endpoint: asker.endpoint },
    requestId: asker.requestId,
    traceId: asker.traceId,
  };
}
