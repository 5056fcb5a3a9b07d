// `outband connections`: the accounts of the person who is signed in, or with an API key everybody's.
import { createApi, findKey, missingKey, record, rows } from "./api.js";
import { showResult } from "./call.js";
import { type CliContext, type Command, readOptions, refuseOptions } from "./command.js";
import { EXIT, type ExitCode } from "./exit.js";
import { plainJson } from "./plain.js";
import { table } from "./result.js";
import { addressOf, callTool } from "./toolCall.js";

/** The API's largest page. */
const PAGE = 200;

export const connectionsCommand: Command = {
  name: "connections",
  summary: "list your connected accounts, or with --all everybody's",
  usage: "connections [--all] [--json] [--yes] [--no-browser] [--url URL]",
  details: `  --all              everybody's, over the API with a key; also when OUTBAND_API_KEY is set
  --mine             your own, over MCP with your sign-in; also when OUTBAND_API_KEY is set
  --json             print JSON
  --yes, --no-browser, --url   as for call`,
  async run(context, args) {
    const { values } = readOptions(
      args,
      {
        all: { type: "boolean" },
        mine: { type: "boolean" },
        json: { type: "boolean" },
        yes: { type: "boolean", short: "y" },
        "no-browser": { type: "boolean" },
        url: { type: "string" },
      },
      0,
    );
    if (values.all === true) refuseOptions(values, ["mine", "yes", "no-browser"], "connections --all");
    const all = values.all === true || (values.mine !== true && context.environment.apiKey !== null);
    if (all) return listAll(context, values.url, values.json === true);
    const result = await callTool(context, {
      tool: "list_my_connections",
      url: values.url,
      pages: { yes: values.yes === true, noBrowser: values["no-browser"] === true },
      args: () => ({}),
    });
    return showResult(context.terminal, result, values.json === true);
  },
};

async function listAll(context: CliContext, url: string | undefined, json: boolean): Promise<ExitCode> {
  const address = addressOf(context, url);
  const found = await findKey(context.environment, address);
  if (found === null) throw missingKey(context.environment);
  const answer = await createApi({ ...context, address, key: found.key }).get(`/accounts?limit=${PAGE}`);
  if (json) {
    context.terminal.print(plainJson(answer));
    return EXIT.ok;
  }
  const accounts = rows(answer);
  if (accounts.length === 0) context.terminal.say("No accounts yet.");
  else context.terminal.print(table(["CONNECTION", "PERSON", "LABEL", "STATUS", "REASON", "ACCOUNT"], accounts.map(accountRow)));
  if (typeof record(answer).next_cursor === "string") context.terminal.say(`Only the newest ${PAGE} are shown.`);
  return EXIT.ok;
}

function accountRow(account: Record<string, unknown>): string[] {
  const { email, name, id } = record(account.external_account);
  return [
    account.connection_name,
    account.identifier,
    account.label || "default",
    account.status,
    account.status_reason ?? "",
    email ?? name ?? id ?? "",
  ].map(String);
}
