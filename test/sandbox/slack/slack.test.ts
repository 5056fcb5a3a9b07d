// The practice Slack: its own shapes, HTTP 200 whatever happens, and nobody gets further than the scopes and the channels allow.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import type { Sandbox } from "../../../src/sandbox/sandbox.js";
import { at, grantSlack, type Json, list, openSandboxForTests, SLACK_CALLBACK, slack, slackAccess, slackCode } from "../support.js";

const ALL =
  "channels:read,groups:read,channels:history,groups:history,users:read,users:read.email,users.profile:read,chat:write,reactions:write,team:read,identity.basic";

let sandbox: Sandbox;
let mara: string;
let tomas: string;
before(async () => {
  sandbox = await openSandboxForTests();
  mara = await grantSlack(sandbox, ALL);
  tomas = await grantSlack(sandbox, ALL, { person: "Tomás" });
});

async function channels(token: string, args: Record<string, unknown> = {}): Promise<Record<string, Json>[]> {
  const all: Record<string, Json>[] = [];
  let cursor: string | undefined;
  do {
    const page = await slack(sandbox, token, "conversations.list", {
      types: "public_channel,private_channel",
      ...args,
      ...(cursor && { cursor }),
    });
    all.push(...list(page.body, "channels"));
    cursor = String(at(page.body, "response_metadata.next_cursor"));
  } while (cursor !== "");
  return all;
}

async function channelId(token: string, name: string): Promise<string> {
  return String((await channels(token)).find((channel) => channel.name === name)?.id);
}

test("a user's token is nested under authed_user, as at Slack, and says what was granted", async () => {
  const back = await slackCode(sandbox, { user: "chat:write,channels:read" });
  assert.equal(back.origin + back.pathname, SLACK_CALLBACK);
  assert.equal(back.searchParams.get("state"), "state-2");
  const { status, body } = await slackAccess(sandbox, { code: back.searchParams.get("code") ?? "" });
  assert.equal(status, 200);
  const { access_token, ...user } = at(body, "authed_user") as Record<string, Json>;
  assert.match(String(access_token), /^xoxp-/);
  assert.deepEqual(user, { id: "U07MARA4QXN", scope: "chat:write,channels:read", token_type: "user" });
  assert.deepEqual(
    { ...body, authed_user: null },
    {
      ok: true,
      app_id: "A07OUTBAND1",
      authed_user: null,
      team: { id: "T07HARBOUR", name: "Harbourlight" },
      enterprise: null,
      is_enterprise_install: false,
    },
  );
});

test("bot scopes give a bot token at the top, and both kinds come in one answer", async () => {
  const code = (await slackCode(sandbox, { bot: "chat:write", user: "users:read" })).searchParams.get("code") ?? "";
  const { body } = await slackAccess(sandbox, { code });
  assert.equal(body.token_type, "bot");
  assert.match(String(body.access_token), /^xoxb-/);
  assert.equal(body.bot_user_id, "U07OUTBOT");
  assert.equal(at(body, "authed_user.scope"), "users:read");
  const who = await slack(sandbox, String(body.access_token), "auth.test");
  assert.equal(who.body.user_id, "U07OUTBOT");
  assert.equal(who.body.bot_id, "B07OUTBOT");
});

test("Cancel goes back with access_denied and the state, and without a code", async () => {
  const back = await slackCode(sandbox, { user: "chat:write" }, { decision: "deny" });
  assert.equal(back.searchParams.get("error"), "access_denied");
  assert.equal(back.searchParams.get("state"), "state-2");
  assert.equal(back.searchParams.get("code"), null);
});

const BAD_PAGES: [string, Record<string, string>, RegExp][] = [
  ["another redirect URI", { redirect_uri: "https://evil.test/connect/callback/slack" }, /bad_redirect_uri/],
  ["an unknown client", { client_id: "somebody-else" }, /invalid_client_id/],
  ["an unknown scope", { user_scope: "everything:write" }, /invalid_scope/],
  ["a scope with an inherited name", { user_scope: "constructor" }, /invalid_scope/],
  ["no scope", { user_scope: "" }, /No scopes requested/],
];
for (const [what, change, text] of BAD_PAGES) {
  test(`${what}: a page of Slack's own, never a redirect`, async () => {
    const params = { client_id: sandbox.slack.clientId, redirect_uri: SLACK_CALLBACK, user_scope: "chat:write", state: "s", ...change };
    const answer = await fetch(`${sandbox.slack.endpoints.authorization}?${new URLSearchParams(params)}`, { redirect: "manual" });
    assert.equal(answer.status, 400);
    assert.equal(answer.headers.get("location"), null);
    assert.match(await answer.text(), text);
  });
}

