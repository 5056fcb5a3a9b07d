// Accounts put in by a server, on grants that the awkward provider issued: no browser, and any lifetime that a test wants.
import assert from "node:assert/strict";
import type { Clock } from "../../src/clock.js";
import { MARA, type PracticePerson } from "../../src/sandbox/people.js";
import type { AwkwardProvider } from "./awkwardProvider.js";
import type { Answer } from "./outband.js";

const GOOGLE = ["openid", "email", "https://www.googleapis.com/auth/gmail.readonly", "https://www.googleapis.com/auth/gmail.send"];
const SLACK = ["channels:read", "groups:read", "chat:write", "channels:history", "groups:history"];

export interface GrantedAccount {
  id: string;
  identifier: string;
  connection: "gmail" | "slack";
  tokens: { access: string; refresh: string | null };
  /** A reading tool of the connection, over the API. */
  call(at?: string): Promise<Answer>;
  refresh(): Promise<Answer>;
  disconnect(): Promise<Answer>;
  read(): Promise<{ status: string; status_reason: string | null; token_expires_at: string | null }>;
  /** Types of its events, with the status they tell. */
  events(): Promise<string[]>;
}

export interface GrantSource {
  provider: AwkwardProvider;
  clock: Clock;
  api(method: string, path: string, body?: unknown, at?: string): Promise<Answer>;
}

export interface GrantOptions {
  connection?: "gmail" | "slack";
  /** From now; default: it ran out a second ago. Null: not known. */
  expiresInMs?: number | null;
  withRefresh?: boolean;
  /** Whose it is upstream; default: Mara. A person's hundred-and-first grant ends their first, as at Google. */
  person?: PracticePerson;
}

export function issue(provider: AwkwardProvider, connection: "gmail" | "slack", withRefresh = true, person = MARA): { access: string; refresh: string | null } {
  return connection === "gmail"
    ? provider.grants.google.issue({ person: person.sub, kind: "google", scopes: GOOGLE, withRefresh })
    : provider.grants.slack.issue({ person: person.slackId, kind: "user", scopes: SLACK, withRefresh });
}

export async function grantedAccount({ provider, clock, api }: GrantSource, name: string, options: GrantOptions = {}): Promise<GrantedAccount> {
  const { connection = "gmail", expiresInMs = -1_000, withRefresh = true, person = MARA } = options;
  const user = await api("POST", "/users", { sub: `person-${name}`, email: `${name}@people.example`, name });
  assert.equal(user.status, 201, JSON.stringify(user.body));
  const identifier = user.body.sub as string;
  const tokens = issue(provider, connection, withRefresh, person);
  const put = await api("POST", "/accounts", {
    connection_name: connection,
    identifier,
    credential: {
      type: "oauth",
      access_token: tokens.access,
      ...(tokens.refresh === null ? {} : { refresh_token: tokens.refresh }),
      ...(expiresInMs === null ? {} : { expires_at: new Date(clock.now() + expiresInMs).toISOString() }),
      scopes: connection === "gmail" ? GOOGLE : SLACK,
    },
  });
  assert.equal(put.status, 201, JSON.stringify(put.body));
  const id = put.body.id as string;
  const tool = connection === "gmail" ? "gmail_list_messages" : "slack_list_channels";
  return {
    id,
    identifier,
    connection,
    tokens,
    call: (at) => api("POST", `/tools/${tool}/execute`, { identifier, arguments: {} }, at),
    refresh: () => api("POST", `/accounts/${id}/refresh`),
    disconnect: () => api("DELETE", `/accounts/${id}`),
    read: async () => (await api("GET", `/accounts/${id}`)).body,
    async events() {
      const { data } = (await api("GET", `/events?account_id=${id}&limit=200`)).body;
      return data.map(({ type, data: told }: { type: string; data: { status: string; status_reason: string | null } }) => {
        const short = type.replace("connected_account.", "");
        return short === "status_updated" ? `${short} ${told.status}/${told.status_reason}` : short;
      });
    },
  };
}
