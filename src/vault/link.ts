// Authorization links: made, shared by parallel calls of one client, counted by the loop guard, read, answered.
// The token is 32 random bytes; its hash finds the row. Must never happen: a link shown again after it was answered;
// a link for somebody else's account; a token in clear in the database.
import { recordAudit } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import { Secret } from "../crypto/secret.js";
import type { Sealer } from "../crypto/seal.js";
import { hashToken, newToken } from "../crypto/tokens.js";
import type { Database, Tx } from "../db/client.js";
import type { AuthorizationLink } from "../db/generated/client.js";
import { OutbandError } from "../errors.js";
import { type AccountId, asIdentifier, type LinkId, newId } from "../ids.js";
import type { Principal } from "../identity/principal.js";
import { appendAccountEvent } from "./accountEvents.js";
import { accountView, type AccountRow, type ConnectionRow } from "./store.js";
import type { Targets } from "./target.js";
import { type LinkCreated, type LinkRequest, type LinkView, OPERATOR_REASONS, type Verification } from "./types.js";

/** Contract 6.1.5: links for one person, client and connection within LINK_TTL_S, whatever became of them except completed. */
const LINKS_AT_MOST = 3;
/** Calls side by side share a link; more than these are one call again and again. */
const SHOWN_AT_MOST = 8;
/** A shared link must leave its reader some time. */
const SHARED_REST_MS = 60_000;
/** Marks belong to letters: without them neither Hindi nor a decomposed accent could be written. */
const LABEL = /^(?!\p{M})[\p{L}\p{M}\p{N}\p{P}\p{S} ]{1,64}$/u;

export type LinkRow = AuthorizationLink & { account: AccountRow };

export interface LinkDeps {
  db: Database;
  clock: Clock;
  sealer: Sealer;
  targets: Targets;
  publicUrl: string;
  linkTtlS: number;
  /** Whether somebody signs in here under this identifier. */
  knowsPerson(identifier: string): Promise<boolean>;
  /** Whether somebody did, and may not any more. */
  isShutOut(identifier: string): Promise<boolean>;
}

/** Who says whose the grant is, and where the browser goes then. */
interface Terms {
  verification: Verification;
  returnTo: string | null;
  apiKeyId: string | null;
}

export const tokenPlace = (id: string) => ({ table: "authorization_link", row: id, field: "token", generation: 0 });
export const flowPlace = (id: string) => ({ table: "authorization_link", row: id, field: "flow", generation: 0 });

