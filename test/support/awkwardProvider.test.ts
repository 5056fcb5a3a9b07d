// The awkward provider does what tests rely on: a test double that is wrong makes every test above it worthless.
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import {
  gmail,
  googleCredentials,
  grantGoogle,
  grantSlack,
  list,
  MODIFY,
  postToken,
  slack,
  slackAccess,
  slackCode,
  at,
} from "../sandbox/support.js";
import { type AwkwardProvider, awkwardProviderForTests, LIES } from "./awkwardProvider.js";

let provider: AwkwardProvider;
let access: string;
let refresh: string;
beforeEach(async () => {
  provider = await awkwardProviderForTests();
  const tokens = await grantGoogle(provider, [MODIFY]);
  access = tokens.access_token;
  refresh = tokens.refresh_token ?? "";
  provider.resetCounts();
});

const TOKEN = "POST /google/token";
const SEND = "/messages/send";

function refreshWith(token: string) {
  return postToken(provider, { ...googleCredentials(provider), grant_type: "refresh_token", refresh_token: token });
}

function mail(subject: string) {
  return { raw: Buffer.from(`To: a@b.example\r\nSubject: ${subject}\r\n\r\nx`).toString("base64url") };
}

async function sentWith(subject: string): Promise<number> {
  return list((await gmail(provider, access, `/messages?q=subject:${subject}`)).body, "messages").length;
}

test("refresh tokens rotate in order, and a reused one ends the family", async () => {
  const second = await refreshWith(refresh);
  const third = await refreshWith(String(second.body.refresh_token));
  assert.equal(new Set([refresh, second.body.refresh_token, third.body.refresh_token]).size, 3);
  assert.equal((await gmail(provider, String(third.body.access_token), "/profile")).status, 200);
  assert.equal((await refreshWith(refresh)).body.error, "invalid_grant");
  assert.equal((await refreshWith(String(third.body.refresh_token))).body.error, "invalid_grant");
  assert.equal((await gmail(provider, String(third.body.access_token), "/profile")).status, 401);
  assert.equal(provider.count(TOKEN), 4);
});

test("a fault spoils as many requests as it says, after those it skips, and no other endpoint", async () => {
  provider.fault({ match: TOKEN, skip: 1, times: 2, status: 429, headers: { "Retry-After": "7" }, body: { error: "slow_down" } });
  assert.equal((await gmail(provider, access, "/profile")).status, 200);
  const answers = [];
  for (let turn = 0; turn < 4; turn += 1) answers.push((await refreshWith("made-up")).status);
  assert.deepEqual(answers, [400, 429, 429, 400]);
  assert.equal(provider.faultsLeft(), 0);
});

test("a replaced answer carries the fault's headers and body and none of the real ones", async () => {
  provider.fault({ match: TOKEN, status: 503, headers: { "Retry-After": "9", "Content-Type": "text/html" }, body: "<h1>busy" });
  const answer = await fetch(provider.google.endpoints.token ?? "", { method: "POST" });
  assert.equal(answer.status, 503);
  assert.equal(answer.headers.get("retry-after"), "9");
  assert.equal(await answer.text(), "<h1>busy");
});

test("not committed: the refresh token is still good; committed: it is used up", async () => {
  provider.fault({ match: TOKEN, status: 504, body: "late" });
  await fetch(provider.google.endpoints.token ?? "", {
    method: "POST",
    body: new URLSearchParams({ grant_type: "refresh_token", refresh_token: refresh, ...googleCredentials(provider) }),
  });
  const second = await refreshWith(refresh);
  assert.equal(second.status, 200);
  provider.fault({ match: TOKEN, status: 504, body: {}, commit: true });
  assert.equal((await refreshWith(String(second.body.refresh_token))).status, 504);
  assert.equal((await refreshWith(String(second.body.refresh_token))).body.error, "invalid_grant");
});

test('drop "before": cut, and not done; drop "after": cut, and done', async () => {
  provider.fault({ match: SEND, drop: "before" }, { match: SEND, drop: "after" });
  await assert.rejects(gmail(provider, access, "/messages/send", mail("cutbefore")), TypeError);
  await assert.rejects(gmail(provider, access, "/messages/send", mail("cutafter")), TypeError);
  assert.equal(await sentWith("cutbefore"), 0);
  assert.equal(await sentWith("cutafter"), 1);
  assert.equal(provider.count(SEND), 2);
});