const BAD_EXCHANGES: [string, Record<string, string>, string][] = [
  ["an unknown code", { code: "made-up" }, "invalid_code"],
  ["a wrong secret", { client_secret: "guess" }, "bad_client_secret"],
  ["an unknown client", { client_id: "somebody-else" }, "invalid_client_id"],
  ["another redirect URI", { redirect_uri: `${SLACK_CALLBACK}2` }, "bad_redirect_uri"],
  ["an unknown grant type", { grant_type: "password" }, "invalid_grant_type"],
  ["a refresh token that is none", { grant_type: "refresh_token", refresh_token: "xoxe-made-up" }, "invalid_refresh_token"],
];
for (const [what, change, error] of BAD_EXCHANGES) {
  test(`${what}: HTTP 200, ok:false, ${error}`, async () => {
    const code = (await slackCode(sandbox, { user: "chat:write" })).searchParams.get("code") ?? "";
    const answer = await slackAccess(sandbox, { code, ...change });
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.body, { ok: false, error });
  });
}

test("a code works once, and its second use ends what the first gave", async () => {
  const code = (await slackCode(sandbox, { user: "chat:write" })).searchParams.get("code") ?? "";
  const token = String(at((await slackAccess(sandbox, { code })).body, "authed_user.access_token"));
  assert.equal((await slack(sandbox, token, "auth.test")).body.ok, true);
  assert.equal((await slackAccess(sandbox, { code })).body.error, "code_already_used");
  assert.equal((await slack(sandbox, token, "auth.test")).body.error, "token_revoked");
});

test("client credentials may also come as Basic, and PKCE is held to where it was begun", async () => {
  const { clientId, clientSecret, endpoints } = sandbox.slack;
  const code = (await slackCode(sandbox, { user: "chat:write" })).searchParams.get("code") ?? "";
  const answer = await fetch(endpoints.token ?? "", {
    method: "POST",
    headers: { Authorization: `Basic ${Buffer.from(`${clientId}:${clientSecret.reveal()}`).toString("base64")}` },
    body: new URLSearchParams({ code, redirect_uri: SLACK_CALLBACK }),
  });
  assert.equal(((await answer.json()) as { ok: boolean }).ok, true);
});

test("no token, a made-up one and a revoked one are told apart, all with HTTP 200", async () => {
  assert.deepEqual((await slack(sandbox, null, "auth.test")).body, { ok: false, error: "not_authed" });
  assert.deepEqual((await slack(sandbox, "xoxp-made-up", "auth.test")).body, { ok: false, error: "invalid_auth" });
  const token = await grantSlack(sandbox, "chat:write");
  assert.deepEqual((await slack(sandbox, token, "auth.revoke")).body, { ok: true, revoked: true });
  const after = await slack(sandbox, token, "auth.test");
  assert.equal(after.status, 200);
  assert.deepEqual(after.body, { ok: false, error: "token_revoked" });
  assert.equal((await slack(sandbox, mara, "auth.test")).body.ok, true, "another grant of the same person goes on");
});

const CLOSED: [string, Record<string, unknown>, string][] = [
  ["conversations.list", {}, "channels:read"],
  ["conversations.list", { types: "private_channel" }, "groups:read"],
  ["conversations.info", { channel: "C07GENERAL1" }, "channels:read"],
  ["conversations.history", { channel: "C07GENERAL1" }, "channels:history"],
  ["conversations.history", { channel: "G07LEADERS7" }, "groups:history"],
  ["users.list", {}, "users:read"],
  ["users.info", { user: "U07MARA4QXN" }, "users:read"],
  ["users.profile.get", {}, "users.profile:read"],
  ["chat.postMessage", { channel: "C07GENERAL1", text: "x" }, "chat:write"],
  ["reactions.add", { channel: "C07GENERAL1", timestamp: "1", name: "x" }, "reactions:write"],
];
for (const [method, args, needed] of CLOSED) {
  test(`${method} without ${needed}: missing_scope, with what is needed and what was given`, async () => {
    const token = await grantSlack(sandbox, "team:read");
    assert.deepEqual((await slack(sandbox, token, method, args)).body, {
      ok: false,
      error: "missing_scope",
      needed,
      provided: "team:read",
    });
  });
}

