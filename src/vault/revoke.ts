// Giving a grant back at the provider. Never blocks an act of ours: what we decided is committed before, with the tokens put
// down (farewell.ts) in the same transaction; then the provider is asked, and again by the sweeper of any instance, for a
// day. Must never happen: one account's farewell that ends another account of the same upstream person, or the same person's
// next one; a grant that nobody holds forgotten because a provider, or this process, was down for a moment.
import type { Clock } from "../clock.js";
import type { OAuthClient } from "../connectors/methods/oauth.js";
import { type Sealer, UnreadableError } from "../crypto/seal.js";
import type { Database, Tx } from "../db/client.js";
import type { Principal } from "../identity/principal.js";
import type { Log } from "../log.js";
import { type ClaimedFarewell, createFarewells, type Farewell, type Leaver, recordReturn, type Tokens } from "./farewell.js";
import { holdInMemory } from "./farewellMemory.js";
import { createLook, type Look } from "./sharedGrant.js";
import type { AccountRow, ConnectionRow } from "./store.js";
import type { Targets } from "./target.js";

export type RevokeEnd = "done" | "failed" | "kept_shared" | "not_possible";

const SYSTEM: Principal = { kind: "system" };
/** Providers that hang are waited for side by side, and a pass is over before the next one is due. */
const AT_ONCE = 4;
const PASS_MS = 20_000;
/** So many failures of one connection in a pass, and the rest of its rows wait for the next: a provider that hangs holds up no other's. */
const FAILURES_MOST = 8;

export interface Revoker {
  /** Before the act that erases the tokens. Null: there is nothing that its provider would take back. */
  prepare(account: AccountRow, tokens: Tokens, externalId: string | null): Promise<Farewell | null>;
  /** In that act's transaction. */
  putDown(tx: Tx, farewell: Farewell): Promise<void>;
  /** After its commit: the first try. Never throws. */
  giveBack(actor: Principal, account: AccountRow, farewell: Farewell | null, tokens: Tokens): Promise<RevokeEnd>;
  /** A grant that no row holds: at once, else put down for the sweeper. Never throws. `before`: what a look said when the grant was new. */
  revoke(actor: Principal, account: AccountRow, tokens: Tokens, externalId: string | null, before?: Look): Promise<RevokeEnd>;
  /** Never throws. */
  look(account: AccountRow, externalId: string | null): Promise<Look>;
  /** What is due, within a bounded time. */
  sweep(): Promise<void>;
  close(): Promise<void>;
}

export interface RevokerDeps {
  db: Database;
  clock: Clock;
  log: Log;
  sealer: Sealer;
  oauth: Pick<OAuthClient, "revoke">;
  targets: Pick<Targets, "connectorOf" | "targetOf">;
}

