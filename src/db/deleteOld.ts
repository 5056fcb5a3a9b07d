// Old rows go in batches: a million of them in one statement would run into the limit on a statement (10 s) at each pass, and
// none would ever go. Must never happen: a table or a condition from outside; a row that was renewed meanwhile deleted.
import type { Database } from "./client.js";

const BATCH_ROWS = 5_000;
/** A pass per minute: 144 million rows a day. Between two batches others get their turn, on the embedded database too. */
const BATCHES_MOST = 20;

/** Written in the code alone; `where` may name the row `old`, and has its values as $2 and on. */
export interface OldRows {
  name: string;
  table: string;
  key: string;
  where: string;
}

export interface BatchLimits {
  rows?: number;
  batches?: number;
}

/** How many went; with limits of the next pass there may be more. */
export async function deleteOld(db: Pick<Database, "query">, what: OldRows, values: unknown[], limits: BatchLimits = {}): Promise<number> {
  const { rows = BATCH_ROWS, batches = BATCHES_MOST } = limits;
  const statement = { name: `delete_old_${what.name}`, text: textOf(what) };
  let gone = 0;
  for (let batch = 0; batch < batches; batch += 1) {
    const [answer] = await db.query<{ count: number }>(statement, [rows, ...values]);
    const count = answer?.count ?? 0;
    gone += count;
    if (count < rows) break;
  }
  return gone;
}

/**
 * The look is materialized, because a plan that ran it again would take more than a batch. The condition stands twice: what
 * somebody renewed between the look and the deletion does not meet it any more. Rows that another instance is at are left to it.
 */
function textOf({ table, key, where }: OldRows): string {
  return `with picked as materialized (select ${key} from ${table} old where ${where} limit $1 for update skip locked),
      gone as (delete from ${table} old where (${key}) in (select ${key} from picked) and ${where} returning 1)
    select count(*)::int as count from gone`;
}
