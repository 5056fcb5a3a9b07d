// What a command is, what it is given, and how its options are read.
import { type ParseArgsConfig, parseArgs } from "node:util";
import type { Clock } from "../clock.js";
import type { OpenBrowser } from "./browser.js";
import type { CliEnvironment } from "./environment.js";
import { type ExitCode, usageError } from "./exit.js";
import { plainLine } from "./plain.js";
import type { Terminal } from "./terminal.js";

export interface CliContext {
  environment: CliEnvironment;
  terminal: Terminal;
  clock: Clock;
  /** Ctrl-C. */
  signal: AbortSignal;
  open: OpenBrowser;
  /** Of this program. */
  version: string;
  /** The whole of stdin, for a password. */
  readInput(): Promise<string>;
}

export interface Command {
  name: string;
  /** One line, for the list. */
  summary: string;
  /** After `outband `. */
  usage: string;
  /** Options and remarks, for `help NAME`. */
  details: string;
  run(context: CliContext, args: string[]): Promise<ExitCode>;
}

type Options = NonNullable<ParseArgsConfig["options"]>;
type Parsed<O extends Options> = ReturnType<typeof parseArgs<{ options: O; allowPositionals: true; strict: true }>>;

/** Throws a usage error in our words; `positionalsMax` counts what is not an option. */
export function readOptions<const O extends Options>(
  args: string[],
  options: O,
  positionalsMax: number,
): { values: Parsed<O>["values"]; positionals: string[] } {
  let parsed: Parsed<O>;
  try {
    parsed = parseArgs({ args, options, allowPositionals: true, strict: true });
  } catch (error) {
    throw usageError(plainLine(error instanceof Error ? (error.message.split(". ")[0] ?? "") : "", 200));
  }
  const extra = parsed.positionals[positionalsMax];
  if (extra !== undefined) throw usageError(`Not expected here: ${plainLine(extra)}`);
  return { values: parsed.values, positionals: parsed.positionals };
}

/** An option that the chosen action knows nothing of would be dropped without a word. */
export function refuseOptions(values: Readonly<Record<string, unknown>>, names: readonly string[], what: string): void {
  const given = names.find((name) => values[name] !== undefined);
  if (given !== undefined) throw usageError(`${what} does not take --${given}.`);
}
