// `outband keys` and what doctor says of the keys: every trouble in words, with what to do.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, test } from "node:test";
import { keyFindings, readKeysAnswer } from "../../src/cli/keyFindings.js";
import { lineOf } from "../../src/cli/finding.js";
import { Secret } from "../../src/crypto/secret.js";
import { runCommand, withFolder } from "./support.js";

const NOW = Date.parse("2026-12-20T12:00:00Z");
const SINCE_LONG = "2026-12-01T00:00:00.000Z";

interface Body {
  current: string;
  current_since: string | null;
  keys: { kid: string; source: string | null; data_keys: number }[];
  remaining: number;
  damaged: { connection_name: string | null; kid: string }[];
}

const SOUND: Body = { current: "mk_new", current_since: SINCE_LONG, keys: [{ kid: "mk_new", source: "master.key", data_keys: 4 }], remaining: 0, damaged: [] };

function said(body: Body): string[] {
  const answer = readKeysAnswer(body);
  assert.ok(answer);
  return keyFindings(answer, NOW).map(lineOf);
}

describe("what the keys' state comes to", () => {
  test("all in order: one line that says which key and where it lies", () => {
    assert.deepEqual(said(SOUND), ["  ok  master key: mk_new, from DATA_DIR/master.key; 4 data keys under it"]);
  });

  test("a rotation that is unfinished names the command; the former keys must stay, and none is said to be free", () => {
    const [, unfinished, ...more] = said({
      ...SOUND,
      current_since: null,
      keys: [
        { kid: "mk_new", source: "master.key", data_keys: 3 },
        { kid: "mk_old", source: "master.key.previous", data_keys: 1 },
      ],
      remaining: 1,
    });
    assert.match(unfinished ?? "", /^ {2}no {2}rotation: not finished: 1 data key under a former master key\. Run `outband keys rotate`; it goes on/);
    assert.deepEqual(more, []);
  });

  test("rows under a key that the server does not have: which key, where to put it, and the way out", () => {
    const [, absent, ...more] = said({ ...SOUND, keys: [...SOUND.keys, { kid: "mk_far", source: null, data_keys: 2 }], remaining: 2 });
    assert.match(absent ?? "", /^ {2}no {2}master key: 2 data keys under mk_far, a master key that the server does not have.*MASTER_KEY_PREVIOUS.*outband keys abandon/);
    assert.deepEqual(more, [], "no rotation can mend it");
  });

  test("a damaged data key names its connection and what to do; it is not called an unfinished rotation", () => {
    const keys = [...SOUND.keys, { kid: "mk_old", source: "master.key.previous", data_keys: 1 }];
    const [, damaged, ...more] = said({ ...SOUND, keys, remaining: 1, damaged: [{ connection_name: "gmail", kid: "mk_old" }] });
    assert.match(damaged ?? "", /^ {2}no {2}data key: damaged for gmail: .*backup; or enter the connection's client secret again/);
    assert.deepEqual(more, []);
    const [, sessions] = said({ ...SOUND, damaged: [{ connection_name: null, kid: "mk_new" }] });
    assert.match(sessions ?? "", /^ {2}no {2}data key: damaged for sign-ins: people and their MCP clients sign in again/);
  });

  test("a former key that nothing needs can go a week after the rotation, and each kind says how", () => {
    const idle = (source: string, current_since: string) => said({ ...SOUND, current_since, keys: [...SOUND.keys, { kid: "mk_old", source, data_keys: 0 }] })[1] ?? "";
    assert.match(idle("master.key.previous", SINCE_LONG), /^ {2}-- {2}former key: mk_old, from DATA_DIR\/master\.key\.previous: nothing stored needs it\. It can go: delete DATA_DIR\/master\.key\.previous and start again\. Backups/);
    assert.match(idle("MASTER_KEY_PREVIOUS", SINCE_LONG), /It can go: take it out of MASTER_KEY_PREVIOUS and start again/);
    assert.match(idle("MASTER_KEY_PREVIOUS", "2026-12-18T00:00:00.000Z"), /It can go from 2026-12-25 on \(take it out of MASTER_KEY_PREVIOUS\); sooner, people who are signed in must sign in again/);
  });

  test("an answer of another shape is not understood, and what stands in it cannot act on the terminal", () => {
    for (const odd of [null, [], {}, { current: 7 }, { ...SOUND, keys: "none" }]) assert.equal(readKeysAnswer(odd), null);
    const [line] = said({ ...SOUND, current: "mk\u001b[2J", keys: [{ kid: "mk\u001b[2J", source: "master.key\u0007", data_keys: 1 }] });
    assert.ok(!/[\u001b\u0007]/.test(line ?? ""));
  });
});

async function withKeys(body: Body, rotated: { rewrapped: number; remaining: number }, run: (url: string, asked: string[]) => Promise<void>): Promise<void> {
  const asked: string[] = [];
  const server = createServer((req, res) => {
    asked.push(`${req.method} ${req.url}`);
    const answer = req.url === "/api/v1/keys/rotate" ? rotated : req.url === "/api/v1/keys" ? body : { parts: { database: "ready", keys: "not ready" } };
    res.writeHead(req.url === "/readyz" ? 503 : 200, { "content-type": "application/json" }).end(JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await run(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

describe("outband keys", () => {
  const apiKey = new Secret("obk_test");
  const BEHIND: Body = {
    ...SOUND,
    current_since: null,
    keys: [
      { kid: "mk_new", source: "MASTER_KEY", data_keys: 3 },
      { kid: "mk_old", source: "MASTER_KEY_PREVIOUS", data_keys: 1 },
      { kid: "mk_far", source: null, data_keys: 2 },
    ],
    remaining: 3,
  };

  test("lists which keys there are, where, and how much is under each; what is not in order follows, with exit 5", () =>
    withFolder((home) =>
      withKeys(BEHIND, { rewrapped: 0, remaining: 0 }, async (url, asked) => {
        const run = await runCommand(["keys"], { url, home, apiKey });
        assert.equal(run.stdout, "KEY     WHERE                DATA KEYS\nmk_new  MASTER_KEY           3          current\nmk_old  MASTER_KEY_PREVIOUS  1          former\nmk_far  not here             2          missing\n");
        assert.match(run.stderr, /mk_far, a master key that the server does not have[^\n]*\n {2}no {2}rotation: not finished/);
        assert.equal(run.code, 5);
        const json = await runCommand(["keys", "list", "--json"], { url, home, apiKey });
        assert.deepEqual([JSON.parse(json.stdout), json.code], [BEHIND, 0]);
        assert.ok(asked.every((one) => one === "GET /api/v1/keys"));
      }),
    ));

  test("rotate says how many were wrapped anew and what to copy; what remains ends with exit 1", () =>
    withFolder((home) =>
      withKeys(SOUND, { rewrapped: 4, remaining: 0 }, async (url, asked) => {
        const run = await runCommand(["keys", "rotate"], { url, home, apiKey });
        assert.deepEqual([run.code, run.stdout], [0, "Wrapped anew: 4. Still under another master key: 0. Current key: mk_new, from DATA_DIR/master.key.\n"]);
        assert.match(run.stderr, /Copy the new DATA_DIR\/master\.key to where you keep the former one/);
        assert.equal(asked[0], "POST /api/v1/keys/rotate");
        assert.deepEqual(JSON.parse((await runCommand(["keys", "rotate", "--json"], { url, home, apiKey })).stdout), { rewrapped: 4, remaining: 0 });
      }),
    ).then(() =>
      withFolder((home) =>
        withKeys(BEHIND, { rewrapped: 1, remaining: 3 }, async (url) => {
          assert.equal((await runCommand(["keys", "rotate"], { url, home, apiKey })).code, 1);
          assert.equal((await runCommand(["keys", "rotate", "--json"], { url, home, apiKey })).code, 1);
        }),
      ),
    ));

  test("with MASTER_KEY set and nothing to do, it says how the key is changed", () =>
    withFolder((home) =>
      withKeys({ ...SOUND, keys: [{ kid: "mk_new", source: "MASTER_KEY", data_keys: 4 }] }, { rewrapped: 0, remaining: 0 }, async (url) => {
        const run = await runCommand(["keys", "rotate"], { url, home, apiKey });
        assert.match(run.stderr, /Everything was under MASTER_KEY already\. To change it: the new key into MASTER_KEY, the former one into MASTER_KEY_PREVIOUS/);
      }),
    ));

  test("an unknown word and a missing API key are refused before anything is sent", () =>
    withFolder((home) =>
      withKeys(SOUND, { rewrapped: 0, remaining: 0 }, async (url, asked) => {
        assert.equal((await runCommand(["keys", "rotate-everything"], { url, home, apiKey })).code, 64);
        assert.equal((await runCommand(["keys", "rotate"], { url, home })).code, 4);
        assert.deepEqual(asked, []);
      }),
    ));

  test("doctor tells of the keys what `keys` tells, and why the server is not ready", () =>
    withFolder((home) =>
      withKeys(BEHIND, { rewrapped: 0, remaining: 0 }, async (url) => {
        const run = await runCommand(["doctor"], { url, home, apiKey });
        assert.match(run.stdout, /no {2}ready: no: something is sealed under a master key that the server does not have/);
        assert.match(run.stdout, /ok {2}master key: mk_new, from MASTER_KEY; 3 data keys under it\n {2}no {2}master key: 2 data keys under mk_far/);
        assert.match(run.stdout, /no {2}rotation: not finished/);
      }),
    ));
});