export function createLinkBook(deps: LinkDeps) {
  const { db, clock, sealer } = deps;

  return {
    async create(actor: Principal, request: LinkRequest): Promise<LinkCreated | "asked_too_often"> {
      const connection = await db.prisma.connection.findUnique({ where: { name: request.connectionName } });
      if (!connection) throw new OutbandError("not_found");
      if (!connection.enabled) throw new OutbandError("forbidden", { reason: "connection_disabled" });
      checkLabel(request.label);
      const terms = termsOf(actor, request);
      const isFor = terms.verification === "app" ? !(await deps.isShutOut(request.identifier)) : await deps.knowsPerson(request.identifier);
      if (!isFor) throw new OutbandError("unknown_identifier");

      const token = newToken(clock);
      const id = newId<LinkId>(clock, "lnk");
      const tokenSealed = await sealer.seal(connection.id, tokenPlace(id), token.reveal());
      const made = await db.transaction(async (tx) => {
        await lockAsker(tx, connection.id, request);
        if (request.askedBy === "mcp") {
          const shared = await sharedLink(tx, connection, request, terms);
          if (shared) return { kind: "shared" as const, link: shared };
          if ((await recentLinks(tx, connection, request)) >= LINKS_AT_MOST) return { kind: "asked_too_often" as const };
        }
        return { kind: "new" as const, link: await insert(tx, { actor, request, terms, connection, id, token, tokenSealed }) };
      });
      if (made.kind === "asked_too_often") return "asked_too_often";
      const shown = made.kind === "new" ? token : await sealer.open(connection.id, tokenPlace(made.link.id), made.link.tokenSealed as Uint8Array);
      return {
        id: made.link.id as LinkId,
        accountId: made.link.accountId as AccountId,
        url: `${deps.publicUrl}/connect/${shown.reveal()}`,
        expiresAt: made.link.expiresAt,
      };
    },

    async byToken(token: string): Promise<LinkRow | null> {
      if (!/^[\w-]{20,100}$/.test(token)) return null;
      return db.prisma.authorizationLink.findUnique({ where: { tokenHash: hashToken(token) }, include: WITH_ACCOUNT });
    },

    async byId(id: string): Promise<LinkRow | null> {
      return db.prisma.authorizationLink.findUnique({ where: { id }, include: WITH_ACCOUNT });
    },

    async byState(state: string): Promise<LinkRow | null> {
      return db.prisma.authorizationLink.findUnique({ where: { stateHash: hashToken(new Secret(state)) }, include: WITH_ACCOUNT });
    },

    /** After an answer the link is never shown again; after a no it opens nothing any more. */
    async answered(id: LinkId, action: "accept" | "decline" | "cancel"): Promise<void> {
      const now = clock.date();
      await db.prisma.authorizationLink.updateMany({ where: { id, answeredAt: null }, data: { answeredAt: now, tokenSealed: null } });
      if (action === "accept") return;
      await db.prisma.authorizationLink.updateMany({
        where: { id, settledAt: null, exchangedAt: null },
        data: { status: "denied", reason: action === "decline" ? "declined" : "cancelled", settledAt: now, flowSealed: null },
      });
    },

    view(row: LinkRow): LinkView {
      return linkView(row, deps.targets.connectorOf(row.account.connection).method.kind, clock.now());
    },
  };

  async function insert(
    tx: Tx,
    made: { actor: Principal; request: LinkRequest; terms: Terms; connection: ConnectionRow; id: LinkId; token: Secret; tokenSealed: Uint8Array<ArrayBuffer> },
  ): Promise<AuthorizationLink> {
    const { request, terms, connection } = made;
    const account = await accountFor(tx, connection, request);
    const scopes = scopesFor(connection, account, request);
    const link = await tx.authorizationLink.create({
      data: {
        id: made.id,
        tokenHash: hashToken(made.token),
        tokenSealed: made.tokenSealed,
        accountId: account.id,
        connectionId: connection.id,
        identifier: request.identifier,
        askedBy: request.askedBy,
        clientId: request.clientId,
        clientName: request.clientName,
        apiKeyId: terms.apiKeyId,
        verification: terms.verification,
        tool: request.tool,
        scopesRequired: scopes.required,
        scopesRequested: scopes.requested,
        returnTo: terms.returnTo,
        callerState: request.callerState ?? null,
        createdAt: clock.date(),
        expiresAt: new Date(clock.now() + deps.linkTtlS * 1000),
      },
    });
    await appendAccountEvent(tx, { accountId: account.id, type: "connected_account.authorization_link_created", more: { link_id: link.id } });
    await recordAudit(tx, {
      category: "authorization",
      action: "link.created",
      actor: made.actor,
      identifier: request.identifier,
      connectionName: connection.name,
      accountId: account.id,
      linkId: link.id,
      tool: request.tool ?? undefined,
      outcome: "ok",
      detail: { asked_by: request.askedBy, scopes: scopes.requested, verification: terms.verification },
    });
    return link;
  }

  async function accountFor(tx: Tx, connection: ConnectionRow, request: LinkRequest): Promise<AccountRow> {
    const key = { connectionId: connection.id, identifier: request.identifier, label: request.label };
    const known = await tx.connectedAccount.findUnique({ where: { connectionId_identifier_label: key }, include: { connection: true } });
    if (known && known.status === "ERROR" && OPERATOR_REASONS.some((reason) => reason === known.statusReason)) {
      throw new OutbandError("provider_error", { reason: known.statusReason ?? "misconfigured", message: "Connecting again does not help: an operator must mend this connection." });
    }
    if (known) return known;
    const made = await tx.connectedAccount.create({
      data: { ...key, id: newId<AccountId>(clock, "ca"), status: "PENDING", statusReason: "awaiting_user", createdAt: clock.date() },
    });
    return appendAccountEvent(tx, { accountId: made.id, type: "connected_account.created" });
  }

  /** Required: what the asking tool needs, else the connector's minimum. Asked for: that, what the operator set, and what is granted already. */
  function scopesFor(connection: ConnectionRow, account: AccountRow, request: LinkRequest): { required: string[]; requested: string[] } {
    const connector = deps.targets.connectorOf(connection);
    const minimum = connector.scopes.filter((scope) => scope.required).map((scope) => scope.name);
    const named = request.scopesRequired ?? connector.tools.find((tool) => tool.name === request.tool)?.scopes;
    const required = unique(named && named.length > 0 ? named : minimum);
    // Nobody said for which tool: whatever may come to be needed is offered, and can be left out.
    const isForAny = request.askedBy === "page" || (request.askedBy === "mcp" && request.tool === null);
    const offered = isForAny ? connector.scopes.map((scope) => scope.name) : minimum;
    return { required, requested: unique([...offered, ...required, ...connection.scopes, ...account.scopes]) };
  }

  /** Serialises the links of one person, client and connection, so that the guard cannot be outrun by parallel calls. */
  async function lockAsker(tx: Tx, connectionId: string, request: LinkRequest): Promise<void> {
    const key = JSON.stringify([connectionId, request.identifier, request.clientId]);
    await tx.$executeRaw`select pg_advisory_xact_lock(hashtextextended(${key}, 0))`;
  }

  /** The open link that a parallel call of this client made. One that was seen, or shown many times, is not shown again: a client that drops its state would else be asked for ever. */
  async function sharedLink(tx: Tx, connection: ConnectionRow, request: LinkRequest, terms: Terms): Promise<AuthorizationLink | null> {
    const wanted = request.scopesRequired ?? [];
    const open = await tx.authorizationLink.findFirst({
      where: {
        connectionId: connection.id,
        identifier: request.identifier,
        clientId: request.clientId,
        askedBy: "mcp",
        status: { in: ["open", "started"] },
        exchangedAt: null,
        answeredAt: null,
        tokenSealed: { not: null },
        expiresAt: { gt: new Date(clock.now() + SHARED_REST_MS) },
        account: { label: request.label },
        verification: terms.verification,
        returnTo: terms.returnTo,
        ...(wanted.length > 0 ? { scopesRequested: { hasEvery: wanted } } : {}),
      },
      orderBy: { createdAt: "desc" },
    });
    if (!open) return null;
    if (!request.hasSeen && (await tx.elicitation.count({ where: { linkId: open.id } })) < SHOWN_AT_MOST) return open;
    await tx.authorizationLink.update({ where: { id: open.id }, data: { answeredAt: clock.date() } });
    return null;
  }

  async function recentLinks(tx: Tx, connection: ConnectionRow, request: LinkRequest): Promise<number> {
    return tx.authorizationLink.count({
      where: {
        connectionId: connection.id,
        identifier: request.identifier,
        clientId: request.clientId,
        askedBy: "mcp",
        status: { not: "completed" },
        createdAt: { gt: new Date(clock.now() - deps.linkTtlS * 1000) },
      },
    });
  }
}

