import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer as createTcpServer } from "node:net";
import { describe, test } from "node:test";
import { inspect } from "node:util";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { egressOf, failureOf, listen, shape, site } from "./support.js";

describe("a call that goes well", () => {
  test("carries method, path, query, headers and body, and brings back status, headers and body", async () => {
    const there = await site((_, response) => response.writeHead(201, { "X-Kind": "a", "set-cookie": ["b=1", "c=2"] }).end("made"));
    const answer = await egressOf().send({
      method: "POST",
      url: `${there.origin}/a%20b?c=d&e=%2F#f`,
      headers: { "X-Api-Key": "k", "content-type": "text/plain" },
      body: "héllo",
    });
    assert.equal(answer.status, 201);
    assert.equal(answer.headers["x-kind"], "a");
    assert.equal(answer.headers["set-cookie"], "b=1, c=2");
    assert.equal(answer.body.toString(), "made");
    const [request] = there.requests;
    assert.deepEqual([request?.method, request?.url, request?.body], ["POST", "/a%20b?c=d&e=%2F", "héllo"]);
    assert.equal(request?.headers["x-api-key"], "k");
    assert.equal(request?.headers["user-agent"], "outband");
    assert.equal(request?.headers["content-length"], "6");
  });

  test("sends bytes as they are", async () => {
    const there = await site((_, response) => response.end());
    await egressOf().send({ method: "PUT", url: there.origin, body: new TextEncoder().encode("bytes") });
    assert.equal(there.requests[0]?.body, "bytes");
  });

  test("an error status is an answer, not a failure", async () => {
    const there = await site((_, response) => response.writeHead(503, { "retry-after": "7" }).end("{}"));
    const answer = await egressOf().send({ method: "GET", url: there.origin });
    assert.deepEqual([answer.status, answer.headers["retry-after"], answer.body.toString()], [503, "7", "{}"]);
  });

  test("headers of the connection are not taken from the caller", async () => {
    const there = await site((_, response) => response.end());
    await egressOf().send({
      method: "POST",
      url: there.origin,
      body: "abc",
      headers: {
        Host: "evil.example",
        "Content-Length": "1",
        "Transfer-Encoding": "chunked",
        Connection: "close",
        "Accept-Encoding": "zstd",
      },
    });
    const headers = there.requests[0]?.headers;
    assert.equal(headers?.host, `127.0.0.1:${there.port}`);
    assert.equal(headers?.["content-length"], "3");
    assert.equal(headers?.["transfer-encoding"], undefined);
    assert.equal(headers?.["accept-encoding"], "gzip, deflate, br");
    assert.equal(there.requests[0]?.body, "abc");
  });

  test("calls one after another reuse their sockets", async () => {
    const there = await site((_, response) => response.end("x"));
    const egress = egressOf();
    for (let call = 0; call < 20; call += 1) await egress.send({ method: "GET", url: there.origin });
    // Two, not one: an answer is handed on a moment before its socket is free again.
    assert.ok(there.connections() <= 2);
  });

  test("gzip, br, deflate and stacked bodies are decoded, and the headers no longer speak of it", async () => {
    const text = "Grüße ".repeat(10_000);
    const bodies: Record<string, Buffer> = {
      gzip: gzipSync(text),
      "X-GZIP": gzipSync(text),
      br: brotliCompressSync(text),
      deflate: deflateSync(text),
      "gzip, br": brotliCompressSync(gzipSync(text)),
      identity: Buffer.from(text),
    };
    const there = await site((request, response) => {
      const encoding = decodeURIComponent((request.url ?? "").slice(1));
      response.writeHead(200, { "content-encoding": encoding }).end(bodies[encoding]);
    });
    for (const encoding of Object.keys(bodies)) {
      const answer = await egressOf().send({ method: "GET", url: `${there.origin}/${encodeURIComponent(encoding)}` });
      assert.equal(answer.body.toString(), text, encoding);
      assert.equal(answer.headers["content-encoding"], undefined);
      assert.equal(answer.headers["content-length"], undefined);
    }
  });

  test("an empty body is empty, whatever its encoding says", async () => {
    const there = await site((request, response) =>
      response.writeHead(request.url === "/none" ? 204 : 200, { "content-encoding": "gzip" }).end(),
    );
    for (const request of [
      { method: "GET", url: `${there.origin}/none` },
      { method: "HEAD", url: there.origin },
      { method: "GET", url: there.origin },
    ]) {
      assert.equal((await egressOf().send(request)).body.length, 0);
    }
  });
});

