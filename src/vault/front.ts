// The vault's front door, as the surfaces (MCP, API, pages, admin) see it. They reach accounts through this alone and
// never hold a token. vault.ts builds it.
import type { Tool } from "../connectors/connector.js";
import type { Secret } from "../crypto/secret.js";
import type { Tx } from "../db/client.js";
import type { ElicitationEventType } from "../events/events.js";
import type { AccountId, Identifier, LinkId } from "../ids.js";
import type { ApiKeyPrincipal, BrowserPrincipal, Principal } from "../identity/principal.js";
import type { AccountStatus, AccountView, ConnectionView, LinkCreated, LinkRequest, LinkView, StatusReason, ToolCall, ToolCallOutcome } from "./types.js";

export interface ConnectionInput {
  name: string;
  connector: string;
  title?: string | undefined;
  clientId?: string | undefined;
  clientSecret?: string | undefined;
  scopes?: string[] | undefined;
  endpoints?: Record<string, string> | undefined;
  settings?: Record<string, unknown> | undefined;
  enabled?: boolean | undefined;
  requestAllow?: { method: string; path_prefix: string }[] | undefined;
}

export interface ConnectionsDoor {
  list(): Promise<ConnectionView[]>;
  /** Null: there is none of that name. */
  get(name: string): Promise<ConnectionView | null>;
  /** Throws invalid_request, already_exists. */
  create(actor: Principal, input: ConnectionInput): Promise<ConnectionView>;
  /** `reset` erases every credential first (contract 7). Throws not_found, invalid_request, connection_in_use. */
  update(actor: Principal, name: string, change: Partial<Omit<ConnectionInput, "name" | "connector">>, options?: { reset?: boolean }): Promise<ConnectionView>;
  /** Throws not_found, connection_in_use. */
  remove(actor: Principal, name: string, options?: { disconnect?: boolean }): Promise<void>;
}

export interface AccountFilter {
  connectionName?: string | undefined;
  identifier?: string | undefined;
  status?: AccountStatus | undefined;
  limit?: number | undefined;
  cursor?: string | undefined;
}

export interface AccountTally {
  connectionName: string;
  status: AccountStatus;
  statusReason: StatusReason | null;
  count: number;
}

export interface AccountsDoor {
  /** Newest first. */
  list(filter: AccountFilter): Promise<{ data: AccountView[]; nextCursor: string | null }>;
  /** How many accounts there are by connection, status and reason: overviews never read the accounts themselves. */
  tally(): Promise<AccountTally[]>;
  /** The person's own accounts, by connection and label. */
  ofPerson(identifier: Identifier): Promise<AccountView[]>;
  get(id: string): Promise<AccountView | null>;
  /** Null: never asked for. `account` is a label, else an upstream e-mail; undefined: the only one, else "ambiguous". */
  find(identifier: Identifier, connectionName: string, account?: string): Promise<AccountView | null | "ambiguous">;
  /** Throws not_found, already_exists, invalid_request. */
  rename(actor: Principal, id: string, label: string): Promise<AccountView>;
  /** Commits REVOKED and erases the credential, then revokes at the provider; a try that fails, or is cut off, is made again by the sweeper. Throws not_found. */
  disconnect(actor: Principal, id: string, options?: { purge?: boolean }): Promise<AccountView>;
  /** Puts a credential in from a server, or replaces a key: tried first. Throws credential_refused, invalid_request, unknown_identifier. */
  put(actor: Principal, input: { connectionName: string; identifier: Identifier; label?: string | undefined; credential: PutCredential }): Promise<AccountView>;
  /** Refreshes now. Throws not_found, provider_unavailable, reauth_needed. */
  refresh(actor: Principal, id: string): Promise<AccountView>;
}

export type PutCredential =
  | { type: "api_key"; fields: Record<string, string> }
  | { type: "oauth"; access_token: string; refresh_token?: string | undefined; expires_at?: string | undefined; scopes?: string[] | undefined };

export type LinkFailure =
  | "denied"
  | "scope_missing"
  | "expired"
  | "already_used"
  /** A doubled callback whose first is still at it. */
  | "under_way"
  | "wrong_person"
  | "wrong_browser"
  | "unknown_state"
  | "wrong_identity"
  | "not_stored"
  | "not_verified"
  | "disconnected"
  | "provider_error"
  | "provider_unavailable"
  | "client_rejected"
  | "key_refused"
  | "key_malformed"
  | "connection_disabled";

