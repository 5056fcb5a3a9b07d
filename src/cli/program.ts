// Runs a program of this build in a process of its own: the command line knows none of the server's rooms.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";
import { CliError, EXIT, type ExitCode } from "./exit.js";

export function isBuilt(name: string): boolean {
  return existsSync(fileOf(name));
}

/** `name` is a file beside this folder, such as `server.js`. */
export function runProgram(name: string, args: readonly string[], signal: AbortSignal): Promise<ExitCode> {
  const file = fileOf(name);
  if (!existsSync(file)) throw new CliError(EXIT.settings, "The server is not built.", { hint: "npm run build" });
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [file, ...args], { stdio: "inherit" });
    // From a terminal, Ctrl-C reaches the child by itself, and a second signal would hurry it; SIGTERM comes here alone.
    const stop = (): void => {
      if (signal.reason instanceof Error && signal.reason.message === "SIGTERM") child.kill("SIGTERM");
    };
    signal.addEventListener("abort", stop, { once: true });
    child.once("error", () => resolve(EXIT.serverFault));
    child.once("exit", (code, signalName) => {
      signal.removeEventListener("abort", stop);
      resolve(code ?? 128 + (signalName === null ? 0 : constants.signals[signalName]));
    });
  });
}

function fileOf(name: string): string {
  return fileURLToPath(new URL(`../${name}`, import.meta.url));
}
