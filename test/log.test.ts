import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import fc from "fast-check";
import { secret } from "../src/crypto/secret.js";
import { OutbandError } from "../src/errors.js";
import { createLog, namesSecret, redactText, type Log } from "../src/log.js";

const CANARY = "CANARY-value-5up3r";

function capture(level: "debug" | "info" | "warn" | "error" | "silent" = "debug"): { log: Log; lines: string[]; all: () => string } {
  const lines: string[] = [];
  return { log: createLog({ level, write: (line) => lines.push(line) }), lines, all: () => lines.join("\n") };
}

function only(lines: string[]): Record<string, unknown> {
  assert.equal(lines.length, 1);
  return JSON.parse(lines[0] ?? "") as Record<string, unknown>;
}

test("a line is one JSON object with time, level, message and the fields", () => {
  const lines: string[] = [];
  const log = createLog({ level: "info", write: (line) => lines.push(line), clock: { date: () => new Date("2026-07-28T10:00:00Z") } });
  log.child({ requestId: "req_1" }).info("account connected\nsecond line", { connection: "gmail", count: 2 });
  assert.equal(
    lines[0],
    '{"time":"2026-07-28T10:00:00.000Z","level":"info","message":"account connected\\nsecond line","requestId":"req_1","connection":"gmail","count":2}',
  );
});

test("a field cannot pose as the line's time, level or message", () => {
  const { log, lines } = capture();
  log.warn("real", { message: "forged", level: "info", time: "never" });
  const line = only(lines);
  assert.equal(line["message"], "real");
  assert.equal(line["level"], "warn");
});

test("lines under the level are not written, and silent writes nothing", () => {
  const warn = capture("warn");
  warn.log.debug("a");
  warn.log.info("b");
  warn.log.warn("c");
  warn.log.error("d");
  assert.deepEqual(
    warn.lines.map((line) => (JSON.parse(line) as { message: string }).message),
    ["c", "d"],
  );
  const silent = capture("silent");
  silent.log.error("x");
  assert.equal(silent.lines.length, 0);
});

test("a Secret is never printed, in whatever shape it is logged", () => {
  const { log, all } = capture();
  const canary = secret(CANARY);
  const circular: Record<string, unknown> = { canary };
  circular["self"] = circular;
  const shapes: unknown[] = [
    canary,
    [canary],
    [[canary]],
    { canary },
    { deep: { deeper: { deepest: { canary } } } },
    new Map([["value", canary]]),
    new Map([[canary, "value"]]),
    new Set([canary]),
    circular,
    new Error(String(canary)),
    new Error("x", { cause: canary }),
    Object.assign(new Error("x"), { canary, response: { body: CANARY } }),
    `text with ${canary}`,
    inspect(canary),
    JSON.stringify({ canary }),
    class Holder {
      canary = canary;
    },
    new (class Holder {
      canary = canary;
      raw = CANARY;
    })(),
    Buffer.from(CANARY),
    new TextEncoder().encode(CANARY),
    () => CANARY,
    Symbol(CANARY),
    new Proxy({ canary }, {}),
  ];
  for (const shape of shapes) {
    log.info("shape", { shape });
    log.child({ shape }).error("child", { nested: { shape } });
  }
  assert.equal(all().split("\n").length, shapes.length * 2);
  assert.ok(!all().includes(CANARY));
  assert.ok(!all().includes("5up3r"));
});

