// The system's clock, moved forward when a test says so. Timers run in real time.
import { type Clock, systemClock } from "../../src/clock.js";

export interface MovableClock extends Clock {
  forward(ms: number): void;
}

export function movableClock(): MovableClock {
  let aheadMs = 0;
  return {
    ...systemClock,
    now: () => systemClock.now() + aheadMs,
    date: () => new Date(systemClock.now() + aheadMs),
    forward(ms) {
      aheadMs += ms;
    },
  };
}
