// What the authorization server leaves behind and nobody needs: expired records, and clients that registered and were
// never let in (registration is open to all, so without this the table grows for ever).
import type { Clock } from "../clock.js";
import type { Database } from "../db/client.js";
import { deleteOld, type OldRows } from "../db/deleteOld.js";

/** Long enough for a person who registers a client on Friday and signs in on Monday week. */
export const UNUSED_CLIENT_DAYS = 14;

const RECORDS = { table: "oauth_record", key: "type, id_hash" };
const EXPIRED: OldRows = { ...RECORDS, name: "expired_records", where: "old.expires_at < $2::timestamptz" };
const UNUSED_CLIENTS: OldRows = {
  ...RECORDS,
  name: "unused_clients",
  where: `old.type = 'Client' and old.created_at < $2::timestamptz
    and not exists (select 1 from oauth_record g where g.type = 'Grant' and g.uid_hash = old.id_hash)`,
};
/** A pass an hour. */
const HOURLY = { batches: 400 };

export async function sweepRecords({ db, clock }: { db: Pick<Database, "query">; clock: Clock }): Promise<void> {
  await deleteOld(db, EXPIRED, [clock.date()], HOURLY);
  await deleteOld(db, UNUSED_CLIENTS, [new Date(clock.now() - UNUSED_CLIENT_DAYS * 86_400_000)], HOURLY);
}
