// Rows of the vault as the vault reads them, and their public views. Must never happen: a sealed column in a view.
import type { ConnectedAccount, Connection } from "../db/generated/client.js";
import type { AccountId, ConnectionId, Identifier } from "../ids.js";
import type { AccountStatus, AccountView, Readiness, StatusReason } from "./types.js";

export type ConnectionRow = Connection;
export type AccountRow = ConnectedAccount & { connection: ConnectionRow };

export function readinessOf(status: AccountStatus): Readiness {
  switch (status) {
    case "ACTIVE":
      return "ready";
    case "PENDING":
      return "needs_connection";
    case "EXPIRED":
    case "REVOKED":
    case "ERROR":
      return "needs_reauth";
    default:
      return status satisfies never;
  }
}

export function accountView(row: AccountRow): AccountView {
  return {
    id: row.id as AccountId,
    connectionName: row.connection.name,
    connectionTitle: row.connection.title,
    connector: row.connection.connector,
    identifier: row.identifier as Identifier,
    label: row.label,
    status: row.status,
    statusReason: row.statusReason as StatusReason | null,
    readiness: readinessOf(row.status),
    external: row.externalId === null ? null : { id: row.externalId, email: row.externalEmail, name: row.externalName },
    scopes: row.scopes,
    tokenExpiresAt: row.tokenExpiresAt,
    lastUsedAt: row.lastUsedAt,
    lastRefreshedAt: row.lastRefreshedAt,
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
    sandbox: row.connection.origin === "sandbox",
  };
}

/** The account as the API and the events show it: contract section 7. */
export interface AccountJson {
  id: AccountId;
  connection_name: string;
  connector: string;
  identifier: Identifier;
  label: string;
  status: AccountStatus;
  status_reason: StatusReason | null;
  readiness: Readiness;
  external_account: { id: string; email: string | null; name: string | null } | null;
  scopes: string[];
  token_expires_at: string | null;
  last_used_at: string | null;
  last_refreshed_at: string | null;
  created_at: string;
  updated_at: string;
}

export function accountJson(view: AccountView): AccountJson {
  return {
    id: view.id,
    connection_name: view.connectionName,
    connector: view.connector,
    identifier: view.identifier,
    label: view.label,
    status: view.status,
    status_reason: view.statusReason,
    readiness: view.readiness,
    external_account: view.external,
    scopes: view.scopes,
    token_expires_at: view.tokenExpiresAt?.toISOString() ?? null,
    last_used_at: view.lastUsedAt?.toISOString() ?? null,
    last_refreshed_at: view.lastRefreshedAt?.toISOString() ?? null,
    created_at: view.createdAt.toISOString(),
    updated_at: view.updatedAt.toISOString(),
  };
}

export function connectionIdOf(row: ConnectionRow): ConnectionId {
  return row.id as ConnectionId;
}