test("the list of channels has a page that is empty and goes on", async () => {
  const first = await slack(sandbox, mara, "conversations.list", { types: "public_channel,private_channel" });
  const second = await slack(sandbox, mara, "conversations.list", {
    types: "public_channel,private_channel",
    cursor: at(first.body, "response_metadata.next_cursor"),
  });
  assert.equal(list(first.body, "channels").length, 5);
  assert.deepEqual(second.body.channels, []);
  assert.notEqual(at(second.body, "response_metadata.next_cursor"), "");
  const names = (await channels(mara)).map((channel) => channel.name);
  assert.equal(new Set(names).size, 8);
  assert.equal((await slack(sandbox, mara, "conversations.list", { cursor: "made-up" })).body.error, "invalid_cursor");
  assert.equal((await slack(sandbox, mara, "conversations.list", { limit: 0 })).body.error, "invalid_limit");
});

test("channels say what they are: general, private, shared outside, archived; private ones only to their members", async () => {
  const all = await channels(mara);
  const flags = (name: string) => all.find((channel) => channel.name === name) ?? {};
  assert.equal(flags("general").is_general, true);
  assert.equal(flags("leadership").is_private, true);
  assert.equal(flags("brightwater-harbourlight").is_ext_shared, true);
  assert.equal(flags("launch-2024").is_archived, true);
  assert.equal(all.filter((channel) => channel.is_general || channel.is_ext_shared).length, 2);

  assert.equal(
    (await channels(tomas)).some((channel) => channel.name === "leadership"),
    false,
  );
  for (const method of ["conversations.info", "conversations.history", "chat.postMessage"]) {
    assert.equal((await slack(sandbox, tomas, method, { channel: "G07LEADERS7", text: "x" })).body.error, "channel_not_found");
  }
  assert.equal(
    (await channels(mara, { exclude_archived: true })).some((channel) => channel.is_archived),
    false,
  );
});

test("a message is posted once, with its metadata kept, and its metadata shown only when asked for", async () => {
  const channel = await channelId(mara, "sea-trials");
  const metadata = { event_type: "outband_post", event_payload: { once: "abc" } };
  const posted = await slack(sandbox, mara, "chat.postMessage", { channel, text: "Tuesday it is &lt;3", metadata });
  assert.equal(posted.body.ok, true);
  assert.equal(at(posted.body, "message.user"), "U07MARA4QXN");
  const plain = await slack(sandbox, tomas, "conversations.history", { channel, limit: 1 });
  assert.equal(at(plain.body, "messages.0.text"), "Tuesday it is &lt;3");
  assert.equal(at(plain.body, "messages.0.metadata"), undefined);
  const full = await slack(sandbox, tomas, "conversations.history", { channel, limit: 1, include_all_metadata: true });
  assert.deepEqual(at(full.body, "messages.0.metadata"), metadata);
  assert.equal(full.body.has_more, true);
});

test("metadata also comes as JSON inside a form, as many clients send it", async () => {
  const form = new URLSearchParams({
    token: mara,
    channel: "#sea-trials",
    text: "by form",
    metadata: JSON.stringify({ event_type: "outband_post", event_payload: { once: "form" } }),
  });
  const answer = await fetch(`${sandbox.slack.endpoints.api}/chat.postMessage`, { method: "POST", body: form });
  assert.equal(at((await answer.json()) as Json, "message.metadata.event_payload.once"), "form");
});

