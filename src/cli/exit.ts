// The exit codes of the command line, and the one error that carries them. Scripts rely on the numbers: they only grow.
// Must never happen: an error text with a token, a code or a key in it.

export const EXIT = {
  /** Done. */
  ok: 0,
  /** The server answered, and the work was not done: `declined`, `not_connected` and the other outcomes. */
  notDone: 1,
  /** Nobody answers at the address, or not in time. */
  unreachable: 3,
  /** No sign-in, or a key that is missing, refused or not allowed to do this. */
  notAllowed: 4,
  /** The server answered with an error, or with something that is not the protocol. */
  serverFault: 5,
  /** EX_USAGE of sysexits.h: unknown command, option or argument. */
  usage: 64,
  /** EX_CONFIG: what the server itself ends with when its settings are wrong. */
  settings: 78,
  /** Ctrl-C, as shells count it: 128 + SIGINT. */
  interrupted: 130,
} as const;

export type ExitCode = number;

/** What help prints. */
export const EXIT_CODES: readonly (readonly [number, string])[] = [
  [EXIT.ok, "done"],
  [EXIT.notDone, "the server answered, but the work was not done (declined, not connected, …)"],
  [EXIT.unreachable, "the server cannot be reached"],
  [EXIT.notAllowed, "not signed in, or the key is missing, refused or not allowed to do this"],
  [EXIT.serverFault, "the server answered with an error"],
  [EXIT.usage, "unknown command, option or argument"],
  [EXIT.settings, "start: the settings are wrong"],
  [EXIT.interrupted, "stopped by Ctrl-C"],
];

/** Ends the command with a sentence on stderr and an exit code. */
export class CliError extends Error {
  readonly exitCode: ExitCode;
  /** What to do about it, on a line of its own. */
  readonly hint: string | undefined;

  constructor(exitCode: ExitCode, message: string, options: { hint?: string | undefined; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.name = "CliError";
    this.exitCode = exitCode;
    this.hint = options.hint;
  }
}

export function usageError(message: string, hint?: string): CliError {
  return new CliError(EXIT.usage, message, { hint });
}
