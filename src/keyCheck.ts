// The program behind `outband doctor` when no server answers: do the settings of this folder and their master key fit the
// data? Must never happen: a key made, a row or the schema changed, a value printed.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { connectionNames, keysBody } from "./api/keys.js";
import { EXIT } from "./cli/exit.js";
import { bad, type Finding, lineOf, open } from "./cli/finding.js";
import { keyFindings, readKeysAnswer } from "./cli/keyFindings.js";
import { systemClock } from "./clock.js";
import { loadEnvironment, readSettings } from "./config/config.js";
import type { Settings } from "./config/settings.js";
import { inspectKeys } from "./crypto/inspect.js";
import { examineKeys, MasterKeyRefusal } from "./crypto/masterKey.js";
import { type Database, DatabaseRefusal, openDatabase } from "./db/client.js";
import { createLog } from "./log.js";

const WHAT = "master key";
const NOTHING = open(WHAT, "nothing is sealed here yet; the next start of the server makes what it needs");

async function findings(): Promise<Finding[]> {
  const read = readSettings(loadEnvironment(process.cwd()));
  if (!read.ok) return read.problems.map((problem) => bad("settings", problem, EXIT.settings));
  const { settings } = read;
  // Opening the embedded database would make it.
  if (settings.databaseUrl === null && !existsSync(join(settings.dataDir, "database"))) return [NOTHING];
  try {
    const log = createLog({ level: "silent", write: () => undefined });
    const db = await openDatabase({ databaseUrl: settings.databaseUrl, dataDir: settings.dataDir, log, clock: systemClock, asItIs: true });
    try {
      return await examined(settings, db);
    } finally {
      await db.close();
    }
  } catch (thrown) {
    if (thrown instanceof MasterKeyRefusal) return [bad(WHAT, thrown.message, EXIT.settings)];
    if (thrown instanceof DatabaseRefusal) return [bad("database", thrown.message, EXIT.settings)];
    throw thrown;
  }
}

async function examined(settings: Settings, db: Database): Promise<Finding[]> {
  if (!(await hasTables(db))) return [NOTHING];
  const found = await examineKeys({ settings, db, clock: systemClock });
  if (found === null) return [NOTHING];
  const answer = readKeysAnswer(keysBody(await inspectKeys(found.keys, db.prisma), await connectionNames(db)));
  return [...found.notes.map((note) => open(WHAT, note)), ...(answer === null ? [] : keyFindings(answer, systemClock.now()))];
}

async function hasTables(db: Database): Promise<boolean> {
  const [row] = await db.query<{ found: boolean }>({ name: "has_tables", text: "select to_regclass('public.data_key') is not null as found" }, []);
  return row?.found ?? false;
}

const all = await findings();
for (const finding of all) process.stdout.write(`${lineOf(finding)}\n`);
process.exitCode = all.find(({ state }) => state === "no")?.exitCode ?? EXIT.ok;
