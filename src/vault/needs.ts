// Whether an account can be used for a tool, and what a caller is told when it cannot.
import type { Tool } from "../connectors/connector.js";
import { type AccountRow, accountView, type ConnectionRow, readinessOf } from "./store.js";
import type { ToolCallOutcome } from "./types.js";

/** Contract section 1: `ACTIVE` and granted the scopes that this tool needs. */
export function usable(account: Pick<AccountRow, "status" | "scopes">, tool: Pick<Tool, "scopes">): boolean {
  return account.status === "ACTIVE" && tool.scopes.every((scope) => account.scopes.includes(scope));
}

export function needsAccount(connection: ConnectionRow, label: string, account: AccountRow | null, tool: Tool): ToolCallOutcome {
  const lacksScope = account?.status === "ACTIVE";
  return {
    kind: "needs_account",
    connectionName: connection.name,
    connectionTitle: connection.title,
    label,
    readiness: account ? readinessOf(account.status) : "needs_connection",
    reason: lacksScope ? "scope_missing" : (account?.statusReason ?? "not_connected"),
    scopes: [...tool.scopes],
    accountId: account ? accountView(account).id : null,
  };
}
