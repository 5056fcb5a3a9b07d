// The command line as an MCP client: the official v2 client, pinned to 2026-07-28, with a sign-in where the server asks
// for one. Must never happen: a wait without an end, a sign-in asked for again and again in one command.
import {
  Client,
  type ElicitRequestParams,
  type ElicitResult,
  type OAuthClientProvider,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from "@modelcontextprotocol/client";
import type { Clock } from "../clock.js";
import type { ServerAddress } from "./address.js";
import { CliError, EXIT } from "./exit.js";
import { openLoopback } from "./loopback.js";
import type { Pages } from "./page.js";
import { createSignIn } from "./signIn.js";
import type { Terminal } from "./terminal.js";
import type { TokenStore } from "./tokenStore.js";

export const PROTOCOL = "2026-07-28";

/** A server may hold one answer for SETTLE_LEG_MS (25 s, and under 60 s in any case); beyond that it is gone. */
const LEG_MS = 90_000;
/** Everything: questions to the person (10 minutes each at most) and SETTLE_WAIT_MS (at most 7 legs). */
const TOTAL_MS = 1_500_000;
/** Questions (MAX_ROUNDS, 5) and waiting legs (7) count alike. Twice that: a server that goes on is not waited for. */
const ROUNDS_MAX = 24;
const CONNECT_MS = 20_000;
/** The first one, and one more for a permission that a tool turns out to need. */
const SIGN_INS_MAX = 2;

export interface McpDeps {
  address: ServerAddress;
  store: TokenStore;
  terminal: Terminal;
  pages: Pages;
  clock: Clock;
  signal: AbortSignal;
  version: string;
  /** Whether there is anybody to ask. Without, the server answers in words what it would have asked for. */
  asks: boolean;
}

export interface McpSession {
  readonly client: Client;
  /** What the server calls itself: its own words. */
  readonly serverName: string;
  /** Runs again after a sign-in where the server asks for one; nothing was done by the refused request. */
  signedIn<T>(run: () => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

export type AnswerElicitation = (params: ElicitRequestParams) => Promise<ElicitResult>;

export async function openMcp(deps: McpDeps, answer: AnswerElicitation): Promise<McpSession> {
  const signIn = createSignIn({ ...deps, endpoint: deps.address.mcp, loopback: await openLoopback() });
  let current = makeClient(deps, answer, signIn.provider);
  let signIns = 0;

  async function signedIn<T>(run: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await run();
      } catch (error) {
        if (!(error instanceof UnauthorizedError)) throw error;
        if (signIns >= SIGN_INS_MAX) {
          throw new CliError(EXIT.notAllowed, "The server goes on asking for a sign-in: the call needs a permission that was not given.", {
            cause: error,
          });
        }
        signIns += 1;
        await signIn.complete(current.transport);
      }
    }
  }

  async function close(): Promise<void> {
    await current.client.close().catch(() => undefined);
    await signIn.close();
  }

  try {
    await signedIn(async () => {
      // A client whose connect failed is not used again.
      if (signIns > 0) current = makeClient(deps, answer, signIn.provider);
      await current.client.connect(current.transport, { timeout: CONNECT_MS, signal: deps.signal });
    });
  } catch (error) {
    await close();
    throw error;
  }
  const { client } = current;
  return { client, serverName: client.getServerVersion()?.name ?? "unnamed", signedIn, close };
}

function makeClient(deps: McpDeps, answer: AnswerElicitation, authProvider: OAuthClientProvider) {
  const client = new Client(
    { name: "outband-cli", title: "Outband command line", version: deps.version },
    {
      capabilities: deps.asks ? { elicitation: { form: {}, url: {} } } : {},
      versionNegotiation: { mode: { pin: PROTOCOL } },
      inputRequired: { autoFulfill: true, maxRounds: ROUNDS_MAX },
    },
  );
  if (deps.asks) client.setRequestHandler("elicitation/create", (request) => answer(request.params));
  return { client, transport: new StreamableHTTPClientTransport(new URL(deps.address.mcp), { authProvider }) };
}

/** For one tool call, waits for the person included. */
export function callLimits(signal: AbortSignal, onprogress: () => void) {
  return { timeout: LEG_MS, maxTotalTimeout: TOTAL_MS, resetTimeoutOnProgress: true, onprogress, signal };
}
