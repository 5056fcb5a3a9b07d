import assert from "node:assert/strict";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import express, { type Express } from "express";
import { systemClock } from "../../src/clock.js";
import { OutbandError } from "../../src/errors.js";
import { requestContext, securityHeaders } from "../../src/http/guard.js";
import { apiErrors, methodNotAllowed, notFound, pageErrors, readThrown } from "../../src/http/problem.js";
import { createRenderer } from "../../src/http/render.js";
import { createLog } from "../../src/log.js";

const CANARY = "canary-5f2c9d71";
const lines: string[] = [];
const log = createLog({ level: "debug", write: (line) => lines.push(line) });
const THROWN: Record<string, () => unknown> = {
  plain: () => new Error(`database says ${CANARY}`),
  text: () => CANARY,
  nothing: () => undefined,
  wait: () => new OutbandError("rate_limited", { retryAfterS: 2.2, reason: "busy" }),
  fields: () => new OutbandError("invalid_request", { problems: [{ path: "label", message: "Too long." }] }),
  unauthorized: () => new OutbandError("unauthorized", { cause: new Error(CANARY) }),
  posing: () => Object.assign(new Error(CANARY), { status: 404, expose: true }),
};

let origin: string;
let close: () => void;

before(async () => {
  const app: Express = express();
  const server = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  origin = `http://localhost:${(server.address() as AddressInfo).port}`;
  close = () => void server.close();
  const render = createRenderer({ publicUrl: origin, sandbox: () => false, clock: systemClock, visitor: { person: () => null, csrf: () => assert.fail("no session is begun for an error page") } });
  const throwing = (mount: string): void => {
    app.get(`${mount}/throw/:what`, (req) => {
      throw THROWN[req.params.what]?.();
    });
    app.get(`${mount}/half`, (_req, res) => {
      res.write("half an answer");
      throw new Error(CANARY);
    });
    app.get(`${mount}/item/:id`, (req, res) => void res.send(req.params.id));
    app.post(`${mount}/json`, express.json({ limit: 100 }), (_req, res) => void res.send("taken"));
    app.all(`${mount}/get-only`, methodNotAllowed("GET", "HEAD"));
  };
  app.use(requestContext({ publicUrl: origin, clock: systemClock }), securityHeaders(origin));
  throwing("/api");
  throwing("/pages");
  app.use("/api", notFound, apiErrors(log));
  app.use(notFound, pageErrors(log, render));
});
after(() => close());

async function problem(path: string, init: RequestInit = {}): Promise<{ status: number; headers: Headers; body: Record<string, unknown> }> {
  const answer = await fetch(origin + path, init);
  assert.match(answer.headers.get("content-type") ?? "", /^application\/problem\+json/);
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as Record<string, unknown> };
}

test("an API error is an RFC 9457 problem with our code and the request's id", async () => {
  const { status, headers, body } = await problem("/api/throw/wait");
  assert.equal(status, 429);
  assert.equal(headers.get("retry-after"), "3");
  assert.deepEqual(body, {
    type: "about:blank",
    title: "Too Many Requests",
    status: 429,
    detail: "Too many requests. Try again later.",
    code: "rate_limited",
    request_id: headers.get("x-request-id"),
    reason: "busy",
  });
});

test("a 400 always lists its errors", async () => {
  assert.deepEqual((await problem("/api/throw/fields")).body.errors, [{ path: "label", message: "Too long." }]);
  const { status, body } = await problem("/api/json", { method: "POST", headers: { "content-type": "application/json" }, body: `{"a": "${CANARY}` });
  assert.equal(status, 400);
  assert.deepEqual(body.errors, [{ path: "", message: "The body is not well-formed." }]);
});

test("what the body parser refuses keeps its meaning: 413 too large, 415 unknown charset", async () => {
  assert.equal((await problem("/api/json", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify("x".repeat(200)) })).body.code, "payload_too_large");
  assert.equal((await problem("/api/json", { method: "POST", headers: { "content-type": "application/json; charset=klingon" }, body: "{}" })).body.code, "unsupported_media_type");
});

test("a malformed escape in the path is a 400, for programs and for people", async () => {
  assert.equal((await problem("/api/item/%E0%A4%A")).status, 400);
  assert.equal((await fetch(`${origin}/pages/item/%E0%A4%A`)).status, 400);
});

test("what is not ours leaves as internal, and nothing of its cause with it", async () => {
  for (const what of ["plain", "text", "posing", "unauthorized"]) {
    for (const mount of ["/api", "/pages"]) {
      const answer = await fetch(`${origin}${mount}/throw/${what}`);
      assert.doesNotMatch(await answer.text(), new RegExp(CANARY), `${mount} ${what}`);
    }
  }
  assert.equal((await problem("/api/throw/plain")).body.code, "internal");
  assert.doesNotMatch(lines.join("\n"), new RegExp(CANARY), "nor in the log");
  assert.match(lines.join("\n"), /"request failed"/);
});

test("a 401 says how to authenticate, a 405 says what is allowed", async () => {
  assert.equal((await problem("/api/throw/unauthorized")).headers.get("www-authenticate"), "Bearer");
  const { status, headers } = await problem("/api/get-only", { method: "DELETE" });
  assert.equal(status, 405);
  assert.equal(headers.get("allow"), "GET, HEAD");
});

test("an unknown path is a 404 in the reader's own form", async () => {
  assert.equal((await problem("/api/nothing")).body.code, "not_found");
  const page = await fetch(`${origin}/nothing`);
  assert.equal(page.status, 404);
  assert.match(page.headers.get("content-type") ?? "", /^text\/html/);
  const html = await page.text();
  assert.match(html, /<h1>Page not found<\/h1>/);
  assert.ok(html.includes(page.headers.get("x-request-id") ?? "none"), "the page names its reference");
});

test("an error page is a whole page with its status and the page headers, and begins no session", async () => {
  const page = await fetch(`${origin}/pages/throw/wait`);
  assert.equal(page.status, 429);
  assert.equal(page.headers.get("retry-after"), "3");
  assert.match(page.headers.get("content-security-policy") ?? "", /default-src 'none'/);
  assert.equal(page.headers.get("set-cookie"), null);
  assert.match(await page.text(), /Try again in 3 seconds/);
});

test("an answer that fails half-way is cut off, not completed with an error", async () => {
  for (const mount of ["/api", "/pages"]) {
    await assert.rejects(fetch(`${origin}${mount}/half`).then((answer) => answer.text()));
  }
});

test("csrf-sync's refusal and an unknown throw are told apart", () => {
  assert.equal(readThrown(Object.assign(new Error("x"), { code: "EBADCSRFTOKEN", status: 403 })).code, "csrf_failed");
  assert.equal(readThrown({ status: 418 }).code, "invalid_request");
  assert.equal(readThrown({ status: 200 }).code, "internal");
  assert.equal(readThrown(null).code, "internal");
});
