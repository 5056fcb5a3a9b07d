import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { EgressError } from "../../src/net/egress.js";
import { egressOf, site } from "./support.js";

describe("the gate as fetch", () => {
  test("sends forms and text, and gives a Response", async () => {
    const there = await site((_, response) => response.writeHead(200, { "content-type": "application/json" }).end('{"a":1}'));
    const call = egressOf([]).fetchFor({ exemptOrigin: there.origin });
    const response = await call(`${there.origin}/token`, {
      method: "post",
      headers: { Authorization: "Basic x" },
      body: new URLSearchParams({ grant_type: "a b", code: "+&=" }),
    });
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("content-type"), "application/json");
    assert.deepEqual(await response.json(), { a: 1 });
    assert.deepEqual([there.requests[0]?.method, there.requests[0]?.body], ["POST", "grant_type=a+b&code=%2B%26%3D"]);
    assert.equal(there.requests[0]?.headers["content-type"], "application/x-www-form-urlencoded;charset=UTF-8");
    assert.equal(there.requests[0]?.headers.authorization, "Basic x");
    await call(new URL(`${there.origin}/text`), { method: "PUT", headers: new Headers({ "content-type": "text/x" }), body: "plain" });
    assert.deepEqual([there.requests[1]?.body, there.requests[1]?.headers["content-type"]], ["plain", "text/x"]);
    await call(`${there.origin}/get`);
    assert.deepEqual([there.requests[2]?.method, there.requests[2]?.body], ["GET", ""]);
  });

  test("an answer without a body is one, and an error status is not a rejection", async () => {
    const there = await site((request, response) => response.writeHead(Number(request.url?.slice(1))).end());
    const call = egressOf([]).fetchFor({ exemptOrigin: there.origin });
    for (const status of [204, 205, 304, 400, 500]) assert.equal((await call(`${there.origin}/${status}`)).status, status);
    await assert.rejects(call(`${there.origin}/999`), (error) => error instanceof EgressError && error.maybeSent);
  });

  test("rejects with EgressError for redirects, refused addresses, caps and deadlines", async () => {
    const there = await site((request, response) => {
      if (request.url === "/redirect") response.writeHead(302, { location: "/" }).end();
      if (request.url === "/large") response.end("x".repeat(100));
    });
    const call = egressOf([]).fetchFor({ exemptOrigin: there.origin, bytesMax: 10, timeoutMs: 200 });
    const kinds = { "/redirect": "redirect", "/large": "too_large", "/hang": "timeout" };
    for (const [path, kind] of Object.entries(kinds))
      await assert.rejects(call(`${there.origin}${path}`, { redirect: "follow" }), { kind });
    await assert.rejects(call("https://127.0.0.1/"), { kind: "refused_address" });
    const cancel = new AbortController();
    const running = call(`${there.origin}/hang`, { signal: cancel.signal });
    cancel.abort();
    await assert.rejects(running, { kind: "aborted" });
  });

  test("what it does not support it refuses loudly", async () => {
    const call = egressOf(true).fetchFor({});
    await assert.rejects(call(new Request("https://api.example/")), TypeError);
    await assert.rejects(call("https://api.example/", { method: "POST", body: new FormData() }), TypeError);
  });
});
