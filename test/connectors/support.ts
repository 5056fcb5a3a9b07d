// Doubles for connector tests: an ApiClient that answers from a script and counts, a context around it, a provider on loopback
// with awkward manners, and a clock that does not wait.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { type Clock, systemClock } from "../../src/clock.js";
import {
  type ApiAnswer,
  type ApiRequest,
  type FormQuestion,
  NeedsAnswer,
  type Tool,
  type ToolContext,
  type ToolResult,
} from "../../src/connectors/connector.js";

export const NOW_MS = Date.parse("2026-12-01T12:00:00Z");

/** Stands still; sleeping is recorded and takes no time. */
export function stillClock(nowMs = NOW_MS): Clock & { slept: number[] } {
  const slept: number[] = [];
  return {
    ...systemClock,
    slept,
    now: () => nowMs,
    date: () => new Date(nowMs),
    jitter: () => 0.5,
    sleep: async (ms, signal) => {
      slept.push(ms);
      signal?.throwIfAborted();
    },
  };
}

export type Respond = (request: ApiRequest, count: number) => Partial<ApiAnswer> | Promise<Partial<ApiAnswer>>;

export interface Harness {
  context: ToolContext;
  /** Every request, in order. */
  requests: ApiRequest[];
  /** Requests whose path ends so. */
  sent(pathEnd: string): ApiRequest[];
  clock: ReturnType<typeof stillClock>;
  /** The forms that were asked for. */
  asked: FormQuestion[];
}

export function harness(
  respond: Respond,
  options: {
    scopes?: string[];
    settings?: Record<string, unknown>;
    answers?: Record<string, Record<string, string>>;
    email?: string | null;
    onceToken?: string;
  } = {},
): Harness {
  const requests: ApiRequest[] = [];
  const asked: FormQuestion[] = [];
  const clock = stillClock();
  const context: ToolContext = {
    api: {
      async request(request) {
        requests.push(request);
        const count = requests.filter((one) => one.path === request.path).length;
        const answer = await respond(request, count);
        return { status: 200, headers: {}, json: null, text: "", ...answer };
      },
    },
    account: {
      id: "ca_1",
      connectionName: "test",
      label: "",
      external: options.email === null ? null : { id: "1", email: options.email ?? "me@x.test", name: null },
      scopes: options.scopes ?? [],
      settings: options.settings ?? {},
    },
    clock,
    signal: new AbortController().signal,
    onceToken: options.onceToken ?? "once-0123456789",
    ask(question) {
      asked.push(question);
      const answer = options.answers?.[question.key];
      if (!answer) throw new NeedsAnswer(question);
      return answer;
    },
  };
  return { context, requests, clock, asked, sent: (end) => requests.filter((one) => one.path.endsWith(end)) };
}

/** Runs a tool as the vault does, and holds it to its own output schema. */
export async function runTool(tool: Tool, context: ToolContext, args: Record<string, unknown>): Promise<ToolResult> {
  const result = await tool.run(context, args);
  tool.output.parse(result.structured);
  return result;
}

export interface Received {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: IncomingMessage["headers"];
  body: string;
  form: URLSearchParams;
}

export type Answer = { status?: number; headers?: Record<string, string>; body?: unknown; text?: string; cut?: true; hang?: true };

export interface Provider {
  origin: string;
  received: Received[];
  to(path: string): Received[];
}

/** A provider on loopback, closed with the test. `cut` breaks the connection after reading the request, `hang` never answers. */
export async function startProvider(t: TestContext, answer: (received: Received) => Answer): Promise<Provider> {
  const received: Received[] = [];
  const server = createServer((req, res) => {
    void collect(req).then((body) => {
      const url = new URL(req.url ?? "/", "http://provider.test");
      const one: Received = {
        method: req.method ?? "",
        path: url.pathname,
        query: url.searchParams,
        headers: req.headers,
        body,
        form: new URLSearchParams(body),
      };
      received.push(one);
      reply(res, answer(one));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { origin, received, to: (path) => received.filter((one) => one.path === path) };
}

async function collect(req: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}

function reply(res: ServerResponse, answer: Answer): void {
  if (answer.hang) return;
  if (answer.cut) {
    res.socket?.destroy();
    return;
  }
  const isText = answer.text !== undefined;
  res.writeHead(answer.status ?? 200, { "content-type": isText ? "text/html" : "application/json", ...answer.headers });
  res.end(isText ? answer.text : JSON.stringify("body" in answer ? answer.body : {}));
}
