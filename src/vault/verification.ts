// The app check (contract 5.7): people who have no sign-in here. What they granted waits sealed on the link until the app's
// server says whose it is; the right answer moves it to the account, anything else gives it back at the provider.
// Must never happen: a grant on an account whose person the app did not confirm; a grant that is neither kept nor given
// back; the code anywhere but in the way back to the app (its hash alone is stored).
import { createHmac } from "node:crypto";
import { recordAudit } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import type { ExternalAccount } from "../connectors/connector.js";
import { Secret } from "../crypto/secret.js";
import { type Sealer, UnreadableError } from "../crypto/seal.js";
import { hashToken, sameText } from "../crypto/tokens.js";
import type { Database, Tx } from "../db/client.js";
import type { Prisma } from "../db/generated/client.js";
import { OutbandError } from "../errors.js";
import type { ApiKeyPrincipal, Principal } from "../identity/principal.js";
import type { Log } from "../log.js";
import { transition } from "./account.js";
import { appendAccountEvent } from "./accountEvents.js";
import { decodeAccess, encodeAccess } from "./credential.js";
import type { LinkFailure, LinkOutcome, LinksDoor } from "./front.js";
import { type Grant, type Keeper, stored, tellPending, tokensOf } from "./keep.js";
import { GRANT_GONE, hasLapsed, isHeld, type LinkBook, type LinkRow, WITH_ACCOUNT } from "./link.js";
import type { Revoker } from "./revoke.js";
import type { Settlement } from "./settlement.js";

/** Contract 5.7: the app's time to answer. */
const ANSWER_WITHIN_MS = 5 * 60_000;
/**
 * Nobody guesses 256 bits: tries are for an app that passes on a cut or an old address, as from two tabs. One would let
 * whoever learns a link's id end it; many would leave a stranger's grant with an app that does not work.
 */
const CODE_TRIES_AT_MOST = 3;
const BATCH = 200;

const SYSTEM: Principal = { kind: "system" };

export interface AppCheck {
  /** The grant waits. Given back, when it cannot be stored or the link has ended meanwhile. */
  hold(link: LinkRow, grant: Grant, code: Secret): Promise<LinkOutcome>;
  verify: LinksDoor["verify"];
  /** Once: gives back the grant of a link that has settled without it. Does not throw for a provider that is down: see revoke.ts. */
  giveBack(linkId: string): Promise<void>;
  /** Ends what nobody answered, and gives back what a crash left on a settled link. */
  sweep(): Promise<void>;
}

export interface AppCheckDeps {
  db: Database;
  clock: Clock;
  log: Log;
  sealer: Sealer;
  book: LinkBook;
  keeper: Keeper;
  revoker: Revoker;
  settlement: Settlement;
  /** Whether this is a person of this installation who may not act any more. */
  isShutOut(identifier: string): Promise<boolean>;
}

