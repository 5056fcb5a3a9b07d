// kill -9 at every step, on both databases: nothing acknowledged is lost, nothing half-done is served, and the program is
// ready again within its time. What was in flight may have happened or not; it may not have happened by half, or twice.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { createBrowser } from "../support/browser.js";
import { connect, consent, KINDS } from "../support/journey.js";
import { killServer } from "../support/killRounds.js";
import { callTool, linkOf, outcomeOf } from "../support/mcpCall.js";
import { PASSWORD } from "../support/outband.js";
import { type Cluster, type Member, startCluster } from "../support/processes.js";

const READY_MS = { postgresql: 5_000, embedded: 10_000 };
/** Contract: the one account whose refresh died waits for its lease, 25 s at most; the rest is for a machine with other work. */
const LEASE_MS = 40_000;
const TOKEN = "POST /google/token";
const REVOKE = "POST /google/revoke";
const SEND = /messages[./]send/;
const MAIL = { to: ["kim@people.example"], subject: "Lunch", body: "Noon?" };
const LIST = "gmail_list_messages";

for (const kind of KINDS) {
  describe(`kill -9 (${kind})`, () => {
    const again = async (cluster: Cluster): Promise<void> => {
      const cleanMs = cluster.server(0).readyMs;
      const readyMs = await cluster.start(0);
      assert.ok(readyMs < atMost(cleanMs), `ready after ${readyMs} ms, a start before the kill took ${cleanMs} ms`);
    };
    /** On a machine with other work: as a multiple of what a start without a crash takes there. */
    const atMost = (cleanMs: number): number => Math.max(READY_MS[kind], 3 * cleanMs);
    const accountOf = async (cluster: Cluster, member: Member) => (await cluster.api("GET", `/accounts?identifier=${member.sub}`)).body.data[0];

    /** Connected, with a token that has run out. */
    async function expired(cluster: Cluster, name: string, person = "Mara"): Promise<Member> {
      const member = await cluster.person(name);
      cluster.provider.setPolicy("google", { accessTtlS: 1 });
      const page = await connect(linkOf(await callTool(cluster.url, member.token, LIST)), await member.signIn(), { person });
      cluster.provider.setPolicy("google", { accessTtlS: 3600 });
      assert.equal(page.status, 200, page.text);
      await delay(1_050);
      return member;
    }

    test("with an exchange, a refresh, a disconnect and a write in flight, each before and after the provider did its part: all are whole again", async () => {
      const cluster = await startCluster({ kind });
      const { provider } = cluster;
      const bystander = await cluster.person("bystander");
      await connect(linkOf(await callTool(cluster.url, bystander.token, LIST)), await bystander.signIn());
      const writer = await cluster.person("writer");
      await connect(linkOf(await callTool(cluster.url, writer.token, "gmail_send_message", MAIL)), await writer.signIn());
      const leaver = await cluster.person("leaver");
      await connect(linkOf(await callTool(cluster.url, leaver.token, LIST)), await leaver.signIn(), { person: "Tomás" });
      const unsent = await expired(cluster, "refresh-unsent");
      const unheard = await expired(cluster, "refresh-unheard");
      const comers = await Promise.all(["exchange-unsent", "exchange-unheard"].map((name) => cluster.person(name)));
      const browsers = await Promise.all(comers.map((member) => member.signIn()));
      const links = await Promise.all(comers.map(async (member) => linkOf(await callTool(cluster.url, member.token, LIST))));
      const callbacks = [await consent(links[0] ?? "", browsers[0] ?? createBrowser(cluster.url)), await consent(links[1] ?? "", browsers[1] ?? createBrowser(cluster.url))];
      provider.resetCounts();

      const cut = (promise: Promise<unknown>): Promise<unknown> => promise.catch(() => "cut");
      const inFlight: Promise<unknown>[] = [];
      const held = async (match: Parameters<typeof provider.hold>[0], at: "before" | "after", send: () => Promise<unknown>): Promise<() => void> => {
        const holding = provider.hold(match, { at });
        inFlight.push(cut(send()));
        await holding.arrived;
        return holding.release;
      };
      const releases = [
        await held(TOKEN, "before", () => (browsers[0] as ReturnType<typeof createBrowser>).get(callbacks[0] ?? "")),
        await held(TOKEN, "after", () => (browsers[1] as ReturnType<typeof createBrowser>).get(callbacks[1] ?? "")),
        await held(TOKEN, "before", () => callTool(cluster.url, unsent.token, LIST)),
        await held(TOKEN, "after", () => callTool(cluster.url, unheard.token, LIST)),
        await held(SEND, "after", () => callTool(cluster.url, writer.token, "gmail_send_message", { ...MAIL, idempotency_key: "once" })),
        await held(REVOKE, "before", async () => cluster.api("DELETE", `/accounts/${(await accountOf(cluster, leaver)).id}`)),
      ];
      await cluster.kill(0);
      await Promise.all(inFlight);
      // What was held before is done by the provider now, as with a request that waits in a socket.
      for (const release of releases) release();
      await again(cluster);
      const readyAt = performance.now();

      // The refreshes: each has its lease to wait for, no longer; then a token, or the honest word.
      const settled = async (member: Member) => {
        for (;;) {
          const answer = await callTool(cluster.url, member.token, LIST);
          const ms = performance.now() - readyAt;
          const isTransient = answer.body.result?.isError === true && outcomeOf(answer)?.outcome === "provider_unavailable";
          if (!isTransient) return { answer, ms, account: await accountOf(cluster, member) };
          assert.ok(ms < LEASE_MS, `not settled after ${ms} ms: ${JSON.stringify(answer.body)}`);
          await delay(200);
        }
      };
      const refreshed = Promise.all([settled(unsent), settled(unheard)]);

      // Other people notice nothing.
      const startedAt = performance.now();
      const other = await callTool(cluster.url, bystander.token, LIST);
      assert.equal(other.body.result?.resultType, "complete", JSON.stringify(other.body));
      assert.ok(performance.now() - startedAt < 10_000, `${performance.now() - startedAt} ms`);

      // The exchange: not connected, not half connected; the same callback exchanges nothing, a new link ends well.
      await Promise.all(
        comers.map(async (member, n) => {
          const account = await accountOf(cluster, member);
          assert.deepEqual([account.status, account.status_reason], ["PENDING", "awaiting_user"]);
          const asked = await callTool(cluster.url, member.token, LIST);
          assert.notEqual(linkOf(asked), links[n]);
          const page = await connect(linkOf(asked), browsers[n] as ReturnType<typeof createBrowser>);
          assert.equal(page.status, 200, page.text);
          const answer = await callTool(cluster.url, member.token, LIST);
          assert.equal(answer.body.result?.resultType, "complete", JSON.stringify(answer.body));
        }),
      );

      // The disconnect: true from its commit on.
      const left = await accountOf(cluster, leaver);
      assert.deepEqual([left.status, left.status_reason], ["REVOKED", "disconnected_by_admin"]);

      const [fresh, unknown] = await refreshed;
      assert.ok(Math.max(fresh.ms, unknown.ms) < LEASE_MS, `${fresh.ms} and ${unknown.ms} ms`);
      assert.equal(unknown.account.status, "EXPIRED");
      assert.equal(unknown.account.status_reason, "refresh_outcome_unknown");
      assert.equal(unknown.answer.body.result.resultType, "input_required", JSON.stringify(unknown.answer.body));
      const events = (await cluster.api("GET", `/events?type=connected_account.status_updated&account_id=${unknown.account.id}`)).body.data;
      assert.deepEqual(events.map((event: { data: { status_reason: string | null } }) => event.data.status_reason), [null, "refresh_outcome_unknown"]);
      // Its request was read by the provider after the process was gone, as requests in a socket's buffer are.
      assert.ok(["ACTIVE", "EXPIRED"].includes(fresh.account.status), JSON.stringify(fresh.account));

      // The write: sent once, and never again under its key.
      const sentAgain = await callTool(cluster.url, writer.token, "gmail_send_message", { ...MAIL, idempotency_key: "once" });
      assert.equal(provider.count(SEND), 1);
      if (sentAgain.body.result.isError === true) assert.ok(["outcome_unknown", "provider_unavailable"].includes(outcomeOf(sentAgain).outcome), JSON.stringify(sentAgain.body));
      await cluster.close();
    });

    test("right after each acknowledgement: set-up, connect, rename, a write under its key, disconnect are there after the kill", async () => {
      const cluster = await startCluster({ kind });
      const setup = /http:\/\/localhost:\d+\/setup\/[\w-]+/.exec(cluster.server(0).output())?.[0] ?? "";
      const browser = createBrowser(cluster.url);
      const claimed = await browser.post(setup, { email: "admin@people.example", name: "Ada", password: PASSWORD, password_again: PASSWORD }, { from: await browser.get(setup) });
      assert.equal(claimed.status, 303, claimed.text);
      await cluster.kill(0);
      await again(cluster);
      assert.equal((await createBrowser(cluster.url).get(setup)).status >= 400, true);
      assert.ok(!cluster.server(0).output().includes("/setup/"), "a second set-up link");

      const member = await cluster.person("keeper");
      const page = await connect(linkOf(await callTool(cluster.url, member.token, "gmail_send_message", MAIL)), await member.signIn());
      assert.equal(page.status, 200, page.text);
      await cluster.kill(0);
      await again(cluster);
      cluster.provider.resetCounts();
      const args = { ...MAIL, idempotency_key: "kept" };
      const first = await callTool(cluster.url, member.token, "gmail_send_message", args);
      assert.notEqual(first.body.result?.isError, true, JSON.stringify(first.body));
      await cluster.kill(0);
      await again(cluster);
      const second = await callTool(cluster.url, member.token, "gmail_send_message", args);
      assert.deepEqual(second.body.result.structuredContent, first.body.result.structuredContent);
      assert.equal(cluster.provider.count(SEND), 1);
      assert.equal(cluster.provider.count(TOKEN), 0);

      const account = await accountOf(cluster, member);
      assert.equal((await cluster.api("PATCH", `/accounts/${account.id}`, { label: "work" })).status, 200);
      await cluster.kill(0);
      await again(cluster);
      assert.deepEqual([(await accountOf(cluster, member)).label, (await accountOf(cluster, member)).status], ["work", "ACTIVE"]);
      assert.equal((await cluster.api("DELETE", `/accounts/${account.id}`)).status, 200);
      await cluster.kill(0);
      await again(cluster);
      assert.equal((await accountOf(cluster, member)).status, "REVOKED");
      await cluster.close();
    });

    test("at random moments under a mixed load: nothing that was acknowledged is lost, nothing is sent twice", async () => {
      const seed = Number(process.env.SEED ?? Date.now() % 100_000);
      const cluster = await startCluster({ kind });
      const cleanMs = cluster.server(0).readyMs;
      const outcome = await killServer(cluster, { rounds: 4, seed, killAfterMs: [0, 500], prefix: "load" });
      assert.deepEqual(outcome.problems, [], `seed ${seed}`);
      assert.ok(outcome.acknowledged > 10, JSON.stringify(outcome.counts));
      assert.ok(Math.max(...outcome.readyMs) < atMost(cleanMs), `${outcome.readyMs.join(" ")}, clean ${cleanMs}`);
      await cluster.close();
    });
  });
}

