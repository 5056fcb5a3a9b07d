import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { isLoopback, isSameHost, readAddress } from "../../src/cli/address.js";
import { readEnvironment } from "../../src/cli/environment.js";
import { COMMANDS } from "../../src/cli/run.js";
import { Secret } from "../../src/crypto/secret.js";
import { startFakeServer } from "./fakeServer.js";
import { runCommand, withFolder } from "./support.js";

const NOWHERE = "http://127.0.0.1:9";

describe("the command line", () => {
  test("help names every command there is, the settings and the exit codes; nothing else exists", () =>
    withFolder(async (home) => {
      const help = await runCommand(["help"], { url: NOWHERE, home });
      assert.equal(help.code, 0);
      for (const { name } of COMMANDS) assert.match(help.stdout, new RegExp(`\\n  ${name} `));
      for (const word of ["OUTBAND_URL", "OUTBAND_API_KEY", "OUTBAND_HOME", " 64  unknown command", "130  stopped"])
        assert.ok(help.stdout.includes(word), word);
      assert.deepEqual((await runCommand([], { url: NOWHERE, home })).stdout, help.stdout);
      assert.deepEqual(
        COMMANDS.map(({ name }) => name),
        ["start", "call", "connections", "users", "doctor", "keys"],
      );
      for (const { name } of COMMANDS) {
        const one = await runCommand(["help", name], { url: NOWHERE, home });
        assert.match(one.stdout, new RegExp(`^Usage: outband ${name}`));
        assert.equal((await runCommand([name, "--help"], { url: NOWHERE, home })).stdout, one.stdout);
      }
    }));

  test("an unknown command is a clear error with exit 64, and its name cannot act on the terminal", () =>
    withFolder(async (home) => {
      const run = await runCommand(["lauch\u001b[2J"], { url: NOWHERE, home });
      assert.equal(run.code, 64);
      assert.equal(run.stdout, "");
      assert.equal(run.stderr, "There is no command lauch.\nCommands: start, call, connections, users, doctor, keys, help\n");
    }));
});

describe("where the server is", () => {
  test("OUTBAND_URL, else the port of the environment or of .env, else 3000; nothing else is taken from .env", () =>
    withFolder(async (cwd) => {
      assert.equal(readEnvironment(cwd, {}).serverUrl, "http://localhost:3000");
      await writeFile(
        join(cwd, ".env"),
        "PORT=4000\nDATA_DIR=elsewhere\nOUTBAND_URL=https://evil.test\nOUTBAND_API_KEY=stolen\nOUTBAND_HOME=/evil\n",
      );
      const read = readEnvironment(cwd, { HOME: "/home/kim" });
      assert.equal(read.serverUrl, "http://localhost:4000");
      assert.equal(read.dataDir, join(cwd, "elsewhere"));
      assert.equal(read.apiKey, null);
      assert.ok(!read.home.startsWith("/evil"));
      const set = readEnvironment(cwd, { OUTBAND_URL: " https://vault.example ", OUTBAND_API_KEY: "k", OUTBAND_HOME: "/h", PORT: "" });
      assert.deepEqual([set.serverUrl, set.apiKey?.reveal(), set.home], ["https://vault.example", "k", "/h"]);
      assert.equal(readEnvironment(cwd, { XDG_CONFIG_HOME: "/x" }).home, "/x/outband");
    }));

  test("an origin means its /mcp; a whole endpoint stays; anything else is a usage error", () => {
    assert.deepEqual(readAddress("http://localhost:3000", "x"), {
      origin: "http://localhost:3000",
      mcp: "http://localhost:3000/mcp",
      from: "x",
    });
    assert.equal(readAddress("https://v.example/mcp/meta/", "x").mcp, "https://v.example/mcp/meta");
    for (const text of [
      "localhost:3000",
      "ftp://x",
      "",
      "http://a:b@localhost:3000",
      "http://localhost:3000/?x=1",
      "http://localhost:3000/#x",
    ]) {
      assert.throws(() => readAddress(text, "x"), { exitCode: 64 }, text);
    }
  });

  test("loopback is the machine itself and nothing that merely sounds like it", () => {
    for (const url of ["http://localhost:3000", "http://127.0.0.1", "http://127.9.9.9", "http://[::1]:1", "http://2130706433"])
      assert.ok(isLoopback(new URL(url)), url);
    for (const url of ["http://localhost.evil.test", "http://x.localhost", "http://0.0.0.0", "http://10.0.0.1", "http://127.evil.test"])
      assert.ok(!isLoopback(new URL(url)), url);
    assert.ok(!isSameHost(new URL("https://localhost:3000"), new URL("http://localhost:3000")));
  });
});

interface ApiRequest {
  method: string;
  url: string;
  authorization: string;
  body: string;
}

