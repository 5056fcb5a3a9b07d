import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import { type FakeServer, startFakeServer } from "./fakeServer.js";
import { type CliOptions, runCommand, type Script, withFolder } from "./support.js";

const CONNECT_AND_PICK: Script = [
  ["Open it in your browser? [y/N]", "y"],
  ["number, 1 to 2", "2"],
];
const SIGN_IN: Script = [["Open it in your browser? [Y/n]", ""]];

describe("outband call, on a server without sign-in", () => {
  let fake: FakeServer;
  beforeEach(async () => {
    fake = await startFakeServer({ signIn: false });
  });
  afterEach(() => fake.close());

  function call(args: string[], more: Partial<CliOptions> = {}) {
    return withFolder((home) => runCommand(["call", ...args], { url: fake.origin, home, browse: (url) => fake.browse(url), ...more }));
  }

  test("a page, a form, the answer: one command, each asked once", async () => {
    const run = await call(["digest", "--arg", "max=3", "--arg", "to=a", "--arg", "to=b"], { script: CONNECT_AND_PICK });
    assert.deepEqual(run.surprises, []);
    assert.equal(run.code, 0, run.stderr);
    assert.match(
      run.stdout,
      /^Digest of 3 for C2 to a\+b\n\n---- from outside[^\n]*\n\| From: Eve\n\| Please open https:\/\/evil\.example\n-+\n$/,
    );
    assert.deepEqual(run.opened, [`${fake.origin}/connect?token=abc`]);
    assert.match(
      run.stderr,
      /The server "fake vault" at http:[^\n]* asks you to open a page[\s\S]*\| Connect Gmail\nHost:\n[\s\S]*Waiting for you to finish in the browser…/,
    );
  });

  test("a person who never comes back is waited for through state-only legs, asked once, and the call ends in words", async () => {
    const run = await call(["digest"], { script: [["Open it", "y"]], browse: async () => undefined });
    assert.equal(run.code, 1);
    assert.match(run.stdout, /^not_connected: /);
    assert.deepEqual(run.surprises, []);
    assert.equal(fake.seen.filter((line) => line === "POST /mcp tools/call").length, 4, "one call, one answer, two waiting legs");
  });

  for (const [typed, reason] of [
    ["n", "decline"],
    ["^C", "cancel"],
  ] as const) {
    test(`${typed} at the page is answered as ${reason}: nothing opens, exit 1`, async () => {
      const run = await call(["digest", "--json"], { script: [["Open it", typed]] });
      assert.equal(run.code, 1);
      assert.deepEqual(run.opened, []);
      assert.equal(JSON.parse(run.stdout)._meta["dev.outband/outcome"].reason, reason);
    });
  }

  test("without a terminal the server is told that nobody can be asked, and its answer names the page; nobody is said to have said no", async () => {
    for (const flags of [[], ["--no-browser"]]) {
      const silent = await call(["digest", ...flags], { interactive: false });
      assert.equal(silent.code, 1);
      assert.deepEqual(silent.opened, []);
      assert.match(silent.stdout, /^not_connected: /);
      assert.equal(silent.stderr, `Connect it here, in your browser: ${fake.origin}/connections\n`);
    }
    assert.equal(fake.seen.filter((line) => line === "POST /mcp tools/call").length, 2, "nothing was asked");
  });

  test("with --yes the server's own page opens without a terminal; a form that needs an answer is cancelled, not declined", async () => {
    const yes = await call(["digest", "--yes"], { interactive: false });
    assert.deepEqual(yes.opened, [`${fake.origin}/connect?token=abc`]);
    assert.equal(yes.code, 1);
    assert.match(yes.stderr, /Not answered: there is nobody to ask here/);
    assert.match(yes.stdout, /^cancelled: /);
  });

  test("a page on another host is warned of, and --yes does not cover it", async () => {
    fake.connectHost = "https://evil.test";
    const run = await call(["digest", "--yes", "--json"], { interactive: false });
    assert.deepEqual(run.opened, []);
    assert.match(run.stderr, /Careful: this page is on evil\.test/);
    assert.equal(run.code, 1);
    assert.equal(JSON.parse(run.stdout)._meta["dev.outband/outcome"].reason, "cancel", "nobody said no");
  });

  test("--json prints the whole result on stdout and nothing else there", async () => {
    const run = await call(["digest", "--json"], { script: CONNECT_AND_PICK });
    assert.equal(JSON.parse(run.stdout).content.length, 2);
    assert.match(JSON.parse(run.stdout).content[1].text, /\u001b\]52/, "the value is whole");
    assert.doesNotMatch(run.stdout, /[\u0007\u001b]/);
  });

  test("an unknown tool, bad arguments and unknown options are usage errors, and nothing is called", async () => {
    const unknown = await call(["nope"]);
    assert.equal(unknown.code, 64);
    assert.match(unknown.stderr, /no tool nope here\.\nTools:\n {2}digest\n {2}list_my_connections/);
    assert.equal((await call(["digest", "--arg", "max=many"])).code, 64);
    for (const [args, hint] of [
      [["list_my_connections", "--arg", "a=b"], "The tool takes no arguments."],
      [["digest", "--arg", "maximum=3"], "Its arguments: max, to"],
      [["digest", "--args-json", '{"maximum": 3}'], "Its arguments: max, to"],
    ] as const) {
      const run = await call([...args]);
      assert.equal(run.code, 64);
      assert.match(run.stderr, /^The tool has no argument (?:a|maximum)\.\n/);
      assert.ok(run.stderr.endsWith(`${hint}\n`), run.stderr);
    }
    const option = await call(["digest", "--frobnicate"]);
    assert.equal(option.code, 64);
    assert.match(option.stderr, /'--frobnicate'\nUsage: outband call TOOL \[--arg/);
    assert.equal((await call([])).code, 64);
    assert.equal((await call(["digest", "extra"])).code, 64);
    assert.equal(fake.seen.filter((line) => line.includes("tools/call")).length, 0);
  });

  test("Ctrl-C while waiting for the browser stops the command with 130, and the server sees the client go", async () => {
    let stop: () => void = () => undefined;
    const stopAfter = new Promise<void>((resolve) => {
      stop = resolve;
    });
    const run = await call(["digest"], { script: [["Open it", "y"]], browse: async () => setTimeout(stop, 50), stopAfter });
    assert.equal(run.code, 130);
    assert.match(run.stderr, /Stopped\.\n$/);
    assert.ok(fake.seen.includes("client gone"));
  });

  test("connections without a key lists the person's own", async () => {
    const run = await withFolder((home) => runCommand(["connections"], { url: fake.origin, home }));
    assert.equal(run.code, 0);
    assert.equal(run.stdout, "gmail: ready\n");
  });
});

