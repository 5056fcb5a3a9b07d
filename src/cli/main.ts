#!/usr/bin/env node
// The `outband` program: hands the process to the commands and ends with their exit code.
import { readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { systemClock } from "../clock.js";
import { createBrowserOpener } from "./browser.js";
import { readEnvironment } from "./environment.js";
import { EXIT } from "./exit.js";
import { runCli } from "./run.js";
import { createTerminal } from "./terminal.js";

async function main(): Promise<void> {
  const { stdin, stdout, stderr } = process;
  // The SDK warns developers there, with texts of the server; what a person should know is said by the commands.
  console.warn = () => undefined;

  const stop = new AbortController();
  const interrupt = (name: NodeJS.Signals): void => {
    // A second Ctrl-C does not wait for anything.
    if (stop.signal.aborted) process.exit(EXIT.interrupted);
    stop.abort(new Error(name));
  };
  process.on("SIGINT", interrupt);
  process.on("SIGTERM", interrupt);
  // `outband … | head` closes the pipe: that is no fault of ours to report.
  stdout.on("error", () => process.exit(EXIT.ok));

  const deps = { clock: systemClock, signal: stop.signal };
  const terminal = createTerminal(
    {
      input: stdin,
      output: stdout,
      messages: stderr,
      interactive: stdin.isTTY === true && stderr.isTTY === true,
      columns: stdout.isTTY === true ? stdout.columns : undefined,
    },
    deps,
  );
  const exitCode = await runCli(process.argv.slice(2), {
    ...deps,
    environment: readEnvironment(process.cwd()),
    terminal,
    open: createBrowserOpener({ platform: process.platform, clock: systemClock }),
    version: readVersion(),
    readInput: () => text(stdin),
  });
  // Not at once: a result in a pipe would be cut. Kept-alive connections and an open stdin are not waited for.
  stdout.write("", () => process.exit(exitCode));
}

function readVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  return typeof manifest === "object" && manifest !== null && "version" in manifest ? String(manifest.version) : "unknown";
}

await main();
