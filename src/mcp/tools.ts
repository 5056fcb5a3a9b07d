// The tools of an MCP endpoint: those of the vault with `account` and `idempotency_key` added, behind our own two.
// Must never happen: two tools of one name; a listing that depends on who asked before; a call run on arguments that
// were not checked.
import type { Tool as ListedTool } from "@modelcontextprotocol/server";
import { z } from "zod";
import type { Tool } from "../connectors/connector.js";
import type { PersonPrincipal } from "../identity/principal.js";
import type { OfferedTool, Vault } from "../vault/front.js";
import type { ToolCallOutcome } from "../vault/types.js";
import { type Problem, problemsOf } from "./arguments.js";

export interface CheckedCall {
  args: Record<string, unknown>;
  account: string | undefined;
  idempotencyKey: string | undefined;
}

/** One try of a call; the same call may be tried several times over its rounds. */
export interface Try {
  principal: PersonPrincipal;
  checked: CheckedCall;
  answers: Record<string, Record<string, string>>;
  chain: string | undefined;
  signal: AbortSignal;
  requestId: string;
  traceId: string | undefined;
}

/** A tool as this surface sees it: what is listed, how arguments are checked, how it runs. */
export interface McpTool {
  name: string;
  title: string;
  effect: "read" | "write";
  /** What a call with these arguments does, where that depends on them; default: `effect`. */
  effectOf?(args: Record<string, unknown>): Promise<"read" | "write">;
  connectionName: string | null;
  connectionTitle: string;
  sandbox: boolean;
  listed: ListedTool;
  check(args: Record<string, unknown>): { ok: true; call: CheckedCall } | { ok: false; problems: Problem[] };
  run(one: Try): Promise<ToolCallOutcome>;
}

const account = z
  .string()
  .min(1)
  .max(320)
  .optional()
  .describe("Which connected account to use: its label, else its e-mail address. Needed when there are several.");
const idempotencyKey = z
  .string()
  .min(1)
  .max(255)
  .optional()
  .describe("Makes a repeated call safe: the same key with the same arguments is done once, and gives the recorded result again.");
const EXTRA = { read: z.object({ account }), write: z.object({ idempotency_key: idempotencyKey, account }) };

export interface Catalogue {
  /** In the order of contract 6.3, without those of disabled connections. */
  list(): Promise<McpTool[]>;
  /** Null: unknown. One of a disabled connection is found, so that its call is told so. */
  find(name: string): Promise<McpTool | null>;
}

export function createCatalogue(deps: { vault: Pick<Vault, "tools">; own: readonly McpTool[] }): Catalogue {
  // A Tool is made once by its connector, so its schemas are converted once (35 µs a tool and request otherwise).
  const schemas = new WeakMap<Tool, Schemas>();
  const schemasOf = (tool: Tool): Schemas => {
    const known = schemas.get(tool) ?? convert(tool);
    schemas.set(tool, known);
    return known;
  };

  async function list(): Promise<McpTool[]> {
    const enabled = (await deps.vault.tools.offered()).filter((offer) => offer.enabled);
    const offered = enabled.map((offer) => vaultTool(deps.vault, offer, schemasOf(offer.tool)));
    const names = new Set<string>();
    // The vault gives distinct names; were one ever taken twice, the first would be called and so the first is listed.
    return [...deps.own, ...offered].filter(({ name }) => !names.has(name) && names.add(name));
  }

  return {
    list,
    async find(name) {
      const own = deps.own.find((tool) => tool.name === name);
      if (own) return own;
      const offer = (await deps.vault.tools.offered()).find((one) => one.name === name);
      return offer ? vaultTool(deps.vault, offer, schemasOf(offer.tool)) : null;
    },
  };
}

/** For an endpoint whose tools never change. */
export function fixedCatalogue(tools: readonly McpTool[]): Catalogue {
  return { list: async () => [...tools], find: async (name) => tools.find((tool) => tool.name === name) ?? null };
}

function vaultTool(vault: Pick<Vault, "tools">, offer: OfferedTool, schemas: Schemas): McpTool {
  const { tool, connectionName, connectionTitle, sandbox } = offer;
  const title = offer.name === tool.name ? tool.title : `${tool.title} (${connectionTitle})`;
  return {
    name: offer.name,
    title,
    effect: tool.effect,
    connectionName,
    connectionTitle,
    sandbox,
    listed: {
      name: offer.name,
      title,
      description: sandbox ? `${tool.description} (Sandbox: practice data.)` : tool.description,
      ...schemas,
      annotations: annotationsOf(title, tool.effect, tool.hints),
    },
    check: (args) => checked(tool, args),
    run: ({ principal, checked: { args, ...named }, ...one }) =>
      vault.tools.execute(principal, principal.sub, { tool: offer.name, args, ...named, ...one }),
  };
}

export function annotationsOf(title: string, effect: "read" | "write", hints: Tool["hints"]): ListedTool["annotations"] {
  return {
    title,
    readOnlyHint: effect === "read",
    destructiveHint: effect === "write" && hints.destructive,
    idempotentHint: effect === "read" || hints.idempotent,
    openWorldHint: hints.openWorld,
  };
}

function checked(tool: Tool, args: Record<string, unknown>): ReturnType<McpTool["check"]> {
  const { account: _account, idempotency_key: _key, ...rest } = args;
  // A read takes no idempotency key: left where it is, a strict tool refuses it and others ignore it, as any unknown field.
  const own =
    tool.effect === "write" ? rest : { ...rest, ...("idempotency_key" in args ? { idempotency_key: args["idempotency_key"] } : {}) };
  const extra = EXTRA.write.safeParse(tool.effect === "write" ? args : { account: args["account"] });
  const input = tool.input.safeParse(own);
  const issues = [...(input.error?.issues ?? []), ...(extra.error?.issues ?? [])];
  if (issues.length > 0 || !extra.data) return { ok: false, problems: problemsOf(issues, args) };
  // Handed on as sent: the tool parses again by its own schema, and a parsed value is not always fit to be parsed again.
  return { ok: true, call: { args: own, account: extra.data.account, idempotencyKey: extra.data.idempotency_key } };
}

interface Schemas {
  inputSchema: ListedTool["inputSchema"];
  outputSchema: NonNullable<ListedTool["outputSchema"]>;
}

function convert(tool: Tool): Schemas {
  const input = jsonSchema(tool.input);
  const extra = jsonSchema(EXTRA[tool.effect]);
  return {
    inputSchema: { ...input, properties: { ...input.properties, ...extra.properties } },
    outputSchema: jsonSchema(tool.output),
  };
}

/** In JSON Schema 2020-12, MCP's own dialect, so `$schema` can go. As sent: defaults are optional, unknown output fields allowed. */
export function jsonSchema(schema: z.ZodObject): ListedTool["inputSchema"] {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  return { ...rest, type: "object" } as ListedTool["inputSchema"];
}
