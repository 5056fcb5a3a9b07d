// The only source of time, timers and random bytes. Everything that waits, expires or guesses takes a Clock,
// so that a test can move time and a reader can see who depends on it.
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";

export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  date(): Date;
  /** Milliseconds that only grow, for durations. */
  monotonic(): number;
  randomBytes(length: number): Buffer;
  /** A number in [0, 1), for jitter only; never for a secret. */
  jitter(): number;
  /** Resolves after `ms`, or rejects with the signal's reason when it aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** A signal that aborts after `ms`. */
  deadline(ms: number): AbortSignal;
  /** Calls `run` every `ms` without keeping the process alive; the returned function stops it. */
  every(ms: number, run: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  date: () => new Date(),
  monotonic: () => performance.now(),
  randomBytes: (length) => randomBytes(length),
  jitter: () => Math.random(),
  sleep: async (ms, signal) => {
    await delay(ms, undefined, signal ? { signal } : {});
  },
  deadline: (ms) => AbortSignal.timeout(ms),
  every: (ms, run) => {
    const timer = setInterval(run, ms);
    timer.unref();
    return () => clearInterval(timer);
  },
};
