// The only reader of process.env in the command line. From `.env` it takes PORT and DATA_DIR alone: a folder that one
// happens to stand in must not say where a key of the real environment is sent.
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { parse } from "dotenv";
import { Secret } from "../crypto/secret.js";

export interface CliEnvironment {
  /** As given; checked by address.ts. */
  serverUrl: string;
  serverUrlFrom: string;
  apiKey: Secret | null;
  /** Where sign-ins are kept. */
  home: string;
  /** Of a server that runs from this folder: for its cli.key. */
  dataDir: string;
}

export function readEnvironment(cwd: string, env: Record<string, string | undefined> = process.env): CliEnvironment {
  const file = readDotEnv(cwd);
  const port = value(env.PORT) ?? value(file.PORT);
  const serverUrl = value(env.OUTBAND_URL);
  const key = value(env.OUTBAND_API_KEY);
  return {
    serverUrl: serverUrl ?? `http://localhost:${port ?? "3000"}`,
    serverUrlFrom: serverUrl !== undefined ? "OUTBAND_URL" : port !== undefined ? "PORT" : "the default",
    apiKey: key === undefined ? null : new Secret(key),
    home: value(env.OUTBAND_HOME) ?? join(value(env.XDG_CONFIG_HOME) ?? join(homedir(), ".config"), "outband"),
    dataDir: resolve(cwd, value(env.DATA_DIR) ?? value(file.DATA_DIR) ?? "data"),
  };
}

/** Set but empty means not set, as in a compose file with `OUTBAND_URL=`. */
function value(text: string | undefined): string | undefined {
  const trimmed = text?.trim();
  return trimmed === "" ? undefined : trimmed;
}

function readDotEnv(cwd: string): Record<string, string> {
  try {
    return parse(readFileSync(join(cwd, ".env")));
  } catch {
    return {};
  }
}
