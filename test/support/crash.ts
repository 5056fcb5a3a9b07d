// What the crash tests share: how long things may take after a kill -9, and accounts in the states that a kill may meet.
import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { connect } from "./journey.js";
import { callTool, linkOf } from "./mcpCall.js";
import type { Answer } from "./outband.js";
import type { Cluster, Member } from "./processes.js";

export const TOKEN = "POST /google/token";
export const SEND = /messages[./]send/;
export const MAIL = { to: ["kim@people.example"], subject: "Lunch", body: "Noon?" };
export const LIST = "gmail_list_messages";

/** Ready again after a kill -9. */
const READY_MS = { postgresql: 5_000, embedded: 10_000 };
/** The one account whose refresh died waits for its lease: from the kill, with all that has to happen after the lease's end. */
const SETTLED_MS = 25_000;
const LEASE_MS = 20_000;
/** On a machine with other work: as a multiple of what a start without a crash took there in the same run. */
const SLOW = 3;

export const readyBoundMs = (kind: Cluster["kind"], cleanMs: number): number => Math.max(READY_MS[kind], SLOW * cleanMs);
export const settledBoundMs = (cleanMs: number): number => Math.max(SETTLED_MS, LEASE_MS + SLOW * cleanMs);

/** Killed, and started again within its time. */
export async function crash(cluster: Cluster): Promise<void> {
  const cleanMs = cluster.server(0).readyMs;
  await cluster.kill(0);
  await again(cluster, cleanMs);
}

export async function again(cluster: Cluster, cleanMs: number): Promise<void> {
  const readyMs = await cluster.start(0);
  assert.ok(readyMs < readyBoundMs(cluster.kind, cleanMs), `ready after ${readyMs} ms, a start before the kill took ${cleanMs} ms`);
}

// biome-ignore lint/suspicious/noExplicitAny: the wire is what these tests look at.
export async function accountOf(cluster: Cluster, member: Member, options: { at?: number } = {}): Promise<any> {
  return (await cluster.api("GET", `/accounts?identifier=${member.sub}`, undefined, options)).body.data[0];
}

export async function connected(cluster: Cluster, name: string, options: { person?: string; tool?: string } = {}): Promise<Member> {
  const member = await cluster.person(name);
  const tool = options.tool ?? LIST;
  const page = await connect(linkOf(await callTool(cluster.url, member.token, tool, tool === LIST ? {} : MAIL)), await member.signIn(), { person: options.person ?? "Mara" });
  assert.equal(page.status, 200, page.text);
  return member;
}

/** Connected, with tokens that have run out. */
export async function expired(cluster: Cluster, ...names: string[]): Promise<Member[]> {
  cluster.provider.setPolicy("google", { accessTtlS: 1 });
  const members: Member[] = [];
  for (const name of names) members.push(await connected(cluster, name));
  cluster.provider.setPolicy("google", { accessTtlS: 3600 });
  await delay(1_050);
  return members;
}

/** Asks until the account whose refresh died is settled: a result, or a link. `fromMs`: when the process was killed. */
export async function settled(cluster: Cluster, member: Member, options: { fromMs: number; cleanMs: number; url?: string }): Promise<{ answer: Answer; ms: number }> {
  const boundMs = settledBoundMs(options.cleanMs);
  for (;;) {
    const answer = await callTool(options.url ?? cluster.url, member.token, LIST);
    const ms = Math.round(performance.now() - options.fromMs);
    assert.ok(ms < boundMs, `${ms} ms after the kill, a clean start took ${options.cleanMs} ms: ${JSON.stringify(answer.body)}`);
    const outcome = answer.body.result?._meta?.["dev.outband/outcome"]?.outcome;
    if (answer.body.result?.isError !== true) return { answer, ms };
    assert.equal(outcome, "provider_unavailable", JSON.stringify(answer.body));
    await delay(200);
  }
}
