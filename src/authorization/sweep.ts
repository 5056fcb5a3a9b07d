// What the authorization server leaves behind and nobody needs: expired records, and clients that registered and were
// never let in (registration is open to all, so without this the table grows for ever).
import type { Clock } from "../clock.js";
import type { Database } from "../db/client.js";

/** Long enough for a person who registers a client on Friday and signs in on Monday week. */
export const UNUSED_CLIENT_DAYS = 14;

const SWEEP_CLIENTS = {
  name: "sweep_unused_clients",
  text: `DELETE FROM oauth_record c WHERE c.type = 'Client' AND c.created_at < $1::timestamptz
         AND NOT EXISTS (SELECT 1 FROM oauth_record g WHERE g.type = 'Grant' AND g.uid_hash = c.id_hash)`,
};

export async function sweepRecords(deps: { db: Database; clock: Clock }): Promise<void> {
  await deps.db.prisma.oAuthRecord.deleteMany({ where: { expiresAt: { lt: deps.clock.date() } } });
  await deps.db.query(SWEEP_CLIENTS, [new Date(deps.clock.now() - UNUSED_CLIENT_DAYS * 86_400_000)]);
}
