// The end of what a person has open here. Must never happen: a session or a grant that a change of the person leaves alive.
import type { Tx } from "../db/client.js";

/** Browser sessions alone: what apps were let in to stays. */
export async function endSessions(tx: Tx, sub: string): Promise<void> {
  await tx.browserSession.deleteMany({ where: { sub } });
}

/** Browser sessions, and the grants, tokens and sessions of the authorization server. */
export async function endEverything(tx: Tx, sub: string): Promise<void> {
  await endSessions(tx, sub);
  await tx.oAuthRecord.deleteMany({ where: { sub } });
}
