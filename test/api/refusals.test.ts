// What is not a sound request is told so, in one shape, by every call: never a 5xx, never a part of what was sent.
import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { before, describe, test } from "node:test";
import { KINDS } from "../support/journey.js";
import { ADMIN_KEY, type Outband, startOutband } from "../support/outband.js";
import { CALLS, type Call, named, PATHS } from "./calls.js";
import { assertProblem } from "./pin.js";
import { type RawAnswer, rawHttp } from "./rawHttp.js";

const AUTH = { authorization: `Bearer ${ADMIN_KEY}` };
const JSON_AUTH = { ...AUTH, "content-type": "application/json" };

/** Names and ids that lead somewhere else where somebody joins, folds or interprets them. */
const NAMES = [
  "nobody",
  "..",
  "%2e%2e",
  "%2e%2e%2f%2e%2e%2fusers",
  "..%5c..%5c",
  "ca_%00",
  "GMAIL",
  "gmail%20",
  "gmail%00",
  "gmail%2f",
  "e%CC%81%F0%9F%A6%8A%EF%BF%BD",
  "'%20or%20'1'='1",
  "%25",
  "__proto__",
  "constructor",
  "undefined",
  "-1",
  "a".repeat(5_000),
];

for (const kind of KINDS) {
  describe(`refusals of the vault API (${kind})`, () => {
    let outband: Outband;

    before(async () => {
      outband = await startOutband({ kind });
    });

    function send(method: string, path: string, body?: string | Buffer, headers: Record<string, string> = JSON_AUTH): Promise<RawAnswer> {
      return rawHttp(outband.url, { method, path: `/api/v1${path}`, headers, ...(body === undefined ? {} : { body }) });
    }

    function assertNoFault(answer: RawAnswer, told: string): void {
      assert.ok(answer.status < 500, `${told}: ${answer.text.slice(0, 300)}`);
      if (answer.status >= 400) assertProblem(answer, answer.status, answer.body.code);
    }

    const bodyOf = (call: Call): string | undefined => (call.body ? JSON.stringify(call.body) : undefined);

    test("a name that nothing has is the same 404 wherever it is asked for, however it is written", async () => {
      for (const call of PATHS.filter(({ path }) => path.includes("*"))) {
        for (const name of NAMES) {
          const answer = await send(call.method, named(call, name), bodyOf(call));
          // A dot segment is not resolved here; what a client resolves before is another address.
          assertProblem(answer, 404, "not_found");
          assert.equal(answer.body.detail, "There is nothing here.", `${call.method} ${call.path} ${name.slice(0, 40)}`);
        }
        for (const broken of ["%", "%zz", "%ff", "%c0%af", "%ed%a0%80"]) assertProblem(await send(call.method, named(call, broken), bodyOf(call)), 400, "invalid_request");
      }
    });

    test("an id of another kind, in other letters, or with something after it is the same 404", async () => {
      const person = await outband.person("owner");
      const link = (await outband.api("POST", "/authorization-links", { connection_name: "gmail", identifier: person.sub })).body;
      for (const id of [link.id, link.account_id.toLowerCase(), link.account_id.toUpperCase(), `${link.account_id}%20`, ` ${link.account_id}`.replace(" ", "%20"), link.account_id.slice(0, -1), `${link.account_id}%00`]) {
        assertProblem(await send("GET", `/accounts/${id}`), 404, "not_found");
      }
      for (const id of [link.account_id, link.url.split("/").pop()]) assertProblem(await send("GET", `/authorization-links/${id}`), 404, "not_found");
      assert.equal((await send("GET", `/accounts/${link.account_id}/`)).status, 200);
    });

    test("another method on a known address is a 405 that names the right ones; an unknown address is a 404", async () => {
      for (const path of new Set(PATHS.map((call) => call.path))) {
        const known = PATHS.filter((call) => call.path === path).map(({ method }) => method);
        const allow = known.flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method]));
        for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"].filter((one) => !known.some((two) => one === two))) {
          const answer = await send(method, path.replace("*", "nobody"), undefined, AUTH);
          assertProblem(answer, 405, "method_not_allowed");
          assert.deepEqual(String(answer.headers["allow"]).split(", ").sort(), [...allow].sort(), `${method} ${path}`);
        }
      }
      for (const path of ["", "/", "/nothing", "/accounts/a/b/c", "/connections/gmail/secret", "/../login", "//connections", "/openapi"]) assertProblem(await send("GET", path), 404, "not_found");
      const head = await send("HEAD", "/connections");
      assert.deepEqual([head.status, head.text], [200, ""]);
    });

    test("a query key that the call does not know, or that comes twice, is a 400 for every call", async () => {
      for (const call of PATHS) {
        const path = named(call, "nobody");
        for (const query of ["nope=1", "__proto__=1", "constructor=1", "limit[]=1", "Limit=1", "%00=1"]) assertProblem(await send(call.method, `${path}?${query}`, bodyOf(call)), 400, "invalid_request");
        for (const query of ["a=%ff", "a=%", "%zz"]) assertProblem(await send(call.method, `${path}?${query}`, bodyOf(call)), 400, "invalid_request");
      }
      for (const [path, query] of [
        ["/accounts", "limit=1&limit=2"],
        ["/accounts", "identifier=a&identifier=b"],
        ["/accounts", "status=ACTIVE&status=ACTIVE"],
        ["/accounts", "cursor=a&cursor=a"],
        ["/events", "after=a&after=b"],
        ["/users", "limit=1&limit=1"],
        ["/authorization-links/nobody", "wait_s=1&wait_s=2"],
      ] as const) {
        assertProblem(await send("GET", `${path}?${query}`), 400, "invalid_request", { paths: [query.split("=")[0] ?? ""] });
      }
      assertProblem(await send("PATCH", "/connections/gmail?reset=true&reset=true", '{"title":"Gmail"}'), 400, "invalid_request", { paths: ["reset"] });
      for (const flag of ["1", "yes", "TRUE", ""]) {
        assertProblem(await send("DELETE", `/connections/gmail?disconnect=${flag}`), 400, "invalid_request", { paths: ["disconnect"] });
        assertProblem(await send("DELETE", `/accounts/nobody?purge=${flag}`), 400, "invalid_request", { paths: ["purge"] });
      }
    });

    test("filters and cursors with anything in them", async () => {
      const values = [...NAMES.filter((name) => name.length < 600), ...["2020", "[]", '["2020-01-01T00:00:00.000Z","\\u0000"]', '["-200000-01-01T00:00:00Z","ca_x"]', '["2020-13-01T00:00:00.000Z","a"]', "[1,2]", "{}", "null"].map((text) => Buffer.from(text).toString("base64url"))];
      for (const key of ["/accounts?connection_name", "/accounts?identifier", "/accounts?status", "/accounts?cursor", "/accounts?limit", "/users?cursor", "/users?limit", "/connections?cursor", "/api-keys?cursor", "/tools?cursor", "/events?after", "/events?type", "/events?account_id", "/events?limit", "/authorization-links/nobody?wait_s"]) {
        for (const value of values) assertNoFault(await send("GET", `${key}=${value}`), `${key}=${value}`);
      }
      for (const path of ["/accounts", "/users", "/connections", "/api-keys", "/tools"]) assertProblem(await send("GET", `${path}?cursor=gone`), 400, "invalid_request", { paths: ["cursor"] });
      assertProblem(await send("GET", "/events?after=gone"), 400, "invalid_request", { paths: ["after"] });
    });

    test("a body that is no JSON object, or of another type, or too large", async () => {
      for (const call of PATHS.filter(({ body }) => body)) {
        const path = named(call, "nobody");
        for (const body of ["{", "[1,2", '{"a":1,}', "{'a':1}", "undefined", "NaN", '"text"', "12", "null", "[]", '{"a":"\\x"}', "\ufeff{]", Buffer.from([0xff, 0xfe, 0x7b, 0x7d])]) {
          const answer = await send(call.method, path, body);
          assertProblem(answer, 400, "invalid_request");
        }
        for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx", "json", "application/json; charset=koi8-r"]) {
          assertProblem(await send(call.method, path, bodyOf(call), { ...AUTH, "content-type": type }), 415, "unsupported_media_type");
        }
        assertProblem(await send(call.method, path, bodyOf(call), AUTH), 415, "unsupported_media_type");
        assertProblem(await send(call.method, path, bodyOf(call), { ...JSON_AUTH, "content-encoding": "zstd-9" }), 415, "unsupported_media_type");
        assertProblem(await send(call.method, path, `{"a":"${"x".repeat(262_144)}"}`), 413, "payload_too_large");
        assertProblem(await send(call.method, path, gzipSync(`{"a":"${"x".repeat(5_000_000)}"}`), { ...JSON_AUTH, "content-encoding": "gzip" }), 413, "payload_too_large");
        for (const type of ["application/json; charset=utf-8", "Application/JSON", "application/merge-patch+json"]) {
          assert.equal((await send(call.method, path, bodyOf(call), { ...AUTH, "content-type": type })).status, call.status, `${call.path} ${type}`);
        }
      }
    });

    test("a key that the call does not know is a 400, at the top and below it", async () => {
      for (const call of CALLS.filter(({ body }) => body)) {
        for (const key of ["nope", "__proto__", "constructor", "client_secret_sealed", "generation"]) {
          const body = `{${JSON.stringify(key)}:{"admin":true},${JSON.stringify(call.body).slice(1)}`;
          const answer = await send(call.method, named(call, "nobody"), body);
          assertProblem(answer, 400, "invalid_request");
          assert.ok(!answer.text.includes(key), answer.text);
        }
      }
      const nested = { connection_name: "gmail", identifier: "x", credential: { type: "oauth", access_token: "a", id_token: "b" } };
      assertProblem(await send("POST", "/accounts", JSON.stringify(nested)), 400, "invalid_request", { paths: ["credential"] });
    });
  });
}
