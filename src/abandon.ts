// The program behind `outband keys abandon`: opens the database alone, for the server refuses to start then.
// Must never happen: a run that was not confirmed.
import { systemClock } from "./clock.js";
import { EXIT_CODE_SETTINGS, loadEnvironment, readSettings } from "./config/config.js";
import { DatabaseRefusal, openDatabase } from "./db/client.js";
import { createLog } from "./log.js";
import { abandonKeys } from "./vault/abandon.js";

async function main(): Promise<void> {
  if (process.argv[2] !== "--confirmed") return refuse(["This program is run by `outband keys abandon`, which asks first."]);
  const read = readSettings(loadEnvironment(process.cwd()));
  if (!read.ok) return refuse(read.problems);
  const { databaseUrl, dataDir } = read.settings;
  const log = createLog({ level: "warn", write: (line) => process.stderr.write(`${line}\n`) });
  try {
    const db = await openDatabase({ databaseUrl, dataDir, log, clock: systemClock });
    try {
      const { accounts, connections } = await abandonKeys({ db, clock: systemClock });
      process.stderr.write(`Erased what was sealed. Accounts that are EXPIRED now: ${accounts}. Connections that need their client secret again: ${connections}.\n`);
    } finally {
      await db.close();
    }
  } catch (thrown) {
    if (!(thrown instanceof DatabaseRefusal)) throw thrown;
    refuse([thrown.message]);
  }
}

function refuse(problems: string[]): void {
  for (const problem of problems) process.stderr.write(`outband: ${problem}\n`);
  process.exitCode = EXIT_CODE_SETTINGS;
}

await main();
