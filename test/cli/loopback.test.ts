import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { request } from "node:http";
import { describe, test } from "node:test";
import { type Loopback, openLoopback } from "../../src/cli/loopback.js";

async function withLoopback(run: (loopback: Loopback) => Promise<void>): Promise<void> {
  const loopback = await openLoopback();
  try {
    await run(loopback);
  } finally {
    await loopback.close();
  }
}

const never = new AbortController().signal;

/** fetch sets Host by itself. */
function statusWithHost(url: string, host: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    request(url, { headers: { host } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    })
      .on("error", reject)
      .end();
  });
}

describe("the end of a sign-in on this machine", () => {
  test("the callback with the right state is taken, and the page waits for how it ended", () =>
    withLoopback(async (loopback) => {
      assert.match(loopback.redirectUrl, /^http:\/\/127\.0\.0\.1:\d+\/callback$/);
      for (const [outcome, words] of [
        ["done", /You are signed in/],
        ["failed", /did not work/],
      ] as const) {
        const waited = loopback.wait("s1", never);
        const page = fetch(`${loopback.redirectUrl}?code=c1&state=s1&iss=i`);
        const callback = await waited;
        assert.deepEqual(Object.fromEntries(callback.params), { code: "c1", state: "s1", iss: "i" });
        callback.answer(outcome);
        const response = await page;
        const html = await response.text();
        assert.match(html, words);
        const style = /<style>([\s\S]*)<\/style>/.exec(html)?.[1] ?? "";
        assert.match(style, /prefers-color-scheme:dark/);
        assert.doesNotMatch(html, /url\(|@import|src=|href=|<script/);
        const policy = `default-src 'none'; style-src 'sha256-${createHash("sha256").update(style).digest("base64")}'; frame-ancestors 'none'`;
        assert.equal(response.headers.get("content-security-policy"), policy, "its own style and nothing else");
        assert.equal(response.headers.get("cache-control"), "no-store");
      }
    }));

  test("another state, no state, another path and another host are refused, repeat nothing, and leave the person's sign-in waiting", () =>
    withLoopback(async (loopback) => {
      const waited = loopback.wait("right", never);
      for (const query of ["?code=evil&state=wrong", "?code=evil", "?error=%3Cscript%3E&state="]) {
        const response = await fetch(`${loopback.redirectUrl}${query}`);
        assert.equal(response.status, 400);
        assert.doesNotMatch(await response.text(), /evil|script|wrong/);
      }
      assert.equal((await fetch(`${new URL(loopback.redirectUrl).origin}/other?state=right`)).status, 404);
      assert.equal((await fetch(`${loopback.redirectUrl}?state=right`, { method: "POST" })).status, 404);
      assert.equal(await statusWithHost(`${loopback.redirectUrl}?code=evil&state=right`, "rebound.example"), 404);
      const page = fetch(`${loopback.redirectUrl}?code=good&state=right`);
      const callback = await waited;
      callback.answer("done");
      assert.equal(callback.params.get("code"), "good");
      await page;
    }));

  test("a state is taken once", () =>
    withLoopback(async (loopback) => {
      const waited = loopback.wait("s", never);
      const page = fetch(`${loopback.redirectUrl}?code=c&state=s`);
      (await waited).answer("done");
      await page;
      assert.equal((await fetch(`${loopback.redirectUrl}?code=c&state=s`)).status, 400);
    }));

  test("stopping ends the wait", () =>
    withLoopback(async (loopback) => {
      const stop = new AbortController();
      const waited = loopback.wait("s", stop.signal);
      stop.abort(new Error("stopped"));
      await assert.rejects(waited, /stopped/);
    }));
});
