// Many acts at once on few accounts over three processes. Afterwards three witnesses are asked: the provider (was anything
// spent twice?), the audit (which act moved an account from where to where?) and the rows (is anybody back who left?).
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { GMAIL_READ, GMAIL_SEND } from "../../src/connectors/gmail/scopes.js";
import { MARA } from "../../src/sandbox/people.js";
import { RULES } from "../../src/vault/account.js";
import type { Browser } from "./browser.js";
import { consent } from "./journey.js";
import { type Cluster, type Member, startCluster } from "./processes.js";
import { randomFrom } from "./random.js";

export interface RaceOutcome {
  acts: number;
  counts: Record<string, number>;
  problems: string[];
  exchanges: number;
  refreshes: number;
  reused: number;
  transitions: number;
}

const INSTANCES = 3;
const PEOPLE = 4;
const LABELS = ["one", "two"];
/** Which audited acts may lead from where: the state table, by the words of the audit. */
const ACTS_OF: Record<string, keyof typeof RULES> = {
  "account.connected": "connected",
  "account.put": "connected",
  "token.refreshed": "refreshed",
  "account.disconnected": "disconnected",
};
const REQUEST_MS = 60_000;

export async function race(options: { acts: number; seed: number; racers: number; told?: (done: number) => void }): Promise<RaceOutcome> {
  const cluster = await startCluster({ kind: "postgresql", instances: INSTANCES });
  try {
    return await raceOn(cluster, options);
  } finally {
    await cluster.close();
  }
}

async function raceOn(cluster: Cluster, options: { acts: number; seed: number; racers: number; told?: (done: number) => void }): Promise<RaceOutcome> {
  const random = randomFrom(options.seed);
  const outcome: RaceOutcome = { acts: 0, counts: {}, problems: [], exchanges: 0, refreshes: 0, reused: 0, transitions: 0 };
  const { google } = cluster.provider.grants;
  const refreshAtProvider = google.refresh.bind(google);
  google.refresh = (token, scopes) => {
    const end = refreshAtProvider(token, scopes);
    outcome.refreshes += 1;
    if (end.status === "reused") outcome.reused += 1;
    return end;
  };
  let callbacks = 0;
  cluster.provider.resetCounts();

  const people: { member: Member; browser: Browser }[] = [];
  for (let n = 0; n < PEOPLE; n += 1) {
    const member = await cluster.person(`racer-${n}`);
    people.push({ member, browser: await member.signIn(n % INSTANCES) });
  }
  const anywhere = () => ({ at: random.int(INSTANCES), signal: AbortSignal.timeout(REQUEST_MS) });
  const count = (act: string, status: number): void => {
    const name = `${act} ${status}`;
    outcome.counts[name] = (outcome.counts[name] ?? 0) + 1;
    if (status >= 500 && status !== 503) outcome.problems.push(`${act}: ${status}`);
  };
  const accountsOf = async (member: Member): Promise<{ id: string; label: string }[]> => (await cluster.api("GET", `/accounts?identifier=${member.sub}&limit=50`, undefined, anywhere())).body.data;

  async function reconnect(member: Member): Promise<void> {
    const issued = google.issue({ person: MARA.sub, kind: "google", scopes: [GMAIL_READ, GMAIL_SEND, "openid", "email"], withRefresh: true });
    const credential = { type: "oauth", access_token: issued.access, refresh_token: issued.refresh, scopes: issued.scopes };
    const answer = await cluster.api("POST", "/accounts", { connection_name: "gmail", identifier: member.sub, label: random.pick(LABELS), credential }, anywhere());
    count("reconnect", answer.status);
  }

  /** Link, page, consent, and the callback twice at once on two instances. */
  async function callback({ member, browser }: { member: Member; browser: Browser }): Promise<void> {
    const link = await cluster.api("POST", "/authorization-links", { connection_name: "gmail", identifier: member.sub, label: random.pick(LABELS) }, anywhere());
    if (link.status !== 201) return count("link", link.status);
    const back = await consent(cluster.on(random.int(INSTANCES), link.body.url), browser);
    callbacks += 1;
    const [a, b] = [random.int(INSTANCES), random.int(INSTANCES)];
    const pages = await Promise.all([browser.get(cluster.on(a, back)), browser.get(cluster.on(b, back))]);
    for (const page of pages) count("callback", page.status);
    // 202: the other one was still at it when this one had waited long enough. 410, and it says so: connected, and disconnected since.
    const told = pages.filter(({ status, text }) => status !== 202 && !(status === 410 && /disconnected/.test(text)));
    const ends = new Set(told.map(({ status }) => status));
    if (ends.size > 1) outcome.problems.push(`one callback, two outcomes: ${pages.map(({ status }) => status).join(" ")}`);
  }

  async function act(): Promise<void> {
    const person = random.pick(people);
    const which = random.int(20);
    if (which === 0) return callback(person);
    const accounts = await accountsOf(person.member);
    if (which < 4 || accounts.length === 0) return reconnect(person.member);
    const { id } = random.pick(accounts);
    if (which < 12) return count("refresh", (await cluster.api("POST", `/accounts/${id}/refresh`, undefined, anywhere())).status);
    if (which < 16) return count("disconnect", (await cluster.api("DELETE", `/accounts/${id}`, undefined, anywhere())).status);
    return count("rename", (await cluster.api("PATCH", `/accounts/${id}`, { label: random.pick([...LABELS, "three", "four"]) }, anywhere())).status);
  }

  let begun = 0;
  await Promise.all(
    Array.from({ length: options.racers }, async () => {
      while (begun < options.acts) {
        begun += 1;
        await act().catch((thrown: unknown) => void outcome.problems.push(`an act failed: ${thrown instanceof Error ? `${thrown.message} ${String(thrown.cause ?? "")}` : String(thrown)}`.slice(0, 400)));
        outcome.acts += 1;
        if (outcome.acts % 500 === 0) options.told?.(outcome.acts);
      }
    }),
  );

  // The last word is a disconnect, with refreshes racing it: whoever left stays away.
  for (const { member } of people) {
    for (const { id } of await accountsOf(member)) {
      await Promise.all([
        ...Array.from({ length: 4 }, () => cluster.api("POST", `/accounts/${id}/refresh`, undefined, anywhere())),
        cluster.api("DELETE", `/accounts/${id}`, undefined, anywhere()),
      ]);
    }
  }
  await delay(1_000);
  await witnesses(cluster, outcome);
  outcome.exchanges = cluster.provider.count("POST /google/token") - outcome.refreshes;
  if (outcome.reused > 0) outcome.problems.push(`${outcome.reused} refresh tokens were spent twice`);
  if (outcome.exchanges > callbacks) outcome.problems.push(`${outcome.exchanges} exchanges for ${callbacks} callbacks`);
  return outcome;
}

