// kill -9 with everything in flight, on both databases, and of one instance of two: nothing half-done is served, other people
// notice nothing, and what was in flight is whole again or says honestly that it is not known. The tests wait for leases most
// of their time, so they run side by side.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Browser } from "../support/browser.js";
import { accountOf, again, connected, expired, LIST, MAIL, SEND, settled, TOKEN } from "../support/crash.js";
import { connect, consent, KINDS } from "../support/journey.js";
import { callTool, linkOf, outcomeOf } from "../support/mcpCall.js";
import { type Cluster, startCluster } from "../support/processes.js";

const REVOKE = "POST /google/revoke";
/** Other people's calls after the crash: their own account has nothing to wait for. The rest is what a loaded machine needs. */
const OTHERS_MS = 5_000;
/** The same key again: held until its process must be dead, then the honest word. From the kill. */
const WRITE_SETTLED_MS = 25_000;

describe("kill -9", { concurrency: true }, () => {
  for (const kind of KINDS) {
    test(`with an exchange, a refresh, a disconnect and a write in flight, each before and after the provider did its part: all are whole again (${kind})`, async () => {
      const cluster = await startCluster({ kind });
      const { provider } = cluster;
      const cleanMs = cluster.server(0).readyMs;
      const bystander = await connected(cluster, "bystander");
      const writer = await connected(cluster, "writer", { tool: "gmail_send_message" });
      const leaver = await connected(cluster, "leaver", { person: "Tomás" });
      const leaverId = (await accountOf(cluster, leaver)).id;
      const comers: { browser: Browser; link: string; callback: string; member: Awaited<ReturnType<Cluster["person"]>> }[] = [];
      for (const name of ["exchange-unsent", "exchange-unheard"]) {
        const member = await cluster.person(name);
        const browser = await member.signIn();
        const link = linkOf(await callTool(cluster.url, member.token, LIST));
        comers.push({ member, browser, link, callback: await consent(link, browser) });
      }
      const [exchangeUnsent, exchangeUnheard] = comers;
      const [unsent, unheard] = await expired(cluster, "refresh-unsent", "refresh-unheard");
      assert.ok(exchangeUnsent && exchangeUnheard && unsent && unheard);
      provider.resetCounts();

      const inFlight: Promise<unknown>[] = [];
      const held = async (match: Parameters<typeof provider.hold>[0], at: "before" | "after", send: () => Promise<unknown>): Promise<() => void> => {
        const holding = provider.hold(match, { at });
        inFlight.push(send().catch(() => "cut"));
        await holding.arrived;
        return holding.release;
      };
      const releases = [
        await held(TOKEN, "before", () => exchangeUnsent.browser.get(exchangeUnsent.callback)),
        await held(TOKEN, "after", () => exchangeUnheard.browser.get(exchangeUnheard.callback)),
        await held(TOKEN, "before", () => callTool(cluster.url, unsent.token, LIST)),
        await held(TOKEN, "after", () => callTool(cluster.url, unheard.token, LIST)),
        await held(SEND, "after", () => callTool(cluster.url, writer.token, "gmail_send_message", { ...MAIL, idempotency_key: "once" })),
        await held(REVOKE, "before", () => cluster.api("DELETE", `/accounts/${leaverId}`)),
      ];
      await cluster.kill(0);
      const fromMs = performance.now();
      await Promise.all(inFlight);
      // What was held before is done by the provider now, as with a request that waits in a socket.
      for (const release of releases) release();
      await again(cluster, cleanMs);

      // The refreshes: each has its lease to wait for, no longer; then a token, or the honest word. The write likewise.
      const refreshed = Promise.all([unsent, unheard].map((member) => settled(cluster, member, { fromMs, cleanMs })));
      const written = callTool(cluster.url, writer.token, "gmail_send_message", { ...MAIL, idempotency_key: "once" }).then((answer) => ({ answer, ms: performance.now() - fromMs }));

      // Other people notice nothing.
      const askedMs = performance.now();
      const other = await callTool(cluster.url, bystander.token, LIST);
      assert.equal(other.body.result?.resultType, "complete", JSON.stringify(other.body));
      const othersMs = performance.now() - askedMs;
      assert.ok(othersMs < Math.max(OTHERS_MS, cleanMs), `${othersMs} ms`);

      // The exchange: not connected, not half connected; the same callback exchanges nothing, a new link ends well.
      for (const { member, browser, link } of comers) {
        const account = await accountOf(cluster, member);
        assert.deepEqual([account.status, account.status_reason], ["PENDING", "awaiting_user"]);
        const asked = await callTool(cluster.url, member.token, LIST);
        assert.notEqual(linkOf(asked), link);
        const page = await connect(linkOf(asked), browser);
        assert.equal(page.status, 200, page.text);
        const answer = await callTool(cluster.url, member.token, LIST);
        assert.equal(answer.body.result?.resultType, "complete", JSON.stringify(answer.body));
      }

      // The disconnect: true from its commit on.
      const left = await accountOf(cluster, leaver);
      assert.deepEqual([left.status, left.status_reason], ["REVOKED", "disconnected_by_admin"]);

      // The write: sent once, never again under its key, and the word for it is the honest one.
      const retried = await written;
      assert.equal(provider.count(SEND), 1);
      assert.equal(outcomeOf(retried.answer)?.outcome, "outcome_unknown", JSON.stringify(retried.answer.body));
      assert.ok(retried.ms < WRITE_SETTLED_MS + cleanMs, `${retried.ms} ms`);

      const [, unknown] = await refreshed;
      const lost = await accountOf(cluster, unheard);
      assert.deepEqual([lost.status, lost.status_reason], ["EXPIRED", "refresh_outcome_unknown"]);
      assert.equal(unknown?.answer.body.result.resultType, "input_required", JSON.stringify(unknown?.answer.body));
      const events = (await cluster.api("GET", `/events?type=connected_account.status_updated&account_id=${lost.id}`)).body.data;
      assert.deepEqual(events.map((event: { data: { status_reason: string | null } }) => event.data.status_reason), [null, "refresh_outcome_unknown"]);
      // Its request was read by the provider after the process was gone, as requests in a socket's buffer are.
      const fresh = await accountOf(cluster, unsent);
      assert.ok(["ACTIVE", "EXPIRED"].includes(fresh.status), JSON.stringify(fresh));
      await cluster.close();
    });
  }

  test("of one instance of two, in a refresh: the other serves everybody else meanwhile, and that account within its lease", { skip: process.env.TEST_DATABASE_URL ? false : "TEST_DATABASE_URL is not set" }, async () => {
    const cluster = await startCluster({ kind: "postgresql", instances: 2 });
    const cleanMs = Math.max(cluster.server(0).readyMs, cluster.server(1).readyMs);
    const bystander = await connected(cluster, "bystander");
    const [orphan] = await expired(cluster, "orphan");
    assert.ok(orphan);
    const holding = cluster.provider.hold(TOKEN, { at: "before" });
    const dying = callTool(cluster.at(0), orphan.token, LIST).catch(() => "cut");
    await holding.arrived;
    await cluster.kill(0);
    const fromMs = performance.now();
    assert.equal(await dying, "cut");
    const waiting = settled(cluster, orphan, { fromMs, cleanMs, url: cluster.at(1) });
    const other = await callTool(cluster.at(1), bystander.token, LIST);
    assert.equal(other.body.result?.resultType, "complete", JSON.stringify(other.body));
    assert.ok(performance.now() - fromMs < Math.max(OTHERS_MS, cleanMs), `${performance.now() - fromMs} ms`);
    // The provider never saw the dead one's request: its refresh token is as good as before.
    const { answer } = await waiting;
    assert.equal(answer.body.result?.resultType, "complete", JSON.stringify(answer.body));
    const account = await accountOf(cluster, orphan, { at: 1 });
    assert.deepEqual([account.status, account.status_reason], ["ACTIVE", null]);
    holding.release();
    await cluster.close();
  });
});
