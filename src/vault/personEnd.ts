// What is open for a person who may act here no longer: their links are void, calls that wait for them end, and a grant that
// still waits for an app's answer is given back. Their accounts are for whoever shuts them out to keep or to disconnect.
import type { Clock } from "../clock.js";
import type { Database } from "../db/client.js";
import type { Identifier } from "../ids.js";
import type { Principal } from "../identity/principal.js";
import type { Settlement } from "./settlement.js";
import { type AppCheck, endLinks } from "./verification.js";

export interface PersonEndDeps {
  db: Database;
  clock: Clock;
  settlement: Pick<Settlement, "announce">;
  appCheck: Pick<AppCheck, "giveBack">;
}

export function createPersonEnd(deps: PersonEndDeps) {
  return async function endOf(actor: Principal, identifier: Identifier): Promise<void> {
    const ended = await deps.db.transaction((tx) => endLinks(tx, deps.clock, { identifier }, { actor, reason: "shut_out" }));
    for (const link of ended) await deps.settlement.announce(link.id, link.accountId);
    for (const link of ended) await deps.appCheck.giveBack(link.id);
  };
}
