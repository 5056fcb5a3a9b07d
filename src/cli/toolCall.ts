// One tool call from end to end: address, sign-in, the tool's schema, the questions in between, the result.
import type { CallToolResult, Tool } from "@modelcontextprotocol/client";
import { readAddress, type ServerAddress } from "./address.js";
import type { CliContext } from "./command.js";
import { createElicitor } from "./elicitation.js";
import { CliError, EXIT, usageError } from "./exit.js";
import { callLimits, type McpSession, openMcp } from "./mcp.js";
import { createPages, type PageOptions } from "./page.js";
import { plainLine } from "./plain.js";
import type { JsonObject } from "./toolArguments.js";
import { createTokenStore } from "./tokenStore.js";

export interface ToolRequest {
  tool: string;
  /** `--url`, else the environment's. */
  url: string | undefined;
  pages: PageOptions;
  /** Given the tool's input schema. */
  args(inputSchema: unknown): JsonObject;
}

/** Between two remarks of a long wait. */
const REMARK_EVERY_MS = 20_000;

export function addressOf(context: CliContext, url: string | undefined): ServerAddress {
  return url === undefined ? readAddress(context.environment.serverUrl, context.environment.serverUrlFrom) : readAddress(url, "--url");
}

export async function callTool(context: CliContext, request: ToolRequest): Promise<CallToolResult> {
  const { terminal, clock, signal } = context;
  const address = addressOf(context, request.url);
  const pages = createPages({ terminal, open: context.open, server: address.origin, options: request.pages });
  const store = createTokenStore({ home: context.environment.home, endpoint: address.mcp, clock });
  let session: McpSession | null = null;
  const asker = (): string => `The server "${plainLine(session?.serverName ?? "unnamed", 60)}" at ${address.mcp}`;
  const elicitor = createElicitor({ terminal, pages, asker, yes: request.pages.yes });

  const asks = terminal.interactive || request.pages.yes;
  session = await openMcp({ ...context, address, store, pages, asks }, (params) => elicitor.answer(params));
  const { client, signedIn, close } = session;
  try {
    const { tools } = await signedIn(() => client.listTools(undefined, { signal }));
    const tool = tools.find(({ name }) => name === request.tool);
    if (tool === undefined) throw unknownTool(request.tool, tools);
    const args = request.args(tool.inputSchema);

    let remarkAt = clock.monotonic() + REMARK_EVERY_MS;
    const onprogress = (): void => {
      if (!elicitor.waiting || clock.monotonic() < remarkAt) return;
      remarkAt = clock.monotonic() + REMARK_EVERY_MS;
      terminal.say("Still waiting for you to finish in the browser…");
    };
    return await signedIn(() => client.callTool({ name: tool.name, arguments: args }, callLimits(signal, onprogress)));
  } catch (error) {
    if (signal.aborted) throw new CliError(EXIT.interrupted, "Stopped.", { cause: error });
    throw error;
  } finally {
    await close();
  }
}

function unknownTool(name: string, tools: Tool[]): CliError {
  const names = tools.map((tool) => plainLine(tool.name, 80));
  return usageError(
    `There is no tool ${plainLine(name)} here.`,
    names.length === 0 ? "The server offers no tools." : `Tools:\n  ${names.join("\n  ")}`,
  );
}
