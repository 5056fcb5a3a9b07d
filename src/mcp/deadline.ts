// Signals that end work: the client that left, the program that stops, the time that is up. Listeners are taken off again,
// because the stop signal lives as long as the program (AbortSignal.any keeps its sources' listeners in Node 20).
import type { Clock } from "../clock.js";

export interface LinkedSignal {
  signal: AbortSignal;
  release(): void;
}

/** Aborts when the first of the signals does. */
export function linkedSignal(sources: readonly AbortSignal[]): LinkedSignal {
  const linked = new AbortController();
  const abort = (): void => linked.abort();
  for (const source of sources) {
    if (source.aborted) linked.abort();
    else source.addEventListener("abort", abort, { once: true });
  }
  return {
    signal: linked.signal,
    release() {
      for (const source of sources) source.removeEventListener("abort", abort);
    },
  };
}

/** What `run` gives, or `late()` when it has not come to an end after `ms`, whatever it does with its signal. */
export async function withinTime<T>(clock: Clock, ms: number, run: Promise<T>, late: () => T): Promise<T> {
  const over = new AbortController();
  try {
    return await Promise.race([run, clock.sleep(ms, over.signal).then(late)]);
  } finally {
    over.abort();
  }
}
