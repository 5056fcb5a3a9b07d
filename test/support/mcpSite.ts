// An MCP endpoint on a loopback port, over a scripted vault, with a bearer that says who one is.
import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import { systemClock } from "../../src/clock.js";
import { createKeyRing } from "../../src/crypto/keyring.js";
import { Secret } from "../../src/crypto/secret.js";
import { OutbandError } from "../../src/errors.js";
import { asIdentifier } from "../../src/ids.js";
import { createLog } from "../../src/log.js";
import { createMcpRouter, type McpRouterDeps } from "../../src/mcp/endpoint.js";
import { memoryTables, PUBLIC_URL, ScriptedVault } from "./scriptedVault.js";

export interface McpAnswer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: the wire is what these tests look at.
  body: any;
}

/** `alice app` or `alice app mcp:read`: person, client, scopes. */
export const ALICE = "alice.app.mcp_read+mcp_write";

export const REVISION = "2026-07-28";
export const meta = (elicitation?: unknown, more: Record<string, unknown> = {}): Record<string, unknown> => ({
  "io.modelcontextprotocol/protocolVersion": REVISION,
  "io.modelcontextprotocol/clientCapabilities": elicitation === undefined ? {} : { elicitation },
  ...more,
});

export async function startMcpSite(
  options: {
    vault?: ScriptedVault;
    settings?: Partial<McpRouterDeps["settings"]>;
    ring?: McpRouterDeps["ring"];
    clock?: McpRouterDeps["clock"];
  } = {},
) {
  const vault = options.vault ?? new ScriptedVault();
  const tables = memoryTables();
  const stopping = new AbortController();
  const verified: { token: string; audience: string }[] = [];
  const logged: string[] = [];
  const ring =
    options.ring ??
    (await createKeyRing({ current: new Secret(Buffer.from("0123456789abcdef0123456789abcdef").toString("base64")), previous: [] }));
  const app = express();
  app.use(
    createMcpRouter({
      vault: vault.vault,
      verifier: {
        async verify(token, audience) {
          verified.push({ token, audience });
          const [sub, clientId, scopes] = token.split(".");
          if (!sub || !clientId || !scopes) throw new OutbandError("unauthorized");
          return {
            kind: "person",
            sub: asIdentifier(sub),
            clientId,
            clientName: "Probe",
            scopes: new Set(scopes.replaceAll("_", ":").split("+")),
            grantId: null,
            apiKeyId: null,
            expiresAtMs: Date.now() + 600_000,
          };
        },
      },
      ring,
      db: tables.db,
      clock: options.clock ?? systemClock,
      log: createLog({ level: "debug", write: (line) => logged.push(line) }),
      settings: {
        publicUrl: PUBLIC_URL,
        settleWaitMs: 600,
        settleLegMs: 200,
        maxRounds: 5,
        linkTtlS: 600,
        allowedOrigins: ["https://app.example"],
        ...options.settings,
      },
      stopping: stopping.signal,
    }),
  );
  app.use((_req, res) => void res.status(404).send("outside"));
  const server = createServer(app);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;

  /** Raw HTTP, so that Host and framing can be anything. */
  function send(
    path: string,
    init: { method?: string; headers?: Record<string, string>; body?: string | Buffer; signal?: AbortSignal } = {},
  ): Promise<McpAnswer> {
    return new Promise((resolve, reject) => {
      const req = request(
        {
          host: "127.0.0.1",
          port,
          path,
          method: init.method ?? "POST",
          headers: init.headers ?? {},
          ...(init.signal ? { signal: init.signal } : {}),
        },
        (res) => {
          const parts: Buffer[] = [];
          res.on("data", (part: Buffer) => parts.push(part));
          res.on("error", reject);
          res.on("end", () => {
            const text = Buffer.concat(parts).toString();
            let body: unknown = null;
            try {
              body = JSON.parse(text);
            } catch {
              const frames = text.split("\n").filter((line) => line.startsWith("data: "));
              if (frames.length > 0) body = frames.map((line) => JSON.parse(line.slice(6)) as unknown);
            }
            resolve({ status: res.statusCode ?? 0, headers: res.headers, text, body });
          });
        },
      );
      req.on("error", reject);
      req.end(init.body);
    });
  }

  function headersFor(method: string, name: string | undefined, token: string): Record<string, string> {
    return {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": REVISION,
      "mcp-method": method,
      ...(name === undefined ? {} : { "mcp-name": name }),
    };
  }

  let id = 0;
  /** A modern request as a well-behaved client sends it. */
  function modern(
    method: string,
    params: Record<string, unknown>,
    init: { token?: string; headers?: Record<string, string>; signal?: AbortSignal } = {},
  ): Promise<McpAnswer> {
    const name = typeof params["name"] === "string" ? params["name"] : undefined;
    return send("/mcp", {
      headers: { ...headersFor(method, name, init.token ?? ALICE), ...init.headers },
      body: JSON.stringify({ jsonrpc: "2.0", id: ++id, method, params: { _meta: meta(), ...params } }),
      ...(init.signal ? { signal: init.signal } : {}),
    });
  }

  /** tools/call by a client that can show links and forms, unless `can` says otherwise. */
  function call(
    name: string,
    args: Record<string, unknown> = {},
    more: Record<string, unknown> = {},
    init: { token?: string; can?: unknown; meta?: Record<string, unknown>; signal?: AbortSignal } = {},
  ): Promise<McpAnswer> {
    const can = "can" in init ? init.can : { url: {}, form: {} };
    return modern("tools/call", { name, arguments: args, ...more, _meta: meta(can, init.meta) }, init);
  }

  return {
    url: `http://127.0.0.1:${port}/mcp`,
    vault,
    ...tables,
    verified,
    logged,
    stopping,
    send,
    modern,
    call,
    headersFor,
    async close(): Promise<void> {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

export type McpSite = Awaited<ReturnType<typeof startMcpSite>>;
