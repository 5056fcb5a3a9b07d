// The sandbox's awkward twin, for tests: the same Google and Slack, which count, rotate, delay, hold, drop, lie and revoke on
// command. Faults are taken from a queue, once each unless told otherwise; what no fault matches is served as usual.
import { after } from "node:test";
import { systemClock, type Clock } from "../../src/clock.js";
import type { Log } from "../../src/log.js";
import type { Grants, TokenPolicy } from "../../src/sandbox/grants.js";
import { makeSigningKey } from "../../src/sandbox/google/signingKey.js";
import { type OpenSandbox, openSandbox } from "../../src/sandbox/open.js";
import { createFaults, type Fault, type Held, type Match } from "./awkwardFaults.js";
import { silentLog } from "./silentLog.js";

export type { Fault, Held, Match } from "./awkwardFaults.js";
export { LIES } from "./awkwardFaults.js";

export interface AwkwardOptions {
  /** Where codes may be sent: the program's PUBLIC_URL. May be set later, by `setPublicUrl`. */
  publicUrl?: string;
  port?: number;
  file?: string | null;
  clock?: Clock;
  log?: Log;
  /** Google's tokens; default: an hour, refresh tokens rotate, and a reused one ends its family. */
  google?: Partial<TokenPolicy>;
  /** Slack's tokens; default: they do not expire and do not rotate. */
  slack?: Partial<TokenPolicy>;
}

export interface AwkwardProvider extends OpenSandbox {
  setPublicUrl(url: string): void;
  /** Requests to these endpoints since the start or the last `resetCounts`; 0 when there were none. */
  count(match: Match): number;
  resetCounts(): void;
  /** Puts faults at the end of the queue. */
  fault(...faults: Fault[]): void;
  /** Faults that no request has used up yet. */
  faultsLeft(): number;
  clearFaults(): void;
  /** Holds the next matching request. `at: "after"` lets it do its work first and holds the answer. */
  hold(match: Match, options?: { at?: "before" | "after" }): Held;
  /** Ends every grant, as a person does who removes the app. */
  revokeAll(): void;
  /** Changes how tokens are dealt out from now on. */
  setPolicy(provider: "google" | "slack", policy: Partial<TokenPolicy>): void;
}

let key: ReturnType<typeof makeSigningKey> | null = null;
/** One for all providers of a process: making it is the slowest part of a start. */
function sharedKey(): ReturnType<typeof makeSigningKey> {
  key ??= makeSigningKey();
  return key;
}

export async function startAwkwardProvider(options: AwkwardOptions = {}): Promise<AwkwardProvider> {
  let publicUrl = options.publicUrl ?? "http://localhost:3000";
  const clock = options.clock ?? systemClock;
  const policies: Record<"google" | "slack", TokenPolicy> = {
    google: { accessTtlS: 3600, rotatesRefreshTokens: true, ...options.google },
    slack: { accessTtlS: null, rotatesRefreshTokens: false, ...options.slack },
  };
  const faults = createFaults();
  const sandbox = await openSandbox({
    port: options.port ?? 0,
    publicUrl: () => publicUrl,
    file: options.file ?? null,
    clock,
    log: options.log ?? silentLog,
    policies,
    makeKey: sharedKey,
    around: faults.around,
  });
  let before: Record<string, number> = {};
  const counts = (): Record<string, number> =>
    Object.fromEntries(Object.entries(sandbox.counts()).map(([name, count]) => [name, count - (before[name] ?? 0)]));
  const endAll = (grants: Grants): void => {
    for (const grant of grants.live()) grants.revoke(grant.id);
  };
  return {
    ...sandbox,
    counts,
    count: (match) =>
      Object.entries(counts())
        .filter(([name]) => faults.matches(match, name))
        .reduce((sum, [, count]) => sum + count, 0),
    resetCounts() {
      before = sandbox.counts();
    },
    setPublicUrl(url) {
      publicUrl = url;
    },
    fault: faults.add,
    faultsLeft: faults.left,
    clearFaults: faults.clear,
    hold: faults.hold,
    revokeAll() {
      endAll(sandbox.grants.google);
      endAll(sandbox.grants.slack);
    },
    setPolicy: (provider, policy) => void Object.assign(policies[provider], policy),
    async close() {
      faults.releaseAll();
      await sandbox.close();
    },
  };
}

// Registered here, not where a provider is started: inside a hook, `after` would close it when the hook ends.
const opened = new Set<AwkwardProvider>();
after(async () => {
  for (const provider of opened) await provider.close();
});

/** The same, closed when the test file is done. */
export async function awkwardProviderForTests(options: AwkwardOptions = {}): Promise<AwkwardProvider> {
  const provider = await startAwkwardProvider(options);
  opened.add(provider);
  return provider;
}
