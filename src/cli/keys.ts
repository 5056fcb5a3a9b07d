// `outband keys abandon`: the way out when the master key is lost. Must never happen: anything erased without the word typed.
import { type Command, readOptions } from "./command.js";
import { EXIT, usageError } from "./exit.js";
import { runProgram } from "./program.js";

const WORD = "abandon";

export const keysCommand: Command = {
  name: "keys",
  summary: "`keys abandon`: the way out when the master key is lost",
  usage: "keys abandon [--yes]",
  details: `  Erases everything that is sealed with the lost key. Accounts become EXPIRED and people connect them again; client
  secrets must be entered again; everybody signs in again. Nothing is revoked at the providers: the tokens are not readable.
  Stop every instance first. Settings come from the environment and from .env in this folder; with DATABASE_URL, set a new
  MASTER_KEY before.

  --yes   do not ask for the word to be typed`,
  async run(context, args) {
    const { values, positionals } = readOptions(args, { yes: { type: "boolean" } }, 1);
    if (positionals[0] !== "abandon") throw usageError("Which of the key commands?", "outband keys abandon");
    if (values.yes !== true && !context.terminal.interactive) throw usageError("There is nobody here to confirm it.", "outband keys abandon --yes");
    if (values.yes !== true) {
      context.terminal.say("This erases every credential stored here. People must connect their accounts again.");
      const answer = await context.terminal.ask(`Type ${WORD} to go on: `);
      if (answer.kind !== "line" || answer.text.trim() !== WORD) {
        context.terminal.say("Nothing was changed.");
        return EXIT.notDone;
      }
    }
    return runProgram("abandon.js", ["--confirmed"], context.signal);
  },
};
