// Raw MCP requests of revision 2026-07-28, as a client sends them.
import type { Answer } from "./outband.js";

export const REVISION = "2026-07-28";

export interface CallOptions {
  elicitation?: unknown;
  /** inputResponses and requestState of a retry. */
  retry?: { inputResponses?: Record<string, unknown>; requestState?: string };
  signal?: AbortSignal;
  meta?: Record<string, unknown>;
  id?: number;
  /** Default: /mcp. */
  endpoint?: string;
}

export async function mcp(url: string, token: string, method: string, params: Record<string, unknown>, options: CallOptions = {}): Promise<Answer> {
  const answer = await fetch(`${url}${options.endpoint ?? "/mcp"}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": REVISION,
      "mcp-method": method,
      ...(typeof params["name"] === "string" ? { "mcp-name": params["name"] } : {}),
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: options.id ?? 1,
      method,
      params: {
        ...params,
        ...options.retry,
        _meta: {
          "io.modelcontextprotocol/protocolVersion": REVISION,
          "io.modelcontextprotocol/clientInfo": { name: "probe", version: "0.1.0" },
          "io.modelcontextprotocol/clientCapabilities": options.elicitation === undefined ? { elicitation: { url: {}, form: {} } } : { elicitation: options.elicitation },
          ...options.meta,
        },
      },
    }),
    ...(options.signal ? { signal: options.signal } : {}),
  });
  const text = await answer.text();
  const json = text.startsWith("event:") || text.startsWith(":") ? lastEvent(text) : text;
  return { status: answer.status, headers: answer.headers, body: json === "" ? null : JSON.parse(json) };
}

export function callTool(url: string, token: string, name: string, args: Record<string, unknown> = {}, options: CallOptions = {}): Promise<Answer> {
  return mcp(url, token, "tools/call", { name, arguments: args }, options);
}

/** The outcome that programs read. */
export function outcomeOf(answer: Answer): { outcome: string; reason: string | null } & Record<string, unknown> {
  return answer.body?.result?._meta?.["dev.outband/outcome"];
}

/** The link of an `input_required` answer. */
export function linkOf(answer: Answer, key = "connect_gmail"): string {
  return answer.body?.result?.inputRequests?.[key]?.params?.url;
}

function lastEvent(text: string): string {
  const events = text.split("\n\n").filter((part) => part.includes("data:"));
  return (events.at(-1) ?? "").split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim()).join("");
}
