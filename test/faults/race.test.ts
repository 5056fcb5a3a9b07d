import assert from "node:assert/strict";
import { test } from "node:test";
import { race } from "../support/race.js";

test("acts that race over three processes: nothing is spent twice, nobody comes back, every change is in the table", { skip: process.env.TEST_DATABASE_URL ? false : "TEST_DATABASE_URL is not set" }, async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 100_000);
  const outcome = await race({ acts: 250, seed, racers: 12 });
  assert.deepEqual(outcome.problems, [], `seed ${seed}`);
  assert.ok(outcome.transitions > 40 && outcome.refreshes > 10, JSON.stringify(outcome));
});
