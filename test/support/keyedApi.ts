// An API that takes a key, for connections of `generic-api-key`: counts what it is asked and knows one good key.
import { createServer, type IncomingMessage } from "node:http";
import { after } from "node:test";

export interface KeyedApi {
  origin: string;
  goodKey: string;
  /** Authorization headers it was sent, in order. */
  seen: (string | undefined)[];
  close(): Promise<void>;
}

const running = new Set<KeyedApi>();
after(async () => {
  for (const api of running) await api.close();
});

export async function startKeyedApi(): Promise<KeyedApi> {
  const goodKey = "sk_live_this-is-the-good-key";
  const seen: (string | undefined)[] = [];
  const server = createServer((req: IncomingMessage, res) => {
    seen.push(req.headers.authorization);
    const good = req.headers.authorization === `Bearer ${goodKey}`;
    res.writeHead(good ? 200 : 401, { "content-type": "application/json" });
    res.end(JSON.stringify(good ? { ok: true } : { error: "bad key" }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = address !== null && typeof address === "object" ? address.port : 0;
  const api: KeyedApi = {
    origin: `http://127.0.0.1:${port}`,
    goodKey,
    seen,
    async close() {
      running.delete(api);
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
  running.add(api);
  return api;
}
