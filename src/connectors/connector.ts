// What a connector is: data about one kind of third party, and its tools. A connector knows no database, no vault and
// no token: its tools get an ApiClient that is bound to one account and applies the credential out of their sight.
import type { z } from "zod";
import type { Clock } from "../clock.js";

export interface ScopeLabel {
  name: string;
  /** Plain words for the hosted page: "Read your mail". */
  title: string;
  /** Part of the connector's minimum: what a connection from /connections must be granted. */
  required: boolean;
}

export interface FieldSpec {
  name: string;
  title: string;
  secret: boolean;
  hint?: string;
}

export type EndpointName = "issuer" | "authorization" | "token" | "revocation" | "userinfo" | "jwks" | "api";
export type Endpoints = Partial<Record<EndpointName, string>>;
export type TokenAuth = "client_secret_post" | "client_secret_basic" | "none";

/** How an OAuth provider is spoken to, quirks included, as data and pure functions. */
export interface OAuthMethod {
  kind: "oauth";
  tokenAuth: TokenAuth;
  pkce: boolean;
  /** Adds a nonce and expects an id_token. */
  openid: boolean;
  /** Besides the standard ones, e.g. {access_type: "offline", prompt: "consent"}. */
  authorizationParams: Record<string, string>;
  /** Joins scopes in the authorization request and splits them in the answer. */
  scopeSeparator: " " | ",";
  /** How scopes are laid into the request: one `scope`, or Slack's `scope` + `user_scope`. */
  scopeParam: "scope" | "user_scope";
  /** Always asked for besides the others, and never compared with what was granted: Google answers `email` under another name. */
  baseScopes: readonly string[];
  /** Turns the provider's token answer into a standard one (RFC 6749 section 5.1 or 5.2). Null: it is standard already. */
  normalizeTokenAnswer: ((status: number, body: unknown) => { status: number; body: Record<string, unknown> }) | null;
  /** Whose account it is, read after the exchange with the new token. */
  identity: IdentityProbe;
  /** How a grant is taken back; null where the provider has no way. */
  revoke: RevokeRequest | null;
}

export interface IdentityProbe {
  /** A GET (or POST) below `endpoints.api`, or the OIDC userinfo endpoint. */
  source: "userinfo" | { method: "GET" | "POST"; path: string } | "none";
  /** From the answer's JSON; null when it does not say. */
  read(body: unknown): ExternalAccount | null;
}

export interface ExternalAccount {
  id: string;
  email: string | null;
  name: string | null;
}

export type RevokeRequest =
  | { style: "rfc7009" }
  /** A call of the provider's API with the access token as bearer; `ok` reads its answer. */
  | {
      style: "api";
      method: "POST" | "GET";
      path: string;
      ok(body: unknown): boolean;
      /** The access token has run out while its refresh token may still live: it is refreshed once, then revoked. */
      expired(body: unknown): boolean;
    };

export type KeyPlacement = { in: "header"; name: string; prefix: string } | { in: "query"; name: string } | { in: "basic" };

export interface ApiKeyMethod {
  kind: "api_key";
  fields: FieldSpec[];
  placement: KeyPlacement;
  /** Tried before a key is kept; null: the operator declared none, and the page says that the key was not tried. */
  probe: { method: "GET" | "POST"; path: string; status: number } | null;
  identity: IdentityProbe | null;
}

export interface Connector {
  name: string;
  title: string;
  method: OAuthMethod | ApiKeyMethod;
  scopes: ScopeLabel[];
  endpoints: Endpoints;
  tools: Tool[];
  /** An answer that means "this token is no longer good" although the status is not 401 (Slack: 200 with ok:false). */
  readsAuthFailure: ((status: number, body: unknown) => "token_rejected" | "revoked_at_provider" | null) | null;
}

/** A request below `endpoints.api`. `path` starts with "/"; it must not leave the API's host. */
export interface ApiRequest {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  path: string;
  query?: Record<string, string | number | boolean | readonly string[] | undefined>;
  headers?: Record<string, string>;
  json?: unknown;
  /** application/x-www-form-urlencoded. */
  form?: Record<string, string>;
  /** The request changes something at the provider: once its body may have been sent it is never sent again. */
  write?: boolean;
  /** Largest decoded answer, in bytes; default 4 MiB. */
  bytesMax?: number;
}

export interface ApiAnswer {
  status: number;
  headers: Record<string, string>;
  /** Parsed when the answer is JSON, else null. */
  json: unknown;
  text: string;
}

/**
 * Bound to one account. Applies the credential, refreshes once on a 401, honours deadlines.
 * Throws ProviderFailure for: no answer, a refused token, 429 past the budget, 5xx. Other statuses are returned.
 */
