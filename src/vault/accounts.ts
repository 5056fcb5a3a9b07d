// Accounts as the surfaces handle them: list, find, rename, disconnect, refresh now (put.ts: put in). Must never happen: a
// disconnect that waits for a provider before it is true, or that what was granted before it undoes; a grant purged that
// came while the old one was given back.
import { recordAudit } from "../audit/audit.js";
import { isMissing, isUniqueViolation } from "../db/errors.js";
import type { Prisma } from "../db/generated/client.js";
import { cursorOf, readCursor } from "../db/timeCursor.js";
import { OutbandError } from "../errors.js";
import type { Principal } from "../identity/principal.js";
import { transition } from "./account.js";
import { appendAccountEvent } from "./accountEvents.js";
import { chosen } from "./execute.js";
import type { AccountsDoor } from "./front.js";
import { checkLabel } from "./link.js";
import { createPut, type PutDeps } from "./put.js";
import type { Refresher } from "./refresh.js";
import type { Farewell, Tokens } from "./farewell.js";
import type { Revoker } from "./revoke.js";
import { type AccountRow, accountView, readinessOf } from "./store.js";
import { type AppCheck, endLinks } from "./verification.js";
import type { StatusReason } from "./types.js";

const PAGE_AT_MOST = 200;
const CONFLICTS_AT_MOST = 8;

export interface AccountDeps extends PutDeps {
  refresher: Refresher;
  revoker: Revoker;
  appCheck: Pick<AppCheck, "giveBack">;
  isShutOut(identifier: string): Promise<boolean>;
}

export function createAccounts(deps: AccountDeps): AccountsDoor {
  const { db } = deps;
  const put = createPut(deps);

  const door: AccountsDoor = {
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
        if (isMissing(thrown)) throw new OutbandError("not_found");
        throw thrown;
      }
    },

    async disconnect(actor, id, options = {}) {
      for (let conflict = 0; conflict < CONFLICTS_AT_MOST; conflict += 1) {
        const row = await need(id);
        const tokens = await tokensOf(row);
        const farewell = await deps.revoker.prepare(row, tokens, row.externalId);
        const done = await disconnectOnce(actor, row, farewell);
        if (!done) continue;
        const { now, ended } = done;
        await deps.revoker.giveBack(actor, now, farewell, tokens);
        for (const link of ended) await deps.appCheck.giveBack(link.id);
        if (options.purge && !(await purge(actor, now))) continue;
        return accountView(now);
      }
      throw new OutbandError("unavailable");
    },

    async put(actor, input) {
      const account = await put(actor, input);
      if ((await deps.knowsPerson(input.identifier)) || (await deps.isShutOut(input.identifier))) return account;
      // Deleted while the provider was asked: their accounts were looked for before this one was there.
      await door.disconnect(actor, account.id, { purge: true });
      throw new OutbandError("unknown_identifier");
    },

    async refresh(actor, id) {
      const row = await need(id);
      if (row.status !== "ACTIVE") throw new OutbandError(readinessOf(row.status) === "needs_connection" ? "not_connected" : "reauth_needed", { reason: row.statusReason ?? "not_connected" });
      if (!row.refreshSealed) return accountView(row);
      const end = await deps.refresher.refresh(row);
      await recordAudit(db.prisma, { category: "administration", action: "account.refresh_asked", actor, ...subject(row), outcome: end.kind });
      if (end.kind === "transient") throw new OutbandError("provider_unavailable", { retryAfterS: end.retryAfterS });
      return accountView(end.account);
    },
  };
  return door;

  async function read(id: string): Promise<AccountRow | null> {
    return db.prisma.connectedAccount.findUnique({ where: { id }, include: { connection: true } });
  }

  async function need(id: string): Promise<AccountRow> {
    const row = await read(id);
    if (!row) throw new OutbandError("not_found");
    return row;
  }

  /** What is to be given back at the provider; a credential that does not open cannot be. */
  async function tokensOf(row: AccountRow): Promise<Tokens> {
    const access = await deps.box.openAccess(row).catch(() => null);
    const refresh = await deps.box.openRefresh(row).catch(() => null);
    return { access: access?.kind === "oauth" ? access.token : null, refresh };
  }

  /**
   * Null: the account changed in between. An account that is REVOKED already stays as it is. What somebody granted before,
   * a callback in flight or a grant that waits for its app, does not come after it.
   */
  async function disconnectOnce(actor: Principal, row: AccountRow, farewell: Farewell | null): Promise<{ now: AccountRow; ended: { id: string }[] } | null> {
    const reason: StatusReason = actor.kind === "browser" && actor.sub === row.identifier ? "disconnected_by_user" : actor.kind === "person" ? "disconnected_by_user" : "disconnected_by_admin";
    const undo = new Error("the account changed in between");
    return db
      .transaction(async (tx) => {
        const ended = await endLinks(tx, deps.clock, { accountId: row.id, exchangedAt: { not: null } }, { actor, reason: "disconnected" });
        if (row.status === "REVOKED") return { now: row, ended };
        const now = await transition(tx, {
          account: row,
          act: "disconnected",
          reason,
          audit: { category: "authorization", action: "account.disconnected", actor, outcome: "ok", reason },
        });
        if (!now) throw undo;
        if (farewell) await deps.revoker.putDown(tx, farewell);
        return { now, ended };
      })
      .catch((thrown: unknown) => {
        if (thrown === undo) return null;
        throw thrown;
      });
  }

  /** False: somebody connected it anew while the old grant was given back. What was given last is not to be lost unrevoked. */
  async function purge(actor: Principal, row: AccountRow): Promise<boolean> {
    return db.transaction(async (tx) => {
      const held = await tx.connectedAccount.updateMany({ where: { id: row.id, generation: row.generation, status: "REVOKED" }, data: { generation: row.generation } });
      if (held.count !== 1) return false;
      if ((await tx.authorizationLink.count({ where: { accountId: row.id, settledAt: null, grantSealed: { not: null } } })) > 0) return false;
      await appendAccountEvent(tx, { accountId: row.id, type: "connected_account.deleted" });
      await recordAudit(tx, { category: "administration", action: "account.purged", actor, ...subject(row), outcome: "ok" });
      await tx.connectedAccount.delete({ where: { id: row.id } });
      return true;
    });
  }
}

function subject(row: AccountRow): { identifier: string; accountId: string; connectionName: string } {
  return { identifier: row.identifier, accountId: row.id, connectionName: row.connection.name };
}

function invalid(path: string, message: string): OutbandError {
  return new OutbandError("invalid_request", { problems: [{ path, message }] });
}

/** Rows older than the cursor's, in the list's order. */
function afterCursor(text: string): Prisma.ConnectedAccountWhereInput {
  const last = readCursor(text);
  if (!last) throw invalid("cursor", "This cursor was not made here.");
  return { OR: [{ createdAt: { lt: last.createdAt } }, { createdAt: last.createdAt, id: { lt: last.id } }] };
}