describe("redirects", () => {
  test("none is followed: the target is not called, and the failure tells the status alone", async () => {
    const target = await site((_, response) => response.end("secret"));
    const there = await site((request, response) =>
      response.writeHead(Number(request.url?.slice(1)), { location: `${target.origin}/x?code=1` }).end(),
    );
    for (const status of [301, 302, 303, 307, 308]) {
      const failure = await failureOf(egressOf(true), { method: "GET", url: `${there.origin}/${status}`, headers: { "x-api-key": "k" } });
      assert.deepEqual(shape(failure), { kind: "redirect", maybeSent: true });
      assert.equal(failure.status, status);
      assert.ok(!inspect(failure).includes("code=1"));
    }
    assert.equal(target.requests.length, 0);
    assert.equal((await egressOf().send({ method: "GET", url: `${there.origin}/304` })).status, 304);
  });
});

describe("whether a request may have arrived", () => {
  test("not when the connection is refused", async () => {
    const server = createTcpServer();
    const { port } = await listen(server);
    server.close();
    await once(server, "close");
    const failure = await failureOf(egressOf(), { method: "POST", url: `http://127.0.0.1:${port}/`, body: "x" });
    assert.deepEqual(shape(failure), { kind: "network", maybeSent: false });
    assert.equal(failure.reason, "ECONNREFUSED");
    assert.equal(failure.code, "egress.network.ECONNREFUSED");
  });

  test("not when the name is unknown", async () => {
    const egress = egressOf([], (_, done) => done(Object.assign(new Error("no"), { code: "ENOTFOUND" }), []));
    const failure = await failureOf(egress, { method: "POST", url: "https://nowhere.example/", body: "x" });
    assert.deepEqual({ ...shape(failure), reason: failure.reason }, { kind: "network", maybeSent: false, reason: "ENOTFOUND" });
  });

  test("not when TLS fails", async () => {
    const { port } = await listen(createTcpServer((socket) => socket.end("HTTP/1.1 200 OK\r\n\r\n")));
    assert.deepEqual(shape(await failureOf(egressOf(), { method: "POST", url: `https://127.0.0.1:${port}/`, body: "x" })), {
      kind: "network",
      maybeSent: false,
    });
  });

  test("not when a header has a line break, whose value is in no error", async () => {
    const there = await site((_, response) => response.end());
    const failure = await failureOf(egressOf(), {
      method: "POST",
      url: there.origin,
      headers: { "x-api-key": "CANARY\r\nx: y" },
      body: "x",
    });
    assert.deepEqual(shape(failure), { kind: "network", maybeSent: false });
    assert.ok(!inspect(failure, { depth: 9 }).includes("CANARY"));
    assert.equal(there.requests.length, 0);
  });

  test("yes when the other side closes after it took the request, half an answer included", async () => {
    for (const answer of ["", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"]) {
      const { port } = await listen(createTcpServer((socket) => socket.once("data", () => socket.end(answer))));
      const failure = await failureOf(egressOf(), { method: "POST", url: `http://127.0.0.1:${port}/`, body: "x" });
      assert.deepEqual(shape(failure), { kind: "network", maybeSent: true }, answer);
    }
  });

  test("yes when the answer is not HTTP or its headers have no end", async () => {
    for (const answer of ["hello\r\n\r\n", `HTTP/1.1 200 OK\r\n${"x: y\r\n".repeat(20_000)}`]) {
      const { port } = await listen(createTcpServer((socket) => socket.once("data", () => socket.write(answer))));
      assert.deepEqual(shape(await failureOf(egressOf(), { method: "POST", url: `http://127.0.0.1:${port}/` })), {
        kind: "network",
        maybeSent: true,
      });
    }
  });

  test("a request that failed after it was written is not sent again by the gate", async () => {
    let taken = 0;
    const { port } = await listen(
      createTcpServer((socket) =>
        socket.once("data", () => {
          taken += 1;
          socket.destroy();
        }),
      ),
    );
    for (const method of ["GET", "POST"]) await failureOf(egressOf(), { method, url: `http://127.0.0.1:${port}/` });
    assert.equal(taken, 2);
  });
});
