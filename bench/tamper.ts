// 1,000,000 tampered or swapped ciphertexts: sealed fields, wrapped data keys and requestStates, changed and moved in every way
// that an owner of the database or a client could think of. All are refused, and the untouched ones in between open.
// npm run bench:tamper -- [--attacks 1000000] [--seed N].
import { parseArgs } from "node:util";
import { tamper } from "../test/support/tamper.js";

const { values } = parseArgs({ options: { attacks: { type: "string", default: "1000000" }, seed: { type: "string", default: String(Date.now() % 1_000_000) } } });
console.log(`seed ${values.seed}`);
const startedAt = performance.now();
const outcome = await tamper({
  attacks: Number(values.attacks),
  seed: Number(values.seed),
  told: (done) => process.stderr.write(`  ${done} attacks, ${Math.round((performance.now() - startedAt) / 1000)} s\n`),
});
console.log(`${outcome.attacks} attacks, 0 opened, ${outcome.controls} untouched ones opened in between, ${Math.round((performance.now() - startedAt) / 1000)} s`);
for (const [family, count] of Object.entries(outcome.refused).sort()) console.log(`  ${family}: ${count}`);
