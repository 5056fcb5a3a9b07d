// What needs an operator: gaps in how connections are set up, and accounts that only an operator can mend. Pure.
import type { Connector } from "../connectors/connector.js";
import type { AccountTally } from "../vault/front.js";
import type { AccountStatus, ConnectionView } from "../vault/types.js";
import { reasonWords, remedyWords, STATUS_NAMES, STATUSES, type StatusWords, type Tone } from "./words.js";

export interface Gap {
  /** For a badge. */
  short: string;
  sentence: string;
}

/** Providers that refuse a redirect URI on http, also on loopback. */
const HTTPS_ONLY = new Set(["slack"]);

/** What keeps a connection from working, as far as it can be seen from here. */
export function gapsOf(connection: ConnectionView, connector: Connector, publicUrl: string): Gap[] {
  const { method } = connector;
  if (method.kind !== "oauth") return [];
  const gaps: Gap[] = [];
  if (!connection.clientId) gaps.push({ short: "no client id", sentence: "There is no client id yet. Register an app at the provider with the redirect URI, then put its client id and secret in here." });
  else if (method.tokenAuth !== "none" && !connection.hasClientSecret) gaps.push({ short: "no client secret", sentence: "There is no client secret yet: put in the one that the provider gave with the client id." });
  if (needsHttps(connection, publicUrl)) gaps.push(httpsGap(connector.title, publicUrl));
  return gaps;
}

export function needsHttps(connection: Pick<ConnectionView, "connector" | "sandbox">, publicUrl: string): boolean {
  return HTTPS_ONLY.has(connection.connector) && !connection.sandbox && publicUrl.startsWith("http:");
}

export function httpsGap(title: string, publicUrl: string): Gap {
  return {
    short: "needs https",
    sentence: `${title} takes only redirect URIs on https, and this installation is at ${publicUrl}. Put it behind a proxy or a tunnel with https, set PUBLIC_URL to that address and start again.`,
  };
}

export interface Attention {
  tone: Tone;
  title: string;
  sentence: string;
  href: string;
  link: string;
}

export function attentionOf(connections: readonly { view: ConnectionView; connector: Connector }[], tally: readonly AccountTally[], publicUrl: string): Attention[] {
  const found: Attention[] = [];
  for (const { view, connector } of connections) {
    const href = `/admin/connections/${view.name}`;
    const gaps = view.enabled ? gapsOf(view, connector, publicUrl) : [];
    if (gaps.length > 0) {
      const title = `${view.title}: ${gaps.map(({ short }) => short).join(", ")}`;
      found.push({ tone: "warn", title, sentence: gaps.map(({ sentence }) => sentence).join(" "), href, link: "Open the connection" });
    }
    for (const { count, statusReason } of tally.filter(({ connectionName, status }) => connectionName === view.name && status === "ERROR")) {
      const accounts = count === 1 ? "1 account is" : `${count} accounts are`;
      found.push({
        tone: "bad",
        title: `${view.title}: ${accounts} out of order`,
        sentence: [reasonWords(statusReason, view.title) ?? "Something is wrong that is not the person's doing.", remedyWords({ status: "ERROR", statusReason })].join(" "),
        href: `/admin/accounts?connection=${view.name}&status=ERROR`,
        link: count === 1 ? "See the account" : "See the accounts",
      });
    }
  }
  return found;
}

export interface StatusCount extends StatusWords {
  status: AccountStatus;
  count: number;
}

/** Every status, in the usual order, with how many accounts have it. */
export function countsOf(tally: readonly AccountTally[]): StatusCount[] {
  return STATUS_NAMES.map((status) => ({ status, ...STATUSES[status], count: tally.filter((group) => group.status === status).reduce((sum, { count }) => sum + count, 0) }));
}
