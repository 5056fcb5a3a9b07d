// Rotation of the master key on the whole program: nothing that was begun under the old key is lost, and nobody notices.
import assert from "node:assert/strict";
import { readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { type App, createApp } from "../../src/app.js";
import { systemClock } from "../../src/clock.js";
import { readSettings } from "../../src/config/config.js";
import { secret } from "../../src/crypto/secret.js";
import { openDatabase } from "../../src/db/client.js";
import { connect, consent, finish, KINDS, retryOf } from "../support/journey.js";
import { callTool, linkOf } from "../support/mcpCall.js";
import { attempt, codeOf, exchange, registered } from "../support/oauthClient.js";
import { ADMIN_KEY, freePort, type Outband, startOutband } from "../support/outband.js";
import { silentLog } from "../support/silentLog.js";

const keyOf = (letter: string) => Buffer.from(`${letter}0123456789abcdef0123456789abcde`).toString("base64");
const isDone = (answer: { body: { result?: { resultType?: string; isError?: boolean } } }) => answer.body.result?.resultType === "complete" && answer.body.result.isError !== true;

async function keysOf(outband: Outband) {
  return (await outband.api("GET", "/keys")).body as { current: string; current_since: string | null; keys: { kid: string; source: string | null; data_keys: number }[]; remaining: number };
}

describe("a generated master key (embedded)", () => {
  test("rotated in the running program: waiting calls, sessions, consents of MCP clients and accounts go on, and so they do after a restart", async () => {
    const outband = await startOutband({ kind: "embedded", settings: { MASTER_KEY: "" } });
    const file = join(outband.dataDir, "master.key");
    const read = (path: string) => readFileSync(path, "utf8").trim();
    const [first, before] = [read(file), await keysOf(outband)];
    assert.deepEqual(before.keys, [{ kid: before.current, source: "master.key", data_keys: 3 }]);

    // Begun under the old key: a connected account, a call that asks, a page that is open, a sign-in of an MCP client.
    const connected = await outband.person("connected");
    await connect(linkOf(await callTool(outband.url, connected.token, "summarize_inbox")), await connected.signIn());
    const waiting = await outband.person("waiting");
    const asked = await callTool(outband.url, waiting.token, "summarize_inbox");
    const browser = await waiting.signIn();
    const cookie = browser.cookie("outband_session");
    const callback = await consent(linkOf(asked), browser);
    const client = await registered(outband.url);
    const request = attempt(outband.url, client);
    const page = await browser.follow(await browser.get(request.url));

    const rotated = await outband.api("POST", "/keys/rotate", {});
    assert.deepEqual([rotated.status, rotated.body], [200, { rewrapped: 3, remaining: 0 }]);
    const second = read(file);
    assert.notEqual(second, first);
    assert.equal(read(`${file}.previous`), first);
    for (const path of [file, `${file}.previous`]) assert.equal(statSync(path).mode & 0o777, 0o600);
    const after = await keysOf(outband);
    assert.notEqual(after.current, before.current);
    assert.deepEqual(after.keys, [
      { kid: after.current, source: "master.key", data_keys: 3 },
      { kid: before.current, source: "master.key.previous", data_keys: 0 },
    ]);
    assert.ok((after.current_since ?? "") > (before.current_since ?? "") && after.remaining === 0);
    assert.equal((await fetch(`${outband.url}/readyz`)).status, 200);

    const done = await browser.get(callback);
    assert.equal(done.status, 200, done.text);
    assert.equal(browser.cookie("outband_session"), cookie, "signed in before, and still");
    const { answer } = await finish(callTool(outband.url, waiting.token, "summarize_inbox", {}, retryOf(asked, "accept")), (options) => callTool(outband.url, waiting.token, "summarize_inbox", {}, options));
    assert.ok(isDone(answer), JSON.stringify(answer.body));
    assert.ok(isDone(await callTool(outband.url, connected.token, "summarize_inbox")));
    const action = /action="(\/oauth\/interaction\/[^"]+)"/.exec(page.text)?.[1];
    assert.ok(action, page.text);
    const allowed = await browser.follow(await browser.post(action, { decision: "allow", write: "yes" }, { from: page }));
    const tokens = await exchange(outband.url, client, request, codeOf(allowed));
    assert.equal(tokens.status, 200, JSON.stringify(tokens.body));

    // New ones are signed with the new key alone: they hold when the former one is gone.
    const later = await connected.signIn();
    await outband.restart();
    assert.equal((await browser.get("/connections")).status, 200);
    assert.ok(isDone(await callTool(outband.url, connected.token, "summarize_inbox")));
    rmSync(`${file}.previous`);
    await outband.restart();
    assert.equal((await later.get("/connections")).status, 200);
    assert.equal((await browser.get("/connections")).location, `${outband.url}/login`);
    assert.ok(isDone(await callTool(outband.url, connected.token, "summarize_inbox")));

    const told = outband.logs.join("\n") + JSON.stringify([before, after, rotated.body]);
    for (const key of [first, second]) assert.ok(!told.includes(key.slice(0, 20)));
    await outband.close();
  });

  test("calls run all the while: none fails, whatever the number of rotations", async () => {
    const outband = await startOutband({ kind: "embedded", settings: { MASTER_KEY: "" } });
    const person = await outband.person("busy");
    await connect(linkOf(await callTool(outband.url, person.token, "gmail_list_messages")), await person.signIn());
    let isOver = false;
    let calls = 0;
    const working = (async () => {
      for (; !isOver; calls += 1) {
        const answer = await callTool(outband.url, person.token, "gmail_list_messages");
        assert.ok(isDone(answer), JSON.stringify(answer.body));
      }
    })();
    for (let n = 0; n < 5; n += 1) {
      const [one, other] = await Promise.all([outband.api("POST", "/keys/rotate"), outband.api("POST", "/keys/rotate", {})]);
      assert.deepEqual([one.body, other.body], [{ rewrapped: 3, remaining: 0 }, { rewrapped: 3, remaining: 0 }]);
    }
    isOver = true;
    await working;
    assert.ok(calls > 0);
    assert.equal((await keysOf(outband)).keys.length, 2);
    await outband.close();
  });
});

