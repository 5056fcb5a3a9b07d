// A small reverse proxy, as stands before several instances: one public address that goes round, and one address per
// instance for a test that wants to choose. The Host header that arrives behind it is always the public one.
import { createServer, request as send, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Front {
  url: string;
  /** The address that always leads to this instance. */
  at(instance: number): string;
  /** Where the instance listens. */
  serve(instance: number, target: string): void;
  close(): Promise<void>;
}

export async function startFront(instances: number): Promise<Front> {
  const targets: (string | undefined)[] = Array.from({ length: instances }, () => undefined);
  let turn = 0;
  let publicHost = "";

  function pass(target: string | undefined, req: IncomingMessage, res: ServerResponse): void {
    if (target === undefined) return void res.writeHead(502).end();
    const url = new URL(req.url ?? "/", target);
    const onward = send(url, { method: req.method ?? "GET", headers: { ...req.headers, host: publicHost }, agent: false });
    onward.on("response", (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      answer.pipe(res);
      answer.on("error", () => res.destroy());
      answer.on("aborted", () => res.destroy());
    });
    // An instance that died is seen by its client as a broken connection, never as an answer.
    onward.on("error", () => res.destroy());
    res.on("close", () => onward.destroy());
    req.pipe(onward);
  }

  const open = (handle: (req: IncomingMessage, res: ServerResponse) => void): Promise<Server> =>
    new Promise((resolve, reject) => {
      // As the program itself: a client that sends into a connection just closed would fail for nothing.
      const server = createServer({ keepAliveTimeout: 65_000 }, handle);
      server.once("error", reject);
      server.listen(0, "127.0.0.1", () => resolve(server));
    });
  const around = await open((req, res) => {
    const ready = targets.filter((target) => target !== undefined);
    turn += 1;
    pass(ready[turn % Math.max(ready.length, 1)], req, res);
  });
  const pinned = await Promise.all(targets.map((_target, instance) => open((req, res) => pass(targets[instance], req, res))));
  const portOf = (server: Server): number => (server.address() as AddressInfo).port;
  publicHost = `localhost:${portOf(around)}`;

  return {
    url: `http://${publicHost}`,
    at(instance) {
      const server = pinned[instance];
      if (!server) throw new Error(`there is no instance ${instance}`);
      return `http://localhost:${portOf(server)}`;
    },
    serve(instance, target) {
      targets[instance] = target;
    },
    async close() {
      for (const server of [around, ...pinned]) {
        const done = new Promise<void>((resolve) => server.close(() => resolve()));
        server.closeAllConnections();
        await done;
      }
    },
  };
}
