// What doctor says when no server answers: a server with a wrong key does not start, so the program beside it looks.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { systemClock } from "../../src/clock.js";
import { createSealer } from "../../src/crypto/dataKeys.js";
import { openKeyRing } from "../../src/crypto/masterKey.js";
import { secret } from "../../src/crypto/secret.js";
import { openDatabase } from "../../src/db/client.js";
import { freshEmbeddedDir, freshEmptyDir, freshPostgresUrl, silentLog } from "../support/database.js";

/** As it is run: compiled. */
const PROGRAM = fileURLToPath(new URL("../../dist/keyCheck.js", import.meta.url));
const newKey = () => randomBytes(32).toString("base64");

let cwd = "";
before(async () => {
  cwd = await mkdtemp(join(tmpdir(), "obk-"));
});
after(() => rm(cwd, { recursive: true, force: true }));

function check(settings: Record<string, string>): Promise<{ code: number | null; text: string }> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [PROGRAM], { cwd, env: { PATH: process.env.PATH ?? "", ...settings }, stdio: ["ignore", "pipe", "pipe"] });
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes: Buffer) => (text += bytes.toString("utf8")));
    child.once("close", (code) => resolve({ code, text }));
  });
}

/** As a start leaves it behind, with something sealed. */
async function used(databaseUrl: string | null, dataDir: string, masterKey: string | null): Promise<void> {
  const db = await openDatabase({ databaseUrl: databaseUrl === null ? null : secret(databaseUrl), dataDir, log: silentLog, clock: systemClock });
  const settings = { dataDir, masterKey: masterKey === null ? null : secret(masterKey), masterKeysPrevious: [], databaseUrl: databaseUrl === null ? null : secret(databaseUrl) };
  const { ring } = await openKeyRing({ settings, db, clock: systemClock });
  await createSealer({ ring, db, clock: systemClock }).prepare("installation");
  await db.close();
}

describe("keys without a server (embedded)", () => {
  test("right, newline-ended, wrong, no key at all, and gone: each in words, none with a value, and nothing is made or changed", async () => {
    const DATA_DIR = await freshEmbeddedDir();
    const file = join(DATA_DIR, "master.key");
    await used(null, DATA_DIR, null);
    const right = readFileSync(file, "utf8").trim();
    const files = readdirSync(DATA_DIR);
    const cases: [content: string | null, code: number, words: RegExp][] = [
      [`${right}\r\n\n`, 0, /^ {2}ok {2}master key: mk_[\w-]{12}, from DATA_DIR\/master\.key; 1 data key under it\n$/],
      [newKey(), 78, /^ {2}no {2}master key: DATA_DIR\/master\.key is not the key that this data is sealed with\. Put the former key back.*outband keys abandon/],
      ["scribble", 78, /^ {2}no {2}master key: DATA_DIR\/master\.key does not hold 32 bytes in base64\. Put the former file back/],
      [null, 78, /^ {2}no {2}master key: MASTER_KEY is not set and DATA_DIR\/master\.key is gone, but DATA_DIR holds sealed data/],
      [`${right}\n`, 0, /^ {2}ok {2}master key/],
    ];
    for (const [content, code, words] of cases) {
      if (content === null) rmSync(file);
      else writeFileSync(file, content, { mode: 0o600 });
      const { code: ended, text } = await check({ DATA_DIR });
      assert.match(text, words);
      assert.equal(ended, code, text);
      assert.ok(!text.includes(right.slice(0, 8)) && !text.includes((content ?? right).trim().slice(0, 8)));
      assert.deepEqual(readdirSync(DATA_DIR), content === null ? files.filter((name) => name !== "master.key") : files);
    }
    const other = await check({ DATA_DIR, MASTER_KEY: newKey() });
    assert.match(other.text, /MASTER_KEY is not the key.*The key in DATA_DIR\/master\.key is: unset MASTER_KEY/);
  });

  test("a folder where nothing was started yet stays empty, and wrong settings are all told", async () => {
    const DATA_DIR = join(await freshEmptyDir(), "data");
    const { code, text } = await check({ DATA_DIR });
    assert.deepEqual([code, text], [0, "  --  master key: nothing is sealed here yet; the next start of the server makes what it needs\n"]);
    assert.equal(readdirSync(join(DATA_DIR, "..")).length, 0);
    const wrong = await check({ DATA_DIR, MASTER_KEY: "short", PORT: "many" });
    assert.equal(wrong.code, 78);
    assert.match(wrong.text, /no {2}settings: [^\n]*PORT[\s\S]*no {2}settings: MASTER_KEY must be 32 random bytes|no {2}settings: MASTER_KEY must be 32 random bytes[\s\S]*PORT/);
  });
});

describe("keys without a server (PostgreSQL)", { skip: process.env.TEST_DATABASE_URL ? false : "TEST_DATABASE_URL is not set" }, () => {
  test("a wrong key, a row under an unknown key and a rotation that is unfinished: each in words", async () => {
    const DATABASE_URL = (await freshPostgresUrl()) ?? "";
    const DATA_DIR = await freshEmptyDir();
    const [first, second] = [newKey(), newKey()];
    await used(DATABASE_URL, DATA_DIR, first);
    const run = (keys: Record<string, string>) => check({ DATABASE_URL, DATA_DIR, ...keys });
    assert.match((await run({})).text, /^ {2}no {2}settings: MASTER_KEY is required with DATABASE_URL/);
    assert.match((await run({ MASTER_KEY: `${first}\n` })).text, /^ {2}ok {2}master key: mk_[\w-]{12}, from MASTER_KEY; 1 data key under it\n$/);
    const wrong = await run({ MASTER_KEY: second });
    assert.match(wrong.text, /^ {2}no {2}master key: MASTER_KEY is not the key that this data is sealed with.*MASTER_KEY_PREVIOUS.*outband keys abandon/);
    assert.ok(!wrong.text.includes(second.slice(0, 8)));
    const unfinished = await run({ MASTER_KEY: second, MASTER_KEY_PREVIOUS: first });
    assert.equal(unfinished.code, 5);
    assert.match(unfinished.text, /ok {2}master key: [^\n]*from MASTER_KEY; 0 data keys under it\n {2}no {2}rotation: not finished: 1 data key under a former master key\. Run `outband keys rotate`/);
    const client = new pg.Client({ connectionString: DATABASE_URL });
    await client.connect();
    await client.query("update data_key set kid = 'mk_from_far'");
    await client.end();
    assert.match((await run({ MASTER_KEY: first })).text, /^ {2}no {2}master key: Stored credentials are sealed under a master key that is neither in MASTER_KEY nor in MASTER_KEY_PREVIOUS \(mk_from_far\)/);
  });

  test("an empty database stays empty", async () => {
    const DATABASE_URL = (await freshPostgresUrl({ migrated: false })) ?? "";
    const { text } = await check({ DATABASE_URL, DATA_DIR: await freshEmptyDir(), MASTER_KEY: newKey() });
    assert.match(text, /^ {2}-- {2}master key: nothing is sealed here yet/);
    const client = new pg.Client({ connectionString: DATABASE_URL });
    await client.connect();
    const { rows } = await client.query("select tablename from pg_tables where schemaname = 'public'");
    await client.end();
    assert.deepEqual(rows, []);
  });
});
