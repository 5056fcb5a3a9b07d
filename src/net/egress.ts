// The only way out of the process: checked address, no redirect, one deadline for the whole call, a cap on decoded bytes.
// Must never happen: a redirect followed (custom headers such as x-api-key would travel along), a body read without end,
// or an error that says "not sent" about a request that may have arrived.
import { Agent } from "undici";
import type { Clock } from "../clock.js";
import { classifyAddress, createAddressPolicy, isAddress, isLoopbackHost, plainHost, type AddressPolicy } from "./addresses.js";
import { createConnector, systemResolve, type Resolve } from "./connect.js";
import { exchange } from "./exchange.js";
import { EgressError, type EgressAnswer, type EgressRequest } from "./message.js";
import { fetchOver, type FetchOptions } from "./fetch.js";

export { EgressError, type EgressAnswer, type EgressRequest } from "./message.js";

export interface Egress {
  /** Throws EgressError. */
  send(request: EgressRequest): Promise<EgressAnswer>;
  /** A `fetch` for libraries. It rejects with EgressError; a caller may find that one as the `cause` of the library's error. */
  fetchFor(options: FetchOptions): typeof fetch;
  /** Why a URL cannot be called, as a sentence for its setting; null: it may be tried. Looks nothing up. */
  refuses(url: string, exemptOrigin?: string): string | null;
  /** Lets running calls end. */
  close(): Promise<void>;
}

const BYTES_MAX = 4 * 1024 * 1024;
const TIMEOUT_MS = 10_000;
/** Sockets to one origin: every account of a provider shares them; what is over waits within its own deadline. */
const SOCKETS_PER_ORIGIN_MAX = 128;
/** Shorter than servers keep them: a socket that the other side just closed makes a write's outcome unknown. */
const IDLE_MS_MAX = 10_000;
const RESPONSE_HEADER_BYTES_MAX = 32 * 1024;

export function createEgress(deps: { allowPrivateNetwork: true | string[]; clock: Clock; resolve?: Resolve }): Egress {
  const resolve = deps.resolve ?? systemResolve;
  const policy = createAddressPolicy(deps.allowPrivateNetwork);
  const agent = createAgent(policy, resolve);
  // Exempt calls have sockets of their own: from a shared pool, a call that is not exempt would get a socket that is.
  const exemptPolicy = createAddressPolicy(true);
  const exemptAgent = createAgent(exemptPolicy, resolve);

  const send = (request: EgressRequest): Promise<EgressAnswer> => {
    const isExempt = isSameOrigin(request.url, request.exemptOrigin);
    if (refusal(request.url, isExempt ? exemptPolicy : policy) !== null)
      return Promise.reject(new EgressError("refused_address", { maybeSent: false }));
    return exchange(isExempt ? exemptAgent : agent, {
      method: request.method,
      url: new URL(request.url),
      headers: request.headers ?? {},
      body: request.body,
      bytesMax: request.bytesMax ?? BYTES_MAX,
      deadline: deps.clock.deadline(request.timeoutMs ?? TIMEOUT_MS),
      signal: request.signal,
    });
  };

  return {
    send,
    fetchFor: (options) => fetchOver(send, options),
    refuses: (url, exemptOrigin) => refusal(url, isSameOrigin(url, exemptOrigin) ? exemptPolicy : policy),
    close: async () => {
      await Promise.all([agent.close(), exemptAgent.close()]);
    },
  };
}

function createAgent(policy: AddressPolicy, resolve: Resolve): Agent {
  return new Agent({
    connect: createConnector(policy, resolve),
    connections: SOCKETS_PER_ORIGIN_MAX,
    // One request per socket at a time: with more, one that fails takes the others along.
    pipelining: 1,
    keepAliveTimeout: IDLE_MS_MAX,
    keepAliveMaxTimeout: IDLE_MS_MAX,
    maxHeaderSize: RESPONSE_HEADER_BYTES_MAX,
    // The deadline covers the whole call; undici's own limits start anew with each byte.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
}

function isSameOrigin(url: string, exemptOrigin: string | undefined): boolean {
  if (exemptOrigin === undefined || !URL.canParse(url) || !URL.canParse(exemptOrigin)) return false;
  return new URL(url).origin === new URL(exemptOrigin).origin;
}

function refusal(text: string, policy: AddressPolicy): string | null {
  if (!URL.canParse(text)) return "The URL is not valid.";
  const url = new URL(text);
  if (url.protocol !== "https:" && url.protocol !== "http:") return "The URL must begin with https://.";
  if (url.username !== "" || url.password !== "") return "The URL must not hold a user name or a password.";
  const host = plainHost(url.hostname);
  const isLoopback = isLoopbackHost(host);
  if (url.protocol === "http:" && !isLoopback) return "The URL must begin with https:// (http:// is for this machine's own addresses).";
  if (isAddress(host) && classifyAddress(host) === "forbidden")
    return "The URL points at a link-local or metadata address. These are never called.";
  const addresses = isAddress(host) ? [host] : isLoopback ? ["127.0.0.1", "::1"] : [];
  if (addresses.length === 0 || addresses.some((address) => policy.permits(host, address))) return null;
  return "The URL points at a private address. ALLOW_PRIVATE_NETWORK can allow it.";
}
