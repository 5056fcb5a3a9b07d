// 200 kill -9 of the server over both databases and 20 deaths of PostgreSQL, at random moments under a mixed load; what was
// acknowledged is compared with what is there, and the time to be ready again with the bounds (5 s on PostgreSQL, 10 s
// on the embedded database; on a machine with other work, three times what a start without a crash takes there).
// npm run bench:kill -- [--kills 200] [--postgres 20] [--seed N] [--minutes N]: no new round after so many minutes per part.
import { parseArgs } from "node:util";
import { readyBoundMs } from "../test/support/crash.js";
import { KINDS } from "../test/support/journey.js";
import { killPostgres, killServer, type Rounds } from "../test/support/killRounds.js";
import { hasPostgres, startOwnPostgres } from "../test/support/ownPostgres.js";
import { type Cluster, startCluster } from "../test/support/processes.js";

const { values } = parseArgs({
  options: { kills: { type: "string", default: "200" }, postgres: { type: "string", default: "20" }, seed: { type: "string", default: String(Date.now() % 1_000_000) }, minutes: { type: "string", default: "60" }, quiet: { type: "boolean", default: false } },
});
const seed = Number(values.seed);
const told = (line: string): void => void (values.quiet || process.stderr.write(`  ${line}\n`));
const killAfterMs: [number, number] = [0, 700];
const withinMs = Number(values.minutes) * 60_000;
let failures = 0;

function report(what: string, kind: Cluster["kind"], cleanMs: number, outcome: Rounds): void {
  const ready = [...outcome.readyMs].sort((a, b) => a - b);
  const at = (share: number): number => ready[Math.min(ready.length - 1, Math.floor(ready.length * share))] ?? Number.NaN;
  const boundMs = readyBoundMs(kind, cleanMs);
  const late = ready.filter((ms) => ms > boundMs).length;
  console.log(`${what}: ${outcome.rounds} deaths, ${outcome.acknowledged} acts acknowledged, ${outcome.problems.length} problems`);
  console.log(`  ready again after ${at(0.5)} ms (median), ${at(0.95)} (95 %), ${at(0.99)} (99 %), ${at(1)} (most); ${late} over ${boundMs}; a start without a crash took ${cleanMs} ms`);
  console.log(`  ${JSON.stringify(outcome.counts)}`);
  for (const problem of outcome.problems) console.log(`  LOST ${problem}`);
  failures += outcome.problems.length + late;
}

console.log(`seed ${seed}`);
for (const kind of KINDS) {
  const cluster = await startCluster({ kind });
  const cleanMs = cluster.server(0).readyMs;
  report(`kill -9 of the server on ${kind}`, kind, cleanMs, await killServer(cluster, { rounds: Math.ceil(Number(values.kills) / KINDS.length), seed, killAfterMs, prefix: "load", told, withinMs }));
  await cluster.close();
}
if (hasPostgres() && Number(values.postgres) > 0) {
  const postgres = await startOwnPostgres();
  const cluster = await startCluster({ kind: "postgresql", databaseUrl: postgres.url });
  report("death of PostgreSQL (kill -9, immediate, fast)", "postgresql", cluster.server(0).readyMs, await killPostgres(cluster, postgres, { rounds: Number(values.postgres), seed, killAfterMs, prefix: "load", told, withinMs }));
  await cluster.close();
  await postgres.close();
}
process.exit(failures === 0 ? 0 : 1);
