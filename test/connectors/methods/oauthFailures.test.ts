// The classification table: every row holds over real HTTP, and the rows that people were hurt by are pinned one by one (F02).
import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { systemClock } from "../../../src/clock.js";
import type { Connector } from "../../../src/connectors/connector.js";
import { genericOAuth } from "../../../src/connectors/generic/oauth.js";
import { createOAuthClient, type OAuthTarget } from "../../../src/connectors/methods/oauth.js";
import { FAILURES, OAuthFailure, retryAfterS } from "../../../src/connectors/methods/oauthFailures.js";
import { slack } from "../../../src/connectors/slack/connector.js";
import { Secret } from "../../../src/crypto/secret.js";
import { createEgress } from "../../../src/net/egress.js";
import { type Answer, startProvider } from "../support.js";

const CANARY = "canary-token-77f1e0";

function clientFor(origin: string, connector: Connector = genericOAuth, deadlineMs?: number) {
  const clock = deadlineMs === undefined ? systemClock : { ...systemClock, deadline: () => AbortSignal.timeout(deadlineMs) };
  const oauth = createOAuthClient({ egress: createEgress({ allowPrivateNetwork: true, clock }), clock: systemClock });
  const target: OAuthTarget = {
    connector,
    endpoints: { authorization: `${origin}/authorize`, token: `${origin}/token`, api: origin },
    clientId: "client",
    clientSecret: new Secret("secret-of-client"),
  };
  return { oauth, target };
}

async function refreshFailure(
  t: import("node:test").TestContext,
  answer: Answer,
  options: { connector?: Connector; deadlineMs?: number } = {},
): Promise<OAuthFailure> {
  const provider = await startProvider(t, () => answer);
  const { oauth, target } = clientFor(provider.origin, options.connector, options.deadlineMs);
  const failure = await oauth.refresh(target, new Secret(CANARY)).then(
    () => assert.fail("the refresh succeeded"),
    (thrown: unknown) => thrown,
  );
  assert.ok(failure instanceof OAuthFailure, inspect(failure));
  assert.equal(provider.received.length, 1, "one token request, never a second by itself");
  assert.equal(inspect(failure, { depth: 10 }).includes(CANARY), false, "no token in the failure");
  assert.equal(failure.cause, undefined, "no cause: openid-client keeps token answers there");
  return failure;
}

test("every code row of the token leg classifies a 400 with that code, and names it as the reason", async (t) => {
  const rows = FAILURES.flatMap((row) => (row.leg === "token" && "code" in row.when ? [{ code: row.when.code, kind: row.kind }] : []));
  assert.ok(rows.length > 30);
  assert.equal(new Set(rows.map((row) => row.code)).size, rows.length, "no code stands twice");
  const provider = await startProvider(t, ({ form }) => ({
    status: 400,
    body: { error: form.get("refresh_token"), error_description: CANARY },
  }));
  const { oauth, target } = clientFor(provider.origin);
  for (const row of rows) {
    await assert.rejects(oauth.refresh(target, new Secret(row.code)), { kind: row.kind, reason: row.code, maybeConsumed: false }, row.code);
  }
});

test("every code row of the authorization leg classifies the callback's error, without a token request", async (t) => {
  const rows = FAILURES.flatMap((row) =>
    row.leg === "authorization" && "code" in row.when ? [{ code: row.when.code, kind: row.kind }] : [],
  );
  const provider = await startProvider(t, () => ({}));
  const { oauth, target } = clientFor(provider.origin);
  for (const row of rows) {
    const url = new URL(`https://gw.test/connect/callback/x?state=s&error=${row.code}&error_description=${CANARY}`);
    const asked = {
      url,
      redirectUri: "https://gw.test/connect/callback/x",
      state: new Secret("s"),
      nonce: new Secret("n"),
      verifier: new Secret("v".repeat(43)),
    };
    await assert.rejects(oauth.exchange(target, asked), { kind: row.kind, reason: row.code }, row.code);
  }
  assert.equal(provider.received.length, 0);
});

interface Pin {
  title: string;
  answer: Answer;
  kind: OAuthFailure["kind"];
  reason: string;
  maybeConsumed: boolean;
  retryAfterS?: number;
  connector?: Connector;
}

