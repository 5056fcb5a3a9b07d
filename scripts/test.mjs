// Runs the tests: `npm test`, or some of them: `npm test -- db/lock vault`. An argument is a part of a path below test/;
// what begins with -- goes to node (`--test-name-pattern=lock`). Must never happen: an exit code of 0 when nothing ran.
// TEST_DATABASE_URL names a PostgreSQL server for the tests that run on both databases.
import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = join(root, "test");

/** For one test, and for one file as a whole: a hang must end the run with a name. */
const TIMEOUT_MS = 300_000;
/** Each file is a process that may hold a database and a browser. */
const PROCESSES_MAX = 4;

const argv = process.argv.slice(2);
const options = argv.filter((argument) => argument.startsWith("--"));
const filters = argv.filter((argument) => !argument.startsWith("--")).map((filter) => filter.replace(/^(\.\/)?test\//, ""));

const files = readdirSync(folder, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith(".test.ts"))
  .map((entry) => relative(folder, join(entry.parentPath ?? entry.path, entry.name)))
  .filter((file) => filters.length === 0 || filters.some((filter) => file.includes(filter)))
  .sort();

if (files.length === 0) {
  console.error(`No test file matches ${filters.join(", ") || "test/**/*.test.ts"}.`);
  process.exit(1);
}

const concurrency = Math.min(Math.max(availableParallelism(), 1), PROCESSES_MAX);
const child = spawn(
  process.execPath,
  [
    ...["--import", "tsx", "--test", "--test-reporter=spec"],
    ...[`--test-concurrency=${concurrency}`, `--test-timeout=${TIMEOUT_MS}`],
    ...options,
    ...files.map((file) => join("test", file)),
  ],
  { cwd: root, stdio: "inherit" },
);
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code, signal) => process.exit(signal ? 1 : (code ?? 1)));
