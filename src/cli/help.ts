// What `outband help` prints. Only what exists: a command is in the table or it is unknown.
import type { Command } from "./command.js";
import { EXIT_CODES } from "./exit.js";

export function helpText(commands: readonly Command[]): string {
  const width = Math.max(...commands.map(({ name }) => name.length), "help".length);
  const line = (name: string, summary: string): string => `  ${name.padEnd(width)}  ${summary}`;
  return `outband: results for agents, credentials for nobody.

Usage: outband COMMAND [options]        (in the project's folder: npm run outband -- COMMAND [options])

Commands
${commands.map(({ name, summary }) => line(name, summary)).join("\n")}
${line("help", "this text; `help COMMAND` for one command")}

Environment
  OUTBAND_URL      the server; default http://localhost:PORT, with PORT from the environment or .env, else 3000
  OUTBAND_API_KEY  an API key, for users, keys and connections --all; a local server's own cli.key is found by itself
  OUTBAND_HOME     where sign-ins are kept; default ~/.config/outband

Exit codes
${EXIT_CODES.map(([code, meaning]) => `  ${String(code).padStart(3)}  ${meaning}`).join("\n")}`;
}

export function commandHelp(command: Command): string {
  return `Usage: outband ${command.usage}\n\n${command.details}`;
}