export function createAppCheck(deps: AppCheckDeps): AppCheck {
  const { db, clock, book, keeper } = deps;

  async function verify(actor: ApiKeyPrincipal, id: string, answer: { code: string; identifier: string }) {
    const link = await ownLink(actor, id);
    if (link.settledAt !== null) throw gone(link);
    if (!isHeld(link)) throw notYet(link, clock.now());
    if (hasLapsed(link, clock.now())) throw await failed(link, "no_answer", SYSTEM);
    // The code first: who does not hold it cannot end the wait by naming somebody.
    if (link.codeHash === null || !sameText(hashToken(new Secret(answer.code)), link.codeHash)) throw await refusedCode(link, actor);
    if (answer.identifier !== link.identifier) {
      await fail(link, "wrong_identifier", actor);
      throw new OutbandError("verification_failed", { reason: "wrong_identifier" });
    }
    if (!link.account.connection.enabled) throw new OutbandError("forbidden", { reason: "connection_disabled" });
    if (await deps.isShutOut(link.identifier)) {
      await fail(link, "shut_out", actor);
      throw new OutbandError("unknown_identifier");
    }
    return move(link, actor);
  }

  /** The same words for another key's link and for one that does not exist. */
  async function ownLink(actor: ApiKeyPrincipal, id: string): Promise<LinkRow> {
    const link = await book.byId(id);
    if (!link || link.apiKeyId !== actor.keyId) throw new OutbandError("not_found");
    if (link.verification === "app") return link;
    throw new OutbandError("invalid_request", { message: "This link is verified by the person's sign-in, not by an app." });
  }

  async function move(link: LinkRow, actor: ApiKeyPrincipal) {
    const grant = await openGrant(link);
    if (!grant) throw await failed(link, "unreadable", actor);
    const end = await keeper.store(link, actor, grant, (tx) => audit(tx, link, actor, "link.verified", "ok"));
    switch (end.kind) {
      case "stored":
        await deps.settlement.announce(link.id, link.accountId);
        return book.view((await book.byId(link.id)) ?? link);
      case "wrong_identity":
        await fail(link, "wrong_identity", actor, "wrong_identity");
        throw new OutbandError("wrong_upstream_identity");
      case "settled":
        throw gone((await book.byId(link.id)) ?? link);
      case "conflict":
        // Nothing was written, and the grant still waits.
        throw new OutbandError("unavailable", { retryAfterS: 1 });
      default:
        return end satisfies never;
    }
  }

  async function refusedCode(link: LinkRow, actor: Principal): Promise<OutbandError> {
    const tries = await db.transaction(async (tx) => {
      const counted = await tx.authorizationLink.updateMany({ where: { id: link.id, settledAt: null }, data: { codeTries: { increment: 1 } } });
      if (counted.count !== 1) return 0;
      await audit(tx, link, actor, "link.verification_refused", "wrong_code");
      return (await tx.authorizationLink.findUniqueOrThrow({ where: { id: link.id }, select: { codeTries: true } })).codeTries;
    });
    if (tries >= CODE_TRIES_AT_MOST) await fail(link, "wrong_code", actor);
    return new OutbandError("verification_failed", { reason: "wrong_code" });
  }

  /** Settled first, so that no answer finds it any more; then given back. Whoever else settled it meanwhile was first. */
  async function fail(link: LinkRow, reason: string, actor: Principal, failure: LinkFailure = "not_verified"): Promise<void> {
    await keeper.settleFailed(link, failure, reason, actor);
    await giveBack(link.id);
  }

  async function failed(link: LinkRow, reason: string, actor: Principal): Promise<OutbandError> {
    await fail(link, reason, actor);
    return gone((await book.byId(link.id)) ?? link);
  }

  async function hold(link: LinkRow, grant: Grant, code: Secret): Promise<LinkOutcome> {
    // As in keep(): once the database is away, nobody can tell any more.
    const before = await deps.revoker.look(link.account, externalIdOf(link, grant));
    const held = await stored(deps, () => writeHeld(link, grant, code)).catch((cause: unknown) => {
      deps.log.error("a grant could not be stored", { link_id: link.id, cause });
      return null;
    });
    // Nobody who waits for the account is woken yet.
    if (held === true) return { kind: "awaits_app", link: book.view((await book.byId(link.id)) ?? link), code, repeated: false };
    await deps.revoker.revoke(SYSTEM, link.account, tokensOf(grant), externalIdOf(link, grant), before);
    return held === null ? keeper.settleUnkept(link, "not_stored", "not_stored", SYSTEM) : keeper.lost(link);
  }

  /** False: the link has settled meanwhile, or is gone. */
  async function writeHeld(link: LinkRow, grant: Grant, code: Secret): Promise<boolean> {
    const grantSealed = await deps.sealer.seal(link.connectionId, grantPlace(link.id), encodeGrant(grant));
    return db.transaction(async (tx) => {
      const written = await tx.authorizationLink.updateMany({
        where: { id: link.id, settledAt: null, exchangedAt: { not: null } },
        data: {
          reason: "awaiting_verification",
          grantSealed,
          grantExternalId: grant.external?.id ?? null,
          grantDueAt: new Date(clock.now() + ANSWER_WITHIN_MS),
          codeHash: hashToken(code),
          flowSealed: null,
          tokenSealed: null,
        },
      });
      if (written.count !== 1) return false;
      await tellWaiting(tx, link);
      return true;
    });
  }

  /** An account that was never usable says that it waits; any other stays what it was, and an event tells of the link. */
  async function tellWaiting(tx: Tx, link: LinkRow): Promise<void> {
    const account = await tx.connectedAccount.findUniqueOrThrow({ where: { id: link.accountId }, select: { id: true, generation: true } });
    const row = await transition(tx, {
      account,
      act: "awaits_app",
      reason: "awaiting_verification",
      audit: { category: "authorization", action: "link.awaits_verification", actor: SYSTEM, linkId: link.id, outcome: "ok" },
    });
    if (row) return;
    await appendAccountEvent(tx, { accountId: link.accountId, type: "connected_account.updated", more: { link_id: link.id, link_status: "started", link_reason: "awaiting_verification" } });
    await audit(tx, link, SYSTEM, "link.awaits_verification", "ok");
  }

  async function giveBack(linkId: string): Promise<void> {
    const link = await book.byId(linkId);
    if (!link?.grantSealed || link.settledAt === null) return;
    const grant = await openGrant(link);
    const tokens = grant ? tokensOf(grant) : { access: null, refresh: null };
    const farewell = await deps.revoker.prepare(link.account, tokens, grant && externalIdOf(link, grant));
    const isOurs = await db.transaction(async (tx) => {
      // Of several instances one takes it from the link.
      const taken = await tx.authorizationLink.updateMany({ where: { id: link.id, settledAt: { not: null }, grantSealed: { not: null } }, data: GRANT_GONE });
      if (taken.count !== 1) return false;
      if (farewell) await deps.revoker.putDown(tx, farewell);
      return true;
    });
    if (isOurs) await deps.revoker.giveBack(SYSTEM, link.account, farewell, tokens);
  }

  /** Null: it does not open any more. */
  async function openGrant(link: LinkRow): Promise<Grant | null> {
    try {
      return link.grantSealed ? decodeGrant(await deps.sealer.open(link.connectionId, grantPlace(link.id), link.grantSealed)) : null;
    } catch (thrown) {
      if (thrown instanceof UnreadableError) return null;
      throw thrown;
    }
  }

  return {
    hold,
    verify,
    giveBack,
    async sweep() {
      const due = await db.prisma.authorizationLink.findMany({
        where: { grantDueAt: { lte: clock.date() }, grantSealed: { not: null } },
        include: WITH_ACCOUNT,
        orderBy: { grantDueAt: "asc" },
        take: BATCH,
      });
      for (const link of due) {
        if (link.settledAt === null) await fail(link, "no_answer", SYSTEM);
        else await giveBack(link.id);
      }
    },
  };
}

