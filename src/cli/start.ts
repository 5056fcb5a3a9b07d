// `outband start`: the server as a program of its own. Started, not imported: the command line knows none of its rooms.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";
import { type Command, readOptions } from "./command.js";
import { CliError, EXIT, type ExitCode } from "./exit.js";

export const startCommand: Command = {
  name: "start",
  summary: "start the server in this folder",
  usage: "start",
  details: "  Settings come from the environment and from .env in this folder. Ctrl-C stops it.",
  async run(context, args) {
    readOptions(args, {}, 0);
    const file = fileURLToPath(new URL("../server.js", import.meta.url));
    if (!existsSync(file)) throw new CliError(EXIT.settings, "The server is not built.", { hint: "npm run build" });
    return runServer(file, context.signal);
  },
};

function runServer(file: string, signal: AbortSignal): Promise<ExitCode> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [file], { stdio: "inherit" });
    // From a terminal, Ctrl-C reaches the server by itself, and a second signal would hurry it; SIGTERM comes here alone.
    const stop = (): void => {
      if (signal.reason instanceof Error && signal.reason.message === "SIGTERM") child.kill("SIGTERM");
    };
    signal.addEventListener("abort", stop, { once: true });
    child.once("error", () => resolve(EXIT.serverFault));
    child.once("exit", (code, name) => {
      signal.removeEventListener("abort", stop);
      resolve(code ?? 128 + (name === null ? 0 : constants.signals[name]));
    });
  });
}
