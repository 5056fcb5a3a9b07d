// What goes out, what comes back, and how it fails. Must never happen: a URL's query, a header or a body in an error.

export interface EgressRequest {
  method: string;
  url: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  /** Of the decoded body; 4 MiB. */
  bytesMax?: number;
  /** For the whole call, from the look-up to the last byte; 10 s. */
  timeoutMs?: number;
  signal?: AbortSignal;
  /** An origin that may be private for this purpose: the sandbox's port for a sandbox connection, a host named by the environment. */
  exemptOrigin?: string;
}

export interface EgressAnswer {
  status: number;
  /** Names in lower case; a repeated header joined by ", ". Without content-encoding and content-length: the body is decoded. */
  headers: Record<string, string>;
  body: Buffer;
}

export type EgressFailure = "refused_address" | "timeout" | "too_large" | "network" | "redirect" | "aborted";

const SENTENCES: Record<EgressFailure, string> = {
  refused_address: "The address of the request is not allowed.",
  timeout: "The request took too long.",
  too_large: "The answer is too large.",
  network: "The connection failed or the answer was broken.",
  redirect: "The answer was a redirect, which is never followed.",
  aborted: "The request was cancelled.",
};

export class EgressError extends Error {
  override readonly name = "EgressError";
  readonly kind: EgressFailure;
  /** The request may have reached the other side. */
  readonly maybeSent: boolean;
  /** A word of the system or of undici (ECONNREFUSED, UND_ERR_SOCKET), if there is one. */
  readonly reason: string | null;
  /** The status of the answer, as far as there was one. */
  readonly status: number | null;

  constructor(kind: EgressFailure, detail: { maybeSent: boolean; reason?: string | null; status?: number | null }) {
    // Without a cause: undici's errors hold addresses, and a caller's log would print them.
    super(SENTENCES[kind]);
    this.kind = kind;
    this.maybeSent = detail.maybeSent;
    this.reason = detail.reason ?? null;
    this.status = detail.status ?? null;
  }

  /** For the log, which prints no message of an error. */
  get code(): string {
    return this.reason === null ? `egress.${this.kind}` : `egress.${this.kind}.${this.reason}`;
  }
}
