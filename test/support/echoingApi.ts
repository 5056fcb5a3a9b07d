// An API that takes a key and says everything back that it was asked, credentials and all: in its body, in its errors, in a
// header. `/v1/…` reads the key from the Authorization header, `/v2/…` from the query.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { after } from "node:test";

export interface EchoingApi {
  origin: string;
  port: number;
  /** Keys that it accepts. */
  keys: Set<string>;
  /** What becomes of the next request; then it accepts and refuses by the key again. */
  next: "break" | "cut" | null;
  close(): Promise<void>;
}

const running = new Set<EchoingApi>();
after(async () => {
  for (const api of running) await api.close();
});

export async function startEchoingApi(): Promise<EchoingApi> {
  const server = createServer((req, res) => answer(api, req, res));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = address !== null && typeof address === "object" ? address.port : 0;
  const api: EchoingApi = {
    origin: `http://127.0.0.1:${port}`,
    port,
    keys: new Set(),
    next: null,
    async close() {
      running.delete(api);
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
  running.add(api);
  return api;
}

function answer(api: EchoingApi, req: IncomingMessage, res: ServerResponse): void {
  const fate = api.next;
  api.next = null;
  if (fate === "cut") return void req.socket.destroy();
  const url = new URL(req.url ?? "", api.origin);
  const key = url.pathname.startsWith("/v1/") ? (req.headers.authorization ?? "").replace("Bearer ", "") : (url.searchParams.get("key") ?? "");
  const status = fate === "break" ? 500 : api.keys.has(key) ? 200 : 401;
  res.writeHead(status, { "content-type": "application/json", "www-authenticate": `Bearer error="invalid_token", error_description="${key}"`, "x-request": req.url ?? "" });
  res.end(JSON.stringify({ error: `${req.method} ${req.url} with ${key}`, message: key, headers: req.headers }));
}
