// The vault API with an API key. Must never happen: a key sent where the person did not point it, a redirect followed
// with it, an answer read without an end.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Secret } from "../crypto/secret.js";
import type { Clock } from "../clock.js";
import { isLoopback, type ServerAddress } from "./address.js";
import type { CliEnvironment } from "./environment.js";
import { CliError, EXIT } from "./exit.js";
import { explain } from "./failure.js";
import { plainLine } from "./plain.js";

const ANSWER_MS = 30_000;

export interface FoundKey {
  key: Secret;
  from: string;
}

/** OUTBAND_API_KEY, else the cli.key of an embedded server that runs from this folder. */
export async function findKey(environment: CliEnvironment, address: ServerAddress): Promise<FoundKey | null> {
  if (environment.apiKey !== null) return { key: environment.apiKey, from: "OUTBAND_API_KEY" };
  // A local server's key is an admin key: it stays on this machine, whatever --url says.
  if (!isLoopback(new URL(address.origin))) return null;
  const file = join(environment.dataDir, "cli.key");
  const text = await readFile(file, "utf8").catch(() => "");
  return text.trim() === "" ? null : { key: new Secret(text.trim()), from: file };
}

export function missingKey(environment: CliEnvironment): CliError {
  return new CliError(EXIT.notAllowed, "This needs an API key, and there is none.", {
    hint: `Set OUTBAND_API_KEY, or run this where a local server keeps its data (looked for ${join(environment.dataDir, "cli.key")}).`,
  });
}

export interface Api {
  get(path: string): Promise<unknown>;
  post(path: string, body: unknown): Promise<unknown>;
}

export function createApi(deps: { address: ServerAddress; key: Secret; clock: Clock; signal: AbortSignal }): Api {
  async function send(method: string, path: string, body?: unknown): Promise<unknown> {
    const signal = AbortSignal.any([deps.signal, deps.clock.deadline(ANSWER_MS)]);
    let response: Response;
    let text: string;
    try {
      response = await fetch(`${deps.address.origin}/api/v1${path}`, {
        method,
        redirect: "manual",
        signal,
        headers: {
          authorization: `Bearer ${deps.key.reveal()}`,
          accept: "application/json",
          ...(body !== undefined && { "content-type": "application/json" }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      text = await response.text();
    } catch (error) {
      if (deps.signal.aborted) throw deps.signal.reason;
      throw explain(error, deps.address.origin);
    }
    const answer = parse(text);
    if (!response.ok) throw problem(response.status, answer);
    return answer;
  }
  return { get: (path) => send("GET", path), post: (path, body) => send("POST", path, body) };
}

function parse(text: string): unknown {
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** RFC 9457: `detail`, `code`, and for a 400 what is wrong where. */
function problem(status: number, answer: unknown): CliError {
  const { code, detail, title, errors } = record(answer);
  if (status === 401) return new CliError(EXIT.notAllowed, "The API key is not accepted.");
  if (status >= 300 && status < 400) {
    return new CliError(EXIT.serverFault, "The server answers with a redirect, which is not followed with a key.", {
      hint: "Set OUTBAND_URL to the server's PUBLIC_URL.",
    });
  }
  const sentence = [detail, title].find((each) => typeof each === "string");
  const where = Array.isArray(errors)
    ? errors.map(record).map(({ path, message }) => `  ${plainLine(String(path))}: ${plainLine(String(message))}`)
    : [];
  const message = [typeof sentence === "string" ? plainLine(sentence, 300) : `The server answered with status ${status}.`, ...where].join(
    "\n",
  );
  const hint = typeof code === "string" ? `Code: ${plainLine(code, 60)}` : undefined;
  return new CliError(status === 403 ? EXIT.notAllowed : EXIT.serverFault, message, { hint });
}

export function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

/** Of `{data, next_cursor}`. */
export function rows(value: unknown): Record<string, unknown>[] {
  const { data } = record(value);
  return Array.isArray(data) ? data.map(record) : [];
}
