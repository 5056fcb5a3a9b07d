// Whether somebody here lives on the grant that is to be given back. Providers end all of a person's tokens for a client at
// once (Google does), so an account of the same upstream person, or a grant of theirs that waits for its app, would go with it.
import type { Database } from "../db/client.js";
import type { Log } from "../log.js";
import type { Leaver } from "./farewell.js";

export type Look =
  | "alone"
  | "shared"
  /** The person has consented anew, and nobody knows yet what came of it. */
  | "busy"
  /** The database does not answer. */
  | "unknown";

/**
 * Never throws. Where it is not known whose a grant is upstream, the account's own next credential counts as the same
 * person's; and `isLate`, when people have had the time to connect anew, each other account of the person here does too.
 */
export function createLook({ db, log }: { db: Pick<Database, "query">; log: Log }): (leaver: Leaver, isLate: boolean) => Promise<Look> {
  return async (leaver, isLate) => {
    try {
      const { connectionId, accountId, identifier, externalId } = leaver;
      const [row] = await db.query<{ shared: boolean; busy: boolean }>(LOOK, [connectionId, accountId, identifier, externalId, isLate]);
      return row?.shared ? "shared" : row?.busy ? "busy" : "alone";
    } catch (cause) {
      log.warn("the database does not say who else lives on a grant", { account_id: leaver.accountId, cause });
      return "unknown";
    }
  };
}

/** A waiting grant has a due time: the index on it finds the few there are. */
const LOOK = {
  name: "shared_grant_look",
  text: `select
      exists (select 1 from connected_account where connection_id = $1 and external_id = $4::text and access_sealed is not null)
      or exists (select 1 from connected_account where id = $2 and access_sealed is not null and (external_id is null or $4::text is null))
      or ($5::boolean and exists (select 1 from connected_account where connection_id = $1 and identifier = $3 and access_sealed is not null
          and (external_id is null or $4::text is null)))
      or exists (select 1 from authorization_link where connection_id = $1 and grant_due_at is not null and grant_sealed is not null and settled_at is null
          and (grant_external_id = $4::text or ($5::boolean and identifier = $3 and (grant_external_id is null or $4::text is null)))) as shared,
      ($5::boolean and exists (select 1 from authorization_link where connection_id = $1 and identifier = $3
          and exchanged_at is not null and settled_at is null and grant_sealed is null)) as busy`,
};
