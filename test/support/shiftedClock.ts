// The real clock, set ahead by a test: everything that takes a Clock sees the time that a test wants.
import { systemClock, type Clock } from "../../src/clock.js";

export interface ShiftedClock extends Clock {
  /** Moves the time ahead. */
  advance(ms: number): void;
}

export function createShiftedClock(): ShiftedClock {
  let aheadMs = 0;
  const now = (): number => systemClock.now() + aheadMs;
  return {
    ...systemClock,
    now,
    date: () => new Date(now()),
    advance: (ms) => {
      aheadMs += ms;
    },
  };
}
