import assert from "node:assert/strict";
import { request } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import express from "express";
import { systemClock } from "../../src/clock.js";
import { allowFormAction, getRequestId, isLoopbackName, requestContext, securityHeaders } from "../../src/http/guard.js";
import { notFound, pageErrors } from "../../src/http/problem.js";
import { createLog } from "../../src/log.js";

const log = createLog({ level: "silent", write: () => {} });

interface Site {
  port: number;
  close(): void;
}

async function open(publicUrlOf: (port: number) => string): Promise<Site> {
  const app = express();
  const server = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  const publicUrl = publicUrlOf(port);
  app.use(requestContext({ publicUrl, clock: systemClock }), securityHeaders(publicUrl));
  app.get("/page", (req, res) => void res.send(getRequestId(req)));
  app.post("/page", (_req, res) => void res.send("posted"));
  app.get("/form", (_req, res) => {
    allowFormAction(res, "https://accounts.example.test", "https://*.example.test", "javascript:", "https://a.test; script-src *", "*", "http:");
    res.send("form");
  });
  app.use("/healthz", (_req, res) => void res.send("ok"));
  app.use("/mcp", (_req, res) => void res.send("mcp"));
  app.use("/oauth", (_req, res) => void res.send("oauth"));
  app.use(notFound, pageErrors(log, { page: () => { throw new Error("no views here"); } }));
  return { port, close: () => void server.close() };
}

function ask(port: number, options: { path: string; host?: string; method?: string; headers?: Record<string, string> }): Promise<{ status: number; headers: Record<string, string | string[] | undefined>; text: string }> {
  return new Promise((resolve, reject) => {
    const sent = request({ port, host: "127.0.0.1", path: options.path, method: options.method ?? "GET", headers: { host: options.host ?? `localhost:${port}`, ...options.headers } }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (part: string) => {
        text += part;
      });
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text }));
    });
    sent.on("error", reject).end();
  });
}

let local: Site;
let open443: Site;
before(async () => {
  local = await open((port) => `http://localhost:${port}`);
  open443 = await open(() => "https://vault.example.test");
});
after(() => {
  local.close();
  open443.close();
});

test("every answer carries the headers that make it inert", async () => {
  for (const path of ["/page", "/healthz", "/nothing"]) {
    const { headers } = await ask(local.port, { path });
    assert.equal(headers["cache-control"], "no-store", path);
    assert.equal(headers["referrer-policy"], "no-referrer");
    assert.equal(headers["x-content-type-options"], "nosniff");
    assert.equal(headers["x-frame-options"], "DENY");
    assert.equal(headers["content-security-policy"], "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'");
    assert.match(String(headers["x-request-id"]), /^req_[0-9A-Za-z]{22}$/);
  }
});

test("HSTS is sent on https and never on http", async () => {
  assert.equal((await ask(local.port, { path: "/page" })).headers["strict-transport-security"], undefined);
  assert.equal((await ask(open443.port, { path: "/page" })).headers["strict-transport-security"], "max-age=31536000");
});

test("a page may widen form-action by origins alone: nothing can end the directive or open it to all", async () => {
  const { headers } = await ask(local.port, { path: "/form" });
  assert.match(String(headers["content-security-policy"]), /form-action 'self' https:\/\/accounts\.example\.test https:\/\/\*\.example\.test; frame-ancestors/);
});

test("two requests never share an id, and the id is the one that the code sees", async () => {
  const [one, two] = await Promise.all([ask(local.port, { path: "/page" }), ask(local.port, { path: "/page" })]);
  assert.equal(one.text, one.headers["x-request-id"]);
  assert.notEqual(one.text, two.text);
});

test("a browser on another loopback name is brought to the name of PUBLIC_URL, with its path and query", async () => {
  for (const host of [`127.0.0.1:${local.port}`, `[::1]:${local.port}`, "127.0.0.1"]) {
    const answer = await ask(local.port, { path: "/page?a=1", host });
    assert.equal(answer.status, 307, host);
    assert.equal(answer.headers.location, `http://localhost:${local.port}/page?a=1`);
  }
  assert.equal((await ask(local.port, { path: "/page", method: "HEAD", host: "127.0.0.1" })).status, 307);
});

test("a path that looks like a host stays a path", async () => {
  const answer = await ask(local.port, { path: "//evil.test/x", host: "127.0.0.1" });
  assert.equal(new URL(String(answer.headers.location)).host, `localhost:${local.port}`);
});

test("a POST, a health check and a bearer endpoint are never redirected", async () => {
  assert.equal((await ask(local.port, { path: "/page", method: "POST", host: "127.0.0.1" })).status, 200);
  assert.equal((await ask(local.port, { path: "/healthz", host: "127.0.0.1" })).status, 200);
  assert.equal((await ask(local.port, { path: "/mcp", host: "127.0.0.1" })).status, 200);
});

test("the authorization server's pages are brought along, its JSON is not", async () => {
  assert.equal((await ask(local.port, { path: "/oauth/jwks", host: "127.0.0.1", headers: { accept: "application/json" } })).status, 200);
  assert.equal((await ask(local.port, { path: "/oauth/auth", host: "127.0.0.1", headers: { accept: "text/html" } })).status, 307);
});

test("on loopback a foreign Host gets no page (DNS rebinding), and no URL is built from it", async () => {
  for (const host of ["evil.test", "localhost.evil.test", "evil.test\" x", "@evil.test"]) {
    const answer = await ask(local.port, { path: "/page", host, headers: { "x-forwarded-host": "evil.test" } });
    assert.equal(answer.status, 403, host);
    assert.equal(answer.headers.location, undefined);
    assert.doesNotMatch(answer.text, /evil/);
  }
});

test("behind a public PUBLIC_URL the Host is not looked at: a probe by address gets its answer", async () => {
  assert.equal((await ask(open443.port, { path: "/page", host: "10.0.0.7" })).status, 200);
});

test("a malformed escape in a page's path is a 400, whether or not a route takes it", async () => {
  for (const path of ["/%E0%A4%A", "/page/%", "/page%zz"]) assert.equal((await ask(local.port, { path })).status, 400, path);
});

test("an absolute request target is refused", async () => {
  assert.equal((await ask(local.port, { path: "http://evil.test/page", host: "127.0.0.1" })).status, 400);
});

test("loopback names are known by the whole name", () => {
  for (const name of ["localhost", "app.localhost", "127.0.0.1", "127.9.9.9", "[::1]"]) assert.ok(isLoopbackName(name), name);
  for (const name of ["localhost.test", "127.0.0.1.test", "1270.0.0.1", "10.0.0.1", "notlocalhost"]) assert.ok(!isLoopbackName(name), name);
});
