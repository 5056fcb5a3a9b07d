// The tools that are about the accounts themselves: list_my_connections and disconnect_account.
// Must never happen: another person's account in an answer; an account disconnected without the typed confirmation; an
// answer that tells of accounts before its audit row is durable.
import { z } from "zod";
import { recordAudit } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import type { FormQuestion, ToolResult } from "../connectors/connector.js";
import { cleanLine } from "../connectors/untrusted.js";
import type { Database } from "../db/client.js";
import { newId } from "../ids.js";
import type { Vault } from "../vault/front.js";
import type { AccountView, ConnectionView, Outcome, Readiness, ToolCallOutcome } from "../vault/types.js";
import { problemsOf } from "./arguments.js";
import { annotationsOf, type CheckedCall, jsonSchema, type McpTool, type Try } from "./tools.js";
import { connectPageOf } from "./words.js";

export interface OwnToolsDeps {
  vault: Pick<Vault, "connections" | "accounts">;
  db: Pick<Database, "prisma">;
  clock: Clock;
  publicUrl: string;
}

const accountShape = z.object({
  label: z.string(),
  external_account: z.object({ id: z.string(), email: z.string().nullable(), name: z.string().nullable() }).nullable(),
  status: z.enum(["PENDING", "ACTIVE", "EXPIRED", "REVOKED", "ERROR"]),
});
const listOutput = z.object({
  connections: z.array(
    z.object({
      connection_name: z.string(),
      connector: z.string(),
      title: z.string(),
      readiness: z.enum(["ready", "needs_reauth", "needs_connection"]),
      accounts: z.array(accountShape),
    }),
  ),
});
const disconnectInput = z.object({
  connection_name: z.string().min(1).max(32).describe("The connection, as in list_my_connections."),
  account: z
    .string()
    .min(1)
    .max(320)
    .optional()
    .describe("Which account: its label, else its e-mail address. Needed when there are several."),
});
const disconnectOutput = z.object({ connection_name: z.string(), label: z.string(), status: z.literal("REVOKED") });

export function createOwnTools(deps: OwnToolsDeps): McpTool[] {
  return [listMyConnections(deps), disconnectAccount(deps)];
}

function listMyConnections(deps: OwnToolsDeps): McpTool {
  return ownTool({
    name: "list_my_connections",
    title: "List my connections",
    description: "Lists the services that can be connected here, and which accounts of this person are connected and usable.",
    effect: "read",
    hints: { destructive: false, idempotent: true, openWorld: false },
    input: z.object({}),
    output: listOutput,
    async run(one) {
      const { sub } = one.principal;
      const [connections, accounts] = await Promise.all([deps.vault.connections.list(), deps.vault.accounts.ofPerson(sub)]);
      const listed = connections.filter(({ enabled }) => enabled).map((connection) => described(connection, accounts));
      const end = endOf(deps, one, "list_my_connections");
      return end.done({
        text: listText(
          listed,
          connections.some(({ sandbox, enabled }) => sandbox && enabled),
        ),
        untrusted: namesText(listed),
        structured: { connections: listed },
      });
    },
  });
}

type Described = z.output<typeof listOutput>["connections"][number];

function described(connection: ConnectionView, accounts: readonly AccountView[]): Described {
  const own = accounts.filter(({ connectionName }) => connectionName === connection.name);
  return {
    connection_name: connection.name,
    connector: connection.connector,
    title: connection.sandbox ? `${connection.title} (sandbox)` : connection.title,
    readiness: best(own.map(({ readiness }) => readiness)),
    accounts: own.map(({ label, external, status }) => ({
      label: label || "default",
      external_account: external && { id: cleanLine(external.id, 256), email: lineOrNull(external.email), name: lineOrNull(external.name) },
      status,
    })),
  };
}

function best(readiness: readonly Readiness[]): Readiness {
  return readiness.includes("ready") ? "ready" : readiness.includes("needs_reauth") ? "needs_reauth" : "needs_connection";
}

function lineOrNull(text: string | null): string | null {
  return text === null ? null : cleanLine(text, 320);
}

function listText(listed: readonly Described[], sandbox: boolean): string {
  if (listed.length === 0) return "No service can be connected here yet.";
  const lines = listed.map(
    ({ connection_name, title, readiness, accounts }) =>
      `- ${connection_name} (${title}): ${readiness}, ${accounts.length === 1 ? "1 account" : `${accounts.length} accounts`}`,
  );
  const note = sandbox ? ["Those marked sandbox hold practice data, not real accounts."] : [];
  return ["What this person can connect here:", ...lines, ...note].join("\n");
}

