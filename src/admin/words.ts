// States, acts and actors in plain words, for those who run the installation. Data and pure functions; no HTTP.
import type { AuditCategory } from "../audit/audit.js";
import type { AuditView } from "../audit/read.js";
import type { Connector } from "../connectors/connector.js";
import { outsideText } from "../http/words.js";
import type { PersonName } from "../identity/people.js";
import type { AccountStatus, AccountView, StatusReason } from "../vault/types.js";

export type Tone = "ok" | "warn" | "bad" | "idle";

export interface StatusWords {
  badge: string;
  tone: Tone;
}

/** In the order in which they are counted and chosen. */
export const STATUSES: Readonly<Record<AccountStatus, StatusWords>> = {
  ACTIVE: { badge: "Connected", tone: "ok" },
  EXPIRED: { badge: "Needs the person", tone: "warn" },
  ERROR: { badge: "Out of order", tone: "bad" },
  PENDING: { badge: "Not connected yet", tone: "idle" },
  REVOKED: { badge: "Disconnected", tone: "idle" },
};

export const STATUS_NAMES = Object.keys(STATUSES) as AccountStatus[];

export function isStatus(text: string): text is AccountStatus {
  return Object.hasOwn(STATUSES, text);
}

/** Contract, section 2: why an account is as it is. */
const REASONS: Readonly<Record<StatusReason, (title: string) => string>> = {
  awaiting_user: () => "A link was made; the person has not finished.",
  awaiting_verification: () => "The person is done; the app that asked has not confirmed it yet.",
  consent_denied: (title) => `The person said no, here or at ${title}.`,
  link_expired: () => "The last link ran out before it was used.",
  scope_missing: () => "A permission that was needed was left out.",
  refresh_rejected: (title) => `${title} no longer honours the grant.`,
  no_refresh_token: (title) => `The access that ${title} gave has run out and cannot be renewed.`,
  token_rejected: (title) => `${title} no longer accepts the credential.`,
  refresh_outcome_unknown: (title) => `A renewal at ${title} was cut off half-way, and the old grant no longer works.`,
  connection_changed: () => "The connection was given another client or host; the credential was erased.",
  key_lost: () => "The master key that sealed the credential is gone.",
  disconnected_by_user: () => "The person disconnected it.",
  disconnected_by_admin: () => "An administrator disconnected it.",
  revoked_at_provider: (title) => `Access was taken back at ${title}.`,
  client_rejected: (title) => `${title} does not accept the client id or secret.`,
  misconfigured: (title) => `${title} does not accept how the connection is set up.`,
  unreadable_credential: () => "The sealed credential cannot be opened.",
};

export function reasonWords(reason: StatusReason | null, title: string): string | null {
  return reason === null ? null : (REASONS[reason]?.(title) ?? null);
}

/** What can be done about it; null: nothing, or nothing needs to be. */
export function remedyWords(account: Pick<AccountView, "status" | "statusReason">): string | null {
  if (account.status === "EXPIRED" || account.statusReason === "unreadable_credential") return "The person has to connect again.";
  if (account.status !== "ERROR") return null;
  return "Put the client id or secret right on the connection: its accounts are then tried again, without asking anybody.";
}

/** Whose account it is upstream, as the provider told it: text of outside. */
export function upstreamName(account: Pick<AccountView, "external">): string | null {
  const external = account.external;
  if (!external) return null;
  return outsideText(external.email ?? external.name ?? external.id, 120) || null;
}

export function labelWords(label: string): string {
  return label === "" ? "default" : outsideText(label, 64);
}

export interface PersonWords {
  sub: string;
  /** What to call them: the e-mail address, else the bare identifier. */
  shown: string;
  name: string | null;
}

export function personWords(sub: string, people: ReadonlyMap<string, PersonName>): PersonWords {
  const known = people.get(sub);
  return { sub, shown: outsideText(known?.email || sub, 120), name: known?.name ? outsideText(known.name, 80) : null };
}

export interface ScopeWords {
  name: string;
  /** Null: not one of the connector's own words. */
  title: string | null;
}

/** In the connector's order, then the others. */
export function scopeWords(scopes: readonly string[], connector: Pick<Connector, "scopes">): ScopeWords[] {
  const known = connector.scopes.filter(({ name }) => scopes.includes(name));
  const others = scopes.filter((scope) => !known.some(({ name }) => name === scope));
  return [...known.map(({ name, title }) => ({ name, title: title === name ? null : title })), ...others.map((name) => ({ name: outsideText(name, 200), title: null }))];
}

export const CATEGORIES: Readonly<Record<AuditCategory, string>> = {
  authorization: "Links and consents",
  tool_call: "Tool calls",
  token_lifecycle: "Credentials",
  administration: "Administration",
};

export function isCategory(text: string): text is AuditCategory {
  return Object.hasOwn(CATEGORIES, text);
}

