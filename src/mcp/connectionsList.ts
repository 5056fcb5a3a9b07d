// What a person can connect and has connected, as the listing tools tell it. Must never happen: another person's account; a
// name from the provider in a sentence of ours.
import { z } from "zod";
import type { ToolResult } from "../connectors/connector.js";
import { cleanLine } from "../connectors/untrusted.js";
import type { Identifier } from "../ids.js";
import type { Vault } from "../vault/front.js";
import type { AccountView, ConnectionView, Readiness } from "../vault/types.js";

const accountShape = z.object({
  label: z.string(),
  external_account: z.object({ id: z.string(), email: z.string().nullable(), name: z.string().nullable() }).nullable(),
  status: z.enum(["PENDING", "ACTIVE", "EXPIRED", "REVOKED", "ERROR"]),
});
export const connectionsOutput = z.object({
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
export async function connectionsOf(vault: Pick<Vault, "connections" | "accounts">, sub: Identifier): Promise<ToolResult> {
  const [connections, accounts] = await Promise.all([vault.connections.list(), vault.accounts.ofPerson(sub)]);
  const enabled = connections.filter((connection) => connection.enabled);
  const listed = enabled.map((connection) => described(connection, accounts));
  return {
    text: listText(
      listed,
      enabled.some(({ sandbox }) => sandbox),
    ),
    untrusted: namesText(listed),
    structured: { connections: listed },
  };
}

type Described = z.output<typeof connectionsOutput>["connections"][number];

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

/** Of several accounts the best: a tool needs one. */
export function best(readiness: readonly Readiness[]): Readiness {
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
