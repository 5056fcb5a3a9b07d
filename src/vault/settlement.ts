// Waiting for a person in the browser. A callback commits and announces; every instance wakes its waiters. A lost
// announcement costs time, not truth: one poll per instance serves all its waiters. A waiter holds no connection and no
// transaction.
import type { Clock } from "../clock.js";
import type { Database } from "../db/client.js";
import type { Log } from "../log.js";

const CHANNEL = "outband_settled";
const POLL_MS = 2_000;

export type WaitEnd = "settled" | "timeout" | "aborted";

export interface Settlement {
  /** To be called after the commit. Never throws: waiters also poll. */
  announce(linkId: string, accountId: string): Promise<void>;
  wait(input: { linkId: string; accountId: string; timeoutMs: number; signal: AbortSignal }): Promise<WaitEnd>;
  close(): void;
}

interface Waiter {
  linkId: string;
  accountId: string;
  /** The account's generation when the wait began: a later one on an ACTIVE account means a new grant. */
  generation: number | null;
  wake(end: WaitEnd): void;
}

export function createSettlement(deps: { db: Database; clock: Clock; log: Log }): Settlement {
  const { db, clock, log } = deps;
  const waiters = new Set<Waiter>();
  const stopListening = db.listen(CHANNEL, (payload) => {
    const [linkId, accountId] = payload.split(" ");
    for (const waiter of waiters) if (waiter.linkId === linkId || waiter.accountId === accountId) waiter.wake("settled");
  });
  let polling = false;
  const stopPolling = clock.every(POLL_MS, () => {
    if (polling || waiters.size === 0) return;
    polling = true;
    poll()
      .catch((cause: unknown) => log.warn("settle poll failed", { cause }))
      .finally(() => {
        polling = false;
      });
  });

  async function poll(): Promise<void> {
    const asked = [...waiters];
    const links = await db.prisma.authorizationLink.findMany({
      where: { id: { in: asked.map((waiter) => waiter.linkId) }, settledAt: { not: null } },
      select: { id: true },
    });
    const accounts = await db.prisma.connectedAccount.findMany({
      where: { id: { in: asked.map((waiter) => waiter.accountId) }, status: "ACTIVE" },
      select: { id: true, generation: true },
    });
    const settled = new Set(links.map((link) => link.id));
    const generations = new Map(accounts.map((account) => [account.id, account.generation]));
    for (const waiter of asked) {
      const generation = generations.get(waiter.accountId);
      const renewed = generation !== undefined && waiter.generation !== null && generation > waiter.generation;
      if (settled.has(waiter.linkId) || renewed) waiter.wake("settled");
    }
  }

  return {
    async announce(linkId, accountId) {
      try {
        await db.notify(CHANNEL, `${linkId} ${accountId}`);
      } catch (cause) {
        log.warn("could not announce a settled link", { cause });
      }
    },

    wait({ linkId, accountId, timeoutMs, signal }) {
      return new Promise<WaitEnd>((resolve) => {
        const over = new AbortController();
        const waiter: Waiter = { linkId, accountId, generation: null, wake: end };
        function end(how: WaitEnd): void {
          if (!waiters.delete(waiter)) return;
          over.abort();
          signal.removeEventListener("abort", left);
          resolve(how);
        }
        function left(): void {
          end("aborted");
        }
        waiters.add(waiter);
        if (signal.aborted) return end("aborted");
        signal.addEventListener("abort", left);
        clock.sleep(timeoutMs, over.signal).then(
          () => end("timeout"),
          () => undefined,
        );
        // Read after registering: what settled before is seen here, what settles later is announced.
        settledAlready(linkId, accountId).then(
          (now) => {
            waiter.generation = now.generation;
            if (now.settled) end("settled");
          },
          // The poll asks again.
          (cause: unknown) => log.warn("could not read a link before waiting", { cause }),
        );
      });
    },

    close() {
      stopPolling();
      stopListening();
      for (const waiter of [...waiters]) waiter.wake("aborted");
    },
  };

  async function settledAlready(linkId: string, accountId: string): Promise<{ settled: boolean; generation: number | null }> {
    const link = await db.prisma.authorizationLink.findUnique({ where: { id: linkId }, select: { settledAt: true } });
    const account = await db.prisma.connectedAccount.findUnique({ where: { id: accountId }, select: { generation: true } });
    return { settled: link === null || link.settledAt !== null, generation: account?.generation ?? null };
  }
}
