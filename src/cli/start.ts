// `outband start`: the server as a program of its own.
import { type Command, readOptions } from "./command.js";
import { runProgram } from "./program.js";

export const startCommand: Command = {
  name: "start",
  summary: "start the server in this folder",
  usage: "start",
  details: "  Settings come from the environment and from .env in this folder. Ctrl-C stops it.",
  async run(context, args) {
    readOptions(args, {}, 0);
    return runProgram("server.js", [], context.signal);
  },
};
