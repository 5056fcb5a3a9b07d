// A process that writes until it is killed, and prints a line after each commit that was acknowledged: see
// test/db/durability.test.ts. Arguments: the data directory, and a word that makes its rows' names its own.
import { randomUUID } from "node:crypto";
import { writeSync } from "node:fs";
import { systemClock } from "../../src/clock.js";
import { openDatabase } from "../../src/db/client.js";
import { silentLog } from "./silentLog.js";

const [dataDir = "", word = ""] = process.argv.slice(2);
const db = await openDatabase({ databaseUrl: null, dataDir, log: silentLog, clock: systemClock });
writeSync(1, "open\n");

async function write(): Promise<never> {
  for (;;) {
    const name = `${word}-${randomUUID()}`;
    await db.transaction(async (tx) => {
      await tx.installation.create({ data: { name: `${name}-left`, value: "1" } });
      await tx.installation.create({ data: { name: `${name}-right`, value: "1" } });
    });
    // Synchronous: the line is in the pipe before the next step, whenever the process is killed.
    writeSync(1, `${name}\n`);
  }
}

await Promise.all([write(), write(), write(), write()]);