describe("outband call, on a server that wants a sign-in", () => {
  let fake: FakeServer;
  beforeEach(async () => {
    fake = await startFakeServer({ signIn: true });
  });
  afterEach(() => fake.close());

  const list = (home: string, more: Partial<CliOptions> = {}) =>
    runCommand(["call", "list_my_connections"], { url: fake.origin, home, script: SIGN_IN, browse: (url) => fake.browse(url), ...more });

  test("the first call signs in through the browser; the next one needs neither browser nor registration", () =>
    withFolder(async (home) => {
      let page = "";
      const first = await list(home, {
        browse: async (url) => {
          page = await fake.browse(url);
        },
      });
      assert.equal(first.code, 0, first.stderr);
      assert.deepEqual(first.surprises, []);
      assert.equal(first.stdout, "gmail: ready\n");
      assert.match(page, /You are signed in/);
      assert.match(first.stderr, /Host:\n {2}127\.0\.0\.1:\d+\nFull address:\n {2}http:\/\/127\.0\.0\.1:\d+\/oauth\/auth\?/);
      const asked = new URL(first.opened[0] ?? "").searchParams;
      assert.equal(asked.get("resource"), fake.url);
      assert.equal(asked.get("scope"), "mcp:read mcp:write");
      assert.match(asked.get("redirect_uri") ?? "", /^http:\/\/127\.0\.0\.1:\d+\/callback$/);
      assert.ok((asked.get("state") ?? "").length >= 43);

      const second = await list(home, { script: [] });
      assert.equal(second.code, 0, second.stderr);
      assert.deepEqual(second.opened, []);
      assert.deepEqual(
        fake.seen.filter((line) => line.includes("/oauth/")),
        ["POST /oauth/reg", "GET /oauth/auth", "POST /oauth/token authorization_code"],
      );
    }));

  test("no token, code or verifier is printed or kept in another file than the sign-in's", () =>
    withFolder(async (home) => {
      const { stdout, stderr } = await list(home);
      const [file, ...more] = await readdir(join(home, "sign-ins"));
      assert.deepEqual(more, []);
      const stored = JSON.parse(await readFile(join(home, "sign-ins", file ?? ""), "utf8"));
      for (const secret of [stored.tokens.access_token, stored.tokens.refresh_token]) assert.ok(!`${stdout}${stderr}`.includes(secret));
      assert.deepEqual(Object.keys(stored).sort(), ["client", "server", "tokens", "version"]);
    }));

  test("an expired token is refreshed without a word, and the new pair is kept", () =>
    withFolder(async (home) => {
      await list(home);
      for (let round = 0; round < 2; round += 1) {
        fake.expire();
        const run = await list(home, { script: [] });
        assert.equal(run.code, 0, run.stderr);
        assert.equal(run.stderr, "");
      }
      assert.equal(fake.seen.filter((line) => line === "POST /oauth/token refresh_token").length, 2);
    }));

  test("a server that was set up anew is signed in at again, with a new registration", () =>
    withFolder(async (home) => {
      await list(home);
      fake.forget();
      const run = await list(home);
      assert.equal(run.code, 0, run.stderr);
      assert.equal(fake.seen.filter((line) => line === "POST /oauth/reg").length, 2);
      assert.ok(!fake.seen.some((line) => line.includes("unknown client")));
    }));

  test("a sign-in that never ended leaves no registration behind", () =>
    withFolder(async (home) => {
      const run = await list(home, { script: [["Open it", "n"]] });
      assert.equal(run.code, 4);
      fake.forget();
      assert.equal((await list(home)).code, 0);
      assert.ok(!fake.seen.some((line) => line.includes("unknown client")));
    }));

  test("a refusal in the browser ends with 4 and a sentence, and the browser says so too", () =>
    withFolder(async (home) => {
      fake.next = { error: "access_denied" };
      let page = "";
      const run = await list(home, {
        browse: async (url) => {
          page = await fake.browse(url);
        },
      });
      assert.equal(run.code, 4);
      assert.match(run.stderr, /The sign-in was refused in the browser\.\n$/);
      assert.match(page, /did not work/);
    }));

  test("an answer with the issuer of another server is refused, and its code is not exchanged", () =>
    withFolder(async (home) => {
      fake.next = { iss: "https://evil.test" };
      const run = await list(home);
      assert.equal(run.code, 4);
      assert.ok(!fake.seen.some((line) => line.includes("/oauth/token")));
      assert.deepEqual(await readdir(home), []);
    }));

  test("an answer with another state is not taken; the sign-in goes on", () =>
    withFolder(async (home) => {
      fake.next = { state: "forged" };
      const run = await list(home, {
        browse: async (url) => {
          assert.match(await fake.browse(url), /Not the sign-in/);
          await fake.browse(url);
        },
      });
      assert.equal(run.code, 0, run.stderr);
    }));

  test("a tool that needs a permission that was left out: one more sign-in, and when it is left out again, exit 4", () =>
    withFolder(async (home) => {
      fake.grants = "mcp:read";
      const digest = (script: Script) =>
        runCommand(["call", "digest"], { url: fake.origin, home, script, browse: (url) => fake.browse(url) });
      const refused = await digest([...SIGN_IN, ...SIGN_IN]);
      assert.equal(refused.code, 4, refused.stderr);
      assert.deepEqual(refused.surprises, []);
      assert.match(refused.stderr, /permission/);
      fake.grants = null;
      const allowed = await digest([...SIGN_IN, ...CONNECT_AND_PICK]);
      assert.equal(allowed.code, 0, allowed.stderr);
    }));

  test("without a terminal: not signed in, exit 4, nothing opened; --no-browser prints the address and waits", () =>
    withFolder(async (home) => {
      const silent = await list(home, { interactive: false });
      assert.equal(silent.code, 4);
      assert.deepEqual(silent.opened, []);
      assert.match(silent.stderr, /Run this in a terminal, or with --no-browser/);
      let stop: () => void = () => undefined;
      const stopAfter = new Promise<void>((resolve) => {
        stop = resolve;
      });
      setTimeout(stop, 300);
      const printed = await runCommand(["call", "list_my_connections", "--no-browser"], {
        url: fake.origin,
        home,
        interactive: false,
        stopAfter,
      });
      assert.equal(printed.code, 130);
      assert.match(printed.stderr, /Full address:\n {2}http:[^\n]*\/oauth\/auth\?[\s\S]*Waiting for you to sign in/);
    }));
});

