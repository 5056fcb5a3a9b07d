import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { secret } from "../../src/crypto/secret.js";
import { hashToken } from "../../src/crypto/tokens.js";
import type { Database } from "../../src/db/client.js";
import { OutbandError } from "../../src/errors.js";
import { addressKey } from "../../src/http/limiter.js";
import { asIdentifier } from "../../src/ids.js";
import { TRIES_PER_ADDRESS, TRIES_PER_EMAIL } from "../../src/identity/signInLimits.js";
import { createUsers, type Users } from "../../src/identity/users.js";
import { eachDatabase } from "../support/database.js";
import { createShiftedClock, type ShiftedClock } from "../support/shiftedClock.js";
import { QUICK_PASSWORDS } from "../support/passwordCost.js";

const PASSWORD = "correct horse battery";
const isCode = (code: string, reason?: string) => (thrown: unknown) =>
  thrown instanceof OutbandError && thrown.code === code && (reason === undefined || thrown.reason === reason);

eachDatabase("people", (open) => {
  let db: Database;
  let clock: ShiftedClock;
  let users: Users;

  beforeEach(async () => {
    db = await open();
    clock = createShiftedClock();
    users = createUsers({ db, clock, passwordCost: QUICK_PASSWORDS });
  });

  test("an e-mail address signs in however it is written, and is nobody else's", async () => {
    const ann = await users.create({ email: " Ann@People.test ", password: PASSWORD, role: "user" });
    assert.match(ann.sub, /^usr_[0-9A-Za-z]{22}$/);
    assert.equal(ann.email, "Ann@People.test");
    assert.equal((await users.verifyPassword("ann@people.TEST", PASSWORD))?.sub, ann.sub);
    assert.equal(await users.verifyPassword("ann@people.test", "wrong password"), null);
    assert.equal(await users.verifyPassword("bo@people.test", PASSWORD), null);
    await assert.rejects(users.create({ email: "ANN@people.test", role: "user" }), isCode("already_exists"));
    await assert.rejects(users.create({ sub: ann.sub, email: "other@people.test", role: "user" }), isCode("already_exists"));
  });

  test("every problem of a new person is told at once, and no value with it", async () => {
    const input = { sub: "with space", email: "nowhere", name: "a\u202eb", password: "short", role: "user" } as const;
    await assert.rejects(users.create(input), (thrown: unknown) => {
      assert.ok(thrown instanceof OutbandError && thrown.code === "invalid_request");
      assert.deepEqual(thrown.problems?.map(({ path }) => path), ["sub", "email", "name", "password"]);
      const said = JSON.stringify(thrown.problems);
      for (const value of [input.sub, input.email, input.name, input.password]) assert.ok(!said.includes(value));
      return true;
    });
    assert.equal((await users.list()).data.length, 0);
  });

  test("tries are counted per e-mail, known or not, and a success starts the count again", async () => {
    const ann = await users.create({ email: "ann@people.test", password: PASSWORD, role: "user" });
    await users.verifyPassword(ann.email, "wrong password", { address: "192.0.2.1" });
    assert.ok(await users.verifyPassword(ann.email, PASSWORD, { address: "192.0.2.1" }));
    for (const email of [ann.email, "nobody@people.test"]) {
      const tries = Array.from({ length: TRIES_PER_EMAIL.triesMax }, () => users.verifyPassword(email, "wrong password", { address: "192.0.2.1" }));
      assert.deepEqual(new Set(await Promise.all(tries)), new Set([null]));
      // Neither the right password nor another address helps now.
      await assert.rejects(users.verifyPassword(email, PASSWORD, { address: "198.51.100.7" }), (thrown: unknown) => {
        assert.ok(isCode("rate_limited")(thrown));
        return ((thrown as OutbandError).retryAfterS ?? 0) > 800;
      });
    }
  });

  test("one network address cannot try many e-mails, and its excess uses up nobody's own tries", async () => {
    const text = "INSERT INTO rate_limit SELECT $1, $2::int, $3::bigint";
    const key = `sign_in_address:${hashToken(addressKey("2001:db8::1"))}`;
    await db.query({ name: "test_fill_limit", text }, [key, TRIES_PER_ADDRESS.triesMax, Date.now() + 60_000]);
    const ann = await users.create({ email: "ann@people.test", password: PASSWORD, role: "user" });
    for (let round = 0; round <= TRIES_PER_EMAIL.triesMax; round++) {
      // Another address of the same /56.
      await assert.rejects(users.verifyPassword(ann.email, "wrong", { address: "2001:db8:0:7::9" }), isCode("rate_limited"));
    }
    assert.ok(await users.verifyPassword(ann.email, PASSWORD, { address: "2001:db8:1::1" }));
    const keys = await db.prisma.rateLimit.findMany({ select: { key: true } });
    assert.ok(keys.length > 0 && keys.every((row) => !row.key.includes("people") && !row.key.includes("2001")));
  });

  test("a disabled person does not sign in, and loses sessions and grants with the act", async () => {
    const ann = await users.create({ email: "ann@people.test", password: PASSWORD, role: "user" });
    const expiresAt = new Date(clock.now() + 60_000);
    await db.prisma.browserSession.create({ data: { idHash: "s", sub: ann.sub, data: new Uint8Array(1), expiresAt } });
    await db.prisma.oAuthRecord.create({ data: { type: "Grant", idHash: "g", sub: ann.sub, payload: new Uint8Array(1), expiresAt } });
    await users.update(ann.sub, { role: "disabled" });
    assert.equal(await users.verifyPassword(ann.email, PASSWORD), null);
    assert.equal(await db.prisma.browserSession.count(), 0);
    assert.equal(await db.prisma.oAuthRecord.count(), 0);
  });

  test("a new password ends the sessions of the old one with the act; set by somebody else, what apps were let in to as well", async () => {
    const ann = await users.create({ email: "ann@people.test", password: PASSWORD, role: "user" });
    const held = async () => [await db.prisma.browserSession.count(), await db.prisma.oAuthRecord.count()];
    const hold = async () => {
      await db.prisma.browserSession.create({ data: { idHash: "theirs", sub: ann.sub, data: new Uint8Array(1), expiresAt: new Date(clock.now() + 60_000) } });
      await db.prisma.oAuthRecord.createMany({ data: [{ type: "Grant", idHash: "theirs", sub: ann.sub, payload: new Uint8Array(1) }], skipDuplicates: true });
    };
    await hold();
    await assert.rejects(users.setPassword(ann.sub, "short"), isCode("invalid_request"));
    assert.deepEqual(await held(), [1, 1], "a refused one ends nothing");
    await users.setPassword(ann.sub, "another fine password", { kind: "browser", sub: asIdentifier(ann.sub), role: "user" });
    assert.deepEqual(await held(), [0, 1]);
    await hold();
    await users.setPassword(ann.sub, "a third fine password", { kind: "browser", sub: asIdentifier("root"), role: "admin" });
    assert.deepEqual(await held(), [0, 0]);
  });

  test("the last administrator can be neither lowered nor removed, also by two at once", async () => {
    const [one, two] = await Promise.all(["one", "two"].map((name) => users.create({ email: `${name}@people.test`, role: "admin" })));
    assert.ok(one && two);
    const outcomes = await Promise.allSettled([users.update(one.sub, { role: "user" }), users.remove(two.sub)]);
    assert.equal(outcomes.filter(({ status }) => status === "fulfilled").length, 1);
    assert.ok(isCode("forbidden", "last_admin")((outcomes.find(({ status }) => status === "rejected") as PromiseRejectedResult).reason));
    assert.equal(await users.anyAdmin(), true);
  });

  test("a set-up link makes one administrator, whoever else holds a link of the hour", async () => {
    const [first, second] = [await users.makeSetupLink(), await users.makeSetupLink()];
    assert.deepEqual(await users.readLink(first.reveal()), { purpose: "setup" });
    const tries = [first, first, second].map((token, index) => users.claimSetup(token.reveal(), { email: `admin${index}@people.test`, password: PASSWORD }));
    const made = (await Promise.all(tries)).filter((user) => user !== null);
    assert.equal(made.length, 1);
    assert.equal(made[0]?.role, "admin");
    assert.equal((await users.list()).data.length, 1);
    assert.equal(await users.readLink(second.reveal()), null);
    assert.equal(await users.claimSetup(second.reveal(), { email: "late@people.test", password: PASSWORD }), null);
  });

  test("a set-up link is void after an hour, kept as a hash, and a refused claim does not use it up", async () => {
    const token = await users.makeSetupLink();
    const rows = await db.prisma.oneTimeLink.findMany();
    assert.ok(!JSON.stringify(rows).includes(token.reveal()));
    await assert.rejects(users.claimSetup(token.reveal(), { email: "admin@people.test", password: "short" }), isCode("invalid_request"));
    clock.advance(59 * 60_000);
    assert.deepEqual(await users.readLink(token.reveal()), { purpose: "setup" });
    clock.advance(2 * 60_000);
    assert.equal(await users.readLink(token.reveal()), null);
    assert.equal(await users.claimSetup(token.reveal(), { email: "admin@people.test", password: PASSWORD }), null);
    assert.equal(await users.anyAdmin(), false);
  });

  test("an invitation sets the password of its person once, and is no set-up link", async () => {
    const bo = await users.create({ email: "bo@people.test", role: "viewer" });
    assert.equal(bo.hasPassword, false);
    const token = (await users.makeInvitation(bo.sub)).reveal();
    assert.deepEqual(await users.readLink(token), { purpose: "invitation", email: "bo@people.test", name: null });
    assert.equal(await users.claimSetup(token, { email: "evil@people.test", password: PASSWORD }), null);
    const claimed = await Promise.all([users.claimInvitation(token, { password: PASSWORD, name: "Bo" }), users.claimInvitation(token, { password: PASSWORD })]);
    assert.equal(claimed.filter((user) => user !== null).length, 1);
    assert.equal((await users.verifyPassword("bo@people.test", PASSWORD))?.role, "viewer");
    assert.equal(await users.anyAdmin(), false);
  });

  test("the environment's administrator is made once over several instances, and later starts change nothing", async () => {
    const person = { email: "root@people.test", password: secret(PASSWORD) };
    const instances = [1, 2, 3].map(() => createUsers({ db, clock, passwordCost: QUICK_PASSWORDS }));
    const said = await Promise.all(instances.map((instance) => instance.ensureFirstAdmin(person)));
    assert.deepEqual(said.sort(), ["exists", "exists", "made"]);
    assert.equal(await users.ensureFirstAdmin({ email: "root@people.test", password: secret("another password") }), "exists");
    assert.equal((await users.verifyPassword("root@people.test", PASSWORD))?.role, "admin");
  });

  test("each act on a person is in the audit with its actor; failed sign-ins are one row a minute", async () => {
    const root = { kind: "browser", sub: "root", role: "admin" } as never;
    const ann = await users.create({ email: "ann@people.test", password: PASSWORD, role: "user" }, root);
    await users.verifyPassword(ann.email, PASSWORD);
    await users.update(ann.sub, { name: "Ann" }, root);
    await users.remove(ann.sub, root);
    for (let round = 0; round < 3; round++) await users.verifyPassword("x@people.test", "wrong password");
    await users.flushFailedSignIns();
    await users.flushFailedSignIns();
    const rows = await db.prisma.auditEntry.findMany({ orderBy: { id: "asc" } });
    assert.deepEqual(
      rows.map(({ action, actorKind, identifier }) => [action, actorKind, identifier]),
      [
        ["person.created", "admin", ann.sub],
        ["person.signed_in", "person", ann.sub],
        ["person.updated", "admin", ann.sub],
        ["person.removed", "admin", ann.sub],
        ["sign_in.failed", "system", null],
      ],
    );
    assert.deepEqual(rows.at(-1)?.detail, { count: 3 });
    assert.ok(!JSON.stringify(rows, (_key, value) => (typeof value === "bigint" ? String(value) : value)).includes("people.test"));
  });

  test("people are listed newest first, page by page", async () => {
    for (const name of ["a", "b", "c"]) {
      await users.create({ sub: name, email: `${name}@people.test`, role: "user" });
    }
    const first = await users.list({ limit: 2 });
    const rest = await users.list({ limit: 2, cursor: first.nextCursor ?? "" });
    assert.deepEqual([...first.data, ...rest.data].map(({ sub }) => String(sub)).sort(), ["a", "b", "c"]);
    assert.equal(rest.nextCursor, null);
  });
});
