// Waiting for a person in the browser: in legs that end before clients time out, up to a total that one call may wait.
// Must never happen: a wait that holds a transaction or a connection; one that outlives its client or the program's stop;
// one that spins.
import type { Clock } from "../clock.js";
import type { AccountId, LinkId } from "../ids.js";
import type { PersonPrincipal } from "../identity/principal.js";
import type { LinksDoor } from "../vault/front.js";
import { linkedSignal } from "./deadline.js";
import type { Seats } from "./seats.js";

export interface WaitingDeps {
  links: Pick<LinksDoor, "wait">;
  seats: Seats;
  clock: Clock;
  settings: { settleWaitMs: number; settleLegMs: number };
  /** Aborts when the program was told to stop. */
  stopping: AbortSignal;
}

export interface WaitFor {
  principal: PersonPrincipal;
  link: LinkId;
  account: AccountId;
  /** What earlier legs of the same call have waited. */
  waitedMs: number;
  /** Aborts when the client goes away. */
  signal: AbortSignal;
  /** Told now and then how many of how many seconds have gone; null: nobody asked. */
  progress: ((seconds: number, total: number) => Promise<void>) | null;
}

/** `read_again`: something may have changed. `leg_over`: answer and let the client come back. `time_over`: that was all. */
export type Waited = "read_again" | "leg_over" | "time_over" | "busy";

export interface Leg {
  next(): Promise<Waited>;
  /** Of the call in all, this leg included. */
  readonly waitedMs: number;
  end(): void;
}

/** News that turned out to be none is followed by a rest of this length. */
const REST_MS = 2_000;
const PROGRESS_EVERY_MS = 5_000;
/** Timers fire a touch early: a wait that lacks less than this was a whole one, and a rest below it is none. */
const TIMER_SLACK_MS = 50;

export function beginLeg(deps: WaitingDeps, what: WaitFor): Leg {
  const { clock, settings } = deps;
  const endsMs = clock.monotonic() + settings.settleLegMs;
  const over = linkedSignal([what.signal, deps.stopping]);
  const slackMs = Math.min(TIMER_SLACK_MS, settings.settleLegMs / 10);
  let waitedMs = what.waitedMs;
  let stopProgress: (() => void) | null = null;
  let wokenForNothing = false;

  async function waitOnce(ms: number): Promise<"settled" | "timeout" | "aborted"> {
    if (wokenForNothing) {
      return clock.sleep(ms, over.signal).then(
        () => "timeout",
        () => "aborted",
      );
    }
    return deps.links.wait({ linkId: what.link, accountId: what.account, timeoutMs: ms, signal: over.signal });
  }

  return {
    async next() {
      const leftMs = settings.settleWaitMs - waitedMs;
      if (leftMs < slackMs) return "time_over";
      const legMs = Math.min(leftMs, endsMs - clock.monotonic());
      if (legMs < slackMs || over.signal.aborted) return "leg_over";
      const giveBack = deps.seats.take(what.principal.sub, what.principal.clientId);
      if (giveBack === null) return "busy";
      stopProgress ??= showProgress(clock, what, settings.settleWaitMs);
      const ms = wokenForNothing ? Math.min(legMs, REST_MS) : legMs;
      const startedMs = clock.monotonic();
      try {
        wokenForNothing = (await waitOnce(ms)) === "settled";
      } finally {
        giveBack();
        const tookMs = Math.ceil(clock.monotonic() - startedMs);
        waitedMs += ms - tookMs < slackMs ? Math.max(Math.ceil(ms), tookMs) : tookMs;
      }
      return "read_again";
    },
    get waitedMs() {
      return waitedMs;
    },
    end() {
      stopProgress?.();
      over.release();
    },
  };
}

function showProgress(clock: Clock, { progress, waitedMs }: WaitFor, totalMs: number): () => void {
  if (progress === null) return () => undefined;
  const startedMs = clock.monotonic();
  let told = -1;
  const tell = (): void => {
    const seconds = Math.round((waitedMs + clock.monotonic() - startedMs) / 1000);
    // PROG-01: every number is larger than the one before.
    if (seconds <= told) return;
    told = seconds;
    // The client may be gone; the wait ends by its signal, not here.
    progress(seconds, Math.max(seconds, Math.ceil(totalMs / 1000))).catch(() => undefined);
  };
  tell();
  return clock.every(PROGRESS_EVERY_MS, tell);
}
