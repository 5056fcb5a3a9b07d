// The official clients, old and new, against the real program, with a test's browser in place of the person's.
import assert from "node:assert/strict";
import {
  Client,
  type ClientOptions,
  type ElicitRequestParams,
  type ElicitResult,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type StoredOAuthClientInformation,
  type StoredOAuthTokens,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from "@modelcontextprotocol/client";
import { after } from "node:test";
import type { Browser } from "./browser.js";
import { approve, LOOPBACK_REDIRECT } from "./oauthClient.js";

export type { ElicitRequestParams, ElicitResult };

export interface SignIn {
  provider: OAuthClientProvider;
  /** Where the client sent the person last. */
  asked(): URL;
  scopes(): string[];
  /** Goes through the consent page in the browser; gives what the client's loopback address would get. */
  answer(fields?: Record<string, string>): Promise<URLSearchParams>;
}

export const CONSENT = { decision: "allow", write: "yes" };

/** Remembers what the client gives it to remember, as a file would. */
export function signInAs(browser: Browser): SignIn {
  const kept: { client?: StoredOAuthClientInformation; tokens?: StoredOAuthTokens; verifier?: string; discovery?: OAuthDiscoveryState; url?: URL } = {};
  const state = "state-of-the-official-client";
  return {
    asked: () => kept.url ?? assert.fail("the client asked for no sign-in"),
    scopes: () => (kept.tokens?.scope ?? "").split(" "),
    async answer(fields = CONSENT) {
      const page = await approve(browser, { url: kept.url?.href ?? "", verifier: "", state }, fields);
      const { location } = page;
      assert.ok(location?.startsWith(LOOPBACK_REDIRECT), `${page.status} ${location} ${page.text}`);
      const answer = new URL(location ?? "").searchParams;
      assert.equal(answer.get("state"), state);
      return answer;
    },
    provider: {
      redirectUrl: LOOPBACK_REDIRECT,
      clientMetadata: {
        client_name: "Official client",
        redirect_uris: [LOOPBACK_REDIRECT],
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        token_endpoint_auth_method: "none",
      },
      state: () => state,
      clientInformation: () => kept.client,
      saveClientInformation: (client) => {
        kept.client = client;
      },
      tokens: () => kept.tokens,
      saveTokens: (tokens) => {
        kept.tokens = tokens;
      },
      redirectToAuthorization: (url) => {
        kept.url = url;
      },
      saveCodeVerifier: (verifier) => {
        kept.verifier = verifier;
      },
      codeVerifier: () => kept.verifier ?? "",
      saveDiscoveryState: (discovery) => {
        kept.discovery = discovery;
      },
      discoveryState: () => kept.discovery,
    },
  };
}

export interface OfficialOptions {
  capabilities: NonNullable<ClientOptions["capabilities"]>;
  elicit?: (params: ElicitRequestParams) => Promise<ElicitResult>;
  /** A bearer, or a sign-in that may be needed first. */
  auth: string | SignIn;
  fetch?: typeof fetch;
}

const open = new Set<Client>();
after(async () => {
  for (const client of open) await client.close();
});

/** Connected at 2026-07-28. Signs in first where the server asks for it. */
export async function officialClient(url: string, options: OfficialOptions): Promise<{ client: Client; transport: StreamableHTTPClientTransport }> {
  const { auth } = options;
  const made = make(url, options);
  if (typeof auth === "string" || (await auth.provider.tokens()) !== undefined) {
    await made.client.connect(made.transport);
    return made;
  }
  await assert.rejects(made.client.connect(made.transport), UnauthorizedError);
  await made.transport.finishAuth(await auth.answer());
  // A client whose connect failed is not used again.
  return officialClient(url, options);
}

function make(url: string, options: OfficialOptions): { client: Client; transport: StreamableHTTPClientTransport } {
  const { auth, capabilities, elicit } = options;
  const client = new Client({ name: "official", version: "1.0.0" }, { capabilities, versionNegotiation: { mode: { pin: "2026-07-28" } } });
  open.add(client);
  if (elicit) client.setRequestHandler("elicitation/create", (request) => elicit(request.params));
  const authProvider = typeof auth === "string" ? { token: async () => auth } : auth.provider;
  const transport = new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { authProvider, ...(options.fetch ? { fetch: options.fetch } : {}) });
  return { client, transport };
}
