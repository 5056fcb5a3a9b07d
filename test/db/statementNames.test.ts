import assert from "node:assert/strict";
import { test } from "node:test";
import { createStatementNames } from "../../src/db/statementNames.js";

test("one text has one name, two texts have two, and their number has a bound", () => {
  const nameOf = createStatementNames();
  const first = nameOf({ sql: "SELECT 0" });
  const names = new Set<string>();
  for (let n = 0; n < 2_000; n += 1) names.add(nameOf({ sql: `SELECT ${n}` }));
  assert.equal(nameOf({ sql: "SELECT 0" }), first);
  assert.equal(names.size, 501);
  assert.ok(names.has(""), "beyond the bound a statement has no name");
});