/** Acts by category. An act that is not here is shown by its own word. */
export const ACTIONS: Readonly<Record<AuditCategory, Readonly<Record<string, string>>>> = {
  authorization: {
    "link.created": "Link made",
    "link.failed": "Link ended without a connection",
    "elicitation.asked": "Question put",
    "elicitation.answered": "Question answered",
    "elicitation.settled": "Question settled",
    "account.connected": "Account connected",
    "account.try_failed": "Connecting failed",
    "account.put": "Credential put in by a server",
    "account.disconnected": "Account disconnected",
    "client.approved": "App let in",
    "client.denied": "App turned away",
  },
  tool_call: { "tool.executed": "Tool called" },
  token_lifecycle: {
    "token.refreshed": "Access renewed",
    "token.refresh_failed": "Renewal failed",
    "token.refused": "Credential refused by the provider",
    "token.ran_out": "Access ran out",
    "grant.revoked_upstream": "Access taken back at the provider",
    "account.erased": "Credential erased",
    "account.tried_again": "Account to be tried again",
    "account.swept": "Unfinished account cleared away",
  },
  administration: {
    "connection.created": "Connection made",
    "connection.updated": "Connection changed",
    "connection.deleted": "Connection deleted",
    "account.renamed": "Label changed",
    "account.refresh_asked": "Renewal asked for",
    "account.purged": "Account removed",
    "person.signed_in": "Signed in",
    "sign_in.failed": "Failed sign-ins",
    "person.created": "Person added",
    "person.updated": "Person changed",
    "person.removed": "Person removed",
    "person.password_changed": "Password changed",
    "person.invitation_accepted": "Invitation accepted",
    "api_key.created": "API key made",
    "api_key.removed": "API key removed",
  },
};

export function actionWords(row: Pick<AuditView, "category" | "action">): string {
  return ACTIONS[row.category]?.[row.action] ?? row.action;
}

export interface ActorWords {
  /** The person, where there is one. */
  person: PersonWords | null;
  /** Through what, or in what capacity. */
  through: string | null;
  /** The person's app; its name is its own word. */
  client: { name: string | null; provedHost: string | null; id: string } | null;
}

export interface ActorNames {
  people: ReadonlyMap<string, PersonName>;
  keys: ReadonlyMap<string, string>;
  clients: ReadonlyMap<string, { name: string | null; provedHost: string | null }>;
}

/** The beginning of an id that we drew is enough to tell two clients apart; the row opens to the whole of it. */
const DRAWN_ID = /^[\w-]{20,}$/;
const DRAWN_ID_SHOWN = 8;
/** Client ids of our own making: a session token that a server minted. */
const KEY_CLIENT = "outband:key:";

export function actorWords({ actor, identifier }: Pick<AuditView, "actor" | "identifier">, names: ActorNames): ActorWords {
  const person = actor.sub === null ? null : personWords(actor.sub, names.people);
  switch (actor.kind) {
    case "system":
      return { person, through: person ? null : "Outband", client: null };
    case "api_key":
      return { person, through: keyWords(actor.apiKeyId, names.keys), client: null };
    case "admin":
      // With what is their own they do what anybody may.
      return { person, through: identifier === actor.sub ? null : "as administrator", client: null };
    default:
      if (actor.clientId === null) return { person, through: null, client: null };
      if (actor.clientId.startsWith(KEY_CLIENT)) return { person, through: `through ${keyWords(actor.apiKeyId, names.keys)}`, client: null };
      return { person, through: null, client: clientWords(actor.clientId, names.clients) };
  }
}

function clientWords(id: string, clients: ActorNames["clients"]): ActorWords["client"] {
  const known = clients.get(id);
  const name = known?.name ? outsideText(known.name, 60) : null;
  return { name, provedHost: known?.provedHost ? outsideText(known.provedHost, 80) : null, id: DRAWN_ID.test(id) ? `${id.slice(0, DRAWN_ID_SHOWN)}…` : outsideText(id, 80) };
}

/** The keys of the settings (ADMIN_API_KEY, cli.key) are in no table and have no name; nor has one that was removed. */
function keyWords(id: string | null, keyNames: ReadonlyMap<string, string>): string {
  const name = id === null ? undefined : keyNames.get(id);
  if (name !== undefined) return `API key “${outsideText(name, 60)}”`;
  return id?.startsWith("key_fixed_") ? "the admin API key" : "an API key";
}

/** Ends that are nobody's trouble. */
const QUIET_OUTCOMES = new Set(["accept", "decline", "declined", "cancel", "cancelled", "denied", "expired", "not_connected", "not_possible", "kept_shared"]);

export function outcomeWords(outcome: string): { words: string; tone: Tone } {
  return { words: outcome.replaceAll("_", " "), tone: outcome === "ok" ? "ok" : QUIET_OUTCOMES.has(outcome) ? "idle" : "warn" };
}