/** Upstream names come from the provider, so they stand apart. */
function namesText(listed: readonly Described[]): string[] {
  const lines = listed.flatMap(({ connection_name, accounts }) =>
    accounts.map(
      ({ label, external_account, status }) =>
        `${connection_name}, ${label}: ${status}${external_account ? `, ${external_account.email ?? external_account.name ?? external_account.id}` : ""}`,
    ),
  );
  return lines.length > 0 ? [lines.join("\n")] : [];
}

function disconnectAccount(deps: OwnToolsDeps): McpTool {
  return ownTool({
    name: "disconnect_account",
    title: "Disconnect an account",
    description:
      "Disconnects one of this person's accounts: takes the access back at the provider and erases it here. The person confirms by typing the connection's name.",
    effect: "write",
    hints: { destructive: true, idempotent: true, openWorld: true },
    input: disconnectInput,
    output: disconnectOutput,
    async run(one) {
      const { connection_name: name, account } = disconnectInput.parse(one.checked.args);
      const connection = await deps.vault.connections.get(name);
      const found = connection && (await deps.vault.accounts.find(one.principal.sub, name, account));
      const end = endOf(deps, one, "disconnect_account", connection?.name ?? null);
      if (found === "ambiguous")
        return end.failed(
          "ambiguous_account",
          null,
          `Several accounts are connected. Say which one with "account": ${await labels(deps, one, name)}.`,
        );
      // The same words for a connection that is not there: which ones exist is told by list_my_connections alone.
      if (!connection || !found || found.status === "PENDING")
        return end.failed("not_connected", "not_connected", "There is no such connected account.");
      if (found.status === "REVOKED") return end.done(disconnected(found));

      const question = confirmDisconnect(found, connectPageOf(deps.publicUrl, one.principal));
      const answer = one.answers[question.key];
      if (!answer) return { kind: "needs_answer", question };
      if (answer["connection_name"] !== name)
        return end.failed("cancelled", "name_mismatch", "The name that was typed is another one, so nothing was disconnected.", found);
      return end.done(disconnected(await deps.vault.accounts.disconnect(one.principal, found.id)));
    },
  });
}

async function labels(deps: OwnToolsDeps, one: Try, connectionName: string): Promise<string> {
  const accounts = await deps.vault.accounts.ofPerson(one.principal.sub);
  return accounts
    .filter((account) => account.connectionName === connectionName)
    .map(({ label }) => JSON.stringify(label || "default"))
    .join(", ");
}

/** The key names the account, so that a confirmation is never used for another one that took its place meanwhile. */
function confirmDisconnect(account: AccountView, connectPage: string): FormQuestion {
  return {
    key: `confirm_disconnect_${account.id}`,
    message: `Disconnect the account "${account.label || "default"}" of ${titleOf(account)}? The access is taken back and erased. Type ${account.connectionName} to confirm.`,
    fields: [{ name: "connection_name", title: `Type "${account.connectionName}"`, required: true }],
    otherwise: {
      outcome: "not_allowed",
      text: `An account is only disconnected after the person has confirmed it, and this client cannot ask them. They can do it themselves at ${connectPage}.`,
    },
  };
}

function disconnected(account: AccountView): ToolResult {
  return {
    text: `The account "${account.label || "default"}" of ${titleOf(account)} is disconnected, and its access is erased here.`,
    structured: { connection_name: account.connectionName, label: account.label || "default", status: "REVOKED" },
  };
}

function titleOf(account: AccountView): string {
  return account.sandbox ? `${account.connectionTitle} (sandbox)` : account.connectionTitle;
}

/** The ends of a call of ours, each with its audit row first. */
function endOf(deps: OwnToolsDeps, one: Try, tool: string, connectionName: string | null = null) {
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
    async done(result: ToolResult): Promise<ToolCallOutcome> {
      await audit("ok", null, null);
      return { kind: "done", executionId, result, replayed: false, account: null };
    },
    async failed(outcome: Outcome, reason: string | null, text: string, account: AccountView | null = null): Promise<ToolCallOutcome> {
      await audit(outcome, reason, account);
      return { kind: "failed", outcome, reason, text, connectionName, executionId };
    },
  };
}

interface OwnTool {
  name: string;
  title: string;
  description: string;
  effect: "read" | "write";
  hints: { destructive: boolean; idempotent: boolean; openWorld: boolean };
  input: z.ZodObject;
  output: z.ZodObject;
  run(one: Try): Promise<ToolCallOutcome>;
}

function ownTool(tool: OwnTool): McpTool {
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
