// The fault queue of the awkward provider: what goes wrong with which request, and requests held until a test lets them go.
import type { Request, RequestHandler, Response } from "express";

/** An endpoint's name as `counts()` spells it, a part of it, a pattern, or a test of name and request. */
export type Match = string | RegExp | ((endpoint: string, request?: Request) => boolean);

export interface Fault {
  match: Match;
  /** How many requests it spoils; default 1. */
  times?: number;
  /** Matching requests that are served well before. */
  skip?: number;
  /** Replaces the answer. Without `status`, `body` and `drop` the answer is only late. */
  status?: number;
  headers?: Record<string, string>;
  /** A string goes out as it is, anything else as JSON. */
  body?: unknown;
  /** The request does its work first, and only its answer is replaced. Implied by drop: "after". */
  commit?: boolean;
  /** Before the answer, or before the cut. */
  delayMs?: number;
  /** Cuts the socket: before the request is served, or after it was, in place of the answer. */
  drop?: "before" | "after";
}

export interface Held {
  /** Resolves when the request is there. */
  arrived: Promise<void>;
  release(): void;
}

/** Answers that look right and are not. */
export const LIES = {
  html: { status: 200, headers: { "Content-Type": "text/html" }, body: "<!doctype html><title>Sign in</title><p>Please wait" },
  noToken: { status: 200, body: { token_type: "Bearer", expires_in: 3600 } },
  emptyObject: { status: 200, body: {} },
  notJson: { status: 200, headers: { "Content-Type": "application/json" }, body: '{"access_token": "cut' },
} as const satisfies Record<string, Omit<Fault, "match">>;

export interface Faults {
  around: (endpoint: string) => RequestHandler;
  add(...faults: Fault[]): void;
  left(): number;
  clear(): void;
  hold(match: Match, options?: { at?: "before" | "after" }): Held;
  releaseAll(): void;
  matches(match: Match, endpoint: string, request?: Request): boolean;
}

interface Holding {
  match: Match;
  at: "before" | "after";
  taken: boolean;
  arrive: () => void;
  released: Promise<void>;
  release: () => void;
}

function gate(): { opened: Promise<void>; open: () => void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

function matches(match: Match, endpoint: string, request?: Request): boolean {
  if (typeof match === "function") return match(endpoint, request);
  return typeof match === "string" ? endpoint === match || endpoint.endsWith(match) : match.test(endpoint);
}

/** Lets the request do its work, and when it ends its answer calls `instead`; nothing of that answer has left by then. */
function serveThen(res: Response, next: () => void, instead: (sendOriginal: () => void) => void): void {
  const end = res.end;
  res.end = ((...args: unknown[]) => {
    res.end = end;
    instead(() => void (res.end as (...args: unknown[]) => Response)(...args));
    return res;
  }) as Response["end"];
  next();
}

function replaceAnswer(res: Response, fault: Fault): void {
  for (const name of res.getHeaderNames()) res.removeHeader(name);
  const body = typeof fault.body === "string" || Buffer.isBuffer(fault.body) ? fault.body : JSON.stringify(fault.body ?? {});
  res.statusCode = fault.status ?? 500;
  if (typeof fault.body !== "string") res.setHeader("Content-Type", "application/json");
  for (const [name, value] of Object.entries(fault.headers ?? {})) res.setHeader(name, value);
  res.end(body);
}

export function createFaults(): Faults {
  let queue: (Fault & { timesLeft: number; skipLeft: number })[] = [];
  const holdings: Holding[] = [];

  function take(endpoint: string, request: Request): Fault | null {
    const fault = queue.find((one) => matches(one.match, endpoint, request));
    if (!fault) return null;
    if (fault.skipLeft > 0) {
      fault.skipLeft -= 1;
      return null;
    }
    fault.timesLeft -= 1;
    if (fault.timesLeft <= 0) queue = queue.filter((one) => one !== fault);
    return fault;
  }

  function takeHolding(endpoint: string, request: Request): Holding | null {
    const holding = holdings.find((one) => !one.taken && matches(one.match, endpoint, request));
    if (holding) holding.taken = true;
    return holding ?? null;
  }

  function spoil(fault: Fault, res: Response, next: () => void): void {
    const late = (act: () => void): void => {
      if (fault.delayMs === undefined) act();
      else setTimeout(act, fault.delayMs);
    };
    const cut = (): void => late(() => void res.socket?.destroy());
    const replace = (): void => late(() => replaceAnswer(res, fault));
    const replaces = fault.status !== undefined || fault.body !== undefined;
    if (fault.drop === "before") cut();
    else if (fault.drop === "after") serveThen(res, next, cut);
    else if (replaces && fault.commit) serveThen(res, next, replace);
    else if (replaces) replace();
    else serveThen(res, next, late);
  }

  return {
    around: (endpoint) => (req, res, next) => {
      const serve = (work: () => void): void => {
        const fault = take(endpoint, req);
        if (fault) spoil(fault, res, work);
        else work();
      };
      const holding = takeHolding(endpoint, req);
      const wait = (then: () => void): void => {
        holding?.arrive();
        void holding?.released.then(then);
      };
      if (!holding) serve(next);
      else if (holding.at === "before") wait(() => serve(next));
      // Inside the fault, so that the order is: the work, the wait, what the fault does to the answer.
      else serve(() => serveThen(res, next, wait));
    },
    add: (...faults) => void queue.push(...faults.map((fault) => ({ ...fault, timesLeft: fault.times ?? 1, skipLeft: fault.skip ?? 0 }))),
    left: () => queue.length,
    clear: () => {
      queue = [];
    },
    hold(match, options = {}) {
      const arrival = gate();
      const end = gate();
      holdings.push({ match, at: options.at ?? "before", taken: false, arrive: arrival.open, released: end.opened, release: end.open });
      return { arrived: arrival.opened, release: end.open };
    },
    releaseAll: () => {
      for (const holding of holdings) holding.release();
    },
    matches,
  };
}