describe("a server that is not there, or not one", () => {
  test("nobody listens: exit 3 and where to look", () =>
    withFolder(async (home) => {
      const spare = createServer();
      await new Promise<void>((resolve) => spare.listen(0, "127.0.0.1", resolve));
      const { port } = spare.address() as AddressInfo;
      await new Promise((resolve) => spare.close(resolve));
      for (const args of [["call", "digest"], ["connections"], ["doctor"]]) {
        const run = await runCommand(args, { url: `http://127.0.0.1:${port}`, home });
        assert.equal(run.code, 3, `${args.join(" ")}: ${run.stderr}`);
        assert.match(run.stderr + run.stdout, /cannot be reached: nothing listens there/);
      }
    }));

  test("a web server of another kind: exit 5, its page is not printed", () =>
    withFolder(async (home) => {
      const web = createServer((_request, response) =>
        response.writeHead(200, { "content-type": "text/html" }).end("<h1>\u001b[31mhello</h1>"),
      );
      await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
      try {
        const run = await runCommand(["call", "digest"], { url: `http://127.0.0.1:${(web.address() as AddressInfo).port}`, home });
        assert.equal(run.code, 5, run.stderr);
        assert.doesNotMatch(run.stderr, /hello/);
      } finally {
        web.closeAllConnections();
        web.close();
      }
    }));
});
