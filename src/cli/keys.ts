// `outband keys`: which master keys there are and what is under them, the rotation (both over the API), and the way out when
// the key is lost. Must never happen: anything erased without the word typed.
import { type Api, createApi, findKey, missingKey, record } from "./api.js";
import { type CliContext, type Command, readOptions, refuseOptions } from "./command.js";
import { CliError, EXIT, type ExitCode, usageError } from "./exit.js";
import { lineOf } from "./finding.js";
import { type KeysAnswer, keyFindings, placeOf, readKeysAnswer } from "./keyFindings.js";
import { plainJson, plainLine } from "./plain.js";
import { runProgram } from "./program.js";
import { table } from "./result.js";
import { addressOf } from "./toolCall.js";

const WORD = "abandon";
const ACTIONS = ["list", "rotate", "abandon"];
const OPTIONS = { yes: { type: "boolean" }, json: { type: "boolean" }, url: { type: "string" } } as const;

export const keysCommand: Command = {
  name: "keys",
  summary: "list the master keys, rotate them, or give a lost one up",
  usage: "keys [list | rotate] [--json] [--url URL]\n       outband keys abandon [--yes]",
  details: `  list      which master keys the server has, and how many data keys are wrapped under each
  rotate    the server makes a new master key where it made the present one (DATA_DIR/master.key; the former one stays in
            master.key.previous) and wraps every data key under it. With MASTER_KEY set, it wraps them under that key: first
            put the new key into MASTER_KEY and the former one into MASTER_KEY_PREVIOUS, on every instance, and start again.
            Nothing stops meanwhile, and it can be run again at any time
  abandon   for a key that is lost. Erases everything that is sealed with it. Accounts become EXPIRED and people connect them
            again; client secrets must be entered again; everybody signs in again. Nothing is revoked at the providers: the
            tokens are not readable. Stop every instance first. Settings come from the environment and from .env in this
            folder; with DATABASE_URL, set a new MASTER_KEY before

  --json    print JSON (list, rotate)
  --yes     do not ask for the word to be typed (abandon)`,
  async run(context, args) {
    const { values, positionals } = readOptions(args, OPTIONS, 1);
    const [action = "list"] = positionals;
    if (!ACTIONS.includes(action)) throw usageError(`keys can ${ACTIONS.join(", ")}, not: ${plainLine(action)}`, "outband help keys");
    refuseOptions(values, action === "abandon" ? ["json", "url"] : ["yes"], `keys ${action}`);
    if (action === "abandon") return abandon(context, values.yes === true);
    const address = addressOf(context, values.url);
    const found = await findKey(context.environment, address);
    if (found === null) throw missingKey(context.environment);
    const api = createApi({ ...context, address, key: found.key });
    return action === "rotate" ? rotate(context, api, values.json === true) : list(context, api, values.json === true);
  },
};

async function list(context: CliContext, api: Api, json: boolean): Promise<ExitCode> {
  const answer = await api.get("/keys");
  if (json) {
    context.terminal.print(plainJson(answer));
    return EXIT.ok;
  }
  const keys = understood(answer);
  const rows = keys.keys.map(({ kid, source, dataKeys }) => [kid, placeOf(source), String(dataKeys), kid === keys.current ? "current" : source === null ? "missing" : "former"]);
  context.terminal.print(table(["KEY", "WHERE", "DATA KEYS", ""], rows));
  return remarks(context, keys);
}

async function rotate(context: CliContext, api: Api, json: boolean): Promise<ExitCode> {
  const answer = await api.post("/keys/rotate", {});
  const { rewrapped, remaining } = record(answer);
  if (typeof rewrapped !== "number" || typeof remaining !== "number") throw notUnderstood();
  if (json) {
    context.terminal.print(plainJson(answer));
    return remaining === 0 ? EXIT.ok : EXIT.notDone;
  }
  const keys = understood(await api.get("/keys"));
  const source = keys.keys.find(({ kid }) => kid === keys.current)?.source ?? null;
  context.terminal.print(`Wrapped anew: ${rewrapped}. Still under another master key: ${remaining}. Current key: ${keys.current}, from ${placeOf(source)}.`);
  if (rewrapped === 0 && remaining === 0 && source === "MASTER_KEY") {
    context.terminal.say("Everything was under MASTER_KEY already. To change it: the new key into MASTER_KEY, the former one into MASTER_KEY_PREVIOUS, start again, then this.");
  }
  if (source === "master.key") context.terminal.say("Copy the new DATA_DIR/master.key to where you keep the former one: backups from now on need it.");
  const code = remarks(context, keys);
  return remaining === 0 ? code : EXIT.notDone;
}

/** What is not in order, and what can go, below the answer. */
function remarks(context: CliContext, keys: KeysAnswer): ExitCode {
  const findings = keyFindings(keys, context.clock.now()).filter(({ state }) => state !== "ok");
  for (const finding of findings) context.terminal.say(lineOf(finding));
  return findings.find(({ state }) => state === "no")?.exitCode ?? EXIT.ok;
}

function understood(answer: unknown): KeysAnswer {
  const keys = readKeysAnswer(answer);
  if (keys === null) throw notUnderstood();
  return keys;
}

function notUnderstood(): CliError {
  return new CliError(EXIT.serverFault, "The server's answer about its keys is not one that this program knows.");
}

async function abandon(context: CliContext, yes: boolean): Promise<ExitCode> {
  if (!yes && !context.terminal.interactive) throw usageError("There is nobody here to confirm it.", "outband keys abandon --yes");
  if (!yes) {
    context.terminal.say("This erases every credential stored here. People must connect their accounts again.");
    const answer = await context.terminal.ask(`Type ${WORD} to go on: `);
    if (answer.kind !== "line" || answer.text.trim() !== WORD) {
      context.terminal.say("Nothing was changed.");
      return EXIT.notDone;
    }
  }
  return runProgram("abandon.js", ["--confirmed"], context.signal);
}
