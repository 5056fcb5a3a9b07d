// Connections: a connector as an operator set it up. The client secret goes in and never comes out.
// Must never happen: a credential used with another client or another host than the one it was granted to.
import { recordAudit } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import { OAuthFailure } from "../connectors/methods/oauthFailures.js";
import type { Registry } from "../connectors/registry.js";
import { Secret } from "../crypto/secret.js";
import type { Sealer } from "../crypto/seal.js";
import type { Database, Tx } from "../db/client.js";
import { isMissing, isStillReferred, isUniqueViolation } from "../db/errors.js";
import { OutbandError } from "../errors.js";
import { type ConnectionId, newId } from "../ids.js";
import type { Principal } from "../identity/principal.js";
import { transition } from "./account.js";
import { eraseFarewells } from "./farewell.js";
import type { ConnectionInput, ConnectionsDoor } from "./front.js";
import { redirectUri } from "./consent.js";
import { GRANT_GONE } from "./link.js";
import type { ConnectionRow } from "./store.js";
import type { Targets } from "./target.js";
import { type ConnectionView, OPERATOR_REASONS } from "./types.js";
import { endLinks } from "./verification.js";

const NAME = /^[a-z][a-z0-9_-]{0,31}$/;

export interface ConnectionDeps {
  db: Database;
  clock: Clock;
  sealer: Sealer;
  registry: Registry;
  targets: Targets;
  publicUrl: string;
  /** A sentence when an address may not be reached by the settings, else null. */
  refusesUrl(url: string): string | null;
  /** Disconnects and removes the row. Throws not_found. */
  removeAccount(actor: Principal, accountId: string): Promise<unknown>;
}

export type Origin = "operator" | "environment" | "sandbox";

export interface Connections extends ConnectionsDoor {
  /** For the settings and the sandbox: makes or replaces the connection of this name. */
  provide(input: ConnectionInput, origin: Exclude<Origin, "operator">): Promise<ConnectionView>;
}

