// kill -9 right after acknowledgements and at random moments: nothing acknowledged is lost, nothing is done twice, and the
// program is ready again within its time. One file per database runs it, so that they share two processors.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { createBrowser } from "./browser.js";
import { accountOf, connected, crash, MAIL, readyBoundMs, SEND, TOKEN } from "./crash.js";
import { killServer } from "./killRounds.js";
import { callTool } from "./mcpCall.js";
import { PASSWORD } from "./outband.js";
import { type Cluster, startCluster } from "./processes.js";

export function describeCrashes(kind: Cluster["kind"]): void {
  describe(`kill -9 (${kind})`, () => {
    let cluster: Cluster;
    before(async () => {
      cluster = await startCluster({ kind });
    });

    test("right after the acknowledgements: set-up and connect, a write under its key, rename and disconnect are there after the kill", async () => {
      const setup = /http:\/\/localhost:\d+\/setup\/[\w-]+/.exec(cluster.server(0).output())?.[0] ?? "";
      const browser = createBrowser(cluster.url);
      const claim = async () => browser.post(setup, { email: "admin@people.example", name: "Ada", password: PASSWORD, password_again: PASSWORD }, { from: await browser.get(setup) });
      const renamed = await connected(cluster, "renamed");
      const leaver = await connected(cluster, "leaver", { person: "Tomás" });
      const [keeper, claimed] = await Promise.all([connected(cluster, "keeper", { tool: "gmail_send_message" }), claim()]);
      assert.equal(claimed.status, 303, claimed.text);
      await crash(cluster);
      assert.equal((await createBrowser(cluster.url).get(setup)).status >= 400, true);
      assert.ok(!cluster.server(0).output().includes("/setup/"), "a second set-up link");

      // A connection that was not kept would ask for a link here, or for a token.
      cluster.provider.resetCounts();
      const args = { ...MAIL, idempotency_key: "kept" };
      const ids = await Promise.all([renamed, leaver].map(async (member) => (await accountOf(cluster, member)).id));
      const [first, patched, deleted] = await Promise.all([
        callTool(cluster.url, keeper.token, "gmail_send_message", args),
        cluster.api("PATCH", `/accounts/${ids[0]}`, { label: "work" }),
        cluster.api("DELETE", `/accounts/${ids[1]}`),
      ]);
      assert.notEqual(first.body.result?.isError, true, JSON.stringify(first.body));
      assert.deepEqual([patched.status, deleted.status], [200, 200]);
      await crash(cluster);
      const second = await callTool(cluster.url, keeper.token, "gmail_send_message", args);
      assert.deepEqual(second.body.result.structuredContent, first.body.result.structuredContent);
      assert.equal(cluster.provider.count(SEND), 1);
      assert.equal(cluster.provider.count(TOKEN), 0);
      assert.deepEqual([(await accountOf(cluster, renamed)).label, (await accountOf(cluster, renamed)).status], ["work", "ACTIVE"]);
      assert.equal((await accountOf(cluster, leaver)).status, "REVOKED");
    });

    test("at random moments under a mixed load: nothing that was acknowledged is lost, nothing is sent twice", async () => {
      const seed = Number(process.env.SEED ?? Date.now() % 100_000);
      const cleanMs = cluster.server(0).readyMs;
      cluster.provider.resetCounts();
      const outcome = await killServer(cluster, { rounds: 3, seed, killAfterMs: [0, 500], prefix: "load" });
      assert.deepEqual(outcome.problems, [], `seed ${seed}`);
      assert.ok(outcome.acknowledged > 8, JSON.stringify(outcome.counts));
      assert.ok(Math.max(...outcome.readyMs) < readyBoundMs(kind, cleanMs), `${outcome.readyMs.join(" ")}, clean ${cleanMs}`);
    });
  });
}
