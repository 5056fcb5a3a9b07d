// A storm on expired tokens over three processes and one PostgreSQL: N accounts, each met by M calls at once, at a provider that
// rotates refresh tokens and ends the family of one that is used twice. Then the same with every tenth token answer lost, and
// then a token endpoint that never answers one account while the others go on.
// npm run bench:storm -- [--accounts 200, at most: two people upstream keep a hundred grants each] [--calls 50]; needs TEST_DATABASE_URL.
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { systemClock } from "../src/clock.js";
import { MARA, TOMAS } from "../src/sandbox/people.js";
import { type GrantedAccount, grantedAccount, type GrantSource } from "../test/support/grants.js";
import type { Answer } from "../test/support/outband.js";
import { type Cluster, startCluster } from "../test/support/processes.js";

const { values } = parseArgs({ options: { accounts: { type: "string", default: "200" }, calls: { type: "string", default: "50" } } });
const ACCOUNTS = Number(values.accounts);
const CALLS = Number(values.calls);
const INSTANCES = 3;
const TOKEN = "POST /google/token";
/** Accounts that are met at the same time: what one machine with a handful of cores can send at once. */
const AT_ONCE = 8;
const LOSE_EVERY = 10;
/** Contract 6.1: a hung refresh ends within 15 s. */
const HANG_MS = 15_000;
const OTHERS_MS = 1_000;
const SETTLED_WITHIN_MS = 60_000;
const problems: string[] = [];

interface Rig {
  cluster: Cluster;
  source: GrantSource;
  reused(): number;
}

/** Three processes and a provider of their own: a provider that keeps a hundred grants of a person has no room for the storms of before. */
async function withRig(run: (rig: Rig) => Promise<void>): Promise<void> {
  const cluster = await startCluster({ kind: "postgresql", instances: INSTANCES });
  const { google } = cluster.provider.grants;
  let reused = 0;
  const refreshAtProvider = google.refresh.bind(google);
  google.refresh = (token, scopes) => {
    const end = refreshAtProvider(token, scopes);
    if (end.status === "reused") reused += 1;
    return end;
  };
  let turn = 0;
  const api = (method: string, path: string, body?: unknown): Promise<Answer> => cluster.api(method, path, body, { at: turn++ % INSTANCES });
  try {
    await run({ cluster, source: { provider: cluster.provider, clock: systemClock, api }, reused: () => reused });
  } finally {
    await cluster.close();
  }
}

interface Storm {
  good: number;
  transient: number;
  /** How the transient ones were told. */
  words: Record<string, number>;
  dead: number;
  tokenRequests: number;
  seconds: number;
}

async function storm({ cluster, source }: Rig, prefix: string): Promise<{ storm: Storm; accounts: GrantedAccount[] }> {
  const accounts: GrantedAccount[] = [];
  for (let n = 0; n < ACCOUNTS; n += 1) accounts.push(await grantedAccount(source, `${prefix}-${n}`, { person: n % 2 === 0 ? MARA : TOMAS }));
  cluster.provider.resetCounts();
  const told: Storm = { good: 0, transient: 0, words: {}, dead: 0, tokenRequests: 0, seconds: 0 };
  const startedAt = performance.now();
  const todo = [...accounts];
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (let account = todo.shift(); account; account = todo.shift()) {
        const answers = await Promise.all(Array.from({ length: CALLS }, () => (account as GrantedAccount).call()));
        for (const { status, body } of answers) {
          if (status === 200) told.good += 1;
          else if (status === 502 || status === 503) {
            told.transient += 1;
            const word = `${status} ${body.code}/${body.reason ?? ""}`;
            told.words[word] = (told.words[word] ?? 0) + 1;
          }
          else if (status === 409) told.dead += 1;
          else problems.push(`${prefix}: ${status} ${JSON.stringify(body).slice(0, 200)}`);
        }
      }
    }),
  );
  told.seconds = Math.round((performance.now() - startedAt) / 1000);
  told.tokenRequests = cluster.provider.count(TOKEN);
  return { storm: told, accounts };
}

async function standing(accounts: GrantedAccount[]): Promise<Record<string, number>> {
  const stands: Record<string, number> = {};
  for (const account of accounts) {
    const { status, status_reason: reason } = await account.read();
    const word = reason === null ? status : `${status}/${reason}`;
    stands[word] = (stands[word] ?? 0) + 1;
    if (status === "ACTIVE") continue;
    const told = (await account.events()).some((event) => event === `status_updated ${word}`);
    if (word !== "EXPIRED/refresh_outcome_unknown" || !told) problems.push(`${account.identifier} ended ${word}, ${told ? "told" : "and no event tells it"}`);
  }
  return stands;
}

