// Accounts as the surfaces handle them: list, find, rename, disconnect, put in, refresh now. Must never happen: a
// disconnect that waits for a provider before it is true; a credential kept without having been tried.
import { recordAudit } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import type { Connector } from "../connectors/connector.js";
import { cleanField } from "../connectors/methods/apiKey.js";
import { Secret } from "../crypto/secret.js";
import type { Database } from "../db/client.js";
import { isUniqueViolation } from "../db/errors.js";
import type { Prisma } from "../db/generated/client.js";
import { OutbandError } from "../errors.js";
import { type AccountId, newId } from "../ids.js";
import type { Principal } from "../identity/principal.js";
import { mayTakeIdentity, transition } from "./account.js";
import { appendAccountEvent } from "./accountEvents.js";
import type { Credential, CredentialBox } from "./credential.js";
import { chosen } from "./execute.js";
import type { AccountsDoor, PutCredential } from "./front.js";
import { checkLabel } from "./link.js";
import type { KeyProbe } from "./keyProbe.js";
import type { Refresher } from "./refresh.js";
import type { Revoker } from "./revoke.js";
import { type AccountRow, accountView, type ConnectionRow } from "./store.js";
import type { Targets } from "./target.js";
import type { AccountView, StatusReason } from "./types.js";

const PAGE_AT_MOST = 200;
const CONFLICTS_AT_MOST = 8;

export interface AccountDeps {
  db: Database;
  clock: Clock;
  box: CredentialBox;
  refresher: Refresher;
  revoker: Revoker;
  keyProbe: KeyProbe;
  targets: Targets;
  knowsPerson(identifier: string): Promise<boolean>;
}