test("a raw value under a key that names a secret is never printed", () => {
  const keys = [
    "token",
    "accessToken",
    "refresh_token",
    "id-token",
    "clientSecret",
    "client_secret",
    "Authorization",
    "proxy-authorization",
    "cookie",
    "Set-Cookie",
    "password",
    "adminPassword",
    "code",
    "state",
    "callerState",
    "code_verifier",
    "verifier",
    "apiKey",
    "api_key",
    "X-API-Key",
    "key",
    "MASTER_KEY",
    "masterKey",
    "signature",
    "nonce",
    "sessionId",
    "mcp-session-id",
    "assertion",
    "credential",
    "tokenHash",
    "privateKey",
  ];
  const { log, all } = capture();
  for (const key of keys) {
    assert.equal(namesSecret(key), true, key);
    log.info("a", { [key]: CANARY });
    log.info("b", { nested: { [key]: { value: CANARY } } });
    log.info("c", { headers: [key, CANARY] });
    log.info("d", { headers: [[key, CANARY]] });
    log.info("e", { map: new Map([[key, CANARY]]) });
    log.info(`f ${key}: ${CANARY}`);
    log.info(`g ${key}=${CANARY}`);
    log.info(`h {"${key}":"${CANARY}"}`);
    log.info("i", { [key]: 123456 });
  }
  assert.ok(!all().includes(CANARY));
  assert.ok(!all().includes("123456"));
});

test("keys that only tell about a secret stay readable", () => {
  for (const key of [
    "keyId",
    "apiKeyId",
    "token_type",
    "tokenExpiresAt",
    "statusCode",
    "status",
    "connection",
    "accountId",
    "tool",
    "kid",
    "codec",
  ]) {
    assert.equal(namesSecret(key), false, key);
  }
});

test("of a foreign error only name, code and frames are printed: no message, no cause's body, no properties", () => {
  const { log, lines, all } = capture();
  const cause = Object.assign(new Error(`token answer ${CANARY}`), { body: { access_token: CANARY } });
  const error = Object.assign(new Error(`first ${CANARY}\n    at ${CANARY} (x.js:1:1)\nthird ${CANARY}`, { cause }), {
    code: "ECONNRESET",
    headers: { authorization: CANARY },
  });
  log.error("failed", { error });
  const line = only(lines) as {
    error: { name: string; code: string; message?: string; frames: string[]; cause: { name: string; frames: string[] } };
  };
  assert.equal(line.error.name, "Error");
  assert.equal(line.error.code, "ECONNRESET");
  assert.equal(line.error.message, undefined);
  assert.match(line.error.frames[0] ?? "", /^at .*log\.test\.ts/);
  assert.deepEqual(Object.keys(line.error.cause).sort(), ["frames", "name"]);
  assert.ok(!all().includes(CANARY));
});

test("an error of the table prints its public sentence and its reason, and its cause as a foreign error", () => {
  const { log, lines, all } = capture();
  log.error("failed", { error: new OutbandError("provider_error", { reason: "token_rejected", cause: new TypeError(CANARY) }) });
  const line = only(lines) as { error: Record<string, unknown> };
  assert.equal(line.error["code"], "provider_error");
  assert.equal(line.error["message"], "The provider refused the request.");
  assert.equal(line.error["reason"], "token_rejected");
  assert.equal((line.error["cause"] as { name: string }).name, "TypeError");
  assert.ok(!all().includes(CANARY));
});

test("a name or code that is not a word is not printed", () => {
  const { log, all } = capture();
  log.error("x", { error: Object.assign(new Error("m"), { name: `Bad ${CANARY}`, code: `code ${CANARY}` }) });
  assert.ok(!all().includes(CANARY));
});