export type LinkBook = ReturnType<typeof createLinkBook>;

export const WITH_ACCOUNT = { account: { include: { connection: true } } } as const;

/** A grant waits on it for the app's answer. */
export function isHeld(link: Pick<LinkRow, "grantSealed" | "settledAt">): boolean {
  return link.grantSealed !== null && link.settledAt === null;
}

/** The app did not answer in time; the sweeper writes it down. */
export function hasLapsed(link: Pick<LinkRow, "grantSealed" | "settledAt" | "grantDueAt">, nowMs: number): boolean {
  return isHeld(link) && link.grantDueAt !== null && link.grantDueAt.getTime() <= nowMs;
}

/** What a link is without a grant. */
export const GRANT_GONE = { grantSealed: null, grantExternalId: null, grantDueAt: null };

/** 1–64 printable characters, or the empty default (contract section 1). */
export function checkLabel(label: string): void {
  if (label === "" || (LABEL.test(label) && label.trim() === label && label !== "default")) return;
  throw new OutbandError("invalid_request", { problems: [{ path: "label", message: "1 to 64 printable characters without white space at the ends; the default label is the empty one." }] });
}

/** What the request says, else the session token that the call came with. */
function termsOf(actor: Principal, request: LinkRequest): Terms {
  const token = actor.kind === "person" ? actor.links : undefined;
  const apiKeyId = actor.kind === "api_key" ? actor.keyId : actor.kind === "person" ? actor.apiKeyId : null;
  const terms = { verification: request.verification ?? token?.verification ?? "sign_in", returnTo: request.returnTo ?? token?.returnTo ?? null, apiKeyId };
  // Without a way back to the app, and a key to answer with, nobody could ever verify it.
  if (terms.verification === "app" && (terms.returnTo === null || apiKeyId === null)) {
    throw new OutbandError("invalid_request", { problems: [{ path: "return_to", message: "A link that the app verifies needs it." }] });
  }
  return terms;
}

function linkView(row: LinkRow, method: "oauth" | "api_key", nowMs: number): LinkView {
  const open = row.status === "open" || row.status === "started";
  const account = accountView(row.account);
  const lapsed = hasLapsed(row, nowMs);
  return {
    id: row.id as LinkId,
    accountId: account.id,
    connectionName: account.connectionName,
    connectionTitle: account.connectionTitle,
    connector: account.connector,
    method,
    sandbox: account.sandbox,
    identifier: asIdentifier(row.identifier),
    label: account.label,
    askedBy: row.askedBy,
    clientName: row.clientName,
    scopesRequired: row.scopesRequired,
    scopesRequested: row.scopesRequested,
    // Time alone expires a link; the sweeper writes it down later.
    status: open && row.exchangedAt === null && row.expiresAt.getTime() <= nowMs ? "expired" : lapsed ? "failed" : row.status,
    reason: lapsed ? "not_verified:no_answer" : row.reason,
    expiresAt: row.expiresAt,
    returnTo: row.returnTo,
    callerState: row.callerState,
    verification: row.verification === "app" ? "app" : "sign_in",
  };
}

function unique(values: readonly string[]): string[] {
  return [...new Set(values)];
}
