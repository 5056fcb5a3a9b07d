// A whole database as raw text: every row of every table, its bytes too, and the files it lies in. Around the program, not
// through it: what a thief of a backup sees.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import pg from "pg";
import { systemClock } from "../../src/clock.js";
import { type Database, openDatabase } from "../../src/db/client.js";
import { printableIn } from "./needles.js";
import { silentLog } from "./silentLog.js";

export interface Place {
  /** A table, or a file. */
  name: string;
  text: string;
}

const TABLES = "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' ORDER BY 1";

/** Of a database on PostgreSQL, by a client of its own; of an embedded one, which must be closed, by its folder. */
export async function dumpTables(where: { databaseUrl: string } | { dataDir: string }): Promise<Place[]> {
  if ("databaseUrl" in where) {
    const client = new pg.Client({ connectionString: where.databaseUrl });
    await client.connect();
    try {
      return await dumpBy(async (text) => (await client.query(text)).rows);
    } finally {
      await client.end();
    }
  }
  const database = await openDatabase({ databaseUrl: null, dataDir: where.dataDir, log: silentLog, clock: systemClock });
  try {
    return await dumpDatabase(database);
  } finally {
    await database.close();
  }
}

/** Of one that is open. */
export function dumpDatabase(database: Pick<Database, "query">): Promise<Place[]> {
  return dumpBy((text) => database.query({ name: `dump_${createHash("sha256").update(text).digest("hex").slice(0, 16)}`, text }, []));
}

/** Takes a table away while `run` runs: every query of it fails, as nothing else in a healthy database does. */
export async function withoutTable(databaseUrl: string, table: string, run: () => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query(`ALTER TABLE "${table}" RENAME TO "${table}_away"`);
    await run();
  } finally {
    await client.query(`ALTER TABLE "${table}_away" RENAME TO "${table}"`);
    await client.end();
  }
}

async function dumpBy(query: (text: string) => Promise<Record<string, unknown>[]>): Promise<Place[]> {
  const places: Place[] = [];
  for (const { name } of await query(TABLES)) {
    const rows = await query(`SELECT one::text AS text FROM "${String(name)}" AS one`);
    places.push({ name: String(name), text: rows.map(({ text }) => withBytes(String(text))).join("\n") });
  }
  return places;
}

/** Bytes stand in a row's text as hex; here they follow it as they are, as far as they can be read. */
function withBytes(row: string): string {
  const bytes = [...row.matchAll(/\\x([0-9a-f]{2,})/g)].map((match) => printableIn(Buffer.from(match[1] ?? "", "hex")));
  return [row, ...bytes].join("\n");
}

/** Every file below the folder, as far as it can be read as text. */
export function readFiles(folder: string): Place[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((file) => ({ name: relative(folder, file), text: printableIn(readFileSync(file)) }));
}
