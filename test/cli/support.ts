// A person at a terminal, and a command line around them: streams instead of a TTY, a browser that is a function.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { systemClock } from "../../src/clock.js";
import type { CliContext } from "../../src/cli/command.js";
import { runCli } from "../../src/cli/run.js";
import { createTerminal, type Terminal } from "../../src/cli/terminal.js";
import type { Secret } from "../../src/crypto/secret.js";

/** What the person types at each question, by a piece of the question; "^C" is Ctrl-C. Unknown questions fail the test. */
export type Script = readonly (readonly [question: string | RegExp, answer: string])[];

export interface Person {
  terminal: Terminal;
  stop: AbortController;
  /** Everything on stderr so far. */
  messages(): string;
  /** Everything on stdout so far. */
  output(): string;
  /** Questions without an answer in the script. */
  surprises: string[];
  /** Answers that were never asked for. */
  left(): number;
}

export function person(script: Script, options: { interactive?: boolean; columns?: number } = {}): Person {
  const input = new PassThrough();
  const output = new PassThrough();
  const messages = new PassThrough();
  const stop = new AbortController();
  const waiting = [...script];
  const surprises: string[] = [];
  let said = "";
  let printed = "";
  output.on("data", (chunk: Buffer) => (printed += chunk.toString()));
  messages.on("data", (chunk: Buffer) => (said += chunk.toString()));
  const terminal = createTerminal(
    { input, output, messages, interactive: options.interactive ?? true, columns: options.columns },
    { clock: systemClock, signal: stop.signal },
  );
  const ask = terminal.ask;
  return {
    terminal: {
      ...terminal,
      ask(question) {
        const answered = ask(question);
        const [expected, answer] = waiting.shift() ?? ["nothing", "^C"];
        const fits = typeof expected === "string" ? question.includes(expected) : expected.test(question);
        if (!fits) surprises.push(question);
        input.write(answer === "^C" || !fits ? "\u0003" : `${answer}\n`);
        return answered;
      },
    },
    stop,
    messages: () => said,
    output: () => printed,
    surprises,
    left: () => waiting.length,
  };
}

export interface CliRun {
  code: number;
  stdout: string;
  stderr: string;
  opened: string[];
  surprises: string[];
}

export interface CliOptions {
  url: string;
  home: string;
  script?: Script;
  interactive?: boolean;
  apiKey?: Secret | null;
  dataDir?: string;
  /** The browser: what happens with a page that is opened. */
  browse?: (url: URL) => Promise<unknown>;
  input?: string;
  stopAfter?: Promise<unknown>;
}

export async function runCommand(args: string[], options: CliOptions): Promise<CliRun> {
  const someone = person(options.script ?? [], { interactive: options.interactive ?? true });
  const opened: string[] = [];
  const browsing: Promise<unknown>[] = [];
  void options.stopAfter?.then(() => someone.stop.abort(new Error("SIGINT")));
  const context: CliContext = {
    environment: {
      serverUrl: options.url,
      serverUrlFrom: "the test",
      apiKey: options.apiKey ?? null,
      home: options.home,
      dataDir: options.dataDir ?? join(options.home, "no-data"),
    },
    terminal: someone.terminal,
    clock: systemClock,
    signal: someone.stop.signal,
    open: async (url) => {
      opened.push(url.href);
      if (options.browse) browsing.push(options.browse(url));
      return true;
    },
    version: "0.0.0-test",
    readInput: async () => options.input ?? "",
  };
  const code = await runCli(args, context);
  await Promise.all(browsing);
  return { code, stdout: someone.output(), stderr: someone.messages(), opened, surprises: someone.surprises };
}

export async function withFolder<T>(run: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "outband-cli-"));
  try {
    return await run(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
