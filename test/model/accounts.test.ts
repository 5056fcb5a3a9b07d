import assert from "node:assert/strict";
import { test } from "node:test";
import { eachDatabase } from "../support/database.js";
import { runModel } from "./world.js";

eachDatabase("accounts and links against a plain model", (open) => {
  test("thousands of random commands: every answer and every row is the model's", async (t) => {
    const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);
    t.diagnostic(`seed ${seed}`);
    const run = await runModel(await open(), { seed, commands: 1_500 }).catch((thrown: unknown) => {
      throw new Error(`seed ${seed}: ${thrown instanceof Error ? thrown.message : String(thrown)}`, { cause: thrown });
    });
    // What a model test that tests nothing would lack.
    for (const said of ["link: shared", "link: asked_too_often", "callback: connected", "callback: wrong_identity", "refresh: ok, 1 token requests"]) {
      assert.ok((run.answers[said] ?? 0) > 0, `${said} never came: ${JSON.stringify(run.answers)}`);
    }
  });
});
