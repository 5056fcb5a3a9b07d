// `outband users`: who may sign in, over the API with a key. Must never happen: a password among the arguments, where
// every process of the machine can read it.
import { type Api, createApi, findKey, missingKey, record, rows } from "./api.js";
import { type CliContext, type Command, readOptions, refuseOptions } from "./command.js";
import { EXIT, type ExitCode, usageError } from "./exit.js";
import { plainJson, plainLine } from "./plain.js";
import { table } from "./result.js";
import { addressOf } from "./toolCall.js";

const PAGE = 200;

const OPTIONS = {
  email: { type: "string" },
  name: { type: "string" },
  role: { type: "string" },
  sub: { type: "string" },
  "password-stdin": { type: "boolean" },
  json: { type: "boolean" },
  url: { type: "string" },
} as const;

export const usersCommand: Command = {
  name: "users",
  summary: "list the people who may sign in, or make one",
  usage: "users [list | create --email EMAIL [--name NAME] [--role ROLE] [--sub SUB] [--password-stdin]] [--json] [--url URL]",
  details: `  --role ROLE        user (default), viewer or admin
  --sub SUB          the identifier, where it must be a certain one
  --password-stdin   read the password from the standard input; without it the person gets an invitation link
  --json             print JSON`,
  async run(context, args) {
    const { values, positionals } = readOptions(args, OPTIONS, 1);
    const [action = "list"] = positionals;
    if (action !== "list" && action !== "create") throw usageError(`users can list and create, not: ${plainLine(action)}`);
    if (action === "list") refuseOptions(values, ["email", "name", "role", "sub", "password-stdin"], "users list");
    const address = addressOf(context, values.url);
    const found = await findKey(context.environment, address);
    if (found === null) throw missingKey(context.environment);
    const api = createApi({ ...context, address, key: found.key });
    if (action === "list") return list(context, api, values.json === true);

    if (values.email === undefined) throw usageError("users create needs --email.");
    const password = values["password-stdin"] === true ? (await context.readInput()).replace(/\r?\n$/, "") : undefined;
    const user = await api.post("/users", { email: values.email, name: values.name, role: values.role, sub: values.sub, password });
    return created(context, user, values.json === true);
  },
};

async function list(context: CliContext, api: Api, json: boolean): Promise<ExitCode> {
  const answer = await api.get(`/users?limit=${PAGE}`);
  const people = rows(answer);
  if (json) context.terminal.print(plainJson(answer));
  else if (people.length === 0) context.terminal.say("Nobody yet.");
  else
    context.terminal.print(
      table(
        ["SUB", "EMAIL", "NAME", "ROLE"],
        people.map(({ sub, email, name, role }) => [sub, email ?? "", name ?? "", role].map(String)),
      ),
    );
  return EXIT.ok;
}

function created(context: CliContext, answer: unknown, json: boolean): ExitCode {
  const user = record(answer);
  if (json) {
    context.terminal.print(plainJson(answer));
    return EXIT.ok;
  }
  context.terminal.print(`Made ${plainLine(String(user.email))} (${plainLine(String(user.sub))}).`);
  if (typeof user.invitation_url === "string")
    context.terminal.print(`Invitation link, to be used once:\n${plainLine(user.invitation_url, 500)}`);
  return EXIT.ok;
}
