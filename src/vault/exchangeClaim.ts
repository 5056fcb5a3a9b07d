// A link's one exchange: who may do it, and which were never ended because their process died. Both on the database's clock,
// so that no instance with a clock of its own calls another's running exchange dead.
// Must never happen: two exchanges of one link.
import type { Database } from "../db/client.js";

/** An exchange that has not settled by then belongs to a process that died. */
const EXCHANGE_AT_MOST_S = 60;

/** `stateHash`: of the flow that came back; null: a key was typed in, without a flow. False: somebody else has it. */
export async function claimExchange(db: Pick<Database, "prisma">, linkId: string, stateHash: string | null): Promise<boolean> {
  const claimed =
    stateHash === null
      ? await db.prisma.$executeRaw`update authorization_link set exchanged_at = now(), status = 'started'
          where id = ${linkId} and exchanged_at is null and status in ('open', 'started')`
      : await db.prisma.$executeRaw`update authorization_link set exchanged_at = now()
          where id = ${linkId} and exchanged_at is null and status = 'started' and state_hash = ${stateHash}`;
  return claimed === 1;
}

/** Ids of links whose exchange died. A grant that waits for its app is not one of them. */
export async function deadExchanges(db: Pick<Database, "prisma">, atMost: number): Promise<string[]> {
  const rows = await db.prisma.$queryRaw<{ id: string }[]>`select id from authorization_link
    where settled_at is null and grant_sealed is null and exchanged_at < now() - make_interval(secs => ${EXCHANGE_AT_MOST_S})
    order by exchanged_at limit ${atMost}`;
  return rows.map(({ id }) => id);
}
