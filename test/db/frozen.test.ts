import assert from "node:assert/strict";
import { test } from "node:test";
import { eachDatabase } from "../support/database.js";

/** As long as Prisma's transactions were allowed to take: past it they are rolled back between two statements. */
const FROZEN_MS = 10_500;

function freeze(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

eachDatabase("a process that stands still in the middle of a transaction", (open) => {
  test("goes on and commits all of it, or nothing", async () => {
    const db = await open();
    const outcome = await db
      .transaction(async (tx) => {
        await tx.installation.create({ data: { name: "before", value: "1" } });
        const act = tx.connection.create({
          data: { id: "conn_frozen", name: "frozen", connector: "gmail", title: "t", accounts: { create: { id: "ca_frozen", identifier: "p" } } },
        });
        setTimeout(() => freeze(FROZEN_MS), 0);
        await act;
        await tx.installation.create({ data: { name: "after", value: "1" } });
      })
      .then(
        () => "committed",
        () => "rolled back",
      );
    const rows = (await db.prisma.installation.count({ where: { name: { in: ["before", "after"] } } })) + (await db.prisma.connection.count()) + (await db.prisma.connectedAccount.count());
    assert.equal(rows, outcome === "committed" ? 4 : 0, outcome);
    assert.equal(outcome, "committed");
  });
});