async function witnesses(cluster: Cluster, outcome: RaceOutcome): Promise<void> {
  const client = new pg.Client({ connectionString: cluster.databaseUrl ?? "" });
  await client.connect();
  try {
    const rows = (await client.query("select id, label, status::text as status, access_sealed, refresh_sealed from connected_account")).rows;
    for (const row of rows) {
      if (row.status !== "REVOKED" || row.access_sealed !== null || row.refresh_sealed !== null) outcome.problems.push(`${row.id} came back: ${row.status}`);
    }
    const acts = (await client.query(`select account_id, action, detail->>'from' as "from", detail->>'to' as "to" from audit_entry where detail ? 'from' order by id`)).rows;
    for (const { action, from, to } of acts) {
      outcome.transitions += 1;
      const rule = RULES[ACTS_OF[action] ?? "try_failed"];
      const allowed = ACTS_OF[action] ? rule : Object.values(RULES).find((one) => one.to === to && one.from.some((status) => status === from));
      if (!allowed || allowed.to !== to || !allowed.from.some((status) => status === from)) outcome.problems.push(`${action}: ${from} to ${to} is not in the table`);
    }
    const events = (await client.query(`select account_id, account_sequence, type, data from event order by account_id, account_sequence`)).rows;
    let last: { id: string; sequence: bigint; status: string | null } = { id: "", sequence: 0n, status: null };
    for (const { account_id: id, account_sequence: sequence, type, data } of events) {
      if (id !== last.id) last = { id, sequence: 0n, status: null };
      if (BigInt(sequence) !== last.sequence + 1n) outcome.problems.push(`${id}: event ${sequence} follows ${last.sequence}`);
      if (type.endsWith(".token_refreshed") && (last.status !== "ACTIVE" || data.status !== "ACTIVE")) outcome.problems.push(`${id}: refreshed while ${last.status}`);
      if (type.endsWith(".status_updated") && data.old_status !== last.status) outcome.problems.push(`${id}: from ${data.old_status}, but it was ${last.status}`);
      last = { id, sequence: BigInt(sequence), status: data.status };
    }
  } finally {
    await client.end();
  }
}