/**
 * The verification code, for one answer of the provider in one browser: a callback that the browser sends again (its
 * connection broke, we were restarted) leads to the same redirect, although the hash alone is stored. Neither the cookie nor
 * the provider's code gives it: who planted his own cookie in another's browser does not learn the code that went to it.
 */
export function codeOf(linkId: string, browser: string, providerCode: string): Secret {
  return new Secret(createHmac("sha256", browser).update(JSON.stringify(["outband.verification.v1", linkId, providerCode])).digest("base64url"));
}

/**
 * Ends links inside an act that takes their account, their connection or their person away. What waits on them is given back afterwards,
 * or erased: the grant of a client that has changed goes to nobody. Gives the links that it ended.
 */
export async function endLinks(
  tx: Tx,
  clock: Clock,
  where: Prisma.AuthorizationLinkWhereInput,
  act: { actor: Principal; reason: "disconnected" | "connection_changed" | "shut_out" },
): Promise<{ id: string; accountId: string }[]> {
  const erases = act.reason === "connection_changed";
  const links = await tx.authorizationLink.findMany({ where: { ...where, settledAt: null }, include: WITH_ACCOUNT, orderBy: { id: "asc" } });
  const ended: LinkRow[] = [];
  for (const link of links) {
    const now = clock.date();
    const settled = await tx.authorizationLink.updateMany({
      where: { id: link.id, settledAt: null },
      data: { status: "failed", reason: act.reason, settledAt: now, flowSealed: null, tokenSealed: null, codeHash: null, ...(erases ? GRANT_GONE : link.grantSealed ? { grantDueAt: now } : {}) },
    });
    if (settled.count !== 1) continue;
    await audit(tx, link, act.actor, "link.failed", act.reason);
    ended.push(link);
  }
  // After a disconnect the account says it all.
  for (const link of act.reason === "disconnected" ? [] : ended) if (link.grantSealed) await tellPending(tx, link, "not_verified", act.actor);
  return ended;
}

const externalIdOf = (link: LinkRow, grant: Grant): string | null => grant.external?.id ?? link.account.externalId;

const grantPlace = (id: string) => ({ table: "authorization_link", row: id, field: "grant", generation: 0 });

function encodeGrant({ credential, scopes, tokenExpiresAt, external }: Grant): string {
  return JSON.stringify({ access: encodeAccess(credential.access), refresh: credential.refresh?.reveal() ?? null, scopes, tokenExpiresAt, external });
}

function decodeGrant(opened: Secret): Grant {
  const grant = JSON.parse(opened.reveal()) as { access: string; refresh: string | null; scopes: string[]; tokenExpiresAt: string | null; external: ExternalAccount | null };
  return {
    credential: { access: decodeAccess(new Secret(grant.access)), refresh: grant.refresh === null ? null : new Secret(grant.refresh) },
    scopes: grant.scopes,
    tokenExpiresAt: grant.tokenExpiresAt === null ? null : new Date(grant.tokenExpiresAt),
    external: grant.external,
  };
}

function audit(tx: Tx, link: LinkRow, actor: Principal, action: string, outcome: string): Promise<void> {
  const { identifier, accountId, account, id } = link;
  return recordAudit(tx, { category: "authorization", action, actor, identifier, connectionName: account.connection.name, accountId, linkId: id, outcome });
}

/** How it ended, for an app that did not hear it the first time. */
function gone(link: LinkRow): OutbandError {
  return new OutbandError("link_gone", { reason: link.status === "completed" ? "completed" : (link.reason?.split(":")[0] ?? link.status) });
}

function notYet(link: LinkRow, nowMs: number): OutbandError {
  if (link.exchangedAt === null && link.expiresAt.getTime() <= nowMs) return new OutbandError("link_gone", { reason: "link_expired" });
  return new OutbandError("not_connected", { reason: "awaiting_user", message: "The person has not finished yet: nothing waits for an answer." });
}
