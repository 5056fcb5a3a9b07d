// Writes and checks the migrations, on any machine: Prisma's schema engine as WebAssembly over an in-memory PGlite, no
// engine to download and no database to set up.
//   new NAME   writes the next migration: what lies between the migrations and prisma/schema.prisma
//   check      exits 2 when the migrations do not add up to the schema
//   restart    replaces all migrations by one, made from the schema; only while nothing is released
// Must never happen: a change to a migration that someone's database has applied (the program refuses edited files).
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openSchemaEngine } from "./schema-engine.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const SCHEMA = join(root, "prisma", "schema.prisma");
const MIGRATIONS = join(root, "prisma", "migrations");
const START = "20261201000000_start";
const LOCK_FILE = 'provider = "postgresql"\n';

const [command, name] = process.argv.slice(2);
const commands = { new: writeNext, check, restart };
const run = Object.hasOwn(commands, command ?? "") ? commands[command] : null;
process.exitCode = run ? await run() : usage();

function usage() {
  console.error("Usage: node scripts/migration.mjs new NAME | check | restart");
  return 1;
}

async function check() {
  const summary = await diff({ script: false });
  if (summary === null) {
    console.log("The migrations and prisma/schema.prisma agree.");
    return 0;
  }
  console.error(`The migrations and prisma/schema.prisma differ:\n${summary}`);
  return 2;
}

async function writeNext() {
  if (!/^[a-z0-9_]{1,60}$/.test(name ?? "")) {
    console.error("Name the migration in lower-case letters, digits and underscores: npm run new:migration -- add_webhooks");
    return 1;
  }
  const sql = await diff({ script: true });
  if (sql === null) {
    console.log("Nothing to do: the migrations and prisma/schema.prisma agree.");
    return 0;
  }
  const stamp = new Date().toISOString().replace(/\D/g, "").slice(0, 14);
  const last = readMigrations().at(-1)?.path.slice(0, 14) ?? "";
  write(`${stamp > last ? stamp : String(BigInt(last) + 1n)}_${name}`, sql);
  console.log("Read it before you commit it: instances of the version before run on it during an upgrade, so it may only add.");
  return 0;
}

async function restart() {
  if (isReleased()) {
    console.error("A release is tagged: its databases hold these migrations. Use `npm run new:migration -- NAME`.");
    return 1;
  }
  const sql = await diff({ script: true, directories: [] });
  for (const migration of readMigrations()) rmSync(join(MIGRATIONS, migration.path), { recursive: true });
  write(START, sql);
  return 0;
}

/** The script (or the summary) that leads from the migrations to the schema; null when there is no difference. */
async function diff({ script, directories = readMigrations() }) {
  const files = [{ path: SCHEMA, content: readFileSync(SCHEMA, "utf8") }];
  const engine = await openSchemaEngine(files);
  try {
    const result = await engine.diff({
      from: { tag: "migrations", ...migrationList(directories) },
      to: { tag: "schemaDatamodel", files },
      script,
      exitCode: true,
      filters: { externalTables: [], externalEnums: [] },
    });
    return result.exitCode === 0 ? null : result.stdout;
  } finally {
    await engine.close();
  }
}

function migrationList(migrationDirectories) {
  return {
    baseDir: MIGRATIONS,
    lockfile: { path: "migration_lock.toml", content: LOCK_FILE },
    shadowDbInitScript: "",
    migrationDirectories,
  };
}

function readMigrations() {
  if (!existsSync(MIGRATIONS)) return [];
  return readdirSync(MIGRATIONS, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .sort()
    .map((path) => ({
      path,
      migrationFile: {
        path: "migration.sql",
        content: { tag: "ok", value: readFileSync(join(MIGRATIONS, path, "migration.sql"), "utf8") },
      },
    }));
}

function write(directory, sql) {
  mkdirSync(join(MIGRATIONS, directory), { recursive: true });
  writeFileSync(join(MIGRATIONS, directory, "migration.sql"), sql);
  writeFileSync(join(MIGRATIONS, "migration_lock.toml"), LOCK_FILE);
  console.log(`Wrote prisma/migrations/${directory}/migration.sql.`);
}

function isReleased() {
  try {
    return execFileSync("git", ["tag", "--list", "v*"], { cwd: root, encoding: "utf8" }).trim() !== "";
  } catch {
    return false;
  }
}
