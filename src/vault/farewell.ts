// Grants on their way back to the provider, as rows: what an act took from an account, sealed anew at a place of its own, until
// it is known what became of it. Due times are the database's clock, so that of several instances one asks. Must never
// happen: tokens in the clear; a row that goes without an audit row that says why; two who hold the same try.
import { recordAudit } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import { Secret } from "../crypto/secret.js";
import type { Sealer } from "../crypto/seal.js";
import type { Database, Tx } from "../db/client.js";
import { newId } from "../ids.js";
import type { Principal } from "../identity/principal.js";

/** The first one, of whoever put it down, and the shortest pause between two: longer than all that a provider is waited for. */
const TRY_S = 60;
const GIVEN_UP_AFTER_S = 24 * 3600;

export interface Tokens {
  access: Secret | null;
  refresh: Secret | null;
}

/** Whose grant it was. */
export interface Leaver {
  connectionId: string;
  accountId: string;
  identifier: string;
  externalId: string | null;
}

export interface Farewell extends Leaver {
  id: string;
  tokensSealed: Uint8Array<ArrayBuffer>;
}

export interface ClaimedFarewell extends Leaver {
  id: string;
  tokensSealed: Uint8Array;
  /** By the sweeper, this one included. */
  tries: number;
  isLastTry: boolean;
}

/** `given_up`: a day of failures. The others: the client that could have given it back is gone, or is another one. */
export type UnreturnedReason = "given_up" | "connection_changed" | "connection_deleted";

export interface Farewells {
  /** Before the transaction: inside one, the embedded database would wait for itself. */
  seal(leaver: Leaver, tokens: Tokens): Promise<Farewell>;
  /** The first try belongs to the caller, after the commit. */
  putDown(tx: Pick<Tx, "$executeRaw">, farewell: Farewell): Promise<void>;
  /** The longest due of other connections than these, for one caller alone; the next try is set ahead, as far as the row is old. Null: none is due. */
  claim(except: readonly string[]): Promise<ClaimedFarewell | null>;
  /** Throws UnreadableError. */
  open(farewell: ClaimedFarewell): Promise<Tokens>;
  /** False: somebody else ended it. */
  erase(tx: Tx, id: string): Promise<boolean>;
}

export function createFarewells({ db, clock, sealer }: { db: Database; clock: Clock; sealer: Sealer }): Farewells {
  return {
    async seal(leaver, { access, refresh }) {
      const id = newId(clock, "fw");
      const text = JSON.stringify({ access: access?.reveal() ?? null, refresh: refresh?.reveal() ?? null });
      return { ...leaver, id, tokensSealed: await sealer.seal(leaver.connectionId, place(id), text) };
    },

    async putDown(tx, { id, connectionId, accountId, identifier, externalId, tokensSealed }) {
      await tx.$executeRaw`insert into farewell (id, connection_id, account_id, identifier, external_id, tokens_sealed, due_at, created_at)
        values (${id}, ${connectionId}, ${accountId}, ${identifier}, ${externalId}, ${tokensSealed}, now() + make_interval(secs => ${TRY_S}), now())`;
    },

    async claim(except) {
      const [row] = await db.query<ClaimedRow>(CLAIM, [TRY_S, GIVEN_UP_AFTER_S, except]);
      if (!row) return null;
      return {
        id: row.id,
        connectionId: row.connection_id,
        accountId: row.account_id,
        identifier: row.identifier,
        externalId: row.external_id,
        tokensSealed: row.tokens_sealed,
        tries: row.tries,
        isLastTry: row.is_last_try,
      };
    },

    async open({ id, connectionId, tokensSealed }) {
      const opened = await sealer.open(connectionId, place(id), tokensSealed);
      const { access, refresh } = JSON.parse(opened.reveal()) as { access: string | null; refresh: string | null };
      return { access: access === null ? null : new Secret(access), refresh: refresh === null ? null : new Secret(refresh) };
    },

    erase: async (tx, id) => (await tx.farewell.deleteMany({ where: { id } })).count === 1,
  };
}

/** Inside the act that deletes a connection or makes it another client's: what it has not given back by now goes to nobody. */
export async function eraseFarewells(tx: Tx, actor: Principal, connection: { id: string; name: string }, reason: UnreturnedReason): Promise<void> {
  const left = await tx.farewell.findMany({ where: { connectionId: connection.id }, select: { id: true, accountId: true, identifier: true } });
  for (const { id, accountId, identifier } of left) {
    if ((await tx.farewell.deleteMany({ where: { id } })).count !== 1) continue;
    await recordReturn(tx, { actor, accountId, identifier, connectionName: connection.name, outcome: "failed", reason });
  }
}

export function recordReturn(
  target: Parameters<typeof recordAudit>[0],
  row: { actor: Principal; accountId: string; identifier: string; connectionName: string; outcome: string; reason?: UnreturnedReason | "will_be_tried_again"; detail?: { tries: number } },
): Promise<void> {
  return recordAudit(target, { category: "token_lifecycle", action: "grant.revoked_upstream", ...row });
}

const place = (id: string) => ({ table: "farewell", row: id, field: "tokens", generation: 0 });

interface ClaimedRow {
  id: string;
  connection_id: string;
  account_id: string;
  identifier: string;
  external_id: string | null;
  tokens_sealed: Buffer;
  tries: number;
  is_last_try: boolean;
}

/** Doubling, because each pause is as long as all before; the last one is cut, so that the day's end has its try. */
const CLAIM = {
  name: "farewell_claim",
  text: `update farewell
         set tries = tries + 1,
             due_at = now() + greatest(make_interval(secs => $1), least(now() - created_at, created_at + make_interval(secs => $2) - now()))
         where id = (select id from farewell where due_at <= now() and connection_id <> all($3::text[]) order by due_at limit 1 for update skip locked)
         returning id, connection_id, account_id, identifier, external_id, tokens_sealed, tries,
           created_at + make_interval(secs => $2) <= now() as is_last_try`,
};
