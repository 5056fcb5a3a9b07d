#!/usr/bin/env node
// The program's entry: settings, the start, what the person at the terminal reads, signals. Must never happen: a start with
// half-wrong settings; a set-up link in the log (it goes to stderr alone).
import { type App, createApp } from "./app.js";
import { systemClock } from "./clock.js";
import { EXIT_CODE_SETTINGS, loadEnvironment, readSettings } from "./config/config.js";
import type { Settings } from "./config/settings.js";
import { MasterKeyRefusal } from "./crypto/masterKey.js";
import { DatabaseRefusal } from "./db/client.js";
import { IssuerRefusal } from "./identity/external/external.js";
import { createLog } from "./log.js";
import { ListenRefusal, requireAddress } from "./net/listen.js";

async function main(): Promise<void> {
  const read = readSettings(loadEnvironment(process.cwd()));
  if (!read.ok) return refuse(read.problems);
  const { settings } = read;
  const log = createLog({ level: settings.logLevel, write: (line) => process.stdout.write(`${line}\n`) });
  const startedMs = systemClock.monotonic();

  let app: App;
  try {
    // Making the embedded database takes long: a port that is taken is better told before.
    await requireAddress(settings);
    app = await createApp({ settings, clock: systemClock, log });
  } catch (thrown) {
    if (isRefusal(thrown)) return refuse([thrown.message]);
    throw thrown;
  }
  try {
    await app.listen();
  } catch (thrown) {
    await app.close();
    if (isRefusal(thrown)) return refuse([thrown.message]);
    throw thrown;
  }
  log.info("started", { url: settings.publicUrl, database: app.database, sandbox: app.sandbox !== null, ms: Math.round(systemClock.monotonic() - startedMs) });
  process.stderr.write(greeting(app, settings, read.warnings));
  onStop(async () => {
    log.info("stopping");
    await app.close();
    log.info("stopped");
  });
}

function greeting(app: App, settings: Settings, warnings: string[]): string {
  const url = settings.publicUrl;
  const lines = [
    "",
    `  Outband listens on ${url}`,
    app.database === "embedded" ? `  Database: embedded, in ${settings.dataDir}` : "  Database: PostgreSQL",
  ];
  if (app.sandbox && app.practised.length > 0) lines.push(`  Practice ("sandbox") ${app.practised.join(" and ")} ${app.practised.length > 1 ? "are" : "is"} on, at ${app.sandbox.origin}: nothing real is touched there`);
  if (app.setupUrl) lines.push("", "  First, make the administrator (this link works once, for an hour):", `    ${app.setupUrl}`);
  else lines.push(`  Sign in: ${url}/login`);
  // The command line looks at PORT in .env by itself; an address from elsewhere must be told.
  const where = url === "http://localhost:3000" ? "" : `OUTBAND_URL=${url} `;
  lines.push("", "  Add it to an MCP client:", `    claude mcp add --transport http outband ${url}/mcp`);
  lines.push("  or try it from a second terminal:", `    ${where}npm run outband -- call summarize_inbox`, "");
  for (const sentence of [...warnings, ...app.notes]) lines.push(`  Note: ${sentence}`);
  return `${lines.join("\n")}\n`;
}

function refuse(problems: string[]): void {
  for (const problem of problems) process.stderr.write(`outband: ${problem}\n`);
  process.exitCode = EXIT_CODE_SETTINGS;
}

/** What the operator has to mend, each in a sentence of its own. */
function isRefusal(thrown: unknown): thrown is Error {
  return [MasterKeyRefusal, DatabaseRefusal, IssuerRefusal, ListenRefusal].some((kind) => thrown instanceof kind);
}

/** The first signal lets what runs finish; a second one ends the program at once. */
function onStop(stop: () => Promise<void>): void {
  let stopping = false;
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.on(signal, () => {
      if (stopping) process.exit(1);
      stopping = true;
      stop().then(
        () => process.exit(0),
        () => process.exit(1),
      );
    });
  }
}

await main();
