// Picks the command, runs it, and turns whatever goes wrong into a sentence and an exit code.
import { callCommand } from "./call.js";
import type { CliContext, Command } from "./command.js";
import { connectionsCommand } from "./connections.js";
import { doctorCommand } from "./doctor.js";
import { CliError, EXIT, type ExitCode, usageError } from "./exit.js";
import { explain } from "./failure.js";
import { commandHelp, helpText } from "./help.js";
import { keysCommand } from "./keys.js";
import { plainLine } from "./plain.js";
import { startCommand } from "./start.js";
import { usersCommand } from "./users.js";

export const COMMANDS: readonly Command[] = [startCommand, callCommand, connectionsCommand, usersCommand, doctorCommand, keysCommand];

export async function runCli(args: readonly string[], context: CliContext): Promise<ExitCode> {
  try {
    return await dispatch(args, context);
  } catch (error) {
    const failure = context.signal.aborted ? new CliError(EXIT.interrupted, "Stopped.") : explain(error, context.environment.serverUrl);
    context.terminal.say(failure.message);
    if (failure.hint !== undefined) context.terminal.say(failure.hint);
    return failure.exitCode;
  }
}

async function dispatch(args: readonly string[], context: CliContext): Promise<ExitCode> {
  const [name = "help", ...rest] = args;
  if (name === "--version") {
    nothingAfter(rest, 0);
    context.terminal.print(context.version);
    return EXIT.ok;
  }
  if (name === "help" || name === "--help" || name === "-h") {
    const [topic] = rest;
    nothingAfter(rest, 1);
    context.terminal.print(topic === undefined ? helpText(COMMANDS) : commandHelp(findCommand(topic)));
    return EXIT.ok;
  }
  const command = findCommand(name);
  if (rest.includes("--help") || rest.includes("-h")) {
    context.terminal.print(commandHelp(command));
    return EXIT.ok;
  }
  try {
    return await command.run(context, rest);
  } catch (error) {
    if (!(error instanceof CliError) || error.exitCode !== EXIT.usage || error.hint !== undefined) throw error;
    throw usageError(error.message, `Usage: outband ${command.usage}`);
  }
}

function nothingAfter(args: readonly string[], max: number): void {
  const extra = args[max];
  if (extra !== undefined) throw usageError(`Not expected here: ${plainLine(extra)}`, "outband help");
}

function findCommand(name: string): Command {
  const command = COMMANDS.find((each) => each.name === name);
  if (command === undefined)
    throw usageError(`There is no command ${plainLine(name, 60)}.`, `Commands: ${COMMANDS.map((each) => each.name).join(", ")}, help`);
  return command;
}
