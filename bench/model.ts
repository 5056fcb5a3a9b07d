// 100,000 random commands over accounts and links against a plain model in memory.
// npm run bench:model -- [--commands 100000] [--seed N]; on PostgreSQL with TEST_DATABASE_URL, else on the embedded database.
import { parseArgs } from "node:util";
import { systemClock } from "../src/clock.js";
import { secret } from "../src/crypto/secret.js";
import { openDatabase } from "../src/db/client.js";
import { freshEmbeddedDir, freshPostgresUrl, silentLog } from "../test/support/database.js";
import { runModel } from "../test/model/world.js";

const { values } = parseArgs({ options: { commands: { type: "string", default: "100000" }, seed: { type: "string", default: String(Date.now() % 1_000_000) } } });
const url = await freshPostgresUrl();
const db = await openDatabase({ databaseUrl: url ? secret(url) : null, dataDir: url ? "." : await freshEmbeddedDir(), log: silentLog, clock: systemClock });
console.log(`seed ${values.seed}, ${db.kind}`);
const startedAt = performance.now();
const run = await runModel(db, {
  seed: Number(values.seed),
  commands: Number(values.commands),
  told: (done) => void (done % 5_000 === 0 && process.stderr.write(`  ${done} commands, ${Math.round((performance.now() - startedAt) / 1000)} s\n`)),
});
console.log(`${run.commands} commands, 0 differences, ${Math.round((performance.now() - startedAt) / 1000)} s`);
for (const [answer, count] of Object.entries(run.answers).sort()) console.log(`  ${answer}: ${count}`);
await db.close();
