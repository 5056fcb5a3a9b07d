// `outband call`: calls one tool and shows its result.
import type { CallToolResult } from "@modelcontextprotocol/client";
import { type Command, readOptions } from "./command.js";
import { EXIT, type ExitCode, usageError } from "./exit.js";
import { plainJson } from "./plain.js";
import { readOutcome, renderResult } from "./result.js";
import type { Terminal } from "./terminal.js";
import { readToolArguments } from "./toolArguments.js";
import { callTool } from "./toolCall.js";

export const callCommand: Command = {
  name: "call",
  summary: "call a tool, signing in and connecting accounts on the way",
  usage: "call TOOL [--arg NAME=VALUE]… [--args-json JSON] [--json] [--yes] [--no-browser] [--url URL]",
  details: `  --arg NAME=VALUE   an argument, read by the tool's schema; again for more, or for a list
  --args-json JSON   arguments as a JSON object
  --json             print the whole result as JSON
  --yes              do not ask: open pages of the server's own host, answer forms with their defaults
  --no-browser       never start a browser; print the addresses
  --url URL          the server, or a whole MCP endpoint such as http://localhost:3000/mcp

Without a terminal nobody can be asked: the result says which page to open, unless --yes is given.
An unknown TOOL prints the names of those there are.`,
  async run(context, args) {
    const { values, positionals } = readOptions(
      args,
      {
        arg: { type: "string", multiple: true },
        "args-json": { type: "string" },
        json: { type: "boolean" },
        yes: { type: "boolean", short: "y" },
        "no-browser": { type: "boolean" },
        url: { type: "string" },
      },
      1,
    );
    const [tool] = positionals;
    if (tool === undefined) throw usageError("Which tool?", "Such as: outband call list_my_connections");
    const result = await callTool(context, {
      tool,
      url: values.url,
      pages: { yes: values.yes === true, noBrowser: values["no-browser"] === true },
      args: (inputSchema) => readToolArguments(inputSchema, values.arg ?? [], values["args-json"]),
    });
    return showResult(context.terminal, result, values.json === true);
  },
};

export function showResult(terminal: Terminal, result: CallToolResult, json: boolean): ExitCode {
  terminal.print(json ? plainJson(result) : renderResult(result, terminal.columns));
  const outcome = readOutcome(result);
  if (!json && outcome?.connectPage) terminal.say(`Connect it here, in your browser: ${outcome.connectPage}`);
  if (!json && outcome?.retryAfterS) terminal.say(`Try again in ${Math.ceil(outcome.retryAfterS)} seconds.`);
  return result.isError === true || outcome !== null ? EXIT.notDone : EXIT.ok;
}
