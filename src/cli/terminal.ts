// The one place where the command line writes and asks. Results go to stdout, everything said or asked to stderr. All
// of it passes `plain`: we use no escapes of our own, so none may ever get out.
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import type { Clock } from "../clock.js";
import { plain } from "./plain.js";

export type Answer =
  | { kind: "line"; text: string }
  /** Ctrl-C at the question. */
  | { kind: "interrupted" }
  /** The input ended, nobody answered in time, or the command is being stopped. */
  | { kind: "gone" };

export interface Terminal {
  /** A person is there to be asked. */
  readonly interactive: boolean;
  /** Width of the screen, where there is one. */
  readonly columns: number | undefined;
  /** A line of ours, on stderr. */
  say(text: string): void;
  /** A result, on stdout. */
  print(text: string): void;
  /** Only to be called when `interactive`. */
  ask(question: string): Promise<Answer>;
}

/** A question outlives the authorization link behind it by nothing (contract: LINK_TTL_S, 600 s). */
export const QUESTION_LIFE_MS = 600_000;

export interface TerminalStreams {
  input: Readable;
  /** Where results go. */
  output: Writable;
  /** Where questions and remarks go. */
  messages: Writable;
  interactive: boolean;
  columns?: number | undefined;
}

export function createTerminal(streams: TerminalStreams, deps: { clock: Clock; signal: AbortSignal }): Terminal {
  const { input, output, messages, interactive, columns } = streams;
  return {
    interactive,
    columns,
    say: (text) => void messages.write(`${plain(text)}\n`),
    print: (text) => void output.write(`${plain(text)}\n`),
    ask: (question) =>
      new Promise<Answer>((resolve) => {
        const stop = AbortSignal.any([deps.signal, deps.clock.deadline(QUESTION_LIFE_MS)]);
        const reader = createInterface({ input, output: messages, terminal: interactive, historySize: 0 });
        let settled = false;
        const settle = (answer: Answer): void => {
          if (settled) return;
          settled = true;
          stop.removeEventListener("abort", onStop);
          reader.close();
          // After Ctrl-C or a deadline the cursor still stands behind the question.
          if (answer.kind !== "line") messages.write("\n");
          resolve(answer);
        };
        const onStop = (): void => settle({ kind: "gone" });
        stop.addEventListener("abort", onStop);
        reader.on("SIGINT", () => settle({ kind: "interrupted" }));
        reader.on("close", () => settle({ kind: "gone" }));
        reader.question(plain(question), (text) => settle({ kind: "line", text: text.trim() }));
        if (stop.aborted) onStop();
      }),
  };
}

/** Reads a yes or no; asks again at anything else, at most three times. An empty line takes `assume`. */
export async function askYesNo(terminal: Terminal, question: string, assume: "yes" | "no"): Promise<"yes" | "no" | "interrupted" | "gone"> {
  for (let attempt = 0; attempt < 3; attempt += 1) {
    const answer = await terminal.ask(`${question} ${assume === "yes" ? "[Y/n]" : "[y/N]"} `);
    if (answer.kind !== "line") return answer.kind;
    if (answer.text === "") return assume;
    if (/^y(es)?$/i.test(answer.text)) return "yes";
    if (/^no?$/i.test(answer.text)) return "no";
    terminal.say("Please answer y or n.");
  }
  return "no";
}
