import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createBrowserOpener } from "../../src/cli/browser.js";
import { createPages, type PageOptions } from "../../src/cli/page.js";
import { systemClock } from "../../src/clock.js";
import { person, type Script } from "./support.js";

const SERVER = "https://vault.example";

async function offer(
  url: string,
  script: Script,
  more: Partial<PageOptions> & { interactive?: boolean; assume?: "yes" | "no"; server?: string } = {},
) {
  const someone = person(script, { interactive: more.interactive ?? true });
  const opened: string[] = [];
  const pages = createPages({
    terminal: someone.terminal,
    open: async (page) => {
      opened.push(page.href);
      return true;
    },
    server: more.server ?? SERVER,
    options: { yes: more.yes ?? false, noBrowser: more.noBrowser ?? false },
  });
  const outcome = await pages.offer({
    introduction: 'The server "x" asks you to open a page. It says:',
    words: "Connect Gmail",
    url,
    assume: more.assume ?? "no",
  });
  assert.deepEqual(someone.surprises, []);
  assert.equal(someone.left(), 0);
  return { outcome, opened, messages: someone.messages() };
}

describe("a page that a server asks to open", () => {
  test("who asks, the host on a line of its own and the whole address are shown before the question", async () => {
    const url = `${SERVER}/connect/${"t".repeat(120)}?a=1&b=2`;
    const { outcome, opened, messages } = await offer(url, [["Open it in your browser? [y/N]", "y"]]);
    assert.equal(outcome, "opened");
    assert.deepEqual(opened, [url]);
    assert.match(
      messages,
      /The server "x" asks[\s\S]*\| Connect Gmail[\s\S]*Host:\n {2}vault\.example\nFull address:\n {2}https:[\s\S]*Open it in your browser\? \[y\/N\]/,
    );
    assert.ok(messages.includes(`\n  ${url}\n`));
    assert.doesNotMatch(messages, /Careful/);
  });

  for (const [answer, outcome] of [
    ["n", "declined"],
    ["", "declined"],
    ["^C", "interrupted"],
  ] as const) {
    test(`${answer === "" ? "Enter" : answer}: ${outcome}, and nothing opens`, async () => {
      const result = await offer(`${SERVER}/connect/t`, [["Open it", answer]]);
      assert.equal(result.outcome, outcome);
      assert.deepEqual(result.opened, []);
    });
  }

  test("another host is warned of, and Enter never means yes there", async () => {
    const { outcome, opened, messages } = await offer("https://vault.example.evil.test/connect", [["[y/N]", ""]], { assume: "yes" });
    assert.equal(outcome, "declined");
    assert.deepEqual(opened, []);
    assert.match(messages, /Careful: this page is on vault\.example\.evil\.test, not on vault\.example/);
  });

  test("a look-alike host is shown as it is spelled on the wire", async () => {
    const { messages } = await offer("https://vаult.example/connect", [["[y/N]", "n"]]);
    assert.match(messages, /Host:\n {2}xn--vult-53d\.example\n/);
  });

  test("http to another machine is warned of; the loopback names count as one host", async () => {
    assert.match((await offer("http://vault.example/", [["[y/N]", "n"]])).messages, /starts with http:/);
    const local = await offer("http://127.0.0.1:3000/connect/t", [["[y/N]", "n"]], { server: "http://localhost:3000" });
    assert.doesNotMatch(local.messages, /Careful/);
    assert.match(
      (await offer("http://127.0.0.1:3001/", [["[y/N]", "n"]], { server: "http://localhost:3000" })).messages,
      /Careful: this page is on 127\.0\.0\.1:3001/,
    );
  });

  for (const url of ["javascript:alert(1)", "file:///etc/passwd", "vscode://x", "https://vault.example@evil.test/", "not a url"]) {
    test(`${url} is never opened and never asked about`, async () => {
      const { outcome, opened } = await offer(url, [], { yes: true });
      assert.equal(outcome, "refused");
      assert.deepEqual(opened, []);
    });
  }

  test("--no-browser asks and prints, and starts nothing", async () => {
    const { outcome, opened, messages } = await offer(`${SERVER}/c`, [["Will you open it yourself? [y/N]", "y"]], { noBrowser: true });
    assert.equal(outcome, "opened");
    assert.deepEqual(opened, []);
    assert.ok(messages.includes(`${SERVER}/c`));
  });

  test("without a terminal: not opened, in words; with --yes opened, but on the server's own host only", async () => {
    const silent = await offer(`${SERVER}/c`, [], { interactive: false });
    assert.equal(silent.outcome, "unasked");
    assert.match(silent.messages, /nobody to ask/);
    assert.deepEqual((await offer(`${SERVER}/c`, [], { interactive: false, yes: true })).opened, [`${SERVER}/c`]);
    const foreign = await offer("https://evil.test/c", [], { interactive: false, yes: true });
    assert.equal(foreign.outcome, "unasked");
    assert.deepEqual(foreign.opened, []);
  });

  test("answers that are neither yes nor no end in no", async () => {
    const { outcome } = await offer(`${SERVER}/c`, [
      ["Open", "sure"],
      ["Open", "ok"],
      ["Open", "1"],
    ]);
    assert.equal(outcome, "declined");
  });

  test("the opener refuses other schemes, and says so when there is no program to open with", async () => {
    const open = createBrowserOpener({ platform: "linux", clock: systemClock });
    assert.equal(await open(new URL("file:///etc/passwd")), false);
    const path = process.env.PATH;
    process.env.PATH = "/nowhere";
    try {
      assert.equal(await open(new URL("https://vault.example/")), false);
    } finally {
      process.env.PATH = path;
    }
  });
});
