// What all tools of our own share: their listing, their argument check, and the ends of a call, each with its audit row.
// Must never happen: an answer that tells of accounts before its audit row is durable.
import type { z } from "zod";
import { recordAudit } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import type { ToolResult } from "../connectors/connector.js";
import type { Database } from "../db/client.js";
import { newId } from "../ids.js";
import type { AccountView, Outcome, ToolCallOutcome } from "../vault/types.js";
import { problemsOf } from "./arguments.js";
import { annotationsOf, type CheckedCall, jsonSchema, type McpTool, type Try } from "./tools.js";

export interface EndDeps {
  db: Pick<Database, "prisma">;
  clock: Clock;
}

/** The ends of a call of ours, each with its audit row first. */
export function endOf(deps: EndDeps, one: Try, tool: string, connectionName: string | null = null) {
  const executionId = newId(deps.clock, "exe");
  const audit = (outcome: string, reason: string | null, account: AccountView | null): Promise<void> =>
    recordAudit(deps.db.prisma, {
      category: "tool_call",
      action: "tool.executed",
      actor: one.principal,
      identifier: one.principal.sub,
      connectionName: connectionName ?? undefined,
      accountId: account?.id,
      tool,
      outcome,
      reason: reason ?? undefined,
      detail: { execution_id: executionId },
      requestId: one.requestId,
      traceId: one.traceId,
    });
  return {
    async done(result: ToolResult, account: AccountView | null = null): Promise<ToolCallOutcome> {
      await audit("ok", null, account);
      return { kind: "done", executionId, result, replayed: false, account: null };
    },
    /** Not done, and told as an ordinary result (contract 6.4). */
    async told(outcome: Outcome, result: ToolResult): Promise<ToolCallOutcome> {
      await audit(outcome, null, null);
      return { kind: "done", executionId, result, replayed: false, account: null };
    },
    async failed(outcome: Outcome, reason: string | null, text: string, account: AccountView | null = null): Promise<ToolCallOutcome> {
      await audit(outcome, reason, account);
      return { kind: "failed", outcome, reason, text, connectionName, executionId };
    },
  };
}

export interface OwnTool {
  name: string;
  title: string;
  description: string;
  effect: "read" | "write";
  hints: { destructive: boolean; idempotent: boolean; openWorld: boolean };
  input: z.ZodObject;
  output: z.ZodObject;
  run(one: Try): Promise<ToolCallOutcome>;
}

export function ownTool(tool: OwnTool): McpTool {
  const { name, title, description, effect, hints, input, output, run } = tool;
  return {
    name,
    title,
    effect,
    connectionName: null,
    connectionTitle: "Outband",
    sandbox: false,
    listed: {
      name,
      title,
      description,
      inputSchema: jsonSchema(input),
      outputSchema: jsonSchema(output),
      annotations: annotationsOf(title, effect, hints),
    },
    check(args) {
      const parsed = input.safeParse(args);
      if (!parsed.success) return { ok: false, problems: problemsOf(parsed.error.issues, args) };
      const call: CheckedCall = { args, account: undefined, idempotencyKey: undefined };
      return { ok: true, call };
    },
    run,
  };
}