export type LinkOutcome =
  /** The grant waits for the app's answer; the code goes into the way back to it, and nowhere else. */
  | { kind: "awaits_app"; link: LinkView; code: Secret; repeated: boolean }
  | { kind: "connected"; link: LinkView; account: AccountView; /** A doubled or reloaded callback: nothing was exchanged. */ repeated: boolean }
  | { kind: "failed"; link: LinkView | null; failure: LinkFailure; missing: { name: string; title: string }[]; repeated: boolean };

export interface LinksDoor {
  /**
   * Makes a link, or (for MCP) hands out the one that a parallel unanswered call of the same client made.
   * "asked_too_often": the loop guard of contract 6.1.5 (askedBy mcp only).
   * Throws not_found (no such connection), forbidden (disabled), unknown_identifier.
   */
  create(actor: Principal, request: LinkRequest): Promise<LinkCreated | "asked_too_often">;
  /** Reads; changes nothing. Null: no such link. Whose link it is must be compared by the caller before it shows anything. */
  byToken(token: string): Promise<LinkView | null>;
  get(id: string): Promise<LinkView | null>;
  /** The person may act here no longer: their links are void, and calls that wait for them end. */
  endOf(actor: Principal, identifier: Identifier): Promise<void>;
  /** The asking client answered: the link is never shown again. */
  answered(id: LinkId, action: "accept" | "decline" | "cancel"): Promise<void>;
  /** OAuth: binds the flow to this browser and gives the provider's URL. Failures come as a LinkOutcome. `person`: null will do for a link that an app verifies. */
  start(input: { token: string; person: BrowserPrincipal | null; browser: string }): Promise<{ kind: "redirect"; url: string } | LinkOutcome>;
  /** The provider's answer. `url` is PUBLIC_URL + the request's path and query. */
  callback(input: { connectionName: string; url: URL; person: BrowserPrincipal | null; browser: string | null }): Promise<LinkOutcome>;
  /** API key: trimmed, checked, tried at the provider, kept. */
  submitKey(input: { token: string; person: BrowserPrincipal | null; fields: Record<string, string> }): Promise<LinkOutcome>;
  /** The person says no on our page. */
  refuse(input: { token: string; person: BrowserPrincipal | null }): Promise<LinkOutcome>;
  /**
   * The app says whose the waiting grant is. Throws not_found (also: another key's link), invalid_request (not the app's to
   * verify), not_connected (nothing waits yet), link_gone, verification_failed, wrong_upstream_identity, forbidden (disabled).
   */
  verify(actor: ApiKeyPrincipal, id: string, answer: { code: string; identifier: Identifier }): Promise<LinkView>;
  /** Resolves when the link settles or the account becomes usable, or after `timeoutMs`, or when `signal` aborts. Holds no connection. */
  wait(input: { linkId: LinkId; accountId: AccountId; timeoutMs: number; signal: AbortSignal }): Promise<"settled" | "timeout" | "aborted">;
}

/** A tool as it is offered: one per connection and tool of its connector. */
export interface OfferedTool {
  /** The connector's own name for the connection of the same name as the connector, else `{connection}__{tool}`. */
  name: string;
  connectionName: string;
  connectionTitle: string;
  sandbox: boolean;
  /** False: its connection is disabled. Not listed; a call of it ends as not_allowed. */
  enabled: boolean;
  tool: Tool;
}

export interface ToolsDoor {
  /** In the order of contract 6.3, then those of further connections; those of disabled connections are marked. */
  offered(): Promise<OfferedTool[]>;
  /** Runs a tool for the person. Never throws for an outcome of the contract; throws OutbandError (unavailable, internal) else. */
  execute(actor: Principal, identifier: Identifier, call: ToolCall): Promise<ToolCallOutcome>;
}

/** Events about a question, numbered with the account's others and written in the transaction of the question's own row. */
export interface EventsDoor {
  elicitation(tx: Tx, event: { type: ElicitationEventType; accountId: string; more: Record<string, string | null> }): Promise<void>;
}

export interface Vault {
  connections: ConnectionsDoor;
  accounts: AccountsDoor;
  links: LinksDoor;
  tools: ToolsDoor;
  events: EventsDoor;
  /** Background work: expiring links and PENDING rows, refreshing ahead. Returns when one pass is done. */
  sweep(): Promise<void>;
  close(): Promise<void>;
}
