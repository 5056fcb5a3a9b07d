// The words of the vault that its callers share. No behaviour here.
import type { FormQuestion, ToolResult } from "../connectors/connector.js";
import type { AccountStatus, LinkStatus } from "../db/generated/enums.js";
import type { AccountId, ConnectionId, Identifier, LinkId } from "../ids.js";

export type { AccountStatus, LinkStatus };

/** Word for agents: see the contract, section 2. */
export type Readiness = "ready" | "needs_reauth" | "needs_connection";

export type StatusReason =
  | "awaiting_user"
  | "awaiting_verification"
  | "consent_denied"
  | "link_expired"
  | "scope_missing"
  | "refresh_rejected"
  | "no_refresh_token"
  | "token_rejected"
  | "refresh_outcome_unknown"
  | "connection_changed"
  | "key_lost"
  | "disconnected_by_user"
  | "disconnected_by_admin"
  | "revoked_at_provider"
  | "client_rejected"
  | "misconfigured"
  | "unreadable_credential";

/** Reasons of ERROR that an operator must mend: no consent of the person would help, so no link is made (contract section 2). */
export const OPERATOR_REASONS: readonly StatusReason[] = ["client_rejected", "misconfigured"];

/** A connected account as the outside may see it: never a secret. */
export interface AccountView {
  id: AccountId;
  connectionName: string;
  connectionTitle: string;
  connector: string;
  identifier: Identifier;
  label: string;
  status: AccountStatus;
  statusReason: StatusReason | null;
  readiness: Readiness;
  external: { id: string; email: string | null; name: string | null } | null;
  scopes: string[];
  tokenExpiresAt: Date | null;
  lastUsedAt: Date | null;
  lastRefreshedAt: Date | null;
  createdAt: Date;
  updatedAt: Date;
  sandbox: boolean;
}

export interface ConnectionView {
  id: ConnectionId;
  name: string;
  connector: string;
  title: string;
  method: "oauth" | "api_key";
  clientId: string | null;
  /** Whether a client secret is stored; the secret itself is write-only. */
  hasClientSecret: boolean;
  scopes: string[];
  endpoints: Record<string, string>;
  settings: Record<string, unknown>;
  requestAllow: { method: string; path_prefix: string }[];
  enabled: boolean;
  origin: "operator" | "environment" | "sandbox";
  sandbox: boolean;
  /** The exact redirect URI to register at the provider. */
  redirectUri: string;
  createdAt: Date;
  updatedAt: Date;
}

/** Who says whose a grant is (contract 5.7): the person, who signs in here, or the app that asked. */
export type Verification = "sign_in" | "app";

export interface LinkRequest {
  connectionName: string;
  identifier: Identifier;
  label: string;
  askedBy: "mcp" | "page" | "api" | "admin";
  clientId: string;
  clientName: string | null;
  /** The tool that asked; its scopes become the required ones. Null: the connector's minimum. */
  tool: string | null;
  scopesRequired?: string[];
  returnTo?: string | null;
  callerState?: string | null;
  /** MCP: the client answered a question about this connection without saying which. It has seen the open link: another one, then. */
  hasSeen?: boolean;
  /** Default: what the actor's token says, else sign_in. `app` needs a `returnTo`. */
  verification?: Verification;
}

/** What a new link is: `url` is the only place where the token is ever in clear. */
export interface LinkCreated {
  id: LinkId;
  accountId: AccountId;
  url: string;
  expiresAt: Date;
}

export interface LinkView {
  id: LinkId;
  accountId: AccountId;
  connectionName: string;
  connectionTitle: string;
  connector: string;
  method: "oauth" | "api_key";
  sandbox: boolean;
  identifier: Identifier;
  label: string;
  askedBy: string;
  clientName: string | null;
  scopesRequired: string[];
  scopesRequested: string[];
  status: LinkStatus;
  /** `awaiting_verification` while a grant waits for the app's answer; the status is `started` then. */
  reason: string | null;
  expiresAt: Date;
  returnTo: string | null;
  callerState: string | null;
  verification: Verification;
}

/** Outcomes of a call that did not do the work: contract 6.1. */
export type Outcome =
  | "not_connected"
  | "reauth_needed"
  | "declined"
  | "ambiguous_account"
  | "scope_missing"
  | "rate_limited"
  | "provider_error"
  | "provider_unavailable"
  | "outcome_unknown"
  | "invalid_arguments"
  | "cancelled"
  | "not_allowed";

/** The default label is empty and shown as `default`. */
export function labelFrom(name: string | undefined): string {
  return name === undefined || name === "default" ? "" : name;
}

/** One call of a tool, as a surface hands it to the vault. */
export interface ToolCall {
  tool: string;
  args: Record<string, unknown>;
  /** A label, else an upstream e-mail. Undefined: the only account there is. */
  account?: string | undefined;
  idempotencyKey?: string | undefined;
  /** Names a call over all its rounds: whichever of its states comes back, a write runs once and its result is recorded. */
  chain?: string | undefined;
  /** Answers to forms so far, by question key. */
  answers: Record<string, Record<string, string>>;
  signal: AbortSignal;
  requestId?: string | undefined;
  traceId?: string | undefined;
}

export type ToolCallOutcome =
  | { kind: "done"; executionId: string; result: ToolResult; replayed: boolean; account: AccountView | null }
  /** The account is not usable, and a link can mend it. */
  | { kind: "needs_account"; connectionName: string; connectionTitle: string; label: string; readiness: Exclude<Readiness, "ready"> | "ready"; reason: string; scopes: string[]; accountId: AccountId | null }
  | { kind: "needs_answer"; question: FormQuestion }
  | {
      kind: "failed";
      outcome: Outcome;
      reason: string | null;
      /** Our own words for the model; no third party's text. */
      text: string;
      connectionName: string | null;
      retryAfterS?: number | undefined;
      executionId: string;
    };
