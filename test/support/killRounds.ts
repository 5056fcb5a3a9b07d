// Rounds of "acts under way, then something dies, then compare": for the tests a handful, for bench/kill.ts hundreds.
import { setTimeout as delay } from "node:timers/promises";
import { type MixedLoad, startMixedLoad } from "./mixedLoad.js";
import type { OwnPostgres } from "./ownPostgres.js";
import { type Cluster, isReady } from "./processes.js";
import { randomFrom } from "./random.js";

export interface Rounds {
  rounds: number;
  problems: string[];
  acknowledged: number;
  counts: Record<string, number>;
  readyMs: number[];
}

export interface RoundOptions {
  rounds: number;
  seed: number;
  /** From the first acknowledged acts of a round to the kill. */
  killAfterMs: [least: number, most: number];
  prefix: string;
  /** No new round after this. */
  withinMs?: number;
  told?: (line: string) => void;
}

/** The server is killed with -9 and started again. */
export async function killServer(cluster: Cluster, options: RoundOptions): Promise<Rounds> {
  return rounds(cluster, options, async () => {
    await cluster.kill(0);
    return cluster.start(0);
  });
}

/** PostgreSQL is stopped in one of three ways and started again; the server stays. */
export async function killPostgres(cluster: Cluster, postgres: OwnPostgres, options: RoundOptions): Promise<Rounds> {
  let turn = 0;
  const signals = ["SIGKILL", "SIGQUIT", "SIGINT"] as const;
  return rounds(cluster, options, async () => {
    await postgres.stop(signals[turn++ % 3] ?? "SIGKILL");
    const startedAt = performance.now();
    await postgres.start();
    const upAt = performance.now();
    while (!(await isReady(cluster.url))) {
      if (performance.now() - upAt > 20_000) throw new Error("the server does not find its database again");
      await delay(20);
    }
    if (!cluster.server(0).running()) throw new Error(`the server died with its database after ${performance.now() - startedAt} ms`);
    return Math.round(performance.now() - upAt);
  });
}

const ACTS_BEFORE = 3;

async function rounds(cluster: Cluster, options: RoundOptions, fault: () => Promise<number>): Promise<Rounds> {
  const random = randomFrom(options.seed);
  const load: MixedLoad = await startMixedLoad(cluster, { workers: 4, seed: options.seed, prefix: options.prefix });
  const outcome: Rounds = { rounds: 0, problems: [], acknowledged: 0, counts: {}, readyMs: [] };
  const [least, most] = options.killAfterMs;
  const until = Date.now() + (options.withinMs ?? Number.POSITIVE_INFINITY);
  for (let round = 1; round <= options.rounds && Date.now() < until; round += 1) {
    const stop = new AbortController();
    const before = load.acknowledged();
    const running = load.run(stop.signal);
    // A slow machine gets its time: a death before the first acknowledgement proves little.
    for (const patience = Date.now() + 20_000; load.acknowledged() < before + ACTS_BEFORE && Date.now() < patience; ) await delay(10);
    await delay(least + random.int(most - least));
    const fixed = fault();
    stop.abort();
    const readyMs = await fixed;
    await running;
    outcome.readyMs.push(readyMs);
    outcome.problems.push(...(await load.check()).map((problem) => `round ${round}: ${problem}`));
    outcome.rounds = round;
    options.told?.(`${round}/${options.rounds}: ready after ${readyMs} ms, ${load.acknowledged()} acts acknowledged, ${outcome.problems.length} lost`);
    if (outcome.problems.length > 10) break;
  }
  outcome.problems.push(...load.checkMessages());
  outcome.acknowledged = load.acknowledged();
  outcome.counts = load.counts();
  return outcome;
}
