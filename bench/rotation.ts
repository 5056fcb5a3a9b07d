// Live rotation of the master key over 500 connections and 20,000 accounts on PostgreSQL: the rotating process is killed with
// -9 fifty times and started again, while another process opens credentials all the time, half of them with no data key in
// memory. 0 failed reads, and at the end every account opens with the last key alone. With --steps, also a rotation of a
// generated key killed with -9 behind each single step, on both databases.
// npm run bench:rotation -- [--connections 500] [--accounts 20000] [--kills 50] [--seed N] [--steps]; needs TEST_DATABASE_URL.
import { parseArgs } from "node:util";
import { freshEmbeddedDir, freshEmptyDir, freshPostgresUrl } from "../test/support/database.js";
import { rotateUnderLoad } from "../test/support/rotationLoad.js";
import { endedBehindSteps, killed, openedAt } from "../test/support/rotationSteps.js";

const { values } = parseArgs({
  options: {
    connections: { type: "string", default: "500" },
    accounts: { type: "string", default: "20000" },
    kills: { type: "string", default: "50" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    steps: { type: "boolean", default: false },
  },
});
const KILLS_EACH = 10;
const [connections, accounts, kills] = [Number(values.connections), Number(values.accounts), Number(values.kills)];
console.log(`seed ${values.seed}`);
const startedAt = performance.now();
const seconds = (): number => Math.round((performance.now() - startedAt) / 1000);
const told = (line: string): boolean => process.stderr.write(`  ${seconds()} s: ${line}\n`);

const { reader, ...outcome } = await rotateUnderLoad({ connections, accounts, kills, killsEach: KILLS_EACH, seed: Number(values.seed), told });
const counts = [
  `${connections} connections`,
  `${accounts} accounts`,
  `${outcome.kills} kills (${outcome.killsMidway} with the data keys half moved)`,
  `${outcome.rotations} rotations finished`,
  `${reader.reads} reads (${reader.coldReads} cold, ${outcome.coldUnderFormer} of them under a former key)`,
  `${reader.failed} failed reads`,
  `${outcome.leftUnderFormer} data keys left under an old master key`,
  `${outcome.openedAtEnd} accounts opened with the last key alone`,
  `slowest read ${Math.round(reader.slowestMs)} ms`,
  `${seconds()} s`,
];
console.log(counts.join(", "));
for (const failure of reader.failures) console.log(`  ${failure}`);

for (const kind of values.steps ? (["embedded", "postgresql"] as const) : []) {
  const databaseUrl = kind === "postgresql" ? await freshPostgresUrl() : null;
  const dataDir = kind === "postgresql" ? await freshEmptyDir() : await freshEmbeddedDir();
  const order = { databaseUrl, dataDir };
  const { names, ends } = await endedBehindSteps({
    dataDir,
    withDatabase: openedAt(order),
    end: (dieAfter) => killed({ ...order, dieAfter }),
    told: (after) => told(`${kind}, killed behind step ${after}`),
  });
  console.log(`generated key, ${kind}: ${names.length} steps, killed behind ${ends} of them; everything opened each time, and each next run ended the rotation; ${seconds()} s`);
}
process.exitCode = reader.failed === 0 && outcome.leftUnderFormer === 0 && outcome.openedAtEnd === accounts ? 0 : 1;
