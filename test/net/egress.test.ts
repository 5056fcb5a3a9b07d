import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTcpServer, type AddressInfo, type Server, type Socket } from "node:net";
import { after, describe, test } from "node:test";
import { inspect } from "node:util";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { systemClock } from "../../src/clock.js";
import { createEgress, EgressError, type Egress, type EgressRequest } from "../../src/net/egress.js";
import type { Resolve } from "../../src/net/connect.js";

const cleanups: (() => Promise<unknown>)[] = [];
after(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
});

function egressOf(allowPrivateNetwork: true | string[] = ["127.0.0.1"], resolve?: Resolve): Egress {
  const egress = createEgress({ allowPrivateNetwork, clock: systemClock, ...(resolve ? { resolve } : {}) });
  cleanups.push(() => egress.close());
  return egress;
}

interface Site {
  origin: string;
  port: number;
  requests: { method: string; url: string; headers: IncomingMessage["headers"]; body: string }[];
  connections: () => number;
}

async function listen(server: Server): Promise<{ port: number; connections: () => number }> {
  const sockets = new Set<Socket>();
  let opened = 0;
  server.on("connection", (socket: Socket) => {
    opened += 1;
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket)).on("error", () => {});
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanups.push(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, connections: () => opened };
}

async function site(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<Site> {
  const requests: Site["requests"] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (chunk: string) => (body += chunk));
    request.on("end", () => {
      requests.push({ method: request.method ?? "", url: request.url ?? "", headers: request.headers, body });
      answer(request, response);
    });
  });
  const { port, connections } = await listen(server);
  return { origin: `http://127.0.0.1:${port}`, port, requests, connections };
}

async function failureOf(egress: Egress, request: EgressRequest): Promise<EgressError> {
  try {
    await egress.send(request);
  } catch (error) {
    assert.ok(error instanceof EgressError, inspect(error));
    return error;
  }
  return assert.fail("the request went through");
}

const shape = (error: EgressError) => ({ kind: error.kind, maybeSent: error.maybeSent });

describe("a call that goes well", () => {
  test("carries method, path, query, headers and body, and brings back status, headers and body", async () => {
    const there = await site((_, response) => response.writeHead(201, { "X-Kind": "a", "set-cookie": ["b=1", "c=2"] }).end("made"));
    const answer = await egressOf().send({ method: "POST", url: `${there.origin}/a%20b?c=d&e=%2F#f`, headers: { "X-Api-Key": "k", "content-type": "text/plain" }, body: "héllo" });
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
    await egressOf().send({ method: "POST", url: there.origin, body: "abc", headers: { Host: "evil.example", "Content-Length": "1", "Transfer-Encoding": "chunked", Connection: "close", "Accept-Encoding": "zstd" } });
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
    const there = await site((request, response) => response.writeHead(request.url === "/none" ? 204 : 200, { "content-encoding": "gzip" }).end());
    for (const request of [{ method: "GET", url: `${there.origin}/none` }, { method: "HEAD", url: there.origin }, { method: "GET", url: there.origin }]) {
      assert.equal((await egressOf().send(request)).body.length, 0);
    }
  });
});

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
    const bombs: Record<string, Buffer> = { "/gzip": gzipSync(Buffer.alloc(60_000_000)), "/br": brotliCompressSync(Buffer.alloc(60_000_000)), "/twice": gzipSync(gzipSync(Buffer.alloc(60_000_000))) };
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
      assert.deepEqual(shape(await failureOf(egressOf(), { method: "GET", url: `${there.origin}${path}` })), { kind: "network", maybeSent: true }, path);
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
    const failure = await failureOf(egressOf([], () => {}), { method: "POST", url: "https://slow.example/", timeoutMs: 100 });
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
    assert.deepEqual(there.requests.map((request) => request.url), ["/second"]);
  });

  test("a caller's cancel ends the call at once, before and during it", async () => {
    const gone = await failureOf(egressOf(), { method: "GET", url: "http://127.0.0.1:9/", signal: AbortSignal.abort() });
    assert.deepEqual(shape(gone), { kind: "aborted", maybeSent: false });
    const cancel = new AbortController();
    const there = await site(() => cancel.abort());
    assert.deepEqual(shape(await failureOf(egressOf(), { method: "POST", url: there.origin, signal: cancel.signal })), { kind: "aborted", maybeSent: true });
  });
});