async function calm(rig: Rig): Promise<void> {
  const { storm: told, accounts } = await storm(rig, "calm");
  const stands = await standing(accounts);
  console.log(`storm: ${ACCOUNTS} accounts x ${CALLS} calls over ${INSTANCES} processes: ${told.tokenRequests} token requests, ${told.good} successes, ${rig.reused()} reused, ${told.seconds} s; ${JSON.stringify(stands)} ${JSON.stringify(told.words)}`);
  if (told.tokenRequests !== ACCOUNTS) problems.push(`${told.tokenRequests} token requests for ${ACCOUNTS} accounts`);
  if (told.good !== ACCOUNTS * CALLS) problems.push(`${told.good} successes of ${ACCOUNTS * CALLS} calls`);
  if (rig.reused() !== 0) problems.push(`${rig.reused()} refresh tokens were used twice`);
}

/** Called until it is clear what became of it. */
async function afterwards(account: GrantedAccount): Promise<void> {
  for (const until = Date.now() + SETTLED_WITHIN_MS; Date.now() < until; await delay(500)) {
    const { status } = await account.call();
    if (status !== 502 && status !== 503) return;
  }
  problems.push(`${account.identifier} is still told to come back`);
}

/** What the provider did and nobody heard of cannot be known; it may end an account, but never without a word. */
async function lossy(rig: Rig): Promise<void> {
  const { cluster } = rig;
  let asked = 0;
  cluster.provider.fault({ match: (endpoint) => endpoint === TOKEN && ++asked % LOSE_EVERY === 0, drop: "after", times: ACCOUNTS * CALLS });
  const { storm: told, accounts } = await storm(rig, "lossy");
  cluster.provider.clearFaults();
  await Promise.all(accounts.map((account) => afterwards(account)));
  const stands = await standing(accounts);
  console.log(`storm with lost answers: ${told.tokenRequests} token requests, ${told.good} successes, ${told.transient} told to come back, ${told.dead} told to connect again, ${told.seconds} s; ${JSON.stringify(stands)}`);
  if (told.tokenRequests > ACCOUNTS * 2) problems.push(`${told.tokenRequests} token requests for ${ACCOUNTS} accounts`);
}

async function hang({ cluster, source }: Rig): Promise<void> {
  const stuck = await grantedAccount(source, "stuck");
  const others = await Promise.all(Array.from({ length: 5 }, (_, n) => grantedAccount(source, `other-${n}`, { expiresInMs: 3_600_000 })));
  await Promise.all(others.map((other) => other.call()));
  const holding = cluster.provider.hold(TOKEN);
  const timed = async (account: GrantedAccount): Promise<{ ms: number; answer: Answer }> => {
    const startedAt = performance.now();
    const answer = await account.call();
    return { ms: performance.now() - startedAt, answer };
  };
  let isOver = false;
  const waiting = Promise.all(Array.from({ length: CALLS }, () => timed(stuck))).finally(() => {
    isOver = true;
  });
  await holding.arrived;
  const meanwhile: number[] = [];
  while (!isOver) {
    for (const other of others) {
      const { ms, answer } = await timed(other);
      meanwhile.push(ms);
      if (answer.status !== 200) problems.push(`hang: another account was answered ${answer.status}`);
    }
  }
  const held = await waiting;
  holding.release();
  const longest = Math.round(Math.max(...held.map(({ ms }) => ms)));
  const slowest = Math.round(Math.max(...meanwhile));
  const statuses = [...new Set(held.map(({ answer }) => answer.status))].join(" ");
  console.log(`hang: ${CALLS} calls on an account whose refresh never ends: ${statuses} after ${longest} ms at most; ${meanwhile.length} calls of others meanwhile: ${slowest} ms at most; then ${(await stuck.read()).status}`);
  if (longest > HANG_MS + 1_000) problems.push(`a call waited ${longest} ms for a refresh that hung`);
  if (slowest > OTHERS_MS) problems.push(`another account's call took ${slowest} ms`);
}

await withRig(calm);
await withRig(lossy);
await withRig(hang);
for (const problem of problems.slice(0, 20)) console.log(`  ${problem}`);
console.log(`${problems.length} problems`);
process.exit(problems.length === 0 ? 0 : 1);
