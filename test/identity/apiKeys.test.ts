import assert from "node:assert/strict";
import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, test } from "node:test";
import { systemClock } from "../../src/clock.js";
import { secret } from "../../src/crypto/secret.js";
import type { Database } from "../../src/db/client.js";
import { OutbandError } from "../../src/errors.js";
import { createApiKeys, type ApiKeys } from "../../src/identity/apiKeys.js";
import { ensureCliKey } from "../../src/identity/cliKey.js";
import { eachDatabase, freshEmptyDir } from "../support/database.js";
import { createShiftedClock, type ShiftedClock } from "../support/shiftedClock.js";

const ADMIN_KEY = "an-operator-made-key-of-32-characters!";
const isCode = (code: string) => (thrown: unknown) => thrown instanceof OutbandError && thrown.code === code;

eachDatabase("API keys", (open) => {
  let db: Database;
  let clock: ShiftedClock;
  let apiKeys: ApiKeys;

  beforeEach(async () => {
    db = await open();
    clock = createShiftedClock();
    apiKeys = createApiKeys({ db, clock, adminKey: secret(ADMIN_KEY), cliKey: null });
  });

  test("a key authenticates with its scopes, until it expires or is removed; only its hash is kept", async () => {
    const { id, key } = await apiKeys.create({ name: "backend", scopes: ["read", "execute"], returnToOrigins: ["https://app.example.com"], expiresAt: new Date(clock.now() + 60_000) });
    assert.match(key.reveal(), /^obk_[\w-]{43}$/);
    const principal = await apiKeys.authenticate(key.reveal());
    assert.deepEqual(principal, { kind: "api_key", keyId: id, scopes: new Set(["read", "execute"]), returnToOrigins: ["https://app.example.com"] });
    assert.ok(!JSON.stringify(await db.prisma.apiKey.findMany()).includes(key.reveal()));
    assert.ok(!JSON.stringify(await apiKeys.list()).includes(key.reveal()));
    clock.advance(60_001);
    assert.equal(await apiKeys.authenticate(key.reveal()), null);

    const second = await apiKeys.create({ name: "other", scopes: ["read"] });
    assert.ok(await apiKeys.authenticate(second.key.reveal()));
    await apiKeys.remove(second.id);
    assert.equal(await apiKeys.authenticate(second.key.reveal()), null);
    await assert.rejects(apiKeys.remove(second.id), isCode("not_found"));
  });

  test("what is not a key is nobody: changed, cut, empty, huge, a hash", async () => {
    const { key } = await apiKeys.create({ name: "backend", scopes: ["read"] });
    const rows = await db.prisma.apiKey.findMany({ select: { keyHash: true } });
    for (const wrong of [`${key.reveal()}x`, key.reveal().slice(0, -1), "", "obk_", "obk_".padEnd(100_000, "x"), rows[0]?.keyHash ?? "", `${ADMIN_KEY} `]) {
      assert.equal(await apiKeys.authenticate(wrong), null);
    }
  });

  test("the environment's key holds every scope and lives in no table; another value has another id", async () => {
    const principal = await apiKeys.authenticate(ADMIN_KEY);
    assert.deepEqual(principal?.scopes, new Set(["read", "execute", "manage", "admin"]));
    assert.ok(principal && apiKeys.isFixed(principal.keyId) && !principal.keyId.includes(ADMIN_KEY));
    assert.equal(await db.prisma.apiKey.count(), 0);
    const changed = createApiKeys({ db, clock, adminKey: secret(`${ADMIN_KEY}2`), cliKey: null });
    assert.equal(changed.isFixed(principal.keyId), false);
    assert.equal(await changed.authenticate(ADMIN_KEY), null);
  });

  test("a key makes no key that may do more than itself", async () => {
    const maker = { kind: "api_key", keyId: "key_x", scopes: new Set(["read", "manage"] as const), returnToOrigins: [] } as const;
    await apiKeys.create({ name: "less", scopes: ["read"] }, maker);
    await assert.rejects(apiKeys.create({ name: "more", scopes: ["read", "execute"] }, maker), isCode("insufficient_scope"));
    await assert.rejects(apiKeys.create({ name: "all", scopes: ["admin"] }, maker), isCode("insufficient_scope"));
    assert.equal(await db.prisma.apiKey.count(), 1);
  });

  test("scopes, origins and times that make no sense are refused at once", async () => {
    const input = { name: " ", scopes: ["read", "root"], returnToOrigins: ["https://app.example.com/path"], expiresAt: new Date(0) };
    await assert.rejects(apiKeys.create(input), (thrown: unknown) => {
      assert.ok(thrown instanceof OutbandError);
      assert.deepEqual(thrown.problems?.map(({ path }) => path), ["name", "scopes", "return_to_origins", "expires_at"]);
      return true;
    });
    for (const origin of ["http://app.example.com", "javascript:alert(1)", "https://u:p@app.example.com", "https://app.example.com?x"]) {
      await assert.rejects(apiKeys.create({ name: "x", scopes: ["read"], returnToOrigins: [origin] }), isCode("invalid_request"));
    }
  });
});

test("cli.key is made once, for its owner's eyes, and read again by the next start", async () => {
  const dir = await freshEmptyDir();
  const made = await ensureCliKey(dir, systemClock);
  assert.equal((await stat(join(dir, "cli.key"))).mode & 0o777, 0o600);
  assert.equal((await readFile(join(dir, "cli.key"), "utf8")).trim(), made.reveal());
  assert.equal((await ensureCliKey(dir, systemClock)).reveal(), made.reveal());
  // A start that was killed in the middle left an empty file.
  await writeFile(join(dir, "cli.key"), "");
  const again = await ensureCliKey(dir, systemClock);
  assert.match(again.reveal(), /^obk_[\w-]{43}$/);
  assert.notEqual(again.reveal(), made.reveal());
});
