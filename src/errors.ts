// The closed table of errors that may leave the program. Must never happen: input, a credential or an internal detail
// in `publicMessage`. What is not in the table leaves as `internal`, with its detail in the log alone.

export interface ErrorRow {
  status: number;
  /** The sentence the outside reads; holds no input. */
  message: string;
  /** Whether the same request may work later. */
  retryable: boolean;
}

export const ERRORS = {
  invalid_request: { status: 400, message: "The request is not valid.", retryable: false },
  unauthorized: { status: 401, message: "A valid credential is required.", retryable: false },
  insufficient_scope: { status: 403, message: "The credential lacks a scope that this call needs.", retryable: false },
  forbidden: { status: 403, message: "This is not allowed.", retryable: false },
  csrf_failed: { status: 403, message: "The form is out of date. Go back, reload the page and try again.", retryable: false },
  not_found: { status: 404, message: "There is nothing here.", retryable: false },
  method_not_allowed: { status: 405, message: "This method is not allowed here.", retryable: false },
  not_connected: { status: 409, message: "The account is not connected.", retryable: false },
  reauth_needed: { status: 409, message: "The account must be connected again.", retryable: false },
  ambiguous_account: { status: 409, message: "Several accounts fit; name one by its label.", retryable: false },
  scope_missing: { status: 409, message: "The grant lacks a permission that this tool needs.", retryable: false },
  connection_in_use: { status: 409, message: "The connection has accounts.", retryable: false },
  already_exists: { status: 409, message: "This name is already taken.", retryable: false },
  wrong_upstream_identity: {
    status: 409,
    message: "Another upstream account is connected here. Disconnect it first, or add a label.",
    retryable: false,
  },
  idempotency_key_reused: { status: 409, message: "The idempotency key was used with other arguments.", retryable: false },
  link_gone: { status: 410, message: "This link has expired or was used.", retryable: false },
  payload_too_large: { status: 413, message: "The request is too large.", retryable: false },
  unsupported_media_type: { status: 415, message: "The content type is not supported.", retryable: false },
  unknown_identifier: { status: 422, message: "Nobody signs in here under this identifier.", retryable: false },
  verification_failed: { status: 422, message: "The verification code or the identifier is not that of this link.", retryable: false },
  credential_refused: { status: 422, message: "The provider did not accept this credential.", retryable: false },
  rate_limited: { status: 429, message: "Too many requests. Try again later.", retryable: true },
  internal: { status: 500, message: "Something went wrong on our side.", retryable: true },
  provider_error: { status: 502, message: "The provider refused the request.", retryable: false },
  outcome_unknown: {
    status: 502,
    message: "The provider may or may not have done this. Look before you send it again.",
    retryable: false,
  },
  credential_echoed: { status: 502, message: "The provider's answer held the credential and was withheld.", retryable: false },
  provider_unavailable: { status: 503, message: "The provider cannot be reached now. Try again later.", retryable: true },
  unavailable: { status: 503, message: "The service is not ready. Try again shortly.", retryable: true },
} as const satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof ERRORS;

export interface ErrorOptionsPublic {
  /** A short machine word of our own, such as `token_rejected`; never a provider's text. */
  reason?: string;
  /** Replaces the row's sentence with another fixed sentence of ours. */
  message?: string;
  retryAfterS?: number;
  /** For a 400: what is wrong where. `message` must not repeat the value. */
  problems?: { path: string; message: string }[];
  /** For the log only. */
  cause?: unknown;
}

/** An error of the table. `message` is public; `cause` is not. */
export class OutbandError extends Error {
  readonly code: ErrorCode;
  readonly reason: string | undefined;
  readonly retryAfterS: number | undefined;
  readonly problems: { path: string; message: string }[] | undefined;

  constructor(code: ErrorCode, options: ErrorOptionsPublic = {}) {
    super(options.message ?? ERRORS[code].message, { cause: options.cause });
    this.name = "OutbandError";
    this.code = code;
    this.reason = options.reason;
    this.retryAfterS = options.retryAfterS;
    this.problems = options.problems;
  }

  get status(): number {
    return ERRORS[this.code].status;
  }

  get retryable(): boolean {
    return ERRORS[this.code].retryable;
  }
}
