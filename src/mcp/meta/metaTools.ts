// META mode (contract 6.4): five tools that stand for all, for agents whose context should not hold every schema. Connecting is
// told as an ordinary result here, never asked. Must never happen: a tool run on arguments that its own schema did not pass;
// another person's account; a writing tool reached without mcp:write (effectOf); a name that the caller sent, repeated.
import { z } from "zod";
import { OutbandError } from "../../errors.js";
import type { Vault } from "../../vault/front.js";
import {
  type AccountView,
  type ConnectionView,
  labelFrom,
  type LinkCreated,
  type Readiness,
  type ToolCallOutcome,
} from "../../vault/types.js";
import { problemsText } from "../arguments.js";
import { best, connectionsOf, connectionsOutput } from "../connectionsList.js";
import { type EndDeps, endOf, ownTool } from "../ownTool.js";
import { SANDBOX_NOTE } from "../results.js";
import type { Catalogue, McpTool, Try } from "../tools.js";
import { connectPageOf, isOperators, linkRefused, notConnectedText, operatorText, reasonInWords } from "../words.js";
import { searchTools } from "./toolSearch.js";

export interface MetaToolsDeps extends EndDeps {
  vault: Pick<Vault, "connections" | "accounts" | "links" | "tools">;
  /** The tools that are searched, described and run: those of the connections. */
  tools: Catalogue;
  publicUrl: string;
}

const RESULTS_MAX = 50;
const readiness = z.enum(["ready", "needs_reauth", "needs_connection"]);
const toolName = z.string().min(1).max(128).describe("The tool's name, as in search_tools.");
const connectionName = z.string().min(1).max(32).describe("The connection, as in list_connections.");
const account = z.string().min(1).max(320).optional();

const searchInput = z.object({
  query: z.string().max(500).describe("What is to be done, in a few words. Empty: all tools."),
  connection_name: connectionName.optional(),
  limit: z.int().min(1).max(RESULTS_MAX).default(10),
});
const searchOutput = z.object({
  tools: z.array(z.object({ tool_name: z.string(), connection_name: z.string(), title: z.string(), description: z.string(), readiness })),
});
const describeInput = z.object({ tool_name: toolName });
const describeOutput = z.object({
  tool_name: z.string(),
  connection_name: z.string(),
  title: z.string(),
  description: z.string(),
  readiness,
  input_schema: z.record(z.string(), z.unknown()),
  output_schema: z.record(z.string(), z.unknown()),
  annotations: z.record(z.string(), z.unknown()),
});
const executeInput = z.object({
  tool_name: toolName,
  arguments: z.record(z.string(), z.unknown()).default({}).describe("The tool's own arguments, as describe_tool gives their schema."),
  account: account.describe("Which connected account to use: its label, else its e-mail address. Needed when there are several."),
});
const executeOutput = z.object({
  status: z.enum(["ok", "not_connected", "reauth_needed"]),
  result: z.record(z.string(), z.unknown()).optional(),
  connection_name: z.string().optional(),
  detail: z.string().optional(),
});
const connectInput = z.object({
  connection_name: connectionName,
  account: account.describe("A label for a further account, or which one to connect again. Default: the first one."),
});
const connectOutput = z.object({
  status: z.enum(["link_created", "already_connected"]),
  connection_name: z.string(),
  link: z.string().optional(),
  expires_at: z.string().optional(),
});

export function createMetaTools(deps: MetaToolsDeps): McpTool[] {
  return [listConnections(deps), searchForTools(deps), describeTool(deps), executeTool(deps), connectAccount(deps)];
}

function listConnections(deps: MetaToolsDeps): McpTool {
  return ownTool({
    name: "list_connections",
    title: "List connections",
    description: "Lists the services that can be connected here, and which accounts of this person are connected and usable.",
    effect: "read",
    hints: { destructive: false, idempotent: true, openWorld: false },
    input: z.object({}),
    output: connectionsOutput,
    run: async (one) => endOf(deps, one, "list_connections").done(await connectionsOf(deps.vault, one.principal.sub)),
  });
}