const PINS: Pin[] = [
  {
    title: "Google: 400 invalid_grant",
    answer: { status: 400, body: { error: "invalid_grant", error_description: "Token has been expired or revoked." } },
    kind: "invalid_grant",
    reason: "invalid_grant",
    maybeConsumed: false,
  },
  {
    title: "Google: 401 invalid_client with a challenge",
    answer: { status: 401, headers: { "www-authenticate": 'Basic realm="x"' }, body: { error: "invalid_client" } },
    kind: "client_rejected",
    reason: "invalid_client",
    maybeConsumed: false,
  },
  {
    title: "401 invalid_grant is a lost grant all the same",
    answer: { status: 401, headers: { "www-authenticate": "Bearer" }, body: { error: "invalid_grant" } },
    kind: "invalid_grant",
    reason: "invalid_grant",
    maybeConsumed: false,
  },
  {
    title: "words after the code: `invalid_grant: Token is expired or invalid.`",
    answer: { status: 400, body: { error: "invalid_grant: Token is expired or invalid." } },
    kind: "invalid_grant",
    reason: "invalid_grant",
    maybeConsumed: false,
  },
  {
    title: "a code that only begins alike is not it",
    answer: { status: 400, body: { error: "invalid_grant_type_x" } },
    kind: "transient",
    reason: "unknown_error",
    maybeConsumed: false,
  },
  {
    title: "one invalid_request proves nothing",
    answer: { status: 400, body: { error: "invalid_request" } },
    kind: "transient",
    reason: "invalid_request",
    maybeConsumed: false,
  },
  {
    title: "Slack: 200 ok:false invalid_refresh_token",
    answer: { body: { ok: false, error: "invalid_refresh_token" } },
    kind: "invalid_grant",
    reason: "invalid_refresh_token",
    maybeConsumed: false,
    connector: slack,
  },
  {
    title: "Slack: 200 ok:false bad_client_secret",
    answer: { body: { ok: false, error: "bad_client_secret" } },
    kind: "client_rejected",
    reason: "bad_client_secret",
    maybeConsumed: false,
    connector: slack,
  },
  {
    title: "Slack: 200 ok:false ratelimited",
    answer: { headers: { "retry-after": "30" }, body: { ok: false, error: "ratelimited" } },
    kind: "transient",
    reason: "ratelimited",
    maybeConsumed: false,
    retryAfterS: 30,
    connector: slack,
  },
  {
    title: "Slack: 400 ok:false token_revoked",
    answer: { status: 400, body: { ok: false, error: "token_revoked" } },
    kind: "invalid_grant",
    reason: "token_revoked",
    maybeConsumed: false,
    connector: slack,
  },
  {
    title: "Slack: 200 ok:false with a code nobody knows",
    answer: { body: { ok: false, error: "brand_new_error" } },
    kind: "transient",
    reason: "unknown_error",
    maybeConsumed: false,
    connector: slack,
  },
  {
    title: "Slack: ok:true without any token",
    answer: { body: { ok: true, authed_user: { id: "U1" } } },
    kind: "transient",
    reason: "no_access_token",
    maybeConsumed: true,
    connector: slack,
  },
  {
    title: "GitHub: 200 bad_refresh_token",
    answer: { body: { error: "bad_refresh_token", error_uri: "/x" } },
    kind: "invalid_grant",
    reason: "bad_refresh_token",
    maybeConsumed: false,
  },
  {
    title: "GitHub: 200 incorrect_client_credentials as a form",
    answer: {
      headers: { "content-type": "application/x-www-form-urlencoded" },
      text: "error=incorrect_client_credentials&error_description=x",
    },
    kind: "client_rejected",
    reason: "incorrect_client_credentials",
    maybeConsumed: false,
  },
  {
    title: "HTML with 200 (a sign-in wall)",
    answer: { text: `<html>${CANARY}</html>` },
    kind: "transient",
    reason: "not_json",
    maybeConsumed: true,
  },
  {
    title: "HTML with 502",
    answer: { status: 502, text: `<html>${CANARY}</html>` },
    kind: "transient",
    reason: "status_502",
    maybeConsumed: true,
  },
  {
    title: "504: the refresh token may be spent",
    answer: { status: 504, text: "" },
    kind: "transient",
    reason: "status_504",
    maybeConsumed: true,
  },
  {
    title: "500 with invalid_grant in it proves nothing",
    answer: { status: 500, body: { error: "invalid_grant" } },
    kind: "transient",
    reason: "status_500",
    maybeConsumed: true,
  },
  { title: "404", answer: { status: 404, text: "gone" }, kind: "transient", reason: "status_404", maybeConsumed: false },
  {
    title: "200 without access_token",
    answer: { body: { token_type: "Bearer" } },
    kind: "transient",
    reason: "no_access_token",
    maybeConsumed: true,
  },
  {
    title: "200 with a null access_token",
    answer: { body: { access_token: null, token_type: "Bearer" } },
    kind: "transient",
    reason: "no_access_token",
    maybeConsumed: true,
  },
  { title: "200 null", answer: { body: null }, kind: "transient", reason: "not_json", maybeConsumed: true },
  {
    title: "429 with Retry-After in seconds",
    answer: { status: 429, headers: { "retry-after": "17" }, body: { error: "invalid_grant" } },
    kind: "transient",
    reason: "status_429",
    maybeConsumed: false,
    retryAfterS: 17,
  },
  {
    title: "503 with Retry-After as a date",
    answer: { status: 503, headers: { date: "Tue, 01 Dec 2026 12:00:00 GMT", "retry-after": "Tue, 01 Dec 2026 12:02:00 GMT" }, text: "" },
    kind: "transient",
    reason: "status_503",
    maybeConsumed: true,
    retryAfterS: 120,
  },
  { title: "a cut after the request", answer: { cut: true }, kind: "transient", reason: "network", maybeConsumed: true },
  {
    title: "a redirect is not followed",
    answer: { status: 302, headers: { location: "https://evil.test/" }, text: "" },
    kind: "transient",
    reason: "redirect",
    maybeConsumed: false,
  },
  {
    title: "more than 64 KiB",
    answer: { body: { access_token: "x".repeat(70_000) } },
    kind: "transient",
    reason: "too_large",
    maybeConsumed: true,
  },
  {
    title: "a token that cannot stand in a header",
    answer: { body: { access_token: `a\n${CANARY}`, token_type: "Bearer" } },
    kind: "malformed",
    reason: "odd_token",
    maybeConsumed: true,
  },
  {
    title: "a token type that nobody can use",
    answer: { body: { access_token: "a", token_type: "mac" } },
    kind: "malformed",
    reason: "oauth_unsupported_operation",
    maybeConsumed: true,
  },
];

