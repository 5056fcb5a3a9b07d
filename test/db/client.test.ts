import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
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

  test("a transaction that throws leaves nothing, one that returns leaves all", async () => {
    const db = await open();
    const write = (fail: boolean): Promise<string> =>
      db.transaction(async (tx) => {
        await tx.installation.create({ data: { name: "one", value: "1" } });
        await tx.installation.create({ data: { name: "two", value: "2" } });
        if (fail) throw new Error("stop");
        return "done";
      });
    await assert.rejects(write(true), /^Error: stop$/);
    assert.equal(await db.prisma.installation.count(), 0);
    assert.equal(await write(false), "done");
    assert.equal(await db.prisma.installation.count(), 2);
  });

  test("a value that is taken gives P2002, and the error prints none of the call's values", async () => {
    const db = await open();
    const create = (value: string): Promise<unknown> => db.prisma.installation.create({ data: { name: "issuer", value } });
    await create("first");
    await assert.rejects(create("canary-value"), (error: unknown) => {
      assert.ok(error instanceof Error && "code" in error);
      assert.equal(error.code, "P2002");
      assert.ok(!error.message.includes("canary-value"));
      return true;
    });
  });

  test("bytes come back as they were, from nothing to a megabyte", async () => {
    const db = await open();
    for (const [index, size] of [0, 1, 1_000_000].entries()) {
      const data = new Uint8Array(randomBytes(size));
      await db.prisma.browserSession.create({ data: { idHash: `h${index}`, data, expiresAt: new Date() } });
      const row = await db.prisma.browserSession.findUniqueOrThrow({ where: { idHash: `h${index}` } });
      assert.deepEqual(Buffer.from(row.data), Buffer.from(data));
    }
  });

  test("a prepared query and Prisma see the same rows", async () => {
    const db = await open();
    await db.prisma.installation.create({ data: { name: "issuer", value: "v" } });
    const statement = { name: "installation_by_name", text: "SELECT value FROM installation WHERE name = $1" };
    for (let round = 0; round < 3; round += 1) assert.deepEqual(await db.query(statement, ["issuer"]), [{ value: "v" }]);
    assert.deepEqual(await db.query(statement, ["' OR true --"]), []);
  });

  test("many callers at once are all served", async () => {
    const db = await open();
    await Promise.all(
      Array.from({ length: 40 }, (_, index) =>
        db.transaction(async (tx) => {
          await tx.installation.create({ data: { name: `n${index}`, value: "v" } });
        }),
      ),
    );
    assert.equal(await db.prisma.installation.count(), 40);
  });
});
