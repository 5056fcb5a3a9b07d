import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, test } from "node:test";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { egressOf, failureOf, shape, site } from "./support.js";

describe("limits", () => {
  test("a body at the cap is taken, one byte more is refused", async () => {
    const there = await site((request, response) => response.end("x".repeat(Number(request.url?.slice(1)))));
    assert.equal((await egressOf().send({ method: "GET", url: `${there.origin}/1000`, bytesMax: 1000 })).body.length, 1000);
    const failure = await failureOf(egressOf(), { method: "GET", url: `${there.origin}/1001`, bytesMax: 1000 });
    assert.deepEqual(shape(failure), { kind: "too_large", maybeSent: true });
    assert.equal(failure.status, 200);
  });

  test("without a cap of its own a call is capped at 4 MiB", async () => {
    const there = await site((_, response) => response.end(Buffer.alloc(4 * 1024 * 1024 + 1)));
    assert.equal((await failureOf(egressOf(), { method: "GET", url: there.origin })).kind, "too_large");
  });

  test("a small gzip or br that unpacks to 60 MB is refused at the cap, without the memory", async () => {
    const bombs: Record<string, Buffer> = {
      "/gzip": gzipSync(Buffer.alloc(60_000_000)),
      "/br": brotliCompressSync(Buffer.alloc(60_000_000)),
      "/twice": gzipSync(gzipSync(Buffer.alloc(60_000_000))),
    };
    const there = await site((request, response) => {
      const coding = request.url === "/twice" ? "gzip, gzip" : (request.url ?? "").slice(1);
      response.writeHead(200, { "content-encoding": coding }).end(bombs[request.url ?? ""]);
    });
    for (const path of Object.keys(bombs)) {
      const before = process.memoryUsage().rss;
      const failure = await failureOf(egressOf(), { method: "GET", url: `${there.origin}${path}`, bytesMax: 1_000_000 });
      assert.equal(failure.kind, "too_large", path);
      assert.ok(process.memoryUsage().rss - before < 40_000_000, path);
    }
  });

  test("a body that is not what its encoding says, is cut short, or has an unknown or deeply stacked encoding is a broken answer", async () => {
    const there = await site((request, response) => {
      const [encoding, body] = {
        "/lie": ["gzip", Buffer.from("not gzip at all")],
        "/cut": ["gzip", gzipSync("x".repeat(5000)).subarray(0, 20)],
        "/zstd": ["zstd", Buffer.from("x")],
        "/proto": ["__proto__", Buffer.from("x")],
        "/deep": ["gzip, gzip, gzip", gzipSync(gzipSync(gzipSync("x")))],
      }[request.url ?? ""] as [string, Buffer];
      response.writeHead(200, { "content-encoding": encoding }).end(body);
    });
    for (const path of ["/lie", "/cut", "/zstd", "/proto", "/deep"]) {
      assert.deepEqual(
        shape(await failureOf(egressOf(), { method: "GET", url: `${there.origin}${path}` })),
        { kind: "network", maybeSent: true },
        path,
      );
    }
  });

  test("one byte at a time does not outlive the deadline", async () => {
    const there = await site((_, response) => {
      response.writeHead(200);
      const drip = setInterval(() => response.write("x"), 20);
      response.on("close", () => clearInterval(drip));
    });
    const started = performance.now();
    const failure = await failureOf(egressOf(), { method: "GET", url: there.origin, timeoutMs: 300 });
    assert.deepEqual(shape(failure), { kind: "timeout", maybeSent: true });
    assert.ok(performance.now() - started < 2_000);
  });

  test("a server that takes the request and never answers is given up at the deadline, and its socket is closed", async () => {
    let closed: Promise<unknown> = Promise.resolve();
    const there = await site((request) => {
      closed = once(request.socket, "close");
    });
    const failure = await failureOf(egressOf(), { method: "POST", url: there.origin, body: "x", timeoutMs: 200 });
    assert.deepEqual(shape(failure), { kind: "timeout", maybeSent: true });
    await closed;
  });

  test("a look-up that never ends is given up at the deadline, and nothing was sent", async () => {
    const failure = await failureOf(
      egressOf([], () => {}),
      { method: "POST", url: "https://slow.example/", timeoutMs: 100 },
    );
    assert.deepEqual(shape(failure), { kind: "timeout", maybeSent: false });
  });

  test("a request that was given up while it waited for its connection is never sent afterwards", async () => {
    const there = await site((_, response) => response.end());
    const waiting: (() => void)[] = [];
    let isLate = true;
    const egress = egressOf(["late.localhost"], (_, done) => {
      const answer = () => done(null, [{ address: "127.0.0.1", family: 4 }]);
      if (isLate) waiting.push(answer);
      else answer();
    });
    const failure = await failureOf(egress, { method: "POST", url: `http://late.localhost:${there.port}/`, body: "x", timeoutMs: 100 });
    assert.deepEqual(shape(failure), { kind: "timeout", maybeSent: false });
    isLate = false;
    for (const answer of waiting) answer();
    // The next call on the same pool shows that the connection was made and the first request is gone.
    assert.equal((await egress.send({ method: "GET", url: `http://late.localhost:${there.port}/second` })).status, 200);
    assert.deepEqual(
      there.requests.map((request) => request.url),
      ["/second"],
    );
  });

  test("a caller's cancel ends the call at once, before and during it", async () => {
    const gone = await failureOf(egressOf(), { method: "GET", url: "http://127.0.0.1:9/", signal: AbortSignal.abort() });
    assert.deepEqual(shape(gone), { kind: "aborted", maybeSent: false });
    const cancel = new AbortController();
    const there = await site(() => cancel.abort());
    assert.deepEqual(shape(await failureOf(egressOf(), { method: "POST", url: there.origin, signal: cancel.signal })), {
      kind: "aborted",
      maybeSent: true,
    });
  });
});
