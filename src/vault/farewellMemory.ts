// For the one case that a row cannot help: a grant that is to be given back while the database is away. It waits in memory
// until it can be put down. Must never happen: a wait without an end, or one that keeps a stopping program.
import type { Clock } from "../clock.js";
import type { Log } from "../log.js";
import type { Leaver } from "./farewell.js";

const PAUSE_FIRST_MS = 500;
const PAUSE_MOST_MS = 15_000;
const HELD_MS = 15 * 60_000;
/** Each holds two tokens; a long outage during a flood of refreshes must not fill the memory. */
const HELD_AT_MOST = 1_000;

export interface FarewellMemory {
  /** Does it now, else later. Never throws. */
  until(leaver: Leaver, putAway: () => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

export function holdInMemory({ clock, log }: { clock: Clock; log: Log }): FarewellMemory {
  const held = new Set<Promise<void>>();
  const closing = new AbortController();

  return {
    async until(leaver, putAway) {
      if (await done(putAway)) return;
      if (held.size >= HELD_AT_MOST) return lost(leaver);
      const waits = hold(leaver, putAway).finally(() => held.delete(waits));
      held.add(waits);
    },
    async close() {
      closing.abort();
      await Promise.all(held);
    },
  };

  async function hold(leaver: Leaver, putAway: () => Promise<void>): Promise<void> {
    const startedMs = clock.monotonic();
    let pauseMs = PAUSE_FIRST_MS;
    while (!closing.signal.aborted && clock.monotonic() - startedMs < HELD_MS) {
      await clock.sleep(pauseMs, closing.signal).catch(() => undefined);
      if (await done(putAway)) return;
      pauseMs = Math.min(pauseMs * 2, PAUSE_MOST_MS);
    }
    lost(leaver);
  }

  function done(putAway: () => Promise<void>): Promise<boolean> {
    return putAway().then(
      () => true,
      () => false,
    );
  }

  function lost(leaver: Leaver): void {
    log.error("a grant could neither be given back nor be put down for later", { account_id: leaver.accountId, connection_id: leaver.connectionId });
  }
}
