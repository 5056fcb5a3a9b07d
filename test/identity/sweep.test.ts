import assert from "node:assert/strict";
import { test } from "node:test";
import { SESSION_LIFE_MS } from "../../src/http/sessionStore.js";
import { sweepIdentity } from "../../src/identity/sweep.js";
import { eachDatabase } from "../support/database.js";
import { createShiftedClock } from "../support/shiftedClock.js";

eachDatabase("the sweep of identity", (open) => {
  test("takes what is over and leaves what still counts", async () => {
    const db = await open();
    const clock = createShiftedClock();
    const at = (ms: number): Date => new Date(clock.now() + ms);
    const data = new Uint8Array(1);
    await db.prisma.browserSession.createMany({
      data: [
        { idHash: "alive", data, expiresAt: at(60_000) },
        { idHash: "idle", data, expiresAt: at(-1_000) },
        { idHash: "old", data, createdAt: at(-SESSION_LIFE_MS - 1_000), expiresAt: at(60_000) },
      ],
    });
    await db.prisma.oneTimeLink.createMany({
      data: [
        { tokenHash: "alive", purpose: "setup", expiresAt: at(60_000) },
        { tokenHash: "over", purpose: "setup", expiresAt: at(-1_000) },
      ],
    });
    await db.prisma.rateLimit.createMany({
      data: [
        { key: "alive", points: 1, expire: BigInt(clock.now() + 60_000) },
        { key: "over", points: 1, expire: BigInt(clock.now() - 1_000) },
      ],
    });
    await sweepIdentity({ db, clock });
    assert.deepEqual((await db.prisma.browserSession.findMany()).map(({ idHash }) => idHash), ["alive"]);
    assert.deepEqual((await db.prisma.oneTimeLink.findMany()).map(({ tokenHash }) => tokenHash), ["alive"]);
    assert.deepEqual((await db.prisma.rateLimit.findMany()).map(({ key }) => key), ["alive"]);
  });
});
