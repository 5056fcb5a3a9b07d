// What a status, a permission or an asking program is in plain words. Data and pure functions; no HTTP.
import type { Connector, ScopeLabel } from "../connectors/connector.js";
import { outsideText } from "../http/words.js";
import type { AccountView, LinkView, StatusReason } from "../vault/types.js";

export interface StatusWords {
  badge: string;
  tone: "ok" | "warn" | "bad" | "idle";
  /** Why, and what to do; null when all is well. */
  sentence: string | null;
  /** The word on the button that mends it; null: nothing that this person can do. */
  action: "Connect" | "Reconnect" | null;
}

type Reasons = Partial<Record<StatusReason, (title: string) => string>>;

const PENDING: Reasons = {
  awaiting_user: () => "It was asked for, but not finished.",
  awaiting_verification: () => "Waiting for the app that asked to confirm it.",
  consent_denied: () => "You said no the last time.",
  link_expired: () => "The last link ran out before it was used.",
  scope_missing: () => "A permission that was needed was left out.",
};

const EXPIRED: Reasons = {
  refresh_rejected: (title) => `${title} no longer honours the permission you gave.`,
  no_refresh_token: (title) => `The access that ${title} gave has run out and cannot be renewed.`,
  token_rejected: (title) => `${title} no longer accepts this credential.`,
  refresh_outcome_unknown: (title) => `Renewing the access at ${title} was cut off half-way.`,
  connection_changed: () => "An operator changed how this connection is set up.",
  key_lost: () => "The vault can no longer open what was stored.",
};

const REVOKED: Reasons = {
  disconnected_by_user: () => "You disconnected it.",
  disconnected_by_admin: () => "An administrator disconnected it.",
  revoked_at_provider: (title) => `Access was taken back at ${title}.`,
};

const OPERATOR: Reasons = {
  client_rejected: (title) => `${title} does not accept this installation at the moment.`,
  misconfigured: (title) => `The connection to ${title} is not set up correctly.`,
};

/** Contract, section 2, for the person whose account it is. */
export function statusWords(account: Pick<AccountView, "status" | "statusReason">, title: string): StatusWords {
  const say = (reasons: Reasons, otherwise: string): string => (account.statusReason && reasons[account.statusReason]?.(title)) || otherwise;
  switch (account.status) {
    case "ACTIVE":
      return { badge: "Connected", tone: "ok", sentence: null, action: null };
    case "PENDING":
      return { badge: "Not connected yet", tone: "idle", sentence: say(PENDING, "It was never finished."), action: "Connect" };
    case "EXPIRED":
      return { badge: "Needs you", tone: "warn", sentence: `${say(EXPIRED, "Access has run out.")} Connect it again to go on.`, action: "Reconnect" };
    case "REVOKED":
      return { badge: "Disconnected", tone: "idle", sentence: say(REVOKED, "It was disconnected."), action: "Reconnect" };
    case "ERROR":
      if (account.statusReason === "unreadable_credential") {
        return { badge: "Needs you", tone: "warn", sentence: "What was stored cannot be read any more. Connect it again to go on.", action: "Reconnect" };
      }
      return { badge: "Out of order", tone: "bad", sentence: `${say(OPERATOR, "Something is wrong on our side.")} The people who run this installation have to mend it; there is nothing for you to do.`, action: null };
    default:
      return account.status satisfies never;
  }
}

/** "default", or the label as it was given. */
export function labelWords(label: string): string {
  return label === "" ? "default" : outsideText(label, 64);
}

/** Whose account it is upstream, as the provider told it: text of outside. */
export function upstreamName(account: Pick<AccountView, "external">): string | null {
  const external = account.external;
  if (!external) return null;
  const name = outsideText(external.email ?? external.name ?? external.id, 120);
  return name === "" ? null : name;
}

export interface Asker {
  kind: "program" | "self" | "app" | "admin";
  /** Text of outside, when a program gave itself a name. */
  name: string | null;
}

/** The client's own word for itself is shown as its own word: anybody may call themselves anything. */
export function askerOf(link: Pick<LinkView, "askedBy" | "clientName">): Asker {
  const name = link.clientName === null ? null : outsideText(link.clientName, 60) || null;
  if (link.askedBy === "page") return { kind: "self", name: null };
  if (link.askedBy === "admin") return { kind: "admin", name: null };
  return { kind: link.askedBy === "api" ? "app" : "program", name };
}

export interface ScopeWords {
  title: string;
  /** Not one of the connector's own: shown as the provider's word. */
  technical: boolean;
}

const IDENTITY_SCOPES = new Set(["openid", "email", "profile", "https://www.googleapis.com/auth/userinfo.email", "https://www.googleapis.com/auth/userinfo.profile"]);
const IDENTITY_TITLE = "See which account it is (name and e-mail address)";

/** Scopes as plain words, in the connector's order, each once. */
export function scopeWords(scopes: readonly string[], connector: Pick<Connector, "scopes">): ScopeWords[] {
  const words = new Map<string, ScopeWords>();
  const order = new Map(connector.scopes.map((label, at) => [label.name, at]));
  const inOrder = [...scopes].sort((a, b) => (order.get(a) ?? order.size) - (order.get(b) ?? order.size));
  for (const scope of inOrder) {
    const title = titleOf(scope, connector.scopes);
    words.set(title ?? scope, { title: title ?? outsideText(scope, 120), technical: title === null });
  }
  return [...words.values()];
}

function titleOf(scope: string, labels: readonly ScopeLabel[]): string | null {
  const label = labels.find((candidate) => candidate.name === scope);
  if (label) return label.title;
  return IDENTITY_SCOPES.has(scope) ? IDENTITY_TITLE : null;
}

/** What the connector could ask for and this link does not. */
export function scopesLeftOut(asked: readonly string[], connector: Pick<Connector, "scopes">): ScopeWords[] {
  const titles = new Set(scopeWords(asked, connector).map((words) => words.title));
  const others = connector.scopes.filter((label) => !asked.includes(label.name)).map((label) => label.name);
  return scopeWords(others, connector).filter((words) => !titles.has(words.title));
}
