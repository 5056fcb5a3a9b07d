// Connections that nobody clicked together: from the settings (real Google and Slack) and from the sandbox.
// Must never happen: a practice connection left behind real keys; an operator's own connection touched.
import type { Settings } from "../config/settings.js";
import type { Endpoints } from "../connectors/connector.js";
import type { Secret } from "../crypto/secret.js";
import type { Database } from "../db/client.js";
import type { Connections } from "./connections.js";

export interface PracticeProvider {
  clientId: string;
  clientSecret: Secret;
  endpoints: Endpoints;
}

export interface Practice {
  google: PracticeProvider;
  slack: PracticeProvider;
}

const NAMES = ["gmail", "slack"] as const;
type Name = (typeof NAMES)[number];

/** Contract 3, SANDBOX=auto: on while the operator has made no connection, on the embedded database, on loopback. */
export async function wantsSandbox(db: Database, settings: Pick<Settings, "sandbox" | "host" | "publicUrl">, isLoopback: (host: string) => boolean): Promise<boolean> {
  if (settings.sandbox !== "auto") return settings.sandbox === "on";
  if (db.kind !== "embedded" || !isLoopback(settings.host) || !isLoopback(new URL(settings.publicUrl).hostname)) return false;
  return (await db.prisma.connection.count({ where: { origin: "operator" } })) === 0;
}

/** Brings the given connections up to date; returns one sentence for each thing the operator should know. */
export async function provideConnections(
  connections: Connections,
  settings: Pick<Settings, "google" | "slack">,
  practice: Practice | null,
): Promise<string[]> {
  const notes: string[] = [];
  const real: Record<Name, { clientId: string; clientSecret: Secret } | null> = { gmail: settings.google, slack: settings.slack };
  const practised: Record<Name, PracticeProvider | null> = { gmail: practice?.google ?? null, slack: practice?.slack ?? null };
  for (const name of NAMES) {
    const known = await connections.get(name);
    const keys = real[name];
    const play = practised[name];
    if (keys) {
      await connections.provide({ name, connector: name, clientId: keys.clientId, clientSecret: keys.clientSecret.reveal() }, "environment");
      if (known?.origin === "sandbox") notes.push(`The practice connection ${name} and its accounts were replaced by the real one.`);
      if (known?.origin === "operator") notes.push(`The connection ${name} was made by an operator; the client id and secret of the environment are not used.`);
    } else if (play && (known === null || known.origin === "sandbox")) {
      const endpoints = Object.fromEntries(Object.entries(play.endpoints).filter((entry): entry is [string, string] => entry[1] !== undefined));
      await connections.provide({ name, connector: name, clientId: play.clientId, clientSecret: play.clientSecret.reveal(), endpoints }, "sandbox");
    } else if (known?.origin === "sandbox") {
      await connections.remove({ kind: "system" }, name, { disconnect: true });
      notes.push(`The practice connection ${name} and its accounts were removed: the sandbox is off.`);
    }
  }
  return notes;
}
