// One request and its answer on an undici agent. Settles once, whatever comes first: the answer, its cap, the deadline, the
// caller's cancel, a failure. Must never happen: a call that outlives its deadline, also while it waits for a look-up, a
// connection or a free socket (undici itself tells an aborted request only once it is connected).
import type { IncomingHttpHeaders } from "node:http";
import type { Dispatcher } from "undici";
import { ACCEPT_ENCODING, createBodyCollector, type BodyCollector } from "./body.js";
import { RefusedAddress } from "./connect.js";
import { EgressError, type EgressAnswer, type EgressFailure } from "./message.js";

export interface ExchangeRequest {
  method: string;
  url: URL;
  headers: Record<string, string>;
  body: string | Uint8Array | undefined;
  bytesMax: number;
  deadline: AbortSignal;
  signal: AbortSignal | undefined;
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);
const USER_AGENT = "outband";
/** What belongs to the connection is written by undici alone: a second one would split the request in two readings. */
const CONNECTION_HEADERS = new Set(
  "connection content-length expect host keep-alive proxy-connection te trailer transfer-encoding upgrade".split(" "),
);

export function exchange(agent: Dispatcher, request: ExchangeRequest): Promise<EgressAnswer> {
  return new Promise((resolve, reject) => {
    let controller: Dispatcher.DispatchController | null = null;
    let body: BodyCollector | null = null;
    let status: number | null = null;
    let maybeSent = false;
    let isSettled = false;

    const settle = (tell: () => void) => {
      if (isSettled) return;
      isSettled = true;
      request.deadline.removeEventListener("abort", onDeadline);
      request.signal?.removeEventListener("abort", onCancel);
      tell();
    };
    const fail = (kind: EgressFailure, reason: string | null = null) => {
      settle(() => {
        body?.destroy();
        reject(new EgressError(kind, { maybeSent, reason, status }));
        controller?.abort(new Error(kind));
      });
    };
    const onDeadline = () => fail("timeout");
    const onCancel = () => fail("aborted");

    if (request.signal?.aborted === true) return onCancel();
    if (request.deadline.aborted) return onDeadline();
    request.deadline.addEventListener("abort", onDeadline);
    request.signal?.addEventListener("abort", onCancel);

    const handler: Dispatcher.DispatchHandler = {
      // Called with an open connection, right before the first byte is written.
      onRequestStart: (started) => {
        if (isSettled) return started.abort(new Error("settled"));
        controller = started;
        maybeSent = true;
      },
      onResponseStart: (_, statusCode, rawHeaders) => {
        if (isSettled || statusCode < 200) return;
        status = statusCode;
        const headers = plainHeaders(rawHeaders);
        if (REDIRECTS.has(statusCode)) return fail("redirect");
        body = createBodyCollector(headers["content-encoding"] ?? "", request.bytesMax, {
          onDone: (bytes) => settle(() => resolve({ status: statusCode, headers: decodedHeaders(headers), body: bytes })),
          onTooLarge: () => fail("too_large"),
          onBroken: () => fail("network", "BROKEN_ENCODING"),
          onRoom: () => controller?.resume(),
        });
        if (body === null) fail("network", "UNKNOWN_ENCODING");
      },
      onResponseData: (_, chunk) => {
        if (!isSettled && body?.write(chunk) === false) controller?.pause();
      },
      onResponseEnd: () => body?.end(),
      onResponseError: (_, error) => (error instanceof RefusedAddress ? fail("refused_address") : fail("network", reasonOf(error))),
    };
    try {
      agent.dispatch(
        {
          origin: request.url.origin,
          path: `${request.url.pathname}${request.url.search}`,
          method: request.method as Dispatcher.HttpMethod,
          headers: outgoingHeaders(request.headers),
          body: request.body ?? null,
        },
        handler,
      );
    } catch (error) {
      fail("network", reasonOf(error));
    }
  });
}

function outgoingHeaders(given: Record<string, string>): Record<string, string> {
  const headers: Record<string, string> = { "user-agent": USER_AGENT, "accept-encoding": ACCEPT_ENCODING };
  for (const [name, value] of Object.entries(given)) {
    const key = name.toLowerCase();
    // Only what we decode is asked for, whatever a library thinks it can read.
    if (!CONNECTION_HEADERS.has(key) && key !== "accept-encoding") headers[key] = value;
  }
  return headers;
}

function plainHeaders(raw: IncomingHttpHeaders): Record<string, string> {
  return Object.fromEntries(
    Object.entries(raw).flatMap(([name, value]) =>
      value === undefined ? [] : [[name.toLowerCase(), Array.isArray(value) ? value.join(", ") : value]],
    ),
  );
}

function decodedHeaders(headers: Record<string, string>): Record<string, string> {
  const { "content-encoding": _encoding, "content-length": _length, ...rest } = headers;
  return rest;
}

function reasonOf(error: unknown): string | null {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^[A-Z0-9_]{1,40}$/.test(code) ? code : null;
}
