// Hands on the rows of a running program, as a bad disk or a careless repair would lay them. The embedded database has one
// owner, so there the program itself is asked to stop first: `on` runs between a stop and a start on both databases.
import { systemClock } from "../../src/clock.js";
import { secret } from "../../src/crypto/secret.js";
import { type Database, openDatabase } from "../../src/db/client.js";
import { GMAIL_READ, GMAIL_SEND } from "../../src/connectors/gmail/scopes.js";
import { MARA } from "../../src/sandbox/people.js";
import type { Outband } from "./outband.js";
import { silentLog } from "./silentLog.js";

/** Stops the program, works on its database, and starts it again. */
export async function damaged(outband: Outband, work: (db: Database) => Promise<void>, settings: Record<string, string> = {}): Promise<void> {
  await outband.app().close();
  const db = await openDatabase({ databaseUrl: outband.databaseUrl === null ? null : secret(outband.databaseUrl), dataDir: outband.dataDir, log: silentLog, clock: systemClock });
  try {
    await work(db);
  } finally {
    await db.close();
  }
  await outband.start(settings);
}

/** A Gmail account with a real grant, put in from a server. */
export async function putGmail(outband: Outband, identifier: string, label = ""): Promise<string> {
  const issued = outband.provider.grants.google.issue({ person: MARA.sub, kind: "google", scopes: [GMAIL_READ, GMAIL_SEND, "openid", "email"], withRefresh: true });
  const credential = { type: "oauth", access_token: issued.access, refresh_token: issued.refresh, scopes: issued.scopes, expires_at: new Date(Date.now() + 3_000_000).toISOString() };
  const answer = await outband.api("POST", "/accounts", { connection_name: "gmail", identifier, label, credential });
  if (answer.status >= 300) throw new Error(JSON.stringify(answer.body));
  return answer.body.id as string;
}

/** One bit of the last byte. */
export function flipped(bytes: Uint8Array | null): Uint8Array<ArrayBuffer> {
  const copy = new Uint8Array(bytes ?? []);
  const last = copy.length - 1;
  copy[last] = (copy[last] ?? 0) ^ 1;
  return copy;
}

/** The same for a wrapped data key: another letter well inside its last part. */
export function flippedText(text: string): string {
  const at = text.length - 10;
  return text.slice(0, at) + (text[at] === "A" ? "B" : "A") + text.slice(at + 1);
}
