// `outband doctor`: looks at everything that a call needs, and says for each what was found and what to do. Changes nothing.
import { StreamableHTTPClientTransport, Client, UnauthorizedError, type OAuthClientProvider } from "@modelcontextprotocol/client";
import { isLoopback, type ServerAddress } from "./address.js";
import { createApi, findKey, record, rows } from "./api.js";
import { type CliContext, type Command, readOptions } from "./command.js";
import { type CliError, EXIT } from "./exit.js";
import { explain } from "./failure.js";
import { bad, type Finding, good, lineOf, open } from "./finding.js";
import { keyFindings, readKeysAnswer } from "./keyFindings.js";
import { PROTOCOL } from "./mcp.js";
import { plainLine } from "./plain.js";
import { isBuilt, runProgram } from "./program.js";
import { addressOf } from "./toolCall.js";
import { createTokenStore } from "./tokenStore.js";

const PROBE_MS = 10_000;
/** Looks at the keys without a server: it refuses to start with a wrong one. */
const KEY_CHECK = "keyCheck.js";

export const doctorCommand: Command = {
  name: "doctor",
  summary: "look whether the server, the sign-in and the keys work",
  usage: "doctor [--url URL]",
  details: `  Changes nothing. Ends with the exit code of the first thing that does not work. When no server answers on this machine, it
  looks whether the settings of this folder and their master key fit the data: a server with a wrong key does not start.`,
  async run(context, args) {
    const { values } = readOptions(args, { url: { type: "string" } }, 0);
    const address = addressOf(context, values.url);
    const { terminal } = context;
    terminal.print(`outband ${context.version}, Node ${process.versions.node}\nServer: ${address.origin} (from ${address.from})`);
    const findings: Finding[] = [];
    for (const check of CHECKS) {
      const found = await check(context, address);
      findings.push(...found);
      for (const finding of found) terminal.print(lineOf(finding));
      // Without a server the rest would say the same three times.
      if (!found.some(({ state, exitCode }) => state === "no" && exitCode === EXIT.unreachable)) continue;
      if (isLoopback(new URL(address.origin)) && isBuilt(KEY_CHECK)) await runProgram(KEY_CHECK, [], context.signal);
      break;
    }
    return findings.find(({ state }) => state === "no")?.exitCode ?? EXIT.ok;
  },
};

type Check = (context: CliContext, address: ServerAddress) => Promise<Finding[]>;

const CHECKS: Check[] = [checkLive, checkReady, checkMcp, checkSignIn, checkKey, checkMasterKeys];

async function checkLive(context: CliContext, address: ServerAddress): Promise<Finding[]> {
  return probe(context, address, "answers", "/healthz", (status) =>
    status === 200
      ? good("answers", "yes")
      : bad("answers", `/healthz gives status ${status}; is that an Outband server?`, EXIT.serverFault),
  );
}

async function checkReady(context: CliContext, address: ServerAddress): Promise<Finding[]> {
  return probe(context, address, "ready", "/readyz", (status, body) => {
    if (status === 200) return good("ready", "yes: database and keys");
    const parts = Object.entries(record(body.parts)).filter(([, state]) => state !== "ready");
    const names = parts.map(([name]) => plainLine(name, 40)).join(", ");
    if (names === "keys") return bad("ready", "no: something is sealed under a master key that the server does not have", EXIT.serverFault);
    return bad("ready", `no, /readyz gives status ${status}${names === "" ? "" : ` (${names})`}; the server's log says why`, EXIT.serverFault);
  });
}

/** RFC 9728: what a client is told when it comes without a token. */
async function checkMcp(context: CliContext, address: ServerAddress): Promise<Finding[]> {
  const path = new URL(address.mcp).pathname;
  return probe(context, address, "MCP endpoint", `/.well-known/oauth-protected-resource${path}`, (status, body) => {
    const { resource, authorization_servers } = body;
    if (status !== 200) return bad("MCP endpoint", `no description of ${address.mcp} (status ${status})`, EXIT.serverFault);
    if (resource !== address.mcp) {
      return bad(
        "MCP endpoint",
        `it calls itself ${plainLine(String(resource), 120)}; set OUTBAND_URL or --url to that host`,
        EXIT.serverFault,
      );
    }
    return good(
      "MCP endpoint",
      `${address.mcp}, sign-in at ${plainLine(Array.isArray(authorization_servers) ? authorization_servers.join(", ") : "nowhere", 120)}`,
    );
  });
}