for (const kind of KINDS) {
  describe(`MASTER_KEY (${kind})`, () => {
    test("add the new key beside the old, start, rotate, drop the old: accounts work at every step, and each act is in the audit", async () => {
      const [first, second] = [keyOf("1"), keyOf("2")];
      const outband = await startOutband({ kind, settings: { MASTER_KEY: first } });
      const person = await outband.person("steady");
      await connect(linkOf(await callTool(outband.url, person.token, "summarize_inbox")), await person.signIn());
      const works = async () => assert.ok(isDone(await callTool(outband.url, person.token, "summarize_inbox")));
      const nothing = await outband.api("POST", "/keys/rotate", {});
      assert.deepEqual(nothing.body, { rewrapped: 0, remaining: 0 });
      await outband.restart({ MASTER_KEY: second, MASTER_KEY_PREVIOUS: first });
      await works();
      const behind = await keysOf(outband);
      assert.deepEqual([behind.remaining, behind.current_since], [3, null]);
      assert.deepEqual(behind.keys.map(({ source, data_keys }) => [source, data_keys]), [["MASTER_KEY", 0], ["MASTER_KEY_PREVIOUS", 3]]);
      assert.deepEqual((await outband.api("POST", "/keys/rotate", {})).body, { rewrapped: 3, remaining: 0 });
      await works();
      await assert.rejects(outband.restart({ MASTER_KEY: first }), /is not the key/);
      await outband.start({ MASTER_KEY: `${second}\n` });
      await works();
      assert.deepEqual((await keysOf(outband)).keys.map(({ source, data_keys }) => [source, data_keys]), [["MASTER_KEY", 3]]);
      await outband.close();

      const db = await openDatabase({ databaseUrl: outband.databaseUrl === null ? null : secret(outband.databaseUrl), dataDir: outband.dataDir, log: silentLog, clock: systemClock });
      const rows = await db.prisma.auditEntry.findMany({ where: { action: { startsWith: "keys." } }, orderBy: { id: "asc" } });
      await db.close();
      assert.deepEqual(rows.map(({ category, action, actorKind, outcome, detail }) => [category, action, actorKind, outcome, detail]), [
        ["administration", "keys.rotation_started", "api_key", "ok", {}],
        ["administration", "keys.rotated", "api_key", "ok", { rewrapped: 0, remaining: 0, new_key: false }],
        ["administration", "keys.rotation_started", "api_key", "ok", {}],
        ["administration", "keys.rotated", "api_key", "ok", { rewrapped: 3, remaining: 0, new_key: false }],
      ]);
      assert.ok(rows.every(({ requestId }) => requestId !== null));
    });

    test("only an administrator's key may ask or rotate, and an unknown word in the body rotates nothing", async () => {
      const outband = await startOutband({ kind, connections: [] });
      const made = await outband.api("POST", "/api-keys", { name: "all but admin", scopes: ["read", "execute", "manage"] });
      for (const [method, path] of [["GET", "/keys"], ["POST", "/keys/rotate"]] as const) {
        const refused = await outband.api(method, path, undefined, made.body.key);
        assert.deepEqual([refused.status, refused.body.code], [403, "insufficient_scope"]);
        assert.equal((await outband.api(method, path, undefined, "obk_nobody")).status, 401);
      }
      assert.equal((await outband.api("POST", "/keys/rotate", { dry_run: true })).status, 400);
      assert.equal((await outband.api("GET", "/keys/rotate")).status, 405);
      await outband.close();
    });
  });
}

