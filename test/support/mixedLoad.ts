// Acts on the vault API whose acknowledgements are written down: accounts put in, renamed, refreshed, disconnected, messages
// sent under a key, links, people. After a crash, `check` compares what was acknowledged with what is there. An act that was
// under way and not answered may have happened or not; half of it may never be there.
import { GMAIL_READ, GMAIL_SEND } from "../../src/connectors/gmail/scopes.js";
import { MARA } from "../../src/sandbox/people.js";
import type { Answer } from "./outband.js";
import type { Cluster, Member } from "./processes.js";
import { type Random, randomFrom } from "./random.js";

export interface MixedLoad {
  /** Acts until told to stop, or until every worker met an instance that is gone. */
  run(stop: AbortSignal): Promise<void>;
  /** What was acknowledged and is not there, in words. Empty: nothing was lost. */
  check(): Promise<string[]>;
  counts(): Record<string, number>;
  acknowledged(): number;
  /** More messages at the provider than keys that were used, or fewer than were acknowledged: in words. */
  checkMessages(): string[];
}

interface Held {
  id: string;
  label: string;
  status: "ACTIVE" | "REVOKED";
  /** A refresh was under way when the instance died: what became of it is settled by the next one to ask, not by us. */
  uncertain: boolean;
  refresh: string;
}

/** An act that was sent and not answered. */
type Open =
  | { act: "put"; label: string; refresh: string }
  | { act: "rename"; held: Held; label: string }
  | { act: "refresh"; held: Held }
  | { act: "disconnect"; held: Held }
  | { act: "send"; key: string; label: string }
  | { act: "other" };

interface Sent {
  key: string;
  label: string;
  accountId: string;
  id: string | null;
}

const ACTS = ["put", "rename", "refresh", "disconnect", "send", "link", "user"];
const ACCOUNTS_AT_MOST = 6;
const REQUEST_MS = 30_000;

export async function startMixedLoad(cluster: Cluster, options: { workers: number; seed: number; prefix: string }): Promise<MixedLoad> {
  const counts: Record<string, number> = {};
  const workers = await Promise.all(
    Array.from({ length: options.workers }, async (_, n) => createWorker(cluster, await cluster.person(`${options.prefix}-${n}`), randomFrom(options.seed + n), counts)),
  );
  return {
    async run(stop) {
      await Promise.all(workers.map((worker) => worker.run(stop)));
    },
    async check() {
      return (await Promise.all(workers.map((worker) => worker.check()))).flat();
    },
    counts: () => counts,
    acknowledged: () => ACTS.reduce((sum, act) => sum + (counts[act] ?? 0), 0),
    checkMessages() {
      const messages = cluster.provider.count(/messages.send/);
      const { keys = 0, send = 0 } = counts;
      return messages > keys || messages < send ? [`${messages} messages for ${keys} keys, ${send} of them acknowledged`] : [];
    },
  };
}

