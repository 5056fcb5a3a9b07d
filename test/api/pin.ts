// What an answer of the API must be, to the last key: values, or patterns where they differ from run to run.
import assert from "node:assert/strict";
import type { Answer } from "../support/outband.js";

export type Pinned = string | number | boolean | null | RegExp | readonly Pinned[] | { readonly [key: string]: Pinned };

export const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
export const idOf = (prefix: string): RegExp => new RegExp(`^${prefix}_[0-9A-Za-z]{22}$`);

export function assertBody(actual: unknown, expected: Pinned, where = "body"): void {
  if (expected instanceof RegExp) {
    assert.equal(typeof actual, "string", `${where}: ${JSON.stringify(actual)}`);
    assert.match(actual as string, expected, where);
  } else if (isList(expected)) {
    assert.ok(Array.isArray(actual), `${where}: ${JSON.stringify(actual)}`);
    assert.equal(actual.length, expected.length, `${where}: ${JSON.stringify(actual)}`);
    for (const [index, item] of expected.entries()) assertBody(actual[index], item, `${where}.${index}`);
  } else if (typeof expected === "object" && expected !== null) {
    assert.ok(typeof actual === "object" && actual !== null, `${where}: ${JSON.stringify(actual)}`);
    assert.deepEqual(Object.keys(actual).sort(), Object.keys(expected).sort(), where);
    for (const [key, item] of Object.entries(expected)) assertBody((actual as Record<string, unknown>)[key], item, `${where}.${key}`);
  } else {
    assert.equal(actual, expected, where);
  }
}

export function assertAnswer(answer: Pick<Answer, "status" | "body">, status: number, expected: Pinned): void {
  assert.equal(answer.status, status, JSON.stringify(answer.body));
  assertBody(answer.body, expected);
}

/** RFC 9110's phrases: RFC 9457 wants them as titles of about:blank. */
const TITLES: Record<number, string> = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  409: "Conflict",
  413: "Payload Too Large",
  415: "Unsupported Media Type",
  422: "Unprocessable Entity",
  429: "Too Many Requests",
  502: "Bad Gateway",
  503: "Service Unavailable",
};

interface AnyAnswer {
  status: number;
  headers: Headers | Record<string, string | string[] | undefined>;
  body: unknown;
}

/** An RFC 9457 problem with exactly our members. `paths`: where a 400 says that something is wrong. */
export function assertProblem(answer: AnyAnswer, status: number, code: string, more: { reason?: string; paths?: string[] } = {}): void {
  const told = `${answer.status} ${JSON.stringify(answer.body)}`;
  assert.equal(answer.status, status, told);
  const header = (name: string) => (answer.headers instanceof Headers ? answer.headers.get(name) : answer.headers[name]);
  assert.match(String(header("content-type")), /^application\/problem\+json/);
  assert.equal(header("cache-control"), "no-store");
  const body = answer.body as Record<string, unknown>;
  const keys = ["code", "detail", "request_id", "status", "title", "type", ...(status === 400 ? ["errors"] : []), ...("reason" in body ? ["reason"] : [])];
  assert.deepEqual(Object.keys(body).sort(), keys.sort(), told);
  assert.deepEqual([body["type"], body["title"], body["status"], body["code"]], ["about:blank", TITLES[status], status, code], told);
  assert.match(String(body["detail"]), /^[A-Z].*\.$/);
  assert.match(String(body["request_id"]), idOf("req"));
  assert.equal(body["request_id"], header("x-request-id"));
  if (more.reason !== undefined) assert.equal(body["reason"], more.reason, told);
  if (status !== 400) return;
  const errors = body["errors"] as { path: string; message: string }[];
  assert.ok(errors.length >= 1 && errors.length <= 20, told);
  for (const error of errors) {
    assert.deepEqual(Object.keys(error).sort(), ["message", "path"], told);
    assert.ok(error.message.length > 0 && error.message.length <= 200 && error.path.length <= 200, told);
  }
  if (more.paths) assert.deepEqual([...new Set(errors.map(({ path }) => path))].sort(), [...more.paths].sort(), told);
}

function isList(expected: Pinned): expected is readonly Pinned[] {
  return Array.isArray(expected);
}