describe("redirects", () => {
  test("none is followed: the target is not called, and the failure tells the status alone", async () => {
    const target = await site((_, response) => response.end("secret"));
    const there = await site((request, response) => response.writeHead(Number(request.url?.slice(1)), { location: `${target.origin}/x?code=1` }).end());
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

describe("addresses", () => {
  test("a literal private address is refused before anything is opened", async () => {
    const there = await site((_, response) => response.end());
    for (const host of ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::ffff:127.0.0.1]", "localhost", "a.localhost"]) {
      const failure = await failureOf(egressOf([]), { method: "GET", url: `http://${host}:${there.port}/` });
      assert.deepEqual(shape(failure), { kind: "refused_address", maybeSent: false }, host);
    }
    assert.equal(there.connections(), 0);
  });

  test("a name that resolves to a private address is refused inside connect, whatever else it resolves to", async () => {
    const there = await site((_, response) => response.end());
    const answers: Record<string, string[]> = { "inner.example": ["127.0.0.1"], "many.example": ["10.0.0.1", "127.0.0.1", "169.254.169.254"], "six.example": ["::ffff:127.0.0.1", "fd00::1", "64:ff9b::7f00:1"], "none.example": [] };
    const asked: string[] = [];
    const egress = egressOf([], (host, done) => {
      asked.push(host);
      done(null, (answers[host] ?? []).map((address) => ({ address, family: address.includes(":") ? 6 : 4 })));
    });
    for (const host of Object.keys(answers)) {
      assert.deepEqual(shape(await failureOf(egress, { method: "GET", url: `https://${host}:${there.port}/` })), { kind: "refused_address", maybeSent: false }, host);
    }
    assert.deepEqual(asked, Object.keys(answers));
    assert.equal(there.connections(), 0);
  });

  test("of several addresses only the permitted ones are connected to", async () => {
    const there = await site((_, response) => response.end("here"));
    const egress = egressOf(["127.0.0.1"], (_, done) => done(null, [{ address: "169.254.169.254", family: 4 }, { address: "10.9.9.9", family: 4 }, { address: "127.0.0.1", family: 4 }]));
    assert.equal((await egress.send({ method: "GET", url: `http://mixed.localhost:${there.port}/` })).body.toString(), "here");
  });

  test("a name that changes its address between calls is checked again at each connection", async () => {
    const there = await site((_, response) => response.writeHead(200, { connection: "close" }).end());
    const turns = ["127.0.0.1", "10.0.0.1"];
    const egress = egressOf(["127.0.0.1"], (_, done) => done(null, [{ address: turns.shift() ?? "10.0.0.1", family: 4 }]));
    const url = `http://turning.localhost:${there.port}/`;
    assert.equal((await egress.send({ method: "GET", url })).status, 200);
    assert.equal((await failureOf(egress, { method: "GET", url })).kind, "refused_address");
  });

  test("link-local and metadata addresses stay refused with everything allowed, by name and for an exempt origin", async () => {
    const egress = egressOf(true, (_, done) => done(null, [{ address: "169.254.169.254", family: 4 }]));
    for (const url of ["https://169.254.169.254/latest/meta-data", "https://[fd00:ec2::254]/", "https://metadata.example/", "https://168.63.129.16/"]) {
      assert.deepEqual(shape(await failureOf(egress, { method: "GET", url })), { kind: "refused_address", maybeSent: false }, url);
      assert.deepEqual(shape(await failureOf(egress, { method: "GET", url, exemptOrigin: new URL(url).origin })), { kind: "refused_address", maybeSent: false }, url);
    }
  });

  test("an exempt origin is reached for its own purpose only: not its neighbour's port, and not over its open socket", async () => {
    const there = await site((_, response) => response.end("sandbox"));
    const neighbour = await site((_, response) => response.end("database"));
    const egress = egressOf([]);
    const exemptOrigin = there.origin;
    assert.equal((await egress.send({ method: "GET", url: `${there.origin}/x`, exemptOrigin: `${exemptOrigin}/any/path` })).body.toString(), "sandbox");
    assert.equal((await failureOf(egress, { method: "GET", url: `${neighbour.origin}/x`, exemptOrigin })).kind, "refused_address");
    assert.equal((await failureOf(egress, { method: "GET", url: `${there.origin}/y` })).kind, "refused_address");
    assert.equal(neighbour.connections(), 0);
    assert.deepEqual(there.requests.map((request) => request.url), ["/x"]);
  });

  test("`refuses` says in a sentence what is wrong with a URL, and never repeats it", () => {
    const egress = egressOf(["10.0.0.0/8", "localhost"]);
    const table: [string, RegExp | null][] = [
      ["https://api.example.com/path?x=1", null],
      ["https://8.8.8.8/", null],
      ["https://10.1.2.3/", null],
      ["http://localhost:4000/", null],
      ["http://127.0.0.1:4000/", /private address/],
      ["https://127.0.0.1/", /private address/],
      ["https://192.168.0.1/", /private address/],
      ["https://[::1]/", /private address/],
      ["https://0x7f.1/", /private address/],
      ["https://169.254.169.254/", /link-local or metadata/],
      ["https://0.0.0.0/", /link-local or metadata/],
      ["http://api.example.com/", /must begin with https:\/\//],
      ["http://10.1.2.3/", /must begin with https:\/\//],
      ["ftp://api.example.com/", /must begin with https:\/\//],
      ["javascript:alert(1)", /must begin with https:\/\//],
      ["https://user:pa55@api.example.com/", /user name or a password/],
      ["https://user@api.example.com/", /user name or a password/],
      ["api.example.com", /not valid/],
      ["https://", /not valid/],
      ["", /not valid/],
    ];
    for (const [url, expected] of table) {
      const sentence = egress.refuses(url);
      if (expected === null) assert.equal(sentence, null, url);
      else assert.match(sentence ?? "", expected, url);
      assert.ok(!sentence?.includes("pa55"));
    }
    assert.equal(egress.refuses("http://127.0.0.1:4000/token", "http://127.0.0.1:4000"), null);
    assert.match(egress.refuses("http://127.0.0.1:4001/token", "http://127.0.0.1:4000") ?? "", /private/);
    assert.match(egress.refuses("http://127.0.0.1:4000@evil.example/", "http://127.0.0.1:4000") ?? "", /user name/);
    assert.match(egress.refuses("https://169.254.169.254/", "https://169.254.169.254") ?? "", /link-local/);
    assert.equal(egressOf(true).refuses("https://192.168.0.1/"), null);
  });

  test("a URL that is refused as a setting is refused as a call", async () => {
    for (const url of ["ftp://api.example.com/", "http://api.example.com/", "https://u:p@api.example.com/", "nothing"]) {
      assert.deepEqual(shape(await failureOf(egressOf(true), { method: "GET", url })), { kind: "refused_address", maybeSent: false });
    }
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
    assert.deepEqual(shape(await failureOf(egressOf(), { method: "POST", url: `https://127.0.0.1:${port}/`, body: "x" })), { kind: "network", maybeSent: false });
  });

  test("not when a header has a line break, whose value is in no error", async () => {
    const there = await site((_, response) => response.end());
    const failure = await failureOf(egressOf(), { method: "POST", url: there.origin, headers: { "x-api-key": "CANARY\r\nx: y" }, body: "x" });
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
      assert.deepEqual(shape(await failureOf(egressOf(), { method: "POST", url: `http://127.0.0.1:${port}/` })), { kind: "network", maybeSent: true });
    }
  });

  test("a request that failed after it was written is not sent again by the gate", async () => {
    let taken = 0;
    const { port } = await listen(createTcpServer((socket) => socket.once("data", () => { taken += 1; socket.destroy(); })));
    for (const method of ["GET", "POST"]) await failureOf(egressOf(), { method, url: `http://127.0.0.1:${port}/` });
    assert.equal(taken, 2);
  });
});

describe("the gate as fetch", () => {
  test("sends forms and text, and gives a Response", async () => {
    const there = await site((_, response) => response.writeHead(200, { "content-type": "application/json" }).end('{"a":1}'));
    const call = egressOf([]).fetchFor({ exemptOrigin: there.origin });
    const response = await call(`${there.origin}/token`, { method: "post", headers: { Authorization: "Basic x" }, body: new URLSearchParams({ grant_type: "a b", code: "+&=" }) });
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
    for (const [path, kind] of Object.entries(kinds)) await assert.rejects(call(`${there.origin}${path}`, { redirect: "follow" }), { kind });
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