export function createRevoker(deps: RevokerDeps): Revoker {
  const { db, clock, log } = deps;
  const farewells = createFarewells(deps);
  const look = createLook(deps);
  const memory = holdInMemory(deps);

  return {
    async prepare(account, tokens, externalId) {
      return isReturnable(account.connection, tokens) ? farewells.seal(leaverOf(account, externalId), tokens) : null;
    },

    putDown: (tx, farewell) => farewells.putDown(tx, farewell),

    async giveBack(actor, account, farewell, tokens) {
      const end = farewell ? await attempt(account.connection, farewell, tokens, await look(farewell, false)) : "not_possible";
      await settle(actor, account.connection, leaverOf(account, null), end, farewell?.id ?? null);
      return end;
    },

    async revoke(actor, account, tokens, externalId, before = "unknown") {
      const leaver = leaverOf(account, externalId);
      const now = await look(leaver, false);
      const end = await attempt(account.connection, leaver, tokens, now === "unknown" ? before : now);
      if (end === "failed") await memory.until(leaver, () => putAway(leaver, tokens));
      await settle(actor, account.connection, leaver, end, null);
      return end;
    },

    look: (account, externalId) => look(leaverOf(account, externalId), false),

    async sweep() {
      const untilMs = clock.monotonic() + PASS_MS;
      const failures = new Map<string, number>();
      const down = (): string[] => [...failures].filter(([, count]) => count >= FAILURES_MOST).map(([connectionId]) => connectionId);
      const work = async (): Promise<void> => {
        while (clock.monotonic() < untilMs) {
          const due = await farewells.claim(down());
          if (!due) return;
          const end = await tryAgain(due).catch((cause: unknown): RevokeEnd => {
            log.warn("a grant on its way back could not be looked at", { account_id: due.accountId, cause });
            return "failed";
          });
          if (end === "failed") failures.set(due.connectionId, (failures.get(due.connectionId) ?? 0) + 1);
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, work));
    },

    close: memory.close,
  };

  function isReturnable(connection: ConnectionRow, { access, refresh }: Tokens): boolean {
    if (!access && !refresh) return false;
    const { method } = deps.targets.connectorOf(connection);
    return method.kind === "oauth" && method.revoke !== null;
  }

  async function attempt(connection: ConnectionRow, leaver: Leaver, tokens: Tokens, seen: Look): Promise<RevokeEnd> {
    try {
      if (!isReturnable(connection, tokens)) return "not_possible";
      if (seen === "shared") return "kept_shared";
      // Nobody can tell whether an account lives on it, or will in a moment. A grant left alive is in nobody's hands, and is
      // asked about again; one that is ended takes accounts that work with it.
      if (seen !== "alone") return "failed";
      return await deps.oauth.revoke(await deps.targets.targetOf(connection), tokens);
    } catch (cause) {
      log.warn("a grant could not be revoked at its provider", { account_id: leaver.accountId, cause });
      return "failed";
    }
  }

  /** A first failure is told, for the operator to see; the next rows say how it ended. */
  async function settle(actor: Principal, connection: ConnectionRow, leaver: Leaver, end: RevokeEnd, farewellId: string | null): Promise<void> {
    const row = { ...toldOf(leaver), actor, connectionName: connection.name };
    const write = async (): Promise<void> => {
      if (end === "failed") return recordReturn(db.prisma, { ...row, outcome: "failed", reason: "will_be_tried_again" });
      if (farewellId === null) return recordReturn(db.prisma, { ...row, outcome: wordOf(end) });
      await db.transaction(async (tx) => {
        // Another instance has asked as well, because this one took so long: it has told the end.
        if (await farewells.erase(tx, farewellId)) await recordReturn(tx, { ...row, outcome: wordOf(end) });
      });
    };
    await write().catch((cause: unknown) => log.error("the outcome of a revocation could not be recorded", { account_id: leaver.accountId, cause }));
  }

  /** One more try, claimed. */
  async function tryAgain(due: ClaimedFarewell): Promise<RevokeEnd> {
    const connection = await db.prisma.connection.findUnique({ where: { id: due.connectionId } });
    // With its connection the row has gone too.
    if (!connection) return "not_possible";
    const tokens = await farewells.open(due).catch((thrown: unknown) => {
      if (thrown instanceof UnreadableError) return null;
      throw thrown;
    });
    const end = tokens ? await attempt(connection, due, tokens, await look(due, true)) : "not_possible";
    if (end === "failed" && !due.isLastTry) return end;
    await db.transaction(async (tx) => {
      if (!(await farewells.erase(tx, due.id))) return;
      const row = { ...toldOf(due), actor: SYSTEM, connectionName: connection.name, outcome: wordOf(end), detail: { tries: due.tries } };
      await recordReturn(tx, end === "failed" ? { ...row, reason: "given_up" } : row);
    });
    if (end === "failed") log.error("a grant was given up: its provider has not taken it back within a day", { account_id: due.accountId });
    return end;
  }

  /** For a grant that no act put down. */
  async function putAway(leaver: Leaver, tokens: Tokens): Promise<void> {
    // Sealing would make a data key for a connection that is gone.
    if (!(await db.prisma.connection.findUnique({ where: { id: leaver.connectionId }, select: { id: true } }))) return;
    await farewells.putDown(db.prisma, await farewells.seal(leaver, tokens));
  }
}

function leaverOf(account: AccountRow, externalId: string | null): Leaver {
  return { connectionId: account.connectionId, accountId: account.id, identifier: account.identifier, externalId };
}

function toldOf({ accountId, identifier }: Leaver): { accountId: string; identifier: string } {
  return { accountId, identifier };
}

function wordOf(end: RevokeEnd): string {
  return end === "done" ? "ok" : end;
}
