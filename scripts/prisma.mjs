// Runs the Prisma CLI. `generate` needs no schema engine, yet the CLI insists on one and would download it:
// PRISMA_SCHEMA_ENGINE_BINARY names a stub that fails honestly (never one that succeeds: `migrate deploy` would then
// report success without doing anything).
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const stub = fileURLToPath(new URL("no-schema-engine.mjs", import.meta.url));
const cli = fileURLToPath(new URL("../node_modules/prisma/build/index.js", import.meta.url));

const run = spawnSync(process.execPath, [cli, ...process.argv.slice(2)], {
  cwd: root,
  stdio: ["inherit", "pipe", "pipe"],
  env: { PRISMA_SCHEMA_ENGINE_BINARY: stub, PRISMA_HIDE_UPDATE_MESSAGE: "1", CHECKPOINT_DISABLE: "1", ...process.env },
});
if (run.status !== 0) process.stderr.write(Buffer.concat([run.stdout ?? Buffer.alloc(0), run.stderr ?? Buffer.alloc(0)]));
process.exit(run.status ?? 1);