for (const pin of PINS) {
  test(`classified: ${pin.title}`, async (t) => {
    const failure = await refreshFailure(t, pin.answer, pin.connector ? { connector: pin.connector } : {});
    assert.deepEqual(
      { kind: failure.kind, reason: failure.reason, maybeConsumed: failure.maybeConsumed, retryAfterS: failure.retryAfterS },
      { kind: pin.kind, reason: pin.reason, maybeConsumed: pin.maybeConsumed, retryAfterS: pin.retryAfterS },
    );
  });
}

test("a token endpoint that never answers is transient, and its request may have counted", async (t) => {
  const failure = await refreshFailure(t, { hang: true }, { deadlineMs: 200 });
  assert.deepEqual([failure.kind, failure.reason, failure.maybeConsumed], ["transient", "timeout", true]);
});

test("a token endpoint that cannot be reached is transient, and nothing was sent (F02: DNS, ECONNREFUSED)", async (t) => {
  const provider = await startProvider(t, () => ({}));
  const { oauth, target } = clientFor("http://127.0.0.1:1");
  await assert.rejects(oauth.refresh(target, new Secret("rt")), { kind: "transient", maybeConsumed: false });
  const gone = { ...target, endpoints: { ...target.endpoints, token: "https://nowhere.invalid/token" } };
  await assert.rejects(oauth.refresh(gone, new Secret("rt")), { kind: "transient", maybeConsumed: false });
  assert.equal(provider.received.length, 0);
});

test("Retry-After: seconds, dates against the answer's own Date, at most a day, nonsense left out", () => {
  assert.equal(retryAfterS({ "retry-after": "5" }), 5);
  assert.equal(retryAfterS({ "retry-after": "999999999" }), 86_400);
  assert.equal(retryAfterS({ "retry-after": "soon" }), undefined);
  assert.equal(retryAfterS({ "retry-after": "-5" }), undefined);
  assert.equal(retryAfterS({ "retry-after": "Tue, 01 Dec 2026 12:02:00 GMT" }), undefined, "a date with nothing to measure it by");
  assert.equal(retryAfterS({}), undefined);
});
