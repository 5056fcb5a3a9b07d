// 10,000 racing acts (refresh, disconnect, reconnect, rename, callback) on few accounts over three processes and one PostgreSQL:
// no refresh token and no code is spent twice, no account comes back by itself, no status that the table does not have.
// npm run bench:race -- [--acts 10000] [--seed N]; needs TEST_DATABASE_URL.
import { parseArgs } from "node:util";
import { race } from "../test/support/race.js";

const { values } = parseArgs({ options: { acts: { type: "string", default: "10000" }, seed: { type: "string", default: String(Date.now() % 1_000_000) } } });
console.log(`seed ${values.seed}`);
const startedAt = performance.now();
const outcome = await race({
  acts: Number(values.acts),
  seed: Number(values.seed),
  racers: 16,
  told: (done) => process.stderr.write(`  ${done} acts, ${Math.round((performance.now() - startedAt) / 1000)} s\n`),
});
console.log(`${outcome.acts} acts over 3 processes in ${Math.round((performance.now() - startedAt) / 1000)} s: ${outcome.problems.length} problems`);
console.log(`  ${JSON.stringify(outcome.counts)}`);
console.log(`  ${outcome.exchanges} exchanges, ${outcome.refreshes} refreshes at the provider, ${outcome.reused} reused; ${outcome.transitions} changes of status`);
for (const problem of outcome.problems.slice(0, 20)) console.log(`  ${problem}`);
process.exit(outcome.problems.length === 0 ? 0 : 1);
