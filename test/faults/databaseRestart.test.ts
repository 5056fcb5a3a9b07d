// PostgreSQL itself dies while writes go on. A cluster of its own, never the shared one.
import assert from "node:assert/strict";
import { test } from "node:test";
import { killPostgres } from "../support/killRounds.js";
import { hasPostgres, startOwnPostgres } from "../support/ownPostgres.js";
import { startCluster } from "../support/processes.js";

test("PostgreSQL killed, crashed and restarted under a mixed load: nothing acknowledged is lost, and the server finds it again by itself", { skip: hasPostgres() ? false : "initdb and postgres are not in the PATH" }, async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 100_000);
  const postgres = await startOwnPostgres();
  const cluster = await startCluster({ kind: "postgresql", databaseUrl: postgres.url });
  const pid = cluster.server(0).pid;
  const outcome = await killPostgres(cluster, postgres, { rounds: 3, seed, killAfterMs: [0, 500], prefix: "writer" });
  assert.deepEqual(outcome.problems, [], `seed ${seed}`);
  assert.ok(outcome.acknowledged > 5, JSON.stringify(outcome.counts));
  assert.equal(cluster.server(0).pid, pid);
  await cluster.close();
  await postgres.close();
});
