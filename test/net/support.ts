// Servers on loopback that answer as a test wants, and the gate to call them through.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Server, Socket } from "node:net";
import { after } from "node:test";
import { inspect } from "node:util";
import { systemClock } from "../../src/clock.js";
import type { Resolve } from "../../src/net/connect.js";
import { createEgress, type Egress, EgressError, type EgressRequest } from "../../src/net/egress.js";

const cleanups: (() => Promise<unknown>)[] = [];
after(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
});

export function egressOf(allowPrivateNetwork: true | string[] = ["127.0.0.1"], resolve?: Resolve): Egress {
  const egress = createEgress({ allowPrivateNetwork, clock: systemClock, ...(resolve ? { resolve } : {}) });
  cleanups.push(() => egress.close());
  return egress;
}

export interface Site {
  origin: string;
  port: number;
  requests: { method: string; url: string; headers: IncomingMessage["headers"]; body: string }[];
  connections: () => number;
}

export async function listen(server: Server): Promise<{ port: number; connections: () => number }> {
  const sockets = new Set<Socket>();
  let opened = 0;
  server.on("connection", (socket: Socket) => {
    opened += 1;
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket)).on("error", () => {});
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanups.push(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, connections: () => opened };
}

export async function site(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<Site> {
  const requests: Site["requests"] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (chunk: string) => (body += chunk));
    request.on("end", () => {
      requests.push({ method: request.method ?? "", url: request.url ?? "", headers: request.headers, body });
      answer(request, response);
    });
  });
  const { port, connections } = await listen(server);
  return { origin: `http://127.0.0.1:${port}`, port, requests, connections };
}

export async function failureOf(egress: Egress, request: EgressRequest): Promise<EgressError> {
  try {
    await egress.send(request);
  } catch (error) {
    assert.ok(error instanceof EgressError, inspect(error));
    return error;
  }
  return assert.fail("the request went through");
}

export const shape = (error: EgressError) => ({ kind: error.kind, maybeSent: error.maybeSent });