async function withApi(
  answer: (request: ApiRequest) => { status: number; body: unknown; location?: string },
  run: (url: string, requests: ApiRequest[]) => Promise<void>,
): Promise<void> {
  const requests: ApiRequest[] = [];
  const server = createServer(async (incoming, response) => {
    let body = "";
    for await (const chunk of incoming) body += chunk;
    const request = { method: incoming.method ?? "", url: incoming.url ?? "", authorization: incoming.headers.authorization ?? "", body };
    requests.push(request);
    const { status, body: content, location } = answer(request);
    response
      .writeHead(status, { "content-type": "application/json", ...(location !== undefined && { location }) })
      .end(JSON.stringify(content));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await run(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test("every command refuses what it does not know, with its usage and 64, before it asks any server", () =>
  withFolder(async (home) => {
    const refused: [string[], RegExp][] = [
      ...COMMANDS.map(({ name, usage }): [string[], RegExp] => [[name, "--frobnicate"], new RegExp(`Usage: outband ${usage.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}`)]),
      [["users", "list", "--email", "a@b.example"], /users list does not take --email\.\nUsage: outband users /],
      [["keys", "list", "--yes"], /keys list does not take --yes\.\nUsage: /],
      [["keys", "abandon", "--json"], /keys abandon does not take --json\.\nUsage: /],
      [["connections", "--all", "--mine"], /connections --all does not take --mine\.\nUsage: /],
      [["doctor", "now"], /Not expected here: now\nUsage: outband doctor/],
      [["help", "call", "me"], /Not expected here: me/],
      [["--version", "x"], /Not expected here: x/],
    ];
    for (const [args, words] of refused) {
      const run = await runCommand(args, { url: "http://127.0.0.1:9", home, apiKey: new Secret("obk_test") });
      assert.equal(run.code, 64, `${args.join(" ")}: ${run.stderr}`);
      assert.match(run.stderr, words);
      assert.equal(run.stdout, "");
    }
  }));

describe("commands over the API", () => {
  const key = new Secret("obk_test");

  test("users lists in columns; --json gives the answer as it is", () =>
    withFolder((home) =>
      withApi(
        () => ({
          status: 200,
          body: { data: [{ sub: "usr_1", email: "kim@example.net", name: "Kim\u001b[2J\nx", role: "admin" }], next_cursor: null },
        }),
        async (url, requests) => {
          const listed = await runCommand(["users"], { url, home, apiKey: key });
          assert.equal(listed.code, 0);
          assert.equal(listed.stdout, "SUB    EMAIL            NAME   ROLE\nusr_1  kim@example.net  Kim x  admin\n");
          assert.equal(
            JSON.parse((await runCommand(["users", "list", "--json"], { url, home, apiKey: key })).stdout).data[0].role,
            "admin",
          );
          assert.equal(requests[0]?.authorization, "Bearer obk_test");
        },
      ),
    ));

  test("users create sends what was said, a password only from stdin, and shows the invitation link", () =>
    withFolder((home) =>
      withApi(
        ({ body }) => ({ status: 201, body: { sub: "usr_2", ...JSON.parse(body), invitation_url: `http://localhost:3000/setup/t` } }),
        async (url, requests) => {
          const made = await runCommand(["users", "create", "--email", "a@b.example", "--role", "viewer"], { url, home, apiKey: key });
          assert.match(made.stdout, /Made a@b\.example \(usr_2\)\.\nInvitation link[^\n]*\nhttp:\/\/localhost:3000\/setup\/t\n/);
          assert.deepEqual(JSON.parse(requests[0]?.body ?? ""), { email: "a@b.example", role: "viewer" });
          await runCommand(["users", "create", "--email", "a@b.example", "--password-stdin"], {
            url,
            home,
            apiKey: key,
            input: "long passphrase\n",
          });
          assert.equal(JSON.parse(requests[1]?.body ?? "").password, "long passphrase");
          assert.equal((await runCommand(["users", "create"], { url, home, apiKey: key })).code, 64);
          assert.equal((await runCommand(["users", "create", "--email", "x", "--password", "p"], { url, home, apiKey: key })).code, 64);
          assert.equal(requests.length, 2);
        },
      ),
    ));

  test("connections --all shows everybody's accounts; a set OUTBAND_API_KEY means the same", () =>
    withFolder((home) =>
      withApi(
        () => ({
          status: 200,
          body: {
            data: [
              {
                connection_name: "gmail",
                identifier: "usr_1",
                label: "",
                status: "EXPIRED",
                status_reason: "refresh_rejected",
                external_account: { email: "kim@example.net" },
              },
            ],
            next_cursor: "more",
          },
        }),
        async (url) => {
          for (const args of [["connections", "--all"], ["connections"]]) {
            const run = await runCommand(args, { url, home, apiKey: key });
            assert.match(run.stdout, /gmail {7}usr_1 {3}default {2}EXPIRED {2}refresh_rejected {2}kim@example\.net/);
            assert.match(run.stderr, /Only the newest 200/);
          }
        },
      ),
    ));

  test("a problem is told in its sentence and its code; exit 4 where the key is at fault, 5 else", () =>
    withFolder((home) =>
      withApi(
        ({ url }) =>
          url.includes("limit")
            ? { status: 403, body: { code: "insufficient_scope", detail: "The credential lacks a scope\u001b[2J that this call needs." } }
            : {
                status: 400,
                body: {
                  code: "invalid_request",
                  title: "The request is not valid.",
                  errors: [{ path: "email", message: "Invalid e-mail" }],
                },
              },
        async (url) => {
          const refused = await runCommand(["users"], { url, home, apiKey: key });
          assert.equal(refused.code, 4);
          assert.equal(refused.stderr, "The credential lacks a scope that this call needs.\nCode: insufficient_scope\n");
          const invalid = await runCommand(["users", "create", "--email", "x"], { url, home, apiKey: key });
          assert.equal(invalid.code, 5);
          assert.match(invalid.stderr, /The request is not valid\.\n {2}email: Invalid e-mail/);
        },
      ),
    ));

  test("a redirect is not followed with the key", () =>
    withFolder((home) =>
      withApi(
        () => ({ status: 303, body: {}, location: "https://evil.test/" }),
        async (url) => {
          const run = await runCommand(["users"], { url, home, apiKey: key });
          assert.equal(run.code, 5);
          assert.match(run.stderr, /redirect/);
        },
      ),
    ));

  test("a local server's cli.key is found by itself, and never leaves this machine", () =>
    withFolder((home) =>
      withApi(
        () => ({ status: 200, body: { data: [] } }),
        async (url, requests) => {
          const dataDir = join(home, "data");
          await mkdir(dataDir);
          const none = await runCommand(["users"], { url, home, dataDir });
          assert.equal(none.code, 4);
          assert.match(none.stderr, /OUTBAND_API_KEY.*cli\.key/);
          await writeFile(join(dataDir, "cli.key"), "obk_local\n");
          assert.equal((await runCommand(["users"], { url, home, dataDir })).code, 0);
          assert.equal(requests.at(-1)?.authorization, "Bearer obk_local");
          const away = await runCommand(["users", "--url", "http://192.0.2.1:9"], { url, home, dataDir });
          assert.equal(away.code, 4, "refused before anything is sent");
        },
      ),
    ));
});

describe("keys abandon", () => {
  test("erases nothing without the word typed, and is not run where nobody can type it", () =>
    withFolder(async (home) => {
      const nobody = await runCommand(["keys", "abandon"], { url: NOWHERE, home, interactive: false });
      assert.deepEqual([nobody.code, /nobody here to confirm/.test(nobody.stderr)], [64, true]);
      const slip = await runCommand(["keys", "abandon"], { url: NOWHERE, home, script: [["Type abandon", "yes"]] });
      assert.deepEqual([slip.code, /Nothing was changed/.test(slip.stderr)], [1, true]);
      assert.equal((await runCommand(["keys", "rotate-everything"], { url: NOWHERE, home })).code, 64);
    }));
});

describe("doctor", () => {
  test("says what works, what is missing and what to do, and changes nothing", () =>
    withFolder(async (home) => {
      const fake = await startFakeServer({ signIn: true });
      try {
        const before = await runCommand(["doctor"], { url: fake.origin, home });
        assert.equal(before.code, 0, before.stdout);
        assert.match(
          before.stdout,
          /ok {2}answers: yes\n {2}ok {2}ready[^\n]*\n {2}ok {2}MCP endpoint: [^\n]*\/mcp, sign-in at [^\n]*\/oauth\n {2}-- {2}signed in: not yet[^\n]*\n {2}-- {2}API key: none/,
        );
        assert.ok(!fake.seen.includes("POST /oauth/reg"));

        await runCommand(["call", "list_my_connections"], {
          url: fake.origin,
          home,
          script: [["Open", ""]],
          browse: (url) => fake.browse(url),
        });
        const after = await runCommand(["doctor"], { url: fake.origin, home });
        assert.match(after.stdout, /ok {2}signed in: yes; fake vault 1\.0\.0, MCP 2026-07-28, 2 tools/);

        fake.forget();
        const asked = fake.seen.length;
        const gone = await runCommand(["doctor"], { url: fake.origin, home });
        assert.equal(gone.code, 4);
        assert.match(gone.stdout, /no {2}signed in: no longer/);
        assert.ok(!fake.seen.slice(asked).includes("POST /oauth/reg"));
      } finally {
        await fake.close();
      }
    }));

  test("a key that is refused ends with 4; an address under another name says which to use", () =>
    withFolder((home) =>
      withApi(
        ({ url }) =>
          url.startsWith("/.well-known/")
            ? { status: 200, body: { resource: "https://vault.example/mcp", authorization_servers: [] } }
            : { status: url.startsWith("/api/") ? 401 : 200, body: {} },
        async (url) => {
          const run = await runCommand(["doctor"], { url, home, apiKey: new Secret("obk_wrong") });
          assert.equal(run.code, 5);
          assert.match(run.stdout, /no {2}MCP endpoint: it calls itself https:\/\/vault\.example\/mcp; set OUTBAND_URL/);
          assert.match(run.stdout, /no {2}API key: The API key is not accepted\. \(from OUTBAND_API_KEY\)/);
          assert.ok(!run.stdout.includes("obk_wrong"));
        },
      ),
    ));
});
