// What doctor says of one thing: it works, it does not (and what to do), or there is nothing to say.
import { EXIT, type ExitCode } from "./exit.js";

export interface Finding {
  state: "ok" | "no" | "--";
  what: string;
  detail: string;
  /** Of a finding that says "no". */
  exitCode: ExitCode;
}

export function good(what: string, detail: string): Finding {
  return { state: "ok", what, detail, exitCode: EXIT.ok };
}

export function bad(what: string, detail: string, exitCode: ExitCode): Finding {
  return { state: "no", what, detail, exitCode };
}

export function open(what: string, detail: string): Finding {
  return { state: "--", what, detail, exitCode: EXIT.ok };
}

export function lineOf({ state, what, detail }: Finding): string {
  return `  ${state}  ${what}: ${detail}`;
}
