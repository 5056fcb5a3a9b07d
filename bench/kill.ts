// 200 kill -9 of the server over both databases and 20 deaths of PostgreSQL, at random moments under a mixed load; what was
// acknowledged is compared with what is there. npm run bench:kill -- [--kills 200] [--postgres 20] [--seed N]
import { parseArgs } from "node:util";
import { KINDS } from "../test/support/journey.js";
import { killPostgres, killServer, type Rounds } from "../test/support/killRounds.js";
import { hasPostgres, startOwnPostgres } from "../test/support/ownPostgres.js";
import { startCluster } from "../test/support/processes.js";

const { values } = parseArgs({
  options: { kills: { type: "string", default: "200" }, postgres: { type: "string", default: "20" }, seed: { type: "string", default: String(Date.now() % 1_000_000) }, quiet: { type: "boolean", default: false } },
});
const seed = Number(values.seed);
const told = (line: string): void => void (values.quiet || process.stderr.write(`  ${line}\n`));
const killAfterMs: [number, number] = [0, 700];
let lost = 0;

function report(what: string, outcome: Rounds): void {
  const ready = [...outcome.readyMs].sort((a, b) => a - b);
  console.log(`${what}: ${outcome.rounds} deaths, ${outcome.acknowledged} acts acknowledged, ${outcome.problems.length} problems; ready again after ${ready[Math.floor(ready.length / 2)]} ms (median), ${ready.at(-1)} ms (most)`);
  console.log(`  ${JSON.stringify(outcome.counts)}`);
  for (const problem of outcome.problems) console.log(`  LOST ${problem}`);
  lost += outcome.problems.length;
}

console.log(`seed ${seed}`);
for (const kind of KINDS) {
  const cluster = await startCluster({ kind });
  report(`kill -9 of the server on ${kind}`, await killServer(cluster, { rounds: Math.ceil(Number(values.kills) / KINDS.length), seed, killAfterMs, prefix: "load", told }));
  await cluster.close();
}
if (hasPostgres() && Number(values.postgres) > 0) {
  const postgres = await startOwnPostgres();
  const cluster = await startCluster({ kind: "postgresql", databaseUrl: postgres.url });
  report("death of PostgreSQL (kill -9, immediate, fast)", await killPostgres(cluster, postgres, { rounds: Number(values.postgres), seed, killAfterMs, prefix: "load", told }));
  await cluster.close();
  await postgres.close();
}
process.exit(lost === 0 ? 0 : 1);
