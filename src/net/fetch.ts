// The egress gate in the shape of `fetch`, for libraries that take one (openid-client's customFetch, jose). Only the part of
// fetch that they use: text bodies, plain headers, no streaming. What is not supported throws instead of being ignored.
import type { EgressAnswer, EgressRequest } from "./message.js";
import { EgressError } from "./message.js";

export interface FetchOptions {
  exemptOrigin?: string;
  bytesMax?: number;
  timeoutMs?: number;
}

/** Statuses whose Response may not have a body. */
const BODILESS = new Set([204, 205, 304]);

export function fetchOver(send: (request: EgressRequest) => Promise<EgressAnswer>, options: FetchOptions): typeof fetch {
  return async (input, init = {}) => {
    if (typeof input !== "string" && !(input instanceof URL)) throw new TypeError("Only a URL can be fetched here.");
    const body = textOf(init.body);
    const headers = Object.fromEntries(new Headers(init.headers));
    if (init.body instanceof URLSearchParams) headers["content-type"] ??= "application/x-www-form-urlencoded;charset=UTF-8";
    const answer = await send({
      method: (init.method ?? "GET").toUpperCase(),
      url: String(input),
      headers,
      ...(body === undefined ? {} : { body }),
      ...(init.signal ? { signal: init.signal } : {}),
      ...options,
    });
    if (answer.status > 599) throw new EgressError("network", { maybeSent: true, reason: "UNKNOWN_STATUS", status: answer.status });
    return new Response(BODILESS.has(answer.status) ? null : new Uint8Array(answer.body), {
      status: answer.status,
      headers: answer.headers,
    });
  };
}

function textOf(body: unknown): string | Uint8Array | undefined {
  if (body === undefined || body === null) return undefined;
  if (typeof body === "string" || body instanceof Uint8Array) return body;
  if (body instanceof URLSearchParams) return body.toString();
  throw new TypeError("Only text, bytes and form data can be sent here.");
}
