// Answers what a server asks in the middle of a call: a page to open, a form to fill. Must never happen: an `accept` that no
// person gave (but for --yes, within its limits), a question asked while another is on the screen.
import type { ElicitRequestFormParams, ElicitRequestParams, ElicitResult } from "@modelcontextprotocol/client";
import { describeField, type Field, type FieldValue, fieldPrompt, fits, parseField, readField, showValue } from "./form.js";
import type { Pages } from "./page.js";
import { framed } from "./plain.js";
import { askYesNo, type Terminal } from "./terminal.js";

export interface Elicitor {
  answer(params: ElicitRequestParams): Promise<ElicitResult>;
  /** Whether the person was sent to the browser and is now waited for. */
  readonly waiting: boolean;
}

/** Wrong answers to one field before the form is given up. */
const ATTEMPTS_MAX = 5;
const DECLINE = "!no";
const SKIP = "!skip";

export function createElicitor(deps: { terminal: Terminal; pages: Pages; asker: () => string; yes: boolean }): Elicitor {
  const { terminal, pages } = deps;
  let waiting = false;
  // One round may ask several things at once, and the SDK hands them over together; a person answers one after another.
  let queue: Promise<unknown> = Promise.resolve();

  async function answerUrl(message: string, url: string): Promise<ElicitResult> {
    const outcome = await pages.offer({
      introduction: `${deps.asker()} asks you to open a page. It says:`,
      words: message,
      url,
      assume: "no",
    });
    switch (outcome) {
      case "opened":
        waiting = true;
        terminal.say("Waiting for you to finish in the browser… (Ctrl-C to stop)");
        return { action: "accept" };
      case "declined":
        return { action: "decline" };
      // Nobody said no.
      case "interrupted":
      case "unasked":
      case "refused":
        return { action: "cancel" };
    }
  }

  async function answerForm(params: ElicitRequestFormParams): Promise<ElicitResult> {
    waiting = false;
    const required = new Set(params.requestedSchema.required ?? []);
    const fields = Object.entries(params.requestedSchema.properties).map(([name, schema]) => readField(name, schema, required.has(name)));
    terminal.say("");
    terminal.say(`${deps.asker()} asks:`);
    terminal.say(framed(params.message, { columns: terminal.columns, linesMax: 20 }));
    if (deps.yes && fields.every((field) => !field.required || hasDefault(field))) {
      terminal.say("Answered with the defaults (--yes).");
      return accept(fields, new Map(fields.filter(hasDefault).map((field) => [field.name, field.initial as FieldValue])));
    }
    if (!terminal.interactive) {
      terminal.say("Not answered: there is nobody to ask here (no terminal), and --yes knows only defaults.");
      return { action: "cancel" };
    }
    terminal.say(`(Type ${DECLINE} to decline; Ctrl-C cancels.)`);
    return fillForm(terminal, fields);
  }

  return {
    get waiting() {
      return waiting;
    },
    answer(params) {
      const answered = queue.then(() => (params.mode === "url" ? answerUrl(params.message, params.url) : answerForm(params)));
      queue = answered.catch(() => undefined);
      return answered;
    },
  };
}

async function fillForm(terminal: Terminal, fields: Field[]): Promise<ElicitResult> {
  for (;;) {
    const values = new Map<string, FieldValue>();
    for (const field of fields) {
      const answer = await askField(terminal, field);
      if (answer.kind === "declined") return { action: "decline" };
      if (answer.kind === "gone") return { action: "cancel" };
      if (answer.kind === "value") values.set(field.name, answer.value);
    }
    // One field is sent by its own Enter; more are shown once again (MCP: let the person review before sending).
    if (fields.length === 1) return accept(fields, values);
    for (const field of fields) {
      const value = values.get(field.name);
      terminal.say(`  ${field.title}: ${value === undefined ? "(left out)" : showValue(field, value)}`);
    }
    const sure = await askYesNo(
      terminal,
      fields.length === 0 ? "Agree?" : "Send these answers? (n: start again)",
      fields.length === 0 ? "no" : "yes",
    );
    if (sure === "yes") return accept(fields, values);
    if (sure !== "no") return { action: "cancel" };
    if (fields.length === 0) return { action: "decline" };
  }
}

type FieldAnswer = { kind: "value"; value: FieldValue } | { kind: "skipped" } | { kind: "declined" } | { kind: "gone" };

async function askField(terminal: Terminal, field: Field): Promise<FieldAnswer> {
  terminal.say(describeField(field));
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    const answer = await terminal.ask(fieldPrompt(hasDefault(field) ? field : { ...field, initial: undefined }));
    if (answer.kind !== "line") return { kind: "gone" };
    if (answer.text === DECLINE) return { kind: "declined" };
    if (answer.text === "" && hasDefault(field)) return { kind: "value", value: field.initial as FieldValue };
    if ((answer.text === "" || answer.text === SKIP) && !field.required) return { kind: "skipped" };
    if (answer.text === "") {
      terminal.say("  This one is needed.");
      continue;
    }
    const parsed = parseField(field, answer.text);
    if (parsed.ok) return { kind: "value", value: parsed.value };
    terminal.say(`  ${parsed.problem}`);
  }
  terminal.say("  Given up after too many tries.");
  return { kind: "gone" };
}

function hasDefault(field: Field): boolean {
  return field.initial !== undefined && fits(field, field.initial);
}

function accept(fields: Field[], values: Map<string, FieldValue>): ElicitResult {
  // fromEntries defines own properties, also for a field that calls itself __proto__.
  return {
    action: "accept",
    content: Object.fromEntries(
      fields.flatMap((field) => (values.has(field.name) ? [[field.name, values.get(field.name) as FieldValue]] : [])),
    ),
  };
}