test("a held request waits until it is released, and others pass meanwhile", async () => {
  const held = provider.hold(TOKEN);
  const answer = refreshWith(refresh);
  await held.arrived;
  assert.equal((await gmail(provider, access, "/profile")).status, 200);
  held.release();
  assert.equal((await answer).status, 200);
});

test("held after its work: the work is done, the answer waits; a fault may follow it", async () => {
  const held = provider.hold(SEND, { at: "after" });
  provider.fault({ match: SEND, drop: "after" });
  const answer = gmail(provider, access, "/messages/send", mail("heldafter"));
  answer.catch(() => {});
  await held.arrived;
  assert.equal(await sentWith("heldafter"), 1);
  held.release();
  await assert.rejects(answer, TypeError);
});

test("a delay without a replaced answer is the real answer, late", async () => {
  provider.fault({ match: TOKEN, delayMs: 60 });
  const startedMs = performance.now();
  assert.equal((await refreshWith(refresh)).status, 200);
  assert.ok(performance.now() - startedMs >= 55);
});

test("lies are answers of status 200 without a token", async () => {
  for (const lie of Object.values(LIES)) {
    provider.fault({ match: TOKEN, ...lie });
    const answer = await fetch(provider.google.endpoints.token ?? "", { method: "POST" });
    assert.equal(answer.status, 200);
    assert.doesNotMatch(await answer.text(), /access_token":"/);
  }
});

test("a fault may choose by what the request holds", async () => {
  provider.fault({ match: (name, request) => name === TOKEN && request?.get("x-turn") === "2", status: 500, body: {} });
  const send = (turn: string) => fetch(provider.google.endpoints.token ?? "", { method: "POST", headers: { "x-turn": turn } });
  assert.notEqual((await send("1")).status, 500);
  assert.equal((await send("2")).status, 500);
});

test("revokeAll ends every grant; new consents work", async () => {
  const slackToken = await grantSlack(provider, "chat:write");
  provider.revokeAll();
  assert.equal((await gmail(provider, access, "/profile")).status, 401);
  assert.equal((await slack(provider, slackToken, "auth.test")).body.error, "token_revoked");
  assert.equal((await refreshWith(refresh)).body.error, "invalid_grant");
  assert.equal((await gmail(provider, (await grantGoogle(provider, [MODIFY])).access_token, "/profile")).status, 200);
});

test("a policy that is changed holds for tokens from then on: short lives, no rotation", async () => {
  provider.setPolicy("google", { accessTtlS: 1, rotatesRefreshTokens: false });
  const answer = await refreshWith(refresh);
  assert.equal(answer.body.expires_in, 1);
  assert.equal(answer.body.refresh_token, undefined);
  assert.equal((await refreshWith(refresh)).status, 200);
});

test("Slack with token rotation: expiring tokens, refresh tokens that work once", async () => {
  const rotating = await awkwardProviderForTests({ slack: { accessTtlS: 43_200, rotatesRefreshTokens: true } });
  const code = (await slackCode(rotating, { user: "chat:write" })).searchParams.get("code") ?? "";
  const first = (await slackAccess(rotating, { code })).body;
  assert.equal(at(first, "authed_user.expires_in"), 43_200);
  const refreshToken = String(at(first, "authed_user.refresh_token"));
  const form = { grant_type: "refresh_token", refresh_token: refreshToken };
  const second = (await slackAccess(rotating, form)).body;
  assert.equal(second.ok, true);
  assert.equal(second.token_type, "user");
  assert.notEqual(second.refresh_token, refreshToken);
  assert.deepEqual((await slackAccess(rotating, form)).body, { ok: false, error: "invalid_refresh_token" });
  assert.equal((await slack(rotating, String(second.access_token), "auth.test")).body.error, "token_revoked");
});

test("the program's address may be told later", async () => {
  const url = new URL(provider.google.endpoints.authorization ?? "");
  url.search = String(
    new URLSearchParams({ client_id: provider.google.clientId, redirect_uri: "http://localhost:4999/connect/callback/gmail" }),
  );
  assert.equal((await fetch(url, { redirect: "manual" })).status, 400);
  provider.setPublicUrl("http://localhost:4999");
  assert.equal((await fetch(url, { redirect: "manual" })).status, 303);
});