const BAD_POSTS: [string, Record<string, unknown>, string][] = [
  ["an unknown channel", { channel: "C404", text: "x" }, "channel_not_found"],
  ["an archived channel", { channel: "C05LAUNCH08", text: "x" }, "is_archived"],
  ["a channel one is not in", { channel: "C07SUPPORT5", text: "x" }, "not_in_channel"],
  ["no text", { channel: "C07GENERAL1", text: " " }, "no_text"],
  ["45,000 characters", { channel: "C07GENERAL1", text: "x".repeat(45_000) }, "msg_too_long"],
  ["a thread that is none", { channel: "C07GENERAL1", text: "x", thread_ts: "1.000001" }, "thread_not_found"],
  ["metadata of no form", { channel: "C07GENERAL1", text: "x", metadata: "{" }, "invalid_metadata_format"],
  ["metadata without a payload", { channel: "C07GENERAL1", text: "x", metadata: { event_type: "a" } }, "invalid_metadata_format"],
];
for (const [what, args, error] of BAD_POSTS) {
  test(`posting ${what}: ${error}, and nothing was said`, async () => {
    const before = list((await slack(sandbox, mara, "conversations.history", { channel: "C07GENERAL1" })).body, "messages").length;
    assert.deepEqual((await slack(sandbox, mara, "chat.postMessage", args)).body, { ok: false, error });
    assert.equal(list((await slack(sandbox, mara, "conversations.history", { channel: "C07GENERAL1" })).body, "messages").length, before);
  });
}

test("history is newest first, pages back without a gap, keeps to its bounds, and leaves answers to their thread", async () => {
  const channel = await channelId(mara, "firmware");
  const all = list((await slack(sandbox, mara, "conversations.history", { channel })).body, "messages");
  assert.deepEqual(
    all.map((one) => String(one.ts)),
    all
      .map((one) => String(one.ts))
      .sort()
      .reverse(),
  );
  const root = all.find((one) => one.reply_count === 2);
  assert.ok(root);
  const thread = list((await slack(sandbox, mara, "conversations.replies", { channel, ts: root.ts })).body, "messages");
  assert.equal(thread.length, 3);
  assert.equal(thread[0]?.ts, root.ts);

  const first = await slack(sandbox, mara, "conversations.history", { channel, limit: 1 });
  const second = await slack(sandbox, mara, "conversations.history", { channel, cursor: at(first.body, "response_metadata.next_cursor") });
  assert.deepEqual(
    [...list(first.body, "messages"), ...list(second.body, "messages")].map((one) => one.ts),
    all.map((one) => one.ts),
  );
  const since = await slack(sandbox, mara, "conversations.history", { channel, oldest: all[1]?.ts });
  assert.deepEqual(
    list(since.body, "messages").map((one) => one.ts),
    [all[0]?.ts],
  );
});

test("a reaction is given once, to a message that is there", async () => {
  const posted = await slack(sandbox, mara, "chat.postMessage", { channel: "C07GENERAL1", text: "react to me" });
  const react = (args: Record<string, unknown>) =>
    slack(sandbox, tomas, "reactions.add", { channel: "C07GENERAL1", timestamp: posted.body.ts, name: "tada", ...args });
  assert.deepEqual((await react({})).body, { ok: true });
  assert.equal((await react({})).body.error, "already_reacted");
  assert.equal((await react({ timestamp: "1.000001" })).body.error, "message_not_found");
  assert.equal((await react({ name: "<b>" })).body.error, "invalid_name");
  const shown = await slack(sandbox, mara, "conversations.history", { channel: "C07GENERAL1", limit: 1 });
  assert.deepEqual(at(shown.body, "messages.0.reactions"), [{ name: "tada", users: ["U07TOMASK2R"], count: 1 }]);
});

test("people: bots and leavers are marked, addresses only with users:read.email", async () => {
  const members = list((await slack(sandbox, mara, "users.list", { limit: 1000 })).body, "members");
  assert.equal(members.find((one) => one.name === "mara")?.deleted, false);
  assert.equal(
    at((await slack(sandbox, mara, "users.info", { user: "U07TOMASK2R" })).body, "user.profile.email"),
    "tomas.okafor@harbourlight.example",
  );
  const plain = await grantSlack(sandbox, "users:read");
  assert.equal(at((await slack(sandbox, plain, "users.info", { user: "U07TOMASK2R" })).body, "user.profile.email"), undefined);
  assert.equal((await slack(sandbox, mara, "users.info", { user: "U404" })).body.error, "user_not_found");
});

test("an unknown method and a body that is no JSON say so in Slack's way", async () => {
  assert.deepEqual((await slack(sandbox, mara, "chat.deleteEverything")).body, { ok: false, error: "unknown_method" });
  const answer = await fetch(`${sandbox.slack.endpoints.api}/chat.postMessage`, {
    method: "POST",
    headers: { Authorization: `Bearer ${mara}`, "Content-Type": "application/json" },
    body: "{",
  });
  assert.equal(answer.status, 200);
  assert.deepEqual(await answer.json(), { ok: false, error: "invalid_json" });
});
