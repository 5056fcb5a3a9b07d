import assert from "node:assert/strict";
import { test } from "node:test";
import { eachDatabase } from "../support/database.js";

eachDatabase("the database", (open, kind) => {
  test("says which one it is, and is ready", async () => {
    const db = await open();
    assert.equal(db.kind, kind);
    assert.equal(await db.isReady(), true);
  });

  test("a fresh one holds no rows, whatever the test before wrote", async () => {
    const first = await open();
    await first.prisma.connection.create({
      data: {
        ...{ id: "conn_1", name: "c", connector: "gmail", title: "C" },
        accounts: { create: { id: "ca_1", identifier: "ann" } },
      },
    });
    await first.close();
    const second = await open();
    assert.equal(await second.prisma.connectedAccount.count(), 0);
    assert.equal(await second.prisma.connection.count(), 0);
  });
});