test("texts lose what looks like a credential, and keep the rest", () => {
  const random = "q3Jt0a-Zb8kLmN4pXs7uVw2yEe6rTt9oOiPa_5dFgHj";
  const table: [string, string][] = [
    [`GET /connect/${random} 200`, "GET /connect/[redacted] 200"],
    ["GET /connect/shortToken9 200", "GET /connect/[redacted] 200"],
    [`http://localhost:3000/setup/${random}`, "http://localhost:3000/setup/[redacted]"],
    ["GET /connect/callback/gmail?code=4/abc&state=xyz 303", "GET /connect/callback/gmail?[redacted] 303"],
    ["https://api.example/x?access_token=abc#frag done", "https://api.example/x?[redacted] done"],
    ["postgresql://outband:hunter2@db:5432/outband", "postgresql://[redacted]@db:5432/outband"],
    ["authorization: Bearer abc.def", "authorization: [redacted] [redacted]"],
    ["sent Bearer abcdef", "sent Bearer [redacted]"],
    ["Cookie: a=1; b=2", "Cookie: [redacted]"],
    ["grant_type=refresh_token&refresh_token=1//abc", "grant_type=refresh_token&refresh_token=[redacted]"],
    ["eyJhbGciOiJkaXIi.eyJzdWIi.c2ln", "[redacted]"],
    ["xoxb-1234-abcdef and ya29.a0AfB_x", "[redacted] and [redacted]"],
    [`value ${random}`, "value [redacted]"],
    ["key MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", "key [redacted]"],
    ["-----BEGIN PRIVATE KEY-----\nMIIE\nabc", "[redacted]"],
    ["account ca_7HqxK2mPzRtVbNcWdYfGhJ is ACTIVE", "account ca_7HqxK2mPzRtVbNcWdYfGhJ is ACTIVE"],
    ["trace 4bf92f3577b34da6a3ce929d0e0e4736", "trace 4bf92f3577b34da6a3ce929d0e0e4736"],
    ["listening on http://localhost:3000, PostgreSQL 18", "listening on http://localhost:3000, PostgreSQL 18"],
    ["is it up? yes", "is it up? yes"],
  ];
  for (const [input, output] of table) assert.equal(redactText(input), output);
});

test("a long text is cut between words, so that no half of a token is left, and takes no long time", () => {
  const token = "aB3".repeat(20);
  const cut = redactText(`${"a ".repeat(7_990)}${token}`);
  assert.ok(!cut.includes("aB3"));
  assert.equal(redactText("A1b".repeat(10_000)), "[30000 characters]");
  for (const awkward of ["/", "?", "a", "a=", "=", ":", "eyJ", "://", "-----BEGIN ", "a:", "Bearer ", "cookie"]) {
    const started = performance.now();
    redactText(awkward.repeat(2_000_000 / awkward.length));
    redactText(`${awkward.repeat(Math.floor(15_000 / awkward.length))} `.repeat(2));
    assert.ok(performance.now() - started < 1_000, awkward);
  }
});

test("a JWK, bytes, deep, circular and huge values are told, not printed", () => {
  const { log, lines } = capture();
  const ring: unknown[] = [];
  ring.push(ring);
  log.info("x", {
    jwk: { kty: "oct", k: CANARY },
    bytes: new Uint8Array(3),
    ring,
    many: Array.from({ length: 200 }, (_, n) => n),
    big: 10n,
    nan: Number.NaN,
  });
  const line = only(lines);
  assert.equal(line["jwk"], "[key]");
  assert.equal(line["bytes"], "[3 bytes]");
  assert.deepEqual(line["ring"], ["[circular]"]);
  assert.equal((line["many"] as unknown[]).length, 50);
  assert.equal(line["big"], "10");
  assert.equal(line["nan"], "NaN");
});

test("a field that throws when it is read does not end the caller's work", () => {
  const { log, lines } = capture();
  log.info("x", {
    bad: {
      get value(): string {
        throw new Error(CANARY);
      },
    },
  });
  assert.equal(only(lines)["fields"], "[unreadable]");
});

test("whatever is logged, the line is JSON and the canary is not in it", () => {
  fc.assert(
    fc.property(
      fc.object({ maxDepth: 4, withBigInt: true, withDate: true, withMap: true, withSet: true, withNullPrototype: true }),
      (value) => {
        const { log, lines } = capture();
        log.info("any", { ...value, holder: { canary: secret(CANARY), token: CANARY } });
        JSON.parse(lines[0] ?? "");
        assert.ok(!lines[0]?.includes(CANARY));
      },
    ),
    { numRuns: 300 },
  );
});
