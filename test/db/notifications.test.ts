import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { systemClock } from "../../src/clock.js";
import { secret } from "../../src/crypto/secret.js";
import { type Database, openDatabase } from "../../src/db/client.js";
import { eachDatabase, freshPostgresUrl, silentLog } from "../support/database.js";

function next(db: Database, channel: string): Promise<string> {
  return new Promise((resolve) => {
    const stop = db.listen(channel, (payload) => {
      stop();
      resolve(payload);
    });
  });
}

eachDatabase("notifications", (open) => {
  test("reach every listener of their channel in the same process, once, and no other channel", async () => {
    const db = await open();
    const heard: string[] = [];
    db.listen("link_settled", (payload) => heard.push(`first ${payload}`));
    db.listen("link_settled", (payload) => heard.push(`second ${payload}`));
    db.listen("other", (payload) => heard.push(`other ${payload}`));
    const last = next(db, "link_settled_last");
    await db.notify("link_settled", "lnk_1 with spaces");
    await db.notify("link_settled_last", "");
    assert.equal(await last, "");
    assert.deepEqual(heard, ["first lnk_1 with spaces", "second lnk_1 with spaces"]);
  });

  test("a listener that ended hears nothing, one that throws silences nobody", async () => {
    const db = await open();
    const heard: string[] = [];
    const stop = db.listen("c", () => heard.push("stopped"));
    stop();
    db.listen("c", () => {
      throw new Error("a handler's own fault");
    });
    const sound = next(db, "c");
    await db.notify("c", "x");
    assert.equal(await sound, "x");
    assert.deepEqual(heard, []);
  });

  test("a payload over the limit is refused instead of cut", async () => {
    const db = await open();
    await assert.rejects(db.notify("c", "x".repeat(8_000)), /limited to 7900 bytes/);
  });
});

async function twoInstances(t: TestContext): Promise<{ one: Database; two: Database }> {
  const url = await freshPostgresUrl();
  assert.ok(url);
  const open = (): Promise<Database> =>
    openDatabase({ databaseUrl: secret(url), dataDir: "unused", log: silentLog, clock: systemClock, poolMax: 3 });
  const [one, two] = await Promise.all([open(), open()]);
  t.after(() => Promise.all([one.close(), two.close()]));
  return { one, two };
}

const skip = process.env["TEST_DATABASE_URL"] ? false : "TEST_DATABASE_URL is not set";

/** Sends until it is heard: while a connection is being made a notification may be lost, and that is allowed. */
async function sendUntilHeard(from: Database, heard: Promise<string>, channel: string, payload: string): Promise<string> {
  let isHeard = false;
  void heard.then(() => {
    isHeard = true;
  });
  for (let attempt = 0; attempt < 600 && !isHeard; attempt += 1) {
    await from.notify(channel, payload).catch(() => {});
    await Promise.race([heard, systemClock.sleep(50)]);
  }
  assert.ok(isHeard, "nothing was heard");
  return heard;
}

test("an instance hears another one, and its own notification once", { skip }, async (t) => {
  const { one, two } = await twoInstances(t);
  assert.equal(await sendUntilHeard(one, next(two, "c"), "c", "from one"), "from one");
  const own: string[] = [];
  one.listen("d", (payload) => own.push(payload));
  // The same connection carries both, in order: when the second is heard, a doubled first would have been.
  await sendUntilHeard(two, next(one, "d"), "d", "from two");
  own.length = 0;
  await one.notify("d", "mine");
  await sendUntilHeard(two, next(one, "e"), "e", "later");
  assert.deepEqual(own, ["mine"]);
});

test("after its connection was cut, an instance hears the others again", { skip }, async (t) => {
  const { one, two } = await twoInstances(t);
  await sendUntilHeard(one, next(two, "c"), "c", "before");
  const cut = await one.query<{ pid: number }>(
    {
      name: "cut_listeners",
      text: `SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'outband notifications'`,
    },
    [],
  );
  assert.ok(cut.length >= 1);
  assert.equal(await sendUntilHeard(one, next(two, "c"), "c", "after"), "after");
});