function createWorker(cluster: Cluster, member: Member, random: Random, counts: Record<string, number>) {
  const accounts: Held[] = [];
  const sent: Sent[] = [];
  const links: string[] = [];
  const people: string[] = [];
  const problems: string[] = [];
  let open: Open | null = null;
  let turn = 0;
  const word = (): string => {
    turn += 1;
    return `w${turn}-${random.int(1_000_000)}`;
  };
  const api = (method: string, path: string, body?: unknown): Promise<Answer> => cluster.api(method, path, body, { signal: AbortSignal.timeout(REQUEST_MS) });
  const acknowledged = (act: string): void => {
    counts[act] = (counts[act] ?? 0) + 1;
  };

  /** Null: not answered, or "not now"; whether it happened is open. */
  async function act(what: Open, method: string, path: string, body?: unknown): Promise<Answer | null> {
    open = what;
    const answer = await api(method, path, body).catch(() => null);
    if (!answer || answer.status >= 500) {
      if (answer && answer.status !== 503 && answer.status !== 502) problems.push(`${what.act}: ${cluster.told(answer)}`);
      return null;
    }
    open = null;
    return answer;
  }

  async function put(): Promise<boolean> {
    const label = word();
    const issued = cluster.provider.grants.google.issue({ person: MARA.sub, kind: "google", scopes: [GMAIL_READ, GMAIL_SEND, "openid", "email"], withRefresh: true });
    const refresh = issued.refresh ?? "";
    const credential = { type: "oauth", access_token: issued.access, refresh_token: refresh, scopes: issued.scopes, expires_at: new Date(Date.now() + 3_600_000).toISOString() };
    const answer = await act({ act: "put", label, refresh }, "POST", "/accounts", { connection_name: "gmail", identifier: member.sub, label, credential });
    if (!answer) return false;
    if (answer.status > 201) problems.push(`put: ${cluster.told(answer)}`);
    else {
      accounts.push({ id: answer.body.id, label, status: "ACTIVE", uncertain: false, refresh });
      acknowledged("put");
    }
    return true;
  }

  async function onAccount(held: Held): Promise<boolean> {
    const which = random.int(10);
    if (which < 4) {
      const label = word();
      const answer = await act({ act: "rename", held, label }, "PATCH", `/accounts/${held.id}`, { label });
      if (!answer) return false;
      if (answer.status === 200) held.label = label;
      else problems.push(`rename: ${cluster.told(answer)}`);
      acknowledged("rename");
      return true;
    }
    if (which < 7) {
      const answer = await act({ act: "refresh", held }, "POST", `/accounts/${held.id}/refresh`);
      if (!answer) return false;
      if (answer.status !== 200 || answer.body.status !== "ACTIVE") problems.push(`refresh: ${cluster.told(answer)}`);
      acknowledged("refresh");
      return true;
    }
    if (which < 8) {
      const answer = await act({ act: "disconnect", held }, "DELETE", `/accounts/${held.id}`);
      if (!answer) return false;
      if (answer.status !== 200) problems.push(`disconnect: ${cluster.told(answer)}`);
      revoked(held);
      acknowledged("disconnect");
      return true;
    }
    const key = word();
    counts["keys"] = (counts["keys"] ?? 0) + 1;
    const answer = await act({ act: "send", key, label: held.label }, "POST", "/tools/gmail_send_message/execute", sendBody(key, held.label));
    const entry: Sent = { key, label: held.label, accountId: held.id, id: null };
    sent.push(entry);
    if (!answer) return false;
    if (answer.status !== 200) problems.push(`send: ${cluster.told(answer)}`);
    entry.id = answer.body.data?.id ?? JSON.stringify(answer.body.data);
    acknowledged("send");
    return true;
  }

  function sendBody(key: string, label: string) {
    return { identifier: member.sub, account: label, arguments: { to: ["kim@people.example"], subject: `Note ${key}`, body: "Noon?" }, idempotency_key: key };
  }

  /** The practice Google lets one person have 100 grants: what is disconnected here does not count there. */
  function revoked(held: Held): void {
    held.status = "REVOKED";
    cluster.provider.grants.google.revokeToken(held.refresh);
    accounts.splice(accounts.indexOf(held), 1);
    gone.push(held);
  }
  const gone: Held[] = [];

  async function step(): Promise<boolean> {
    const usable = accounts.filter((held) => !held.uncertain);
    const which = random.int(10);
    if (usable.length === 0 || (which < 2 && accounts.length < ACCOUNTS_AT_MOST)) return put();
    if (which === 2) {
      const answer = await act({ act: "other" }, "POST", "/authorization-links", { connection_name: "gmail", identifier: member.sub, label: word() });
      if (!answer) return false;
      if (answer.status === 201) links.push(answer.body.id);
      else problems.push(`link: ${cluster.told(answer)}`);
      acknowledged("link");
      return true;
    }
    if (which === 3) {
      const sub = `${member.sub}-${word()}`;
      const answer = await act({ act: "other" }, "POST", "/users", { sub, email: `${sub}@people.example`, role: "user" });
      if (!answer) return false;
      if (answer.status === 201) people.push(sub);
      else problems.push(`user: ${cluster.told(answer)}`);
      acknowledged("user");
      return true;
    }
    return onAccount(usable[random.int(usable.length)] as Held);
  }

  async function all(path: string): Promise<Record<string, unknown>[]> {
    const rows: Record<string, unknown>[] = [];
    for (let cursor = ""; ; ) {
      const answer = await api("GET", `${path}${path.includes("?") ? "&" : "?"}limit=200${cursor}`);
      if (answer.status !== 200) throw new Error(`${path}: ${cluster.told(answer)}`);
      rows.push(...answer.body.data);
      if (answer.body.next_cursor === null) return rows;
      cursor = `&cursor=${encodeURIComponent(answer.body.next_cursor)}`;
    }
  }

  return {
    async run(stop: AbortSignal): Promise<void> {
      while (!stop.aborted) if (!(await step())) return;
    },

    async check(): Promise<string[]> {
      const rows = new Map((await all(`/accounts?identifier=${member.sub}`)).map((row) => [row["id"] as string, row]));
      const was = open;
      open = null;
      for (const held of [...accounts, ...gone.splice(0)]) {
        const row = rows.get(held.id);
        if (!row) {
          problems.push(`account ${held.label} is gone`);
          continue;
        }
        const mine = was && "held" in was && was.held === held ? was : null;
        if (mine?.act === "rename" && row["label"] === mine.label) held.label = mine.label;
        if (row["label"] !== held.label) problems.push(`label: ${held.label} was acknowledged, ${String(row["label"])} is there`);
        if (mine?.act === "disconnect" && row["status"] === "REVOKED") revoked(held);
        else if (mine?.act === "refresh") held.uncertain = true;
        else if (row["status"] !== held.status && !held.uncertain) problems.push(`status: ${held.status} was acknowledged, ${String(row["status"])} ${String(row["status_reason"])} is there`);
      }
      gone.length = 0;
      if (was?.act === "put") await settlePut(was, rows);
      await settleUncertain(rows);
      if (was?.act === "send") await settleSend(was);
      // The last refresh token was stored, or else the provider would see its elder a second time and end the family.
      for (const held of accounts.filter((one) => !one.uncertain)) {
        const answer = await api("POST", `/accounts/${held.id}/refresh`);
        if (answer.status !== 200 || answer.body.status !== "ACTIVE") problems.push(`the grant of ${held.label} does not refresh: ${cluster.told(answer)}`);
      }
      for (const entry of sent.splice(0)) if (entry.id !== null) await sameAgain(entry);
      for (const id of links.splice(0)) if ((await api("GET", `/authorization-links/${id}`)).status !== 200) problems.push(`link ${id} is gone`);
      const known = people.length === 0 ? new Set() : new Set((await all("/users")).map((row) => row["sub"]));
      for (const sub of people.splice(0)) if (!known.has(sub)) problems.push(`person ${sub} is gone`);
      return problems.splice(0);
    },
  };

  async function settlePut(was: Extract<Open, { act: "put" }>, rows: Map<string, Record<string, unknown>>): Promise<void> {
    const row = [...rows.values()].find((one) => one["label"] === was.label);
    // PENDING, never acknowledged: the row of an account whose credential was still on its way.
    if (row?.["status"] === "ACTIVE") accounts.push({ id: row["id"] as string, label: was.label, status: "ACTIVE", uncertain: false, refresh: was.refresh });
    else if (row && row["status"] !== "PENDING") problems.push(`half a put: ${JSON.stringify(row)}`);
    else cluster.provider.grants.google.revokeToken(was.refresh);
  }

  /** An account whose refresh died: after its lease it is ACTIVE and refreshes, or says that its outcome is not known. */
  async function settleUncertain(rows: Map<string, Record<string, unknown>>): Promise<void> {
    for (const held of accounts.filter((one) => one.uncertain)) {
      const row = rows.get(held.id);
      const answer = await api("POST", `/accounts/${held.id}/refresh`);
      // Its lease is still held: asked again after a later crash.
      if (answer.status === 503) continue;
      held.uncertain = false;
      if (answer.status === 200 && answer.body.status === "ACTIVE") continue;
      const now = (await api("GET", `/accounts/${held.id}`)).body;
      if (now.status !== "EXPIRED" || now.status_reason !== "refresh_outcome_unknown") problems.push(`after a refresh that died: ${now.status} ${now.status_reason} (${String(row?.["status"])})`);
      counts["outcome_unknown"] = (counts["outcome_unknown"] ?? 0) + 1;
      accounts.splice(accounts.indexOf(held), 1);
      cluster.provider.grants.google.revokeToken(held.refresh);
    }
  }

  /** The same key again: the recorded result, or a no; the provider's own count says whether anything was sent twice. */
  async function settleSend(was: Extract<Open, { act: "send" }>): Promise<void> {
    const entry = sent.find((one) => one.key === was.key);
    const label = accounts.find((held) => held.id === entry?.accountId)?.label;
    if (label === undefined) return;
    await cluster.api("POST", "/tools/gmail_send_message/execute", sendBody(was.key, label), { signal: AbortSignal.timeout(1_500) }).catch(() => null);
  }

  async function sameAgain(entry: Sent): Promise<void> {
    const label = accounts.find((held) => held.id === entry.accountId)?.label;
    if (label === undefined) return;
    const answer = await api("POST", "/tools/gmail_send_message/execute", sendBody(entry.key, label));
    const id = answer.body?.data?.id ?? JSON.stringify(answer.body?.data);
    if (answer.status !== 200 || id !== entry.id) problems.push(`the result under ${entry.key} was acknowledged as ${entry.id}, now: ${cluster.told(answer)}`);
  }
}