function searchForTools(deps: MetaToolsDeps): McpTool {
  return ownTool({
    name: "search_tools",
    title: "Search tools",
    description:
      "Finds tools by words of what is to be done. Those that are ready to use come first. Then read describe_tool, and run one with execute_tool.",
    effect: "read",
    hints: { destructive: false, idempotent: true, openWorld: false },
    input: searchInput,
    output: searchOutput,
    async run(one) {
      const { query, connection_name: only, limit } = searchInput.parse(one.checked.args);
      const known = await findable(deps, one);
      const found = searchTools(only === undefined ? known : known.filter((tool) => tool.connectionName === only), query).slice(0, limit);
      const lines = found.map(({ name, title, readiness: how }) => `- ${name}: ${title} (${how})`);
      return endOf(deps, one, "search_tools").done({
        text: lines.length > 0 ? ["Tools that fit, ready ones first:", ...lines].join("\n") : "No tool fits these words.",
        structured: {
          tools: found.map((tool) => ({
            tool_name: tool.name,
            connection_name: tool.connectionName,
            title: tool.title,
            description: tool.description,
            readiness: tool.readiness,
          })),
        },
      });
    },
  });
}

function describeTool(deps: MetaToolsDeps): McpTool {
  return ownTool({
    name: "describe_tool",
    title: "Describe a tool",
    description: "Gives a tool's description and the JSON Schemas of its arguments and result.",
    effect: "read",
    hints: { destructive: false, idempotent: true, openWorld: false },
    input: describeInput,
    output: describeOutput,
    async run(one) {
      const { tool_name: name } = describeInput.parse(one.checked.args);
      const end = endOf(deps, one, "describe_tool");
      const tool = (await findable(deps, one)).find((known) => known.name === name);
      if (!tool) return end.failed("invalid_arguments", "unknown_tool", UNKNOWN_TOOL);
      const { inputSchema, outputSchema, annotations } = tool.tool.listed;
      return end.done({
        text: `${tool.name}: ${tool.description} Arguments (JSON Schema): ${JSON.stringify(inputSchema)}`,
        structured: {
          tool_name: tool.name,
          connection_name: tool.connectionName,
          title: tool.title,
          description: tool.description,
          readiness: tool.readiness,
          input_schema: inputSchema,
          output_schema: outputSchema ?? {},
          annotations: annotations ?? {},
        },
      });
    },
  });
}

function executeTool(deps: MetaToolsDeps): McpTool {
  return {
    ...ownTool({
      name: "execute_tool",
      title: "Execute a tool",
      description:
        "Runs a tool that search_tools found. When its account is missing, the result says not_connected: get a link with connect_account, give it to the person, and run the tool again when they say that they are done.",
      effect: "write",
      hints: { destructive: true, idempotent: false, openWorld: true },
      input: executeInput,
      output: executeOutput,
      async run(one) {
        const { tool_name: name, arguments: args, account: which } = executeInput.parse(one.checked.args);
        const end = endOf(deps, one, "execute_tool");
        const tool = await deps.tools.find(name);
        if (!tool) return end.failed("invalid_arguments", "unknown_tool", UNKNOWN_TOOL);
        const checked = tool.check(which === undefined ? args : { ...args, account: which });
        if (!checked.ok)
          return end.failed(
            "invalid_arguments",
            null,
            problemsText(
              checked.problems.map(({ path, message }) => ({ path: path === "the arguments" ? path : `arguments.${path}`, message })),
            ),
          );
        const outcome = await tool.run({ ...one, checked: checked.call });
        if (outcome.kind === "done")
          return {
            ...outcome,
            result: {
              ...outcome.result,
              text: marked(outcome.result.text, tool.sandbox),
              structured: { status: "ok", result: outcome.result.structured },
            },
          };
        return outcome.kind === "needs_account" ? told(deps, one, tool, outcome) : outcome;
      },
    }),
    // A tool that only reads needs no more than mcp:read, whichever way it is reached.
    effectOf: async (args) =>
      typeof args["tool_name"] === "string" ? ((await deps.tools.find(args["tool_name"]))?.effect ?? "read") : "read",
  };
}

/** Connecting is not asked here: the agent is told, and has connect_account. */
async function told(
  deps: MetaToolsDeps,
  one: Try,
  tool: McpTool,
  outcome: Extract<ToolCallOutcome, { kind: "needs_account" }>,
): Promise<ToolCallOutcome> {
  const end = endOf(deps, one, tool.name, outcome.connectionName);
  const subject = { connectionName: outcome.connectionName, title: outcome.connectionTitle, sandbox: tool.sandbox };
  if (isOperators(outcome.reason)) return end.failed("provider_error", outcome.reason, operatorText(subject, outcome.reason));
  const detail = `${outcome.connectionTitle} is not usable: ${reasonInWords(outcome.reason)}. Get a link with connect_account and give it to the person; run this again when they say that they are done.`;
  if (outcome.readiness === "ready") return end.failed("scope_missing", outcome.reason, detail);
  const status = outcome.readiness === "needs_reauth" ? ("reauth_needed" as const) : ("not_connected" as const);
  return end.told(status, {
    text: marked(`${status}: ${detail}`, tool.sandbox),
    structured: { status, connection_name: outcome.connectionName, detail },
  });
}