export interface ApiClient {
  request(request: ApiRequest): Promise<ApiAnswer>;
}

export type FailureKind =
  | "unauthorized" // the credential was refused, also after a refresh
  | "scope_missing"
  | "rate_limited"
  | "unavailable" // no answer, 5xx, not JSON: transient
  | "rejected" // the provider understood and said no
  | "invalid_arguments" // the provider says that an argument is wrong
  | "outcome_unknown"; // a write that may have reached the provider

/** What a provider call can come to, besides an answer. `reason` is a short word of ours or the provider's own error code. */
export class ProviderFailure extends Error {
  readonly kind: FailureKind;
  readonly reason: string;
  readonly retryAfterS: number | undefined;
  /** For outcome_unknown: what to look for at the provider. */
  readonly reference: string | undefined;
  readonly scopes: readonly string[] | undefined;

  constructor(
    kind: FailureKind,
    reason: string,
    more: { retryAfterS?: number; reference?: string; scopes?: readonly string[]; cause?: unknown } = {},
  ) {
    super(`${kind}: ${reason}`, { cause: more.cause });
    this.name = "ProviderFailure";
    this.kind = kind;
    this.reason = reason;
    this.retryAfterS = more.retryAfterS;
    this.reference = more.reference;
    this.scopes = more.scopes;
  }
}

export interface FormField {
  name: string;
  title: string;
  description?: string;
  /** With choices: a titled single choice. */
  choices?: { value: string; title: string }[];
  required: boolean;
}

/** A form question to the person (MCP form-mode elicitation). Never asks for a secret, never holds a URL. */
export interface FormQuestion {
  /** Stable within a tool: `pick_channel`, `confirm_channel`. */
  key: string;
  message: string;
  fields: FormField[];
  /** What a client without form support is told instead: the outcome and our own words. */
  otherwise: { outcome: "invalid_arguments" | "not_allowed"; text: string };
}

/** Thrown by ToolContext.ask when the answer is not there yet. The call ends, the question is put, the tool runs again from the top. */
export class NeedsAnswer extends Error {
  readonly question: FormQuestion;
  constructor(question: FormQuestion) {
    super(`needs an answer: ${question.key}`);
    this.name = "NeedsAnswer";
    this.question = question;
  }
}

/** Thrown by a tool that ends in an outcome of our own, in our own words: a typed confirmation that does not match. */
export class CallEnded extends Error {
  readonly outcome: "cancelled" | "not_allowed" | "invalid_arguments";
  readonly reason: string;
  constructor(outcome: CallEnded["outcome"], reason: string, text: string) {
    super(text);
    this.name = "CallEnded";
    this.outcome = outcome;
    this.reason = reason;
  }
}

export interface ToolAccount {
  id: string;
  connectionName: string;
  label: string;
  external: ExternalAccount | null;
  scopes: readonly string[];
  settings: Record<string, unknown>;
}

export interface ToolContext {
  api: ApiClient;
  account: ToolAccount;
  clock: Clock;
  signal: AbortSignal;
  /** A token of ours that is the same each time this one call is tried: for Message-ID and Slack's metadata. */
  onceToken: string;
  /** The person's answer to a form, validated against its fields; throws NeedsAnswer when it was not asked yet. */
  ask(question: FormQuestion): Record<string, string>;
}

export interface ToolResult {
  /** For the model: our own words first; text of third parties only in `untrusted`. */
  text: string;
  /** Text that third parties wrote, already cleaned and capped; shown in blocks of its own. */
  untrusted?: string[];
  structured: Record<string, unknown>;
}

export interface Tool {
  /** As in tools/list of the connector's own connection: `gmail_list_messages`. */
  name: string;
  title: string;
  description: string;
  input: z.ZodObject;
  output: z.ZodObject;
  /** Scopes of the provider that the tool needs. */
  scopes: readonly string[];
  effect: "read" | "write";
  hints: { destructive: boolean; idempotent: boolean; openWorld: boolean };
  run(context: ToolContext, args: Record<string, unknown>): Promise<ToolResult>;
}

/** Keeps `run` typed by its own schema while the registry holds plain Tools. */
export function defineTool<Input extends z.ZodObject, Output extends z.ZodObject>(tool: {
  name: string;
  title: string;
  description: string;
  input: Input;
  output: Output;
  scopes: readonly string[];
  effect: "read" | "write";
  hints?: Partial<Tool["hints"]>;
  run(context: ToolContext, args: z.output<Input>): Promise<ToolResult & { structured: z.input<Output> }>;
}): Tool {
  return {
    ...tool,
    hints: { destructive: false, idempotent: false, openWorld: true, ...tool.hints },
    run: async (context, args) => tool.run(context, tool.input.parse(args)),
  };
}
