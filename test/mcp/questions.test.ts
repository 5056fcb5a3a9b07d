import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "../../src/clock.js";
import { asIdentifier } from "../../src/ids.js";
import { type Asker, createQuestionBook } from "../../src/mcp/questions.js";
import { eachDatabase } from "../support/database.js";

const ASKER: Asker = {
  principal: {
    kind: "person",
    sub: asIdentifier("alice"),
    clientId: "app",
    clientName: "Probe",
    scopes: new Set(),
    grantId: null,
    apiKeyId: null,
    expiresAtMs: 0,
  },
  endpoint: "/mcp",
  tool: "summarize_inbox",
  argumentsDigest: "d".repeat(64),
  requestId: "req_1",
  traceId: "7a085853722dc6d2e0c9f0b1a2d3c4e5",
};
const told: [string, string, Record<string, string | null>][] = [];
const TOLD = {
  events: {
    elicitation: async (_tx: unknown, event: { type: string; accountId: string; more: Record<string, string | null> }) => {
      told.push([event.type, event.accountId, event.more]);
    },
  },
};
const QUESTION = { kind: "url" as const, key: "connect_gmail", round: 1, connectionName: "gmail", accountId: "ca_1", linkId: "lnk_1" };

eachDatabase("questions", (open) => {
  test("asked, answered and settled stand in the row and in the audit, each once", async () => {
    const db = await open();
    const book = createQuestionBook({ db, clock: systemClock, vault: TOLD });
    const id = await book.asked(ASKER, QUESTION);
    await Promise.all([book.answered(ASKER, id, "accept"), book.answered(ASKER, id, "decline")]);
    await book.settled(ASKER, id, "not_connected", "awaiting_user");
    await book.settled(ASKER, id, "ok", null);
    const row = await db.prisma.elicitation.findUniqueOrThrow({ where: { id } });
    assert.deepEqual(
      [
        row.identifier,
        row.clientId,
        row.endpoint,
        row.tool,
        row.kind,
        row.key,
        row.round,
        row.connectionName,
        row.accountId,
        row.linkId,
        row.outcome,
      ],
      ["alice", "app", "/mcp", "summarize_inbox", "url", "connect_gmail", 1, "gmail", "ca_1", "lnk_1", "not_connected"],
    );
    const about = { kind: "url", key: "connect_gmail", link_id: "lnk_1" };
    assert.deepEqual(told.splice(0), [
      ["elicitation.requested", "ca_1", about],
      ["elicitation.answered", "ca_1", { ...about, action: row.answer }],
      ["elicitation.settled", "ca_1", { ...about, outcome: "not_connected", reason: "awaiting_user" }],
    ]);
    const audit = await db.prisma.auditEntry.findMany({ orderBy: { id: "asc" } });
    assert.deepEqual(
      audit.map((entry) => [entry.category, entry.action, entry.outcome, entry.reason, entry.linkId, entry.requestId, entry.traceId]),
      [
        ["authorization", "elicitation.asked", "ok", null, "lnk_1", "req_1", ASKER.traceId],
        ["authorization", "elicitation.answered", row.answer, null, "lnk_1", "req_1", ASKER.traceId],
        ["authorization", "elicitation.settled", "not_connected", "awaiting_user", "lnk_1", "req_1", ASKER.traceId],
      ],
    );
  });

  test("a row that cannot be audited is not written either", async () => {
    const db = await open();
    const book = createQuestionBook({
      clock: systemClock,
      vault: TOLD,
      db: {
        transaction: (run) =>
          db.transaction((tx) =>
            run(
              new Proxy(tx, {
                get: (target, name) =>
                  name === "auditEntry" ? { create: () => Promise.reject(new Error("full")) } : Reflect.get(target, name),
              }),
            ),
          ),
      },
    });
    await assert.rejects(book.asked(ASKER, QUESTION));
    assert.equal(await db.prisma.elicitation.count(), 0);
  });
});
