// Signs the person in at the MCP server: discovery, registration, code with PKCE and resource indicator are the SDK's; ours
// are the questions, the loopback address, `state`, and where the result is kept. Must never happen: a browser that opens
// without a word, a registration kept that never led to a sign-in, a code or token in a message.
import type {
  OAuthClientInformationContext,
  OAuthClientProvider,
  OAuthDiscoveryState,
  StreamableHTTPClientTransport,
} from "@modelcontextprotocol/client";
import type { Clock } from "../clock.js";
import { CliError, EXIT } from "./exit.js";
import type { Loopback } from "./loopback.js";
import type { Pages } from "./page.js";
import { plainLine } from "./plain.js";
import type { Terminal } from "./terminal.js";
import type { StoredSignIn, TokenStore } from "./tokenStore.js";

/** As long as an authorization link of the server lives. */
const SIGN_IN_LIFE_MS = 600_000;

export interface SignIn {
  /** For the transport. It only notes where the person must go; `complete` takes them there. */
  readonly provider: OAuthClientProvider;
  /** Takes the person through the browser and exchanges the code. To be called after an UnauthorizedError. */
  complete(transport: Pick<StreamableHTTPClientTransport, "finishAuth">): Promise<void>;
  close(): Promise<void>;
}

export interface SignInDeps {
  endpoint: string;
  store: TokenStore;
  loopback: Loopback;
  terminal: Terminal;
  pages: Pages;
  clock: Clock;
  signal: AbortSignal;
}

export function createSignIn(deps: SignInDeps): SignIn {
  const { store, loopback, terminal, clock } = deps;
  let client: StoredSignIn["client"];
  let pending: URL | null = null;
  let verifier = "";
  let state = "";
  let discovery: OAuthDiscoveryState | undefined;

  const provider: OAuthClientProvider = {
    redirectUrl: loopback.redirectUrl,
    clientMetadata: {
      client_name: "Outband command line",
      redirect_uris: [loopback.redirectUrl],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
      application_type: "native",
    },
    state: () => {
      state = clock.randomBytes(32).toString("base64url");
      return state;
    },
    // A port other than the registered one is allowed for a loopback address: RFC 8252, section 7.3.
    clientInformation: async (context?: OAuthClientInformationContext) => {
      const known = client ?? (await store.load()).client;
      return context === undefined || known?.issuer === undefined || known.issuer === context.issuer ? known : undefined;
    },
    // Not to the file yet: a server that was set up anew would meet a registration that it does not know in the browser,
    // where nothing can be mended. Next to tokens it is tried by a refresh first, and dropped when it is refused.
    saveClientInformation: (information) => {
      client = information;
    },
    tokens: async () => (await store.load()).tokens,
    saveTokens: async (tokens) => {
      const known = client ?? (await store.load()).client;
      await store.save({ ...(known && { client: known }), tokens });
    },
    redirectToAuthorization: (url) => {
      pending = url;
    },
    saveCodeVerifier: (value) => {
      verifier = value;
    },
    codeVerifier: () => verifier,
    saveDiscoveryState: (value) => {
      discovery = value;
    },
    discoveryState: () => discovery,
    invalidateCredentials: async (scope) => {
      if (scope === "discovery") discovery = undefined;
      if (scope === "verifier") verifier = "";
      if (scope === "client" || scope === "all") client = undefined;
      if (scope === "client" || scope === "tokens" || scope === "all") {
        const { client: kept } = await store.load();
        if (scope === "tokens" && kept) client = kept;
        await store.clear();
      }
    },
  };

  return {
    provider,
    async complete(transport) {
      if (pending === null) throw new CliError(EXIT.notAllowed, "The server refused the sign-in that was just made.");
      const url = pending;
      pending = null;
      await offerSignIn(deps, url);
      terminal.say("Waiting for you to sign in… (Ctrl-C to stop)");
      const callback = await loopback
        .wait(state, AbortSignal.any([deps.signal, clock.deadline(SIGN_IN_LIFE_MS)]))
        .catch((cause: unknown) => {
          if (deps.signal.aborted) throw deps.signal.reason;
          throw new CliError(EXIT.notAllowed, "Nobody signed in within 10 minutes.", { cause });
        });
      let outcome: "done" | "failed" = "failed";
      try {
        // Checks `iss` against the issuer that was discovered (RFC 9207), then exchanges the code.
        await transport.finishAuth(callback.params);
        outcome = "done";
      } catch (cause) {
        throw new CliError(EXIT.notAllowed, signInFailure(callback.params), { cause });
      } finally {
        callback.answer(outcome);
      }
      terminal.say("Signed in.");
    },
    close: () => loopback.close(),
  };
}

async function offerSignIn(deps: SignInDeps, url: URL): Promise<void> {
  const known = (await deps.store.load()).tokens !== undefined;
  const outcome = await deps.pages.offer({
    introduction: known
      ? `${deps.endpoint} asks you to sign in again: your sign-in there has ended, or lacks a permission that this needs.`
      : `To call ${deps.endpoint} you sign in there, in your browser.`,
    words: null,
    url: url.href,
    assume: "yes",
  });
  if (outcome === "opened") return;
  if (outcome === "interrupted") throw new CliError(EXIT.interrupted, "Stopped.");
  throw new CliError(EXIT.notAllowed, "Not signed in.", {
    hint: outcome === "unasked" ? "Run this in a terminal, or with --no-browser to get the address printed." : undefined,
  });
}

/** The provider's error code is a word of a closed list (RFC 6749, section 4.1.2.1); its description is not repeated. */
function signInFailure(params: URLSearchParams): string {
  const error = params.get("error");
  if (error === "access_denied") return "The sign-in was refused in the browser.";
  return error === null ? "The sign-in could not be completed." : `The sign-in did not work: ${plainLine(error, 60)}.`;
}