export function createAccounts(deps: AccountDeps): AccountsDoor {
  const { db, clock } = deps;

  return {
    async list(filter) {
      const limit = Math.min(Math.max(filter.limit ?? 50, 1), PAGE_AT_MOST);
      const where: Prisma.ConnectedAccountWhereInput = {
        ...(filter.connectionName === undefined ? {} : { connection: { name: filter.connectionName } }),
        ...(filter.identifier === undefined ? {} : { identifier: filter.identifier }),
        ...(filter.status === undefined ? {} : { status: filter.status }),
        ...(filter.cursor === undefined ? {} : afterCursor(filter.cursor)),
      };
      const rows = await db.prisma.connectedAccount.findMany({
        where,
        include: { connection: true },
        orderBy: [{ createdAt: "desc" }, { id: "desc" }],
        take: limit + 1,
      });
      const last = rows.length > limit ? rows[limit - 1] : undefined;
      return { data: rows.slice(0, limit).map(accountView), nextCursor: last ? cursorOf(last) : null };
    },

    async tally() {
      const [connections, groups] = await Promise.all([
        db.prisma.connection.findMany({ select: { id: true, name: true } }),
        db.prisma.connectedAccount.groupBy({ by: ["connectionId", "status", "statusReason"], _count: { _all: true } }),
      ]);
      const names = new Map(connections.map(({ id, name }) => [id, name]));
      return groups.flatMap(({ connectionId, status, statusReason, _count }) => {
        const connectionName = names.get(connectionId);
        return connectionName === undefined ? [] : [{ connectionName, status, statusReason: statusReason as StatusReason | null, count: _count._all }];
      });
    },

    async ofPerson(identifier) {
      const rows = await db.prisma.connectedAccount.findMany({
        where: { identifier },
        include: { connection: true },
        orderBy: [{ connection: { name: "asc" } }, { label: "asc" }],
      });
      return rows.map(accountView);
    },

    async get(id) {
      const row = await read(id);
      return row ? accountView(row) : null;
    },

    async find(identifier, connectionName, account) {
      const rows = await db.prisma.connectedAccount.findMany({
        where: { identifier, connection: { name: connectionName } },
        include: { connection: true },
        orderBy: { label: "asc" },
      });
      const found = chosen(rows, account);
      return found === null || found === "ambiguous" ? found : accountView(found);
    },

    async rename(actor, id, label) {
      checkLabel(label);
      const row = await need(id);
      try {
        const renamed = await db.transaction(async (tx) => {
          await tx.connectedAccount.update({ where: { id }, data: { label } });
          await recordAudit(tx, { category: "administration", action: "account.renamed", actor, ...subject(row), outcome: "ok" });
          return appendAccountEvent(tx, { accountId: id, type: "connected_account.updated" });
        });
        return accountView(renamed);
      } catch (thrown) {
        if (isUniqueViolation(thrown)) throw new OutbandError("already_exists", { message: "You already have an account with this label." });
        throw thrown;
      }
    },

    async disconnect(actor, id, options = {}) {
      for (let conflict = 0; conflict < CONFLICTS_AT_MOST; conflict += 1) {
        const row = await need(id);
        const tokens = await tokensOf(row);
        const now = await disconnectOnce(actor, row);
        if (!now) continue;
        await deps.revoker.revoke(actor, now, tokens, row.externalId);
        if (options.purge) await purge(actor, now);
        return accountView(now);
      }
      throw new OutbandError("unavailable");
    },

    async put(actor, input) {
      const label = input.label ?? "";
      checkLabel(label);
      const connection = await db.prisma.connection.findUnique({ where: { name: input.connectionName } });
      if (!connection) throw new OutbandError("not_found");
      if (!(await deps.knowsPerson(input.identifier))) throw new OutbandError("unknown_identifier");
      const connector = deps.targets.connectorOf(connection);
      const grant = await tried(connection, connector, input.credential);
      for (let conflict = 0; conflict < CONFLICTS_AT_MOST; conflict += 1) {
        const account = await accountFor(connection, input.identifier, label);
        if (!mayTakeIdentity(account, grant.externalId)) throw new OutbandError("wrong_upstream_identity");
        const credential = await deps.box.seal(account, grant.credential, { scopes: grant.scopes, tokenExpiresAt: grant.tokenExpiresAt });
        const row = await db.transaction((tx) =>
          transition(tx, {
            account,
            act: "connected",
            reason: null,
            credential,
            also: { lastRefreshedAt: clock.date() },
            audit: { category: "authorization", action: "account.put", actor, outcome: "ok" },
          }),
        );
        if (row) return accountView(row);
      }
      throw new OutbandError("unavailable");
    },

    async refresh(actor, id) {
      const row = await need(id);
      if (row.status !== "ACTIVE") throw new OutbandError("reauth_needed", { reason: row.statusReason ?? "not_connected" });
      if (!row.refreshSealed) return accountView(row);
      const end = await deps.refresher.refresh(row);
      await recordAudit(db.prisma, { category: "administration", action: "account.refresh_asked", actor, ...subject(row), outcome: end.kind });
      if (end.kind === "transient") throw new OutbandError("provider_unavailable", { retryAfterS: end.retryAfterS });
      return accountView(end.account);
    },
  };

  async function read(id: string): Promise<AccountRow | null> {
    return db.prisma.connectedAccount.findUnique({ where: { id }, include: { connection: true } });
  }

  async function need(id: string): Promise<AccountRow> {
    const row = await read(id);
    if (!row) throw new OutbandError("not_found");
    return row;
  }

  /** What is to be given back at the provider; a credential that does not open cannot be. */
  async function tokensOf(row: AccountRow): Promise<{ access: Secret | null; refresh: Secret | null }> {
    const access = await deps.box.openAccess(row).catch(() => null);
    const refresh = await deps.box.openRefresh(row).catch(() => null);
    return { access: access?.kind === "oauth" ? access.token : null, refresh };
  }

  /** Null: the account changed in between. An account that is REVOKED already stays as it is. */
  async function disconnectOnce(actor: Principal, row: AccountRow): Promise<AccountRow | null> {
    if (row.status === "REVOKED") return row;
    const reason: StatusReason = actor.kind === "browser" && actor.sub === row.identifier ? "disconnected_by_user" : actor.kind === "person" ? "disconnected_by_user" : "disconnected_by_admin";
    return db.transaction((tx) =>
      transition(tx, {
        account: row,
        act: "disconnected",
        reason,
        audit: { category: "authorization", action: "account.disconnected", actor, outcome: "ok", reason },
      }),
    );
  }

  async function purge(actor: Principal, row: AccountRow): Promise<void> {
    await db.transaction(async (tx) => {
      await appendAccountEvent(tx, { accountId: row.id, type: "connected_account.deleted" });
      await recordAudit(tx, { category: "administration", action: "account.purged", actor, ...subject(row), outcome: "ok" });
      await tx.connectedAccount.delete({ where: { id: row.id } });
    });
  }

  async function accountFor(connection: ConnectionRow, identifier: string, label: string): Promise<AccountRow> {
    const key = { connectionId: connection.id, identifier, label };
    const where = { connectionId_identifier_label: key };
    const known = await db.prisma.connectedAccount.findUnique({ where, include: { connection: true } });
    if (known) return known;
    try {
      return await db.transaction(async (tx) => {
        const made = await tx.connectedAccount.create({
          data: { ...key, id: newId<AccountId>(clock, "ca"), status: "PENDING", statusReason: "awaiting_user", createdAt: clock.date() },
        });
        return appendAccountEvent(tx, { accountId: made.id, type: "connected_account.created" });
      });
    } catch (thrown) {
      if (!isUniqueViolation(thrown)) throw thrown;
      return db.prisma.connectedAccount.findUniqueOrThrow({ where, include: { connection: true } });
    }
  }

  async function tried(
    connection: ConnectionRow,
    connector: Connector,
    given: PutCredential,
  ): Promise<{ credential: Credential; scopes: string[]; tokenExpiresAt: Date | null; externalId: string | null }> {
    if (given.type === "oauth") {
      if (connector.method.kind !== "oauth") throw invalid("credential.type", "This connection does not take an OAuth grant.");
      const access = { kind: "oauth" as const, token: new Secret(given.access_token) };
      const refresh = given.refresh_token === undefined ? null : new Secret(given.refresh_token);
      const tokenExpiresAt = given.expires_at === undefined ? null : new Date(given.expires_at);
      return { credential: { access, refresh }, scopes: given.scopes ?? [], tokenExpiresAt, externalId: null };
    }
    if (connector.method.kind !== "api_key") throw invalid("credential.type", "This connection does not take an API key.");
    const fields: Record<string, Secret> = {};
    for (const field of connector.method.fields) {
      const cleaned = cleanField(given.fields[field.name] ?? "");
      if (!cleaned.ok) throw invalid(`credential.fields.${field.name}`, cleaned.problem);
      fields[field.name] = new Secret(cleaned.value);
    }
    const probe = await deps.keyProbe.try(connection, connector, connector.method, fields);
    if (probe.kind === "refused") throw new OutbandError("credential_refused");
    if (probe.kind === "unavailable") throw new OutbandError("provider_unavailable");
    return { credential: { access: { kind: "api_key", fields }, refresh: null }, scopes: [], tokenExpiresAt: null, externalId: probe.external?.id ?? null };
  }
}

function subject(row: AccountRow): { identifier: string; accountId: string; connectionName: string } {
  return { identifier: row.identifier, accountId: row.id, connectionName: row.connection.name };
}

function invalid(path: string, message: string): OutbandError {
  return new OutbandError("invalid_request", { problems: [{ path, message }] });
}

/** Opaque; time and id of the last row, so that rows inserted meanwhile do not shift the page. */
function cursorOf(row: AccountView | AccountRow): string {
  return Buffer.from(JSON.stringify([row.createdAt.toISOString(), row.id])).toString("base64url");
}

function afterCursor(cursor: string): Prisma.ConnectedAccountWhereInput {
  try {
    const [time, id] = JSON.parse(Buffer.from(cursor, "base64url").toString()) as [string, string];
    const createdAt = new Date(time);
    if (Number.isNaN(createdAt.getTime()) || typeof id !== "string") throw new Error("cursor");
    return { OR: [{ createdAt: { lt: createdAt } }, { createdAt, id: { lt: id } }] };
  } catch {
    throw invalid("cursor", "This cursor was not made here.");
  }
}