if (process.env.TEST_DATABASE_URL) {
  test("an instance that dies in a refresh: another one serves everybody else meanwhile, and that account within its lease", async () => {
    const cluster = await startCluster({ kind: "postgresql", instances: 2 });
    cluster.provider.setPolicy("google", { accessTtlS: 1 });
    const member = await cluster.person("orphan");
    await connect(linkOf(await callTool(cluster.at(0), member.token, LIST)), await member.signIn());
    cluster.provider.setPolicy("google", { accessTtlS: 3600 });
    await delay(1_050);
    cluster.provider.fault({ match: TOKEN, drop: "before", delayMs: 60_000 });
    const dying = callTool(cluster.at(0), member.token, LIST).catch(() => null);
    while (cluster.provider.faultsLeft() > 0) await delay(20);
    await cluster.kill(0);
    await dying;
    const killedAt = performance.now();
    const answers: string[] = [];
    for (;;) {
      const answer = await callTool(cluster.at(1), member.token, LIST);
      answers.push(outcomeOf(answer)?.outcome ?? "ok");
      if (answer.body.result?.isError !== true) break;
      assert.ok(performance.now() - killedAt < LEASE_MS, answers.join(" "));
      await delay(200);
    }
    assert.ok(performance.now() - killedAt < LEASE_MS, `${performance.now() - killedAt} ms`);
    await cluster.close();
  });
}
