// Every HTTP exchange that a server of this process answers, as it was on the wire: whoever asked and however, nothing can
// pass it by. Read from node's own diagnostics channel, so neither the program nor its clients know of it.
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { IncomingMessage, ServerResponse } from "node:http";
import { after } from "node:test";

export interface Exchange {
  /** The port that answered. */
  port: number;
  method: string;
  /** Path and query, as sent. */
  target: string;
  path: string;
  request: { headers: [name: string, value: string][]; body: string };
  answer: { status: number; headers: [name: string, value: string][]; body: string };
}

export interface Wire {
  exchanges: Exchange[];
  of(port: number, path?: RegExp): Exchange[];
  stop(): void;
}

const CHANNEL = "http.server.request.start";

const running = new Set<Wire>();
after(() => {
  for (const wire of running) wire.stop();
});

export function recordWire(): Wire {
  const exchanges: Exchange[] = [];
  const onStart = (message: unknown): void => {
    const { request, response } = message as { request: IncomingMessage; response: ServerResponse };
    exchanges.push(watch(request, response));
  };
  subscribe(CHANNEL, onStart);
  const wire: Wire = {
    exchanges,
    of: (port, path = /./) => exchanges.filter((exchange) => exchange.port === port && path.test(exchange.path)),
    stop: () => {
      unsubscribe(CHANNEL, onStart);
      running.delete(wire);
    },
  };
  running.add(wire);
  return wire;
}

/** Parts are decoded when they are read: a character may be cut in two on the wire. */
function watch(request: IncomingMessage, response: ServerResponse): Exchange {
  const asked: Buffer[] = [];
  const answered: Buffer[] = [];
  // The parser hands the body over by `push`: seen there, it is read by nobody sooner than by the program.
  const push = request.push.bind(request);
  request.push = (chunk: unknown, encoding?: BufferEncoding) => {
    if (chunk !== null) asked.push(bytesOf(chunk, encoding));
    return push(chunk, encoding);
  };
  const write = response.write.bind(response) as (...args: unknown[]) => boolean;
  response.write = ((...args: unknown[]) => {
    answered.push(bytesOf(args[0], args[1]));
    return write(...args);
  }) as ServerResponse["write"];
  const end = response.end.bind(response) as (...args: unknown[]) => ServerResponse;
  response.end = ((...args: unknown[]) => {
    if (typeof args[0] === "string" || ArrayBuffer.isView(args[0])) answered.push(bytesOf(args[0], args[1]));
    return end(...args);
  }) as ServerResponse["end"];
  const target = request.url ?? "";
  return {
    port: request.socket.localPort ?? 0,
    method: request.method ?? "",
    target,
    path: target.replace(/\?.*$/s, ""),
    request: {
      headers: pairsOf(request.rawHeaders),
      get body() {
        return Buffer.concat(asked).toString("utf8");
      },
    },
    answer: {
      get status() {
        return response.headersSent ? response.statusCode : 0;
      },
      get headers() {
        return headerBlock(response);
      },
      get body() {
        return Buffer.concat(answered).toString("utf8");
      },
    },
  };
}

function bytesOf(chunk: unknown, encoding: unknown): Buffer {
  if (typeof chunk === "string") return Buffer.from(chunk, typeof encoding === "string" ? (encoding as BufferEncoding) : "utf8");
  return ArrayBuffer.isView(chunk) ? Buffer.from(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)) : Buffer.alloc(0);
}

function pairsOf(raw: readonly string[]): [string, string][] {
  return raw.flatMap((name, index) => (index % 2 === 0 ? [[name.toLowerCase(), raw[index + 1] ?? ""] as [string, string]] : []));
}

/** The block as it was sent: headers that were given to writeHead alone are known nowhere else. */
function headerBlock(response: ServerResponse): [string, string][] {
  const block = (response as unknown as { _header?: string | null })._header ?? "";
  const lines = block.split("\r\n").slice(1).filter((line) => line !== "");
  return lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]);
}
