// Keeps the sign-in at one server: its tokens and our registration there, one file for each MCP endpoint, readable by
// its owner alone. Must never happen: another mode than 0600, half a file, a token of one server sent to another.
import { createHash } from "node:crypto";
import { chmod, mkdir, open, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { StoredOAuthClientInformation, StoredOAuthTokens } from "@modelcontextprotocol/client";
import type { Clock } from "../clock.js";

export interface StoredSignIn {
  client?: StoredOAuthClientInformation;
  tokens?: StoredOAuthTokens;
}

export interface TokenStore {
  readonly file: string;
  /** Read each time: another run of the command may have refreshed meanwhile. */
  load(): Promise<StoredSignIn>;
  save(signIn: StoredSignIn): Promise<void>;
  /** Signs out here; the server's side is not told. */
  clear(): Promise<void>;
}

interface StoredFile extends StoredSignIn {
  version: 1;
  server: string;
}

export function createTokenStore(deps: { home: string; endpoint: string; clock: Clock }): TokenStore {
  const folder = join(deps.home, "sign-ins");
  const file = join(folder, fileName(deps.endpoint));
  return {
    file,
    async load() {
      const stored = await readStored(file);
      // The name holds a digest of the address, but a file may have been copied: it says itself whose it is.
      if (stored === null || stored.server !== deps.endpoint) return {};
      return { ...(stored.client && { client: stored.client }), ...(stored.tokens && { tokens: stored.tokens }) };
    },
    async save(signIn) {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const content: StoredFile = { version: 1, server: deps.endpoint, ...signIn };
      const draft = `${file}.${deps.clock.randomBytes(6).toString("hex")}.new`;
      // "wx": never through a link that somebody laid there before.
      const handle = await open(draft, "wx", 0o600);
      try {
        await handle.writeFile(`${JSON.stringify(content, null, 2)}\n`);
        await handle.chmod(0o600);
      } finally {
        await handle.close();
      }
      await rename(draft, file);
    },
    clear: () => rm(file, { force: true }),
  };
}

/** `localhost_3000-1f0c…json`: to be recognised by a person, and unlike for two endpoints of one host. */
function fileName(endpoint: string): string {
  const host = new URL(endpoint).host.replace(/[^a-z0-9.-]/gi, "_").slice(0, 80);
  return `${host}-${createHash("sha256").update(endpoint).digest("hex").slice(0, 16)}.json`;
}

async function readStored(file: string): Promise<StoredFile | null> {
  let text: string;
  try {
    const { mode } = await stat(file);
    if ((mode & 0o077) !== 0) await chmod(file, 0o600);
    text = await readFile(file, "utf8");
  } catch {
    return null;
  }
  try {
    const value: unknown = JSON.parse(text);
    return isStored(value) ? value : null;
  } catch {
    return null;
  }
}

function isStored(value: unknown): value is StoredFile {
  if (typeof value !== "object" || value === null) return false;
  const { version, server, client, tokens } = value as Partial<Record<keyof StoredFile, unknown>>;
  return version === 1 && typeof server === "string" && holds(client, "client_id") && holds(tokens, "access_token");
}

/** Absent, or an object whose `name` is a text. */
function holds(value: unknown, name: string): boolean {
  if (value === undefined) return true;
  return typeof value === "object" && value !== null && typeof (value as Record<string, unknown>)[name] === "string";
}