export function createConnections(deps: ConnectionDeps): Connections {
  const { db, clock, sealer } = deps;
  const system: Principal = { kind: "system" };

  return {
    async list() {
      const rows = await db.prisma.connection.findMany({ orderBy: { name: "asc" } });
      return rows.map(view);
    },

    async get(name) {
      const row = await db.prisma.connection.findUnique({ where: { name } });
      return row ? view(row) : null;
    },

    create: (actor, input) => create(actor, input, "operator"),

    async update(actor, name, change, options = {}) {
      const row = await need(name);
      const moves = change.endpoints !== undefined && !sameEntries(change.endpoints, row.endpoints as Record<string, string>);
      // Addresses that stay were looked at when they came: a title can be changed whatever the settings allow today.
      check({ ...asInput(row), ...defined(change), name, connector: row.connector }, moves ? deps.refusesUrl : anyAddress);
      const rebinds = moves || (change.clientId !== undefined && change.clientId !== row.clientId);
      const mends = change.clientId !== undefined || change.clientSecret !== undefined;
      const generation = change.clientSecret === undefined ? row.generation : row.generation + 1;
      const clientSecretSealed = await secretColumn(row.id, generation, change.clientSecret);
      const changed = await db.transaction(async (tx) => {
        if (rebinds) await eraseOrRefuse(tx, actor, row, options.reset === true);
        const updated = await tx.connection.updateMany({
          where: { id: row.id, generation: row.generation },
          data: { ...columns(change), ...clientSecretSealed, generation },
        });
        if (updated.count !== 1) throw new OutbandError("unavailable");
        if (mends) await tryAgain(tx, actor, row);
        await audit(tx, actor, "connection.updated", name, Object.keys(defined(change)));
        return tx.connection.findUniqueOrThrow({ where: { id: row.id } });
      });
      return view(changed);
    },

    async remove(actor, name, options = {}) {
      const row = await need(name);
      await removeRow(actor, row, options.disconnect === true);
    },

    async provide(input, origin) {
      const row = await db.prisma.connection.findUnique({ where: { name: input.name } });
      if (row && row.origin === "operator") return view(row);
      // Real keys for a name replace the practice connection and its accounts.
      if (row && row.origin !== origin) await removeRow(system, row, true);
      if (!row || row.origin !== origin) return create(system, input, origin);
      check(input, refusesFor(origin));
      return bringUpToDate(row, input, origin);
    },
  };

  /** Another client id in the environment is another client: what was granted to the old one cannot be used. */
  async function bringUpToDate(row: ConnectionRow, input: ConnectionInput, origin: Origin): Promise<ConnectionView> {
    const sameSecret = (await keptSecret(row))?.reveal() === input.clientSecret;
    const generation = sameSecret ? row.generation : row.generation + 1;
    const secretSealed = sameSecret ? {} : await secretColumn(row.id, generation, input.clientSecret);
    const changed = await db.transaction(async (tx) => {
      if (origin === "environment" && row.clientId !== input.clientId) await eraseOrRefuse(tx, system, row, true);
      if (!sameSecret) await tryAgain(tx, system, row);
      return tx.connection.update({ where: { id: row.id }, data: { ...columns(input), ...secretSealed, generation } });
    });
    return view(changed);
  }

  /** Null also where it does not open: the one that is given takes its place. */
  async function keptSecret(row: ConnectionRow): Promise<Secret | null> {
    try {
      return (await deps.targets.targetOf(row)).clientSecret;
    } catch (thrown) {
      if (thrown instanceof OAuthFailure && thrown.kind === "misconfigured") return null;
      throw thrown;
    }
  }

  async function create(actor: Principal, input: ConnectionInput, origin: Origin): Promise<ConnectionView> {
    check(input, refusesFor(origin));
    const connector = deps.registry.get(input.connector);
    const id = newId<ConnectionId>(clock, "conn");
    // Sealing makes a data key, which a name that is taken would leave behind; the index decides between two at once.
    if (await db.prisma.connection.findUnique({ where: { name: input.name }, select: { id: true } })) throw new OutbandError("already_exists");
    await sealer.prepare(id);
    const clientSecretSealed = await secretColumn(id, 1, input.clientSecret);
    try {
      const row = await db.transaction(async (tx) => {
        const made = await tx.connection.create({
          data: {
            ...columns(input),
            ...clientSecretSealed,
            id,
            name: input.name,
            connector: input.connector,
            title: input.title ?? connector?.title ?? input.name,
            origin,
            createdAt: clock.date(),
          },
        });
        await audit(tx, actor, "connection.created", input.name, []);
        return made;
      });
      return view(row);
    } catch (thrown) {
      if (isUniqueViolation(thrown)) throw new OutbandError("already_exists");
      throw thrown;
    }
  }

  async function need(name: string): Promise<ConnectionRow> {
    const row = await db.prisma.connection.findUnique({ where: { name } });
    if (!row) throw new OutbandError("not_found");
    return row;
  }

  async function secretColumn(id: string, generation: number, value: string | undefined): Promise<{ clientSecretSealed?: Uint8Array<ArrayBuffer> }> {
    if (value === undefined) return {};
    return { clientSecretSealed: await deps.targets.sealClientSecret({ id, generation }, new Secret(value)) };
  }

  /** Contract 7: with accounts on it, another client or host is refused, or every credential is erased first. */
  async function eraseOrRefuse(tx: Tx, actor: Principal, row: ConnectionRow, reset: boolean): Promise<void> {
    await takeBackStarts(tx, row);
    await eraseWaiting(tx, actor, row, reset);
    const accounts = await tx.connectedAccount.findMany({ where: { connectionId: row.id, accessSealed: { not: null } } });
    if (accounts.length === 0) return;
    if (!reset) throw new OutbandError("connection_in_use");
    for (const account of accounts) {
      const done = await transition(tx, {
        account,
        act: "connection_changed",
        reason: "connection_changed",
        audit: { category: "token_lifecycle", action: "account.erased", actor, outcome: "connection_changed" },
      });
      if (!done) throw new OutbandError("unavailable");
    }
  }

  /** A code that is on its way was made for the old client: who is at the provider now begins again from the same link. */
  async function takeBackStarts(tx: Tx, row: ConnectionRow): Promise<void> {
    const link = { connectionId: row.id, settledAt: null };
    await tx.authorizationLink.updateMany({
      where: { ...link, status: "started", exchangedAt: null },
      data: { status: "open", startedAt: null, stateHash: null, browserHash: null, flowSealed: null },
    });
    if ((await tx.authorizationLink.count({ where: { ...link, exchangedAt: { not: null }, grantSealed: null } })) > 0) throw new OutbandError("unavailable", { retryAfterS: 5 });
  }

  /** Grants that wait on links are credentials too; what is still on its way back cannot be given back under another client or at another host. */
  async function eraseWaiting(tx: Tx, actor: Principal, row: ConnectionRow, reset: boolean): Promise<void> {
    const held = { connectionId: row.id, grantSealed: { not: null } };
    if (!reset && (await tx.authorizationLink.count({ where: { ...held, settledAt: null } })) > 0) throw new OutbandError("connection_in_use");
    await endLinks(tx, clock, held, { actor, reason: "connection_changed" });
    await tx.authorizationLink.updateMany({ where: held, data: GRANT_GONE });
    await eraseFarewells(tx, actor, row, "connection_changed");
  }

  async function tryAgain(tx: Tx, actor: Principal, row: ConnectionRow): Promise<void> {
    const accounts = await tx.connectedAccount.findMany({
      where: { connectionId: row.id, status: "ERROR", statusReason: { in: [...OPERATOR_REASONS] } },
    });
    for (const account of accounts) {
      await transition(tx, {
        account,
        act: "client_mended",
        reason: null,
        onlyFromReasons: [...OPERATOR_REASONS],
        audit: { category: "token_lifecycle", action: "account.tried_again", actor, outcome: "ok" },
      });
    }
  }

  async function removeRow(actor: Principal, row: ConnectionRow, disconnect: boolean): Promise<void> {
    const accounts = await db.prisma.connectedAccount.findMany({ where: { connectionId: row.id }, select: { id: true } });
    if (accounts.length > 0 && !disconnect) throw new OutbandError("connection_in_use");
    for (const account of accounts) await deps.removeAccount(actor, account.id);
    try {
      await db.transaction(async (tx) => {
        // Each was tried once, when its account was disconnected: with the client secret and the data key nobody could any more.
        await eraseFarewells(tx, actor, row, "connection_deleted");
        await tx.connection.delete({ where: { id: row.id } });
        // Without its data key, whatever is left of it in a backup of rows alone stays closed.
        await tx.dataKey.deleteMany({ where: { scope: row.id } });
        await audit(tx, actor, "connection.deleted", row.name, []);
      });
    } catch (thrown) {
      // Somebody made an account meanwhile, or deleted the connection.
      if (isStillReferred(thrown)) throw new OutbandError("connection_in_use");
      if (isMissing(thrown)) throw new OutbandError("not_found");
      throw thrown;
    }
    sealer.forget(row.id);
  }

  async function audit(tx: Tx, actor: Principal, action: string, connectionName: string, fields: string[]): Promise<void> {
    await recordAudit(tx, { category: "administration", action, actor, connectionName, outcome: "ok", detail: { fields } });
  }

  function refusesFor(origin: Origin): (url: string) => string | null {
    return origin === "sandbox" ? anyAddress : deps.refusesUrl;
  }

  function check(input: ConnectionInput, refuses: (url: string) => string | null): void {
    const problems: { path: string; message: string }[] = [];
    if (!NAME.test(input.name)) problems.push({ path: "name", message: "Small letters, digits, _ and -, starting with a letter, 32 at most." });
    if (!deps.registry.get(input.connector)) problems.push({ path: "connector", message: "There is no such connector." });
    else {
      const shape = { connector: input.connector, endpoints: input.endpoints ?? {}, settings: input.settings ?? {}, scopes: input.scopes ?? [] };
      problems.push(...deps.registry.check(shape, refuses));
    }
    if (problems.length > 0) throw new OutbandError("invalid_request", { problems });
  }

  function view(row: ConnectionRow): ConnectionView {
    const connector = deps.targets.connectorOf(row);
    return {
      id: row.id as ConnectionId,
      name: row.name,
      connector: row.connector,
      title: row.title,
      method: connector.method.kind,
      clientId: row.clientId,
      hasClientSecret: row.clientSecretSealed !== null,
      scopes: row.scopes,
      endpoints: row.endpoints as Record<string, string>,
      settings: row.settings as Record<string, unknown>,
      requestAllow: row.requestAllow as { method: string; path_prefix: string }[],
      enabled: row.enabled,
      origin: row.origin as Origin,
      sandbox: row.origin === "sandbox",
      redirectUri: redirectUri(deps.publicUrl, row.name),
      createdAt: row.createdAt,
      updatedAt: row.updatedAt,
    };
  }
}