describe("several instances (PostgreSQL)", { skip: KINDS.length < 2 ? "TEST_DATABASE_URL is not set" : false }, () => {
  test("an instance that was not given the new key says so: 503 and not ready, and no account is called broken; with the key it works again", async () => {
    const [first, second] = [keyOf("3"), keyOf("4")];
    const outband = await startOutband({ kind: "postgresql", settings: { MASTER_KEY: first } });
    const person = await outband.person("between");
    await connect(linkOf(await callTool(outband.url, person.token, "summarize_inbox")), await person.signIn());
    const other = await secondInstance(outband, { MASTER_KEY: second, MASTER_KEY_PREVIOUS: first });
    // Data keys that it holds in memory still open; those that it has to read do not.
    await outband.restart();
    assert.deepEqual(await other.rotate(), { rewrapped: 3, remaining: 0 });
    await assert.rejects(outband.restart(), /is not the key/);
    await outband.start({ MASTER_KEY: second });
    assert.ok(isDone(await callTool(outband.url, person.token, "summarize_inbox")));

    const third = await secondInstance(outband, { MASTER_KEY: keyOf("5"), MASTER_KEY_PREVIOUS: second });
    await outband.restart({ MASTER_KEY: second });
    assert.equal((await fetch(`${outband.url}/readyz`)).status, 200);
    await third.rotate();
    const ready = await fetch(`${outband.url}/readyz`);
    assert.deepEqual([ready.status, ((await ready.json()) as { parts: unknown }).parts], [503, { database: "ready", keys: "not ready" }]);
    const refused = await outband.api("POST", "/tools/summarize_inbox/execute", { identifier: person.sub, arguments: {} });
    assert.deepEqual([refused.status, refused.body.code, refused.body.reason], [503, "unavailable", "master_key_missing"]);
    const [account] = (await outband.api("GET", `/accounts?identifier=${person.sub}`)).body.data;
    assert.equal(account.status, "ACTIVE");
    const seen = await keysOf(outband);
    assert.deepEqual(seen.keys.filter(({ source }) => source === null).map(({ data_keys }) => data_keys), [3]);
    await outband.restart({ MASTER_KEY: second, MASTER_KEY_PREVIOUS: keyOf("5") });
    assert.ok(isDone(await callTool(outband.url, person.token, "summarize_inbox")));
    await other.close();
    await third.close();
    await outband.close();
  });
});

async function secondInstance(outband: Outband, keys: Record<string, string>) {
  const port = await freePort();
  const read = readSettings({
    PORT: String(port),
    PUBLIC_URL: outband.url,
    DATA_DIR: outband.dataDir,
    SANDBOX: "off",
    ADMIN_API_KEY: ADMIN_KEY,
    DATABASE_URL: outband.databaseUrl ?? "",
    ...keys,
  });
  assert.ok(read.ok);
  const app: App = await createApp({ settings: read.settings, clock: systemClock, log: silentLog });
  await app.listen();
  return {
    close: () => app.close(),
    async rotate(): Promise<unknown> {
      const answer = await fetch(`http://127.0.0.1:${port}/api/v1/keys/rotate`, { method: "POST", headers: { authorization: `Bearer ${ADMIN_KEY}` } });
      return answer.json();
    },
  };
}
