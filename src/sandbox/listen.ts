// Listens on loopback only, on both of its addresses: a browser asks ::1 first for "localhost", a program 127.0.0.1.
// Must never happen: a practice provider that another machine can reach, or one that answers under a foreign host name.
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { RequestHandler } from "express";
import { listenAt, listenRefusal } from "../net/listen.js";

export interface Listening {
  port: number;
  close(): Promise<void>;
}

/** With port 0 the second address must have the first one's port free; that fails now and then, never often. */
const TRIES_MAX = 10;
/** For the operator, who set another port. */
const USE = "The practice providers listen there, on the port after PORT; SANDBOX=off does without them.";
/** No IPv6 on this machine: 127.0.0.1 alone will do, as "localhost" then means nothing else. */
const NO_IPV6 = ["EADDRNOTAVAIL", "EAFNOSUPPORT", "EINVAL"];

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? "";
}

async function listenOn(listener: RequestListener, host: string, port: number): Promise<Server> {
  const server = createServer(listener);
  await listenAt(server, { host, port, ipv6Only: host === "::1" });
  return server;
}

/** Open keep-alive connections would hold the close for as long as the other side likes. */
async function closeServer(server: Server): Promise<void> {
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

export async function listenOnLoopback(listener: RequestListener, port: number): Promise<Listening> {
  for (let tries = 1; ; tries += 1) {
    const first = await listenOn(listener, "127.0.0.1", port).catch((error: unknown) => {
      throw listenRefusal(error, { host: "127.0.0.1", port }, USE);
    });
    const taken = (first.address() as AddressInfo).port;
    try {
      const second = await listenOn(listener, "::1", taken).catch((error: unknown) => {
        if (NO_IPV6.includes(codeOf(error))) return null;
        throw error;
      });
      const servers = second ? [first, second] : [first];
      return { port: taken, close: async () => void (await Promise.all(servers.map(closeServer))) };
    } catch (error) {
      await closeServer(first);
      if (port !== 0 || codeOf(error) !== "EADDRINUSE" || tries >= TRIES_MAX) throw listenRefusal(error, { host: "::1", port: taken }, USE);
    }
  }
}

/** A foreign name that was made to resolve to this machine must not reach the practice accounts (DNS rebinding). */
export function loopbackHostsOnly(port: () => number): RequestHandler {
  return (req, res, next) => {
    const allowed = ["localhost", "127.0.0.1", "[::1]"].map((name) => `${name}:${port()}`);
    if (allowed.includes(req.headers.host?.toLowerCase() ?? "")) next();
    else res.status(421).type("text/plain").send("This is the sandbox of Outband. It answers on this computer's own names only.\n");
  };
}
