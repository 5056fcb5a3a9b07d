// The written side of every question: its row in Elicitation (funnel, guard) and its audit row, in one transaction.
// Must never happen: a question or the outcome of an answer that leaves before its rows are durable.
import { type AuditRow, recordAudit } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import type { Database } from "../db/client.js";
import { newId } from "../ids.js";
import type { PersonPrincipal } from "../identity/principal.js";

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

export function createQuestionBook(deps: { db: Pick<Database, "transaction">; clock: Clock }): QuestionBook {
  const { db, clock } = deps;

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
      });
      return id;
    },

    async answered(asker, id, action) {
      await once(id, { answeredAt: null }, { answer: action, answeredAt: clock.date() }, (question) =>
        auditRow(asker, question, "elicitation.answered", action),
      );
    },

    async settled(asker, id, outcome, reason) {
      await once(id, { settledAt: null }, { outcome, settledAt: clock.date() }, (question) => ({
        ...auditRow(asker, question, "elicitation.settled", outcome),
        reason: reason ?? undefined,
      }));
    },
  };

  async function once(
    id: string,
    still: { answeredAt: null } | { settledAt: null },
    change: { answer: string; answeredAt: Date } | { outcome: string; settledAt: Date },
    row: (question: Question) => AuditRow,
  ): Promise<void> {
    await db.transaction(async (tx) => {
      const { count } = await tx.elicitation.updateMany({ where: { id, ...still }, data: change });
      if (count === 0) return;
      const kept = await tx.elicitation.findUniqueOrThrow({ where: { id } });
      await recordAudit(tx, row({ ...kept, kind: kept.kind === "url" ? "url" : "form" }));
    });
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