/** The sandbox listens on loopback, whatever the settings say about the network. */
function anyAddress(): null {
  return null;
}

function sameEntries(a: Record<string, string>, b: Record<string, string>): boolean {
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...names].every((name) => a[name] === b[name]);
}

function asInput(row: ConnectionRow): ConnectionInput {
  return {
    name: row.name,
    connector: row.connector,
    title: row.title,
    clientId: row.clientId ?? undefined,
    scopes: row.scopes,
    endpoints: row.endpoints as Record<string, string>,
    settings: row.settings as Record<string, unknown>,
    enabled: row.enabled,
  };
}

function columns(change: Partial<ConnectionInput>) {
  return {
    ...(change.title === undefined ? {} : { title: change.title }),
    ...(change.clientId === undefined ? {} : { clientId: change.clientId }),
    ...(change.scopes === undefined ? {} : { scopes: change.scopes }),
    ...(change.endpoints === undefined ? {} : { endpoints: change.endpoints }),
    ...(change.settings === undefined ? {} : { settings: change.settings as object }),
    ...(change.enabled === undefined ? {} : { enabled: change.enabled }),
    ...(change.requestAllow === undefined ? {} : { requestAllow: change.requestAllow }),
  };
}

function defined<T extends object>(value: T): Partial<T> {
  return Object.fromEntries(Object.entries(value).filter(([, item]) => item !== undefined)) as Partial<T>;
}