function connectAccount(deps: MetaToolsDeps): McpTool {
  return {
    ...ownTool({
      name: "connect_account",
      title: "Connect an account",
      description:
        "Makes a link that the person opens in their own browser to connect a service. Give it to them as it is; it works for them alone.",
      effect: "write",
      hints: { destructive: false, idempotent: false, openWorld: false },
      input: connectInput,
      output: connectOutput,
      async run(one) {
        const { connection_name: name, account: which } = connectInput.parse(one.checked.args);
        const connection = await deps.vault.connections.get(name);
        const end = endOf(deps, one, "connect_account", connection?.name ?? null);
        if (!connection?.enabled)
          return end.failed(
            "not_allowed",
            connection ? "connection_disabled" : "unknown_connection",
            "This cannot be connected here. list_connections says what can.",
          );
        const found = await deps.vault.accounts.find(one.principal.sub, name, which);
        if (found === "ambiguous")
          return end.failed(
            "ambiguous_account",
            null,
            `Several accounts are there. Say which one with "account": a label of list_connections, or a new one.`,
          );
        if (found?.readiness === "ready" && !(await lacksScope(deps, found)))
          return end.done(
            { text: `${connection.title} is connected already.`, structured: { status: "already_connected", connection_name: name } },
            found,
          );
        const subject = { connectionName: name, title: connection.title, sandbox: connection.sandbox };
        if (found && found.statusReason !== null && isOperators(found.statusReason))
          return end.failed("provider_error", found.statusReason, operatorText(subject, found.statusReason), found);
        const link = await newLink(deps, one, connection, found, which);
        if (link === "asked_too_often")
          return end.failed("not_connected", link, notConnectedText(subject, link, connectPageOf(deps.publicUrl, one.principal)), found);
        if (link instanceof OutbandError) {
          const { outcome, reason, text } = linkRefused(link);
          return end.failed(outcome, reason, text, found);
        }
        return end.done({
          text: marked(
            `Give this link to the person, as it is: ${link.url} It works for them alone, once, until ${link.expiresAt.toISOString()}.`,
            connection.sandbox,
          ),
          structured: { status: "link_created", connection_name: name, link: link.url, expires_at: link.expiresAt.toISOString() },
        });
      },
    }),
    // It is the person who connects, on their own page: a reading client may ask for it, as in direct mode.
    effectOf: async () => "read",
  };
}

/** Connected, but not for every tool: a new link offers what was left out. */
async function lacksScope(deps: MetaToolsDeps, account: AccountView): Promise<boolean> {
  const offered = await deps.vault.tools.offered();
  return offered.some(
    ({ connectionName: of, tool }) => of === account.connectionName && tool.scopes.some((scope) => !account.scopes.includes(scope)),
  );
}

async function newLink(
  deps: MetaToolsDeps,
  one: Try,
  connection: ConnectionView,
  found: AccountView | null,
  which: string | undefined,
): Promise<LinkCreated | "asked_too_often" | OutbandError> {
  const { principal } = one;
  try {
    return await deps.vault.links.create(principal, {
      connectionName: connection.name,
      identifier: principal.sub,
      label: found?.label ?? labelFrom(which),
      askedBy: "mcp",
      clientId: principal.clientId,
      clientName: principal.clientName,
      tool: null,
    });
  } catch (thrown) {
    if (thrown instanceof OutbandError && thrown.status < 500) return thrown;
    throw thrown;
  }
}

const UNKNOWN_TOOL = "There is no such tool. Find one with search_tools.";

async function findable(deps: MetaToolsDeps, one: Try) {
  const [tools, accounts] = await Promise.all([deps.tools.list(), deps.vault.accounts.ofPerson(one.principal.sub)]);
  return tools.flatMap((tool) => {
    const { connectionName: of } = tool;
    if (of === null) return [];
    const ready: Readiness = best(accounts.filter((own) => own.connectionName === of).map((own) => own.readiness));
    return [
      {
        tool,
        name: tool.name,
        title: tool.title,
        description: tool.listed.description ?? "",
        connectionName: of,
        connectionTitle: tool.connectionTitle,
        readiness: ready,
      },
    ];
  });
}

function marked(text: string, sandbox: boolean): string {
  return sandbox ? `${text} ${SANDBOX_NOTE}` : text;
}
