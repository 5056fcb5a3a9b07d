// The small sibling of bench/tamper.ts.
import assert from "node:assert/strict";
import { test } from "node:test";
import { tamper } from "../support/tamper.js";

const ATTACKS = 12_000;
const FAMILIES = 40;

test(`${ATTACKS} tampered or swapped ciphertexts are refused, of every family, and the untouched ones open`, async (t) => {
  const seed = Date.now() % 1_000_000;
  t.diagnostic(`seed ${seed}`);
  const outcome = await tamper({ attacks: ATTACKS, seed });
  assert.equal(Object.values(outcome.refused).reduce((sum, count) => sum + count, 0), ATTACKS);
  assert.equal(Object.keys(outcome.refused).length, FAMILIES, Object.keys(outcome.refused).join("\n"));
  assert.ok(outcome.controls > ATTACKS / 100);
});
