// Background loops. Every instance runs them; each act is conditional, so that two at once do no harm. Must never happen:
// one failing loop that stops another, or a pass that overlaps itself.
import type { Clock } from "./clock.js";
import type { Log } from "./log.js";

export interface Chore {
  name: string;
  everyMs: number;
  run(): Promise<void>;
}

export interface Worker {
  /** Lets what runs finish. */
  stop(): Promise<void>;
}

export function startWorker(deps: { clock: Clock; log: Log }, chores: readonly Chore[]): Worker {
  const running = new Map<string, Promise<void>>();
  const stops = chores.map((chore) =>
    deps.clock.every(chore.everyMs, () => {
      if (running.has(chore.name)) return;
      const pass = chore
        .run()
        .catch((cause: unknown) => deps.log.warn("a background pass failed", { chore: chore.name, cause }))
        .finally(() => running.delete(chore.name));
      running.set(chore.name, pass);
    }),
  );
  return {
    async stop() {
      for (const stop of stops) stop();
      await Promise.all(running.values());
    },
  };
}