async function checkSignIn(context: CliContext, address: ServerAddress): Promise<Finding[]> {
  const store = createTokenStore({ home: context.environment.home, endpoint: address.mcp, clock: context.clock });
  const { tokens, client } = await store.load();
  if (tokens === undefined) return [open("signed in", "not yet; `outband call list_my_connections` signs in")];
  // May refresh, never registers and never sends anybody to a browser.
  const provider: OAuthClientProvider = {
    redirectUrl: "http://127.0.0.1/callback",
    clientMetadata: { redirect_uris: ["http://127.0.0.1/callback"] },
    clientInformation: () => client,
    tokens: async () => (await store.load()).tokens,
    saveTokens: (fresh) => store.save({ ...(client && { client }), tokens: fresh }),
    redirectToAuthorization: () => {
      throw new UnauthorizedError();
    },
    saveCodeVerifier: () => undefined,
    codeVerifier: () => "",
  };
  const mcp = new Client({ name: "outband-cli", version: context.version }, { versionNegotiation: { mode: { pin: PROTOCOL } } });
  try {
    await mcp.connect(new StreamableHTTPClientTransport(new URL(address.mcp), { authProvider: provider }), {
      timeout: PROBE_MS,
      signal: context.signal,
    });
    const { tools } = await mcp.listTools();
    const server = mcp.getServerVersion();
    const name = `${plainLine(server?.name ?? "", 60)} ${plainLine(server?.version ?? "", 40)}`;
    return [good("signed in", `yes; ${name}, MCP ${PROTOCOL}, ${tools.length} tools`)];
  } catch (error) {
    const { exitCode, message } = explained(error, address);
    return [bad("signed in", exitCode === EXIT.notAllowed ? "no longer; `outband call list_my_connections` signs in again" : message, exitCode)];
  } finally {
    await mcp.close().catch(() => undefined);
  }
}

async function checkKey(context: CliContext, address: ServerAddress): Promise<Finding[]> {
  const found = await findKey(context.environment, address);
  if (found === null)
    return [open("API key", "none (OUTBAND_API_KEY, or cli.key in the server's DATA_DIR); only `users`, `keys` and `connections --all` need one")];
  try {
    const answer = await createApi({ ...context, address, key: found.key }).get("/connections");
    return [good("API key", `works (from ${found.from}); ${rows(answer).length} connections set up`)];
  } catch (error) {
    const { exitCode, message } = explained(error, address);
    return [bad("API key", `${message} (from ${found.from})`, exitCode)];
  }
}

/** Only an administrator's key may ask; without one there is nothing to say. */
async function checkMasterKeys(context: CliContext, address: ServerAddress): Promise<Finding[]> {
  const found = await findKey(context.environment, address);
  if (found === null) return [];
  try {
    const keys = readKeysAnswer(await createApi({ ...context, address, key: found.key }).get("/keys"));
    return keys === null ? [] : keyFindings(keys, context.clock.now());
  } catch (error) {
    const { exitCode, message } = explained(error, address);
    return exitCode === EXIT.notAllowed ? [] : [bad("master key", message, exitCode)];
  }
}

async function probe(
  context: CliContext,
  address: ServerAddress,
  what: string,
  path: string,
  judge: (status: number, body: Record<string, unknown>) => Finding,
): Promise<Finding[]> {
  try {
    const signal = AbortSignal.any([context.signal, context.clock.deadline(PROBE_MS)]);
    const response = await fetch(`${address.origin}${path}`, { redirect: "manual", signal });
    const body: unknown = await response.json().catch(() => null);
    return [judge(response.status, record(body))];
  } catch (error) {
    const { exitCode, message } = explained(error, address);
    return [bad(what, message, exitCode)];
  }
}

function explained(error: unknown, address: ServerAddress): CliError {
  return explain(error, address.origin);
}
