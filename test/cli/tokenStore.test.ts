import assert from "node:assert/strict";
import { chmod, copyFile, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { createTokenStore } from "../../src/cli/tokenStore.js";
import { systemClock } from "../../src/clock.js";
import { withFolder } from "./support.js";

const TOKENS = { access_token: "at", token_type: "Bearer", refresh_token: "rt", issuer: "http://localhost:3000/oauth" };
const CLIENT = { client_id: "c1", issuer: "http://localhost:3000/oauth" };

function store(home: string, endpoint = "http://localhost:3000/mcp") {
  return createTokenStore({ home, endpoint, clock: systemClock });
}

describe("the file of a sign-in", () => {
  test("it is 0600 in a folder of 0700, whatever the umask, and comes back as it was", () =>
    withFolder(async (home) => {
      const umask = process.umask(0);
      try {
        await store(home).save({ client: CLIENT, tokens: TOKENS });
      } finally {
        process.umask(umask);
      }
      const { file } = store(home);
      assert.equal((await stat(file)).mode & 0o777, 0o600);
      assert.equal((await stat(dirname(file))).mode & 0o777, 0o700);
      assert.deepEqual(await store(home).load(), { client: CLIENT, tokens: TOKENS });
    }));

  test("a file that others could read is closed before it is read", () =>
    withFolder(async (home) => {
      await store(home).save({ tokens: TOKENS });
      await chmod(store(home).file, 0o644);
      assert.deepEqual(await store(home).load(), { tokens: TOKENS });
      assert.equal((await stat(store(home).file)).mode & 0o777, 0o600);
    }));

  test("two endpoints of one host have a file each, and a copied file is not taken", () =>
    withFolder(async (home) => {
      const other = store(home, "http://localhost:3000/mcp/meta");
      await store(home).save({ tokens: TOKENS });
      assert.notEqual(store(home).file, other.file);
      assert.deepEqual(await other.load(), {});
      await copyFile(store(home).file, other.file);
      assert.deepEqual(await other.load(), {});
    }));

  test("many saves at once leave one whole file and nothing beside it", () =>
    withFolder(async (home) => {
      await Promise.all(Array.from({ length: 20 }, (_, at) => store(home).save({ tokens: { ...TOKENS, access_token: `at${at}` } })));
      assert.match((await store(home).load()).tokens?.access_token ?? "", /^at\d+$/);
      assert.equal((await readdir(join(home, "sign-ins"))).length, 1);
    }));

  for (const [name, content] of [
    ["half a file", '{"version":1,"ser'],
    ["another format", '{"version":2}'],
    ["tokens of another shape", '{"version":1,"server":"http://localhost:3000/mcp","tokens":5}'],
  ] as const) {
    test(`${name} counts as not signed in`, () =>
      withFolder(async (home) => {
        await store(home).save({ tokens: TOKENS });
        await writeFile(store(home).file, content);
        assert.deepEqual(await store(home).load(), {});
      }));
  }

  test("signing out removes it", () =>
    withFolder(async (home) => {
      await store(home).save({ tokens: TOKENS });
      await store(home).clear();
      await store(home).clear();
      await assert.rejects(readFile(store(home).file));
      assert.deepEqual(await store(home).load(), {});
    }));
});
