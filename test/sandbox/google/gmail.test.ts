// The practice Gmail: lets nobody in without a token and its scope, and answers in Gmail's shapes.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import PostalMime from "postal-mime";
import { decodeCharset } from "../../../src/sandbox/google/mime.js";
import type { Sandbox } from "../../../src/sandbox/sandbox.js";
import { at, COMPOSE, gmail, type GoogleTokens, grantGoogle, list, MODIFY, openSandboxForTests, READONLY, SEND } from "../support.js";

const METADATA = "https://www.googleapis.com/auth/gmail.metadata";

let sandbox: Sandbox;
let mara: GoogleTokens;
let tomas: GoogleTokens;
before(async () => {
  sandbox = await openSandboxForTests();
  mara = await grantGoogle(sandbox, [MODIFY]);
  tomas = await grantGoogle(sandbox, [MODIFY], { person: "Tomás" });
});

async function find(query: string, token = mara.access_token): Promise<string[]> {
  const answer = await gmail(sandbox, token, `/messages?q=${encodeURIComponent(query)}`);
  return list(answer.body, "messages").map((message) => String(message.id));
}

async function only(query: string, token = mara.access_token): Promise<string> {
  const ids = await find(query, token);
  assert.equal(ids.length, 1, `${query} finds one`);
  return ids[0] ?? "";
}

function bytes(data: unknown): Buffer {
  return Buffer.from(String(data), "base64url");
}

function rawMail(lines: string[]): string {
  return Buffer.from(lines.join("\r\n")).toString("base64url");
}

test("unknown, absent and malformed tokens: 401 in Google's shape, with WWW-Authenticate", async () => {
  for (const token of ["made-up", "", "a b"]) {
    const answer = await gmail(sandbox, token, "/profile");
    assert.equal(answer.status, 401);
    assert.equal(at(answer.body, "error.code"), 401);
    assert.equal(at(answer.body, "error.status"), "UNAUTHENTICATED");
    assert.match(answer.headers.get("www-authenticate") ?? "", /^Bearer/);
  }
});

const CALLS: { name: string; path: string; json?: unknown; opensWith: string; notWith: string }[] = [
  { name: "getProfile", path: "/profile", opensWith: READONLY, notWith: SEND },
  { name: "messages.list", path: "/messages", opensWith: READONLY, notWith: SEND },
  { name: "messages.get", path: "/messages/x", opensWith: METADATA, notWith: SEND },
  { name: "messages.attachments.get", path: "/messages/x/attachments/y", opensWith: READONLY, notWith: METADATA },
  { name: "threads.get", path: "/threads/x", opensWith: READONLY, notWith: COMPOSE },
  { name: "labels.list", path: "/labels", opensWith: READONLY, notWith: SEND },
  { name: "labels.get", path: "/labels/INBOX", opensWith: READONLY, notWith: COMPOSE },
  { name: "messages.send", path: "/messages/send", json: {}, opensWith: SEND, notWith: READONLY },
  { name: "messages.modify", path: "/messages/x/modify", json: {}, opensWith: MODIFY, notWith: READONLY },
  { name: "drafts.create", path: "/drafts", json: {}, opensWith: COMPOSE, notWith: SEND },
];
for (const call of CALLS) {
  test(`${call.name} is closed without its scope: 403 ACCESS_TOKEN_SCOPE_INSUFFICIENT`, async () => {
    const closed = await grantGoogle(sandbox, [call.notWith]);
    const answer = await gmail(sandbox, closed.access_token, call.path, call.json);
    assert.equal(answer.status, 403);
    assert.equal(at(answer.body, "error.status"), "PERMISSION_DENIED");
    assert.equal(at(answer.body, "error.errors.0.reason"), "insufficientPermissions");
    assert.equal(at(answer.body, "error.details.0.reason"), "ACCESS_TOKEN_SCOPE_INSUFFICIENT");
    const open = await grantGoogle(sandbox, [call.opensWith]);
    assert.notEqual((await gmail(sandbox, open.access_token, call.path, call.json)).status, 403);
  });
}

test("the metadata scope opens envelopes, not texts and not searches", async () => {
  const { access_token } = await grantGoogle(sandbox, [METADATA]);
  const first = String(at((await gmail(sandbox, access_token, "/messages")).body, "messages.0.id"));
  assert.equal((await gmail(sandbox, access_token, `/messages/${first}?format=metadata`)).status, 200);
  assert.equal((await gmail(sandbox, access_token, `/messages/${first}?format=full`)).status, 403);
  assert.equal((await gmail(sandbox, access_token, "/messages?q=buoys")).status, 403);
});

test("nobody reads another person's box, by id or by address", async () => {
  const own = await only("from:noor", mara.access_token);
  assert.equal((await gmail(sandbox, mara.access_token, `/messages/${own}`)).status, 200);
  assert.equal((await gmail(sandbox, tomas.access_token, `/messages/${own}`)).status, 404);
  const other = await fetch(`${sandbox.google.endpoints.api}/gmail/v1/users/mara.lindqvist@harbourlight.example/profile`, {
    headers: { Authorization: `Bearer ${tomas.access_token}` },
  });
  assert.equal(other.status, 403);
});

test("each inbox has 10 to 14 messages, the newest first, some of them unread", async () => {
  for (const { access_token } of [mara, tomas]) {
    const inbox = list((await gmail(sandbox, access_token, "/messages?labelIds=INBOX")).body, "messages");
    assert.ok(inbox.length >= 10 && inbox.length <= 14, `${inbox.length} messages`);
    const dates = await Promise.all(
      inbox.map(async ({ id }) => Number((await gmail(sandbox, access_token, `/messages/${id}?format=minimal`)).body.internalDate)),
    );
    assert.deepEqual(
      dates,
      [...dates].sort((a, b) => b - a),
    );
    assert.ok(Date.now() - (dates[0] ?? 0) < 3 * 3600_000, "the newest is of today");
    assert.ok((await find("is:unread", access_token)).length >= 4);
  }
});

test("pages follow one another without a gap, and new mail does not shift them", async () => {
  const whole = list((await gmail(sandbox, mara.access_token, "/messages?labelIds=INBOX")).body, "messages").map((one) => one.id);
  const first = await gmail(sandbox, mara.access_token, "/messages?labelIds=INBOX&maxResults=5");
  const raw = rawMail(["To: mara.lindqvist@harbourlight.example", "Subject: pages", "", "x"]);
  assert.equal((await gmail(sandbox, tomas.access_token, "/messages/send", { raw })).status, 200);
  const seen = list(first.body, "messages").map((one) => one.id);
  let token = String(first.body.nextPageToken);
  while (token !== "undefined") {
    const page = await gmail(sandbox, mara.access_token, `/messages?labelIds=INBOX&maxResults=5&pageToken=${token}`);
    seen.push(...list(page.body, "messages").map((one) => one.id));
    token = String(page.body.nextPageToken);
  }
  assert.deepEqual(seen, whole);
  assert.equal((await gmail(sandbox, mara.access_token, "/messages?pageToken=bm90aGluZw")).status, 400);
  assert.equal((await gmail(sandbox, mara.access_token, "/messages?maxResults=0")).status, 400);
});

test("search knows words, phrases, senders, labels, negation, age and message ids", async () => {
  assert.equal((await find("buoys from:ingrid subject:drift")).length, 1);
  assert.equal((await find('"delivery slot"')).length, 1);
  assert.equal((await find("センサー")).length, 1, "in a decoded charset");
  assert.equal((await find("from:佐藤")).length, 1, "in a decoded header");
  assert.equal((await find("in:sent from:mara")).length, 2);
  assert.ok((await find("has:attachment")).length >= 3);
  assert.equal((await find("from:noor is:unread")).length, 1);
  assert.equal((await find("from:noor -is:unread")).length, 0);
  assert.equal((await find("newer_than:1h in:inbox from:noor")).length, 0);
  assert.equal((await find("newer_than:1d from:noor")).length, 1);
  assert.deepEqual(await find("rfc822msgid:<delivery-slot@mail.harbourlight.example>"), await find("from:noor"));
  assert.deepEqual(await find("rfc822msgid:nobody@nowhere.example"), []);
  for (const odd of ["is:__proto__", "is:constructor", "constructor:x", "__proto__:x", 'from:"', "newer_than:9z", "after:never"]) {
    assert.deepEqual(await find(odd), [], odd);
  }
  assert.equal((await gmail(sandbox, mara.access_token, "/messages?q=rfc822msgid:nobody@nowhere.example")).body.messages, undefined);
});

test("format full shows the tree as it is nested, texts inline and named parts by attachment id", async () => {
  const answer = await gmail(sandbox, mara.access_token, `/messages/${await only("subject:Weekly in:inbox from:ingrid has:attachment")}`);
  assert.equal(at(answer.body, "payload.mimeType"), "multipart/mixed");
  assert.equal(at(answer.body, "payload.parts.0.mimeType"), "multipart/related");
  assert.equal(at(answer.body, "payload.parts.0.parts.0.parts.0.mimeType"), "text/plain");
  assert.equal(at(answer.body, "payload.parts.0.parts.0.parts.0.partId"), "0.0.0");
  assert.match(bytes(at(answer.body, "payload.parts.0.parts.0.parts.0.body.data")).toString(), /Uptime: 99\.2 %/);
  assert.equal(at(answer.body, "payload.parts.1.filename"), "buoys.csv");
  assert.equal(at(answer.body, "payload.parts.1.body.data"), undefined);
  const attachment = at(answer.body, "payload.parts.1.body.attachmentId");
  const fetched = await gmail(sandbox, mara.access_token, `/messages/${answer.body.id}/attachments/${attachment}`);
  assert.match(bytes(fetched.body.data).toString(), /^buoy,uptime_percent/);
  assert.equal((await gmail(sandbox, mara.access_token, `/messages/${answer.body.id}/attachments/made-up`)).status, 404);
});

test("an attached message shows its parts, apart from the text around it", async () => {
  const answer = await gmail(sandbox, mara.access_token, `/messages/${await only("subject:Berth")}`);
  assert.equal(at(answer.body, "payload.parts.1.mimeType"), "message/rfc822");
  assert.equal(at(answer.body, "payload.parts.1.filename"), "Berth prices.eml");
  assert.equal(at(answer.body, "payload.parts.1.parts.0.mimeType"), "text/plain");
  assert.doesNotMatch(String(answer.body.snippet), /belongs to the attached/);
});

const TEXTS: [string, string, string, RegExp][] = [
  ["ISO-2022-JP", "from:sato", "iso-2022-jp", /センサー筐体120個/],
  ["GBK", "from:wang.fang", "gbk", /起订量 200 件/],
  ["windows-1252", "from:buchhaltung", "windows-1252", /2\.480,00 € inkl[\s\S]*30\. – das[\s\S]*„Nordlicht“/],
];
for (const [charset, query, label, text] of TEXTS) {
  test(`${charset} arrives in its own bytes, under its own name`, async () => {
    const answer = await gmail(sandbox, mara.access_token, `/messages/${await only(query)}`);
    const part = at(answer.body, "payload.parts.0.body.data") === undefined ? "payload" : "payload.parts.0";
    const type = list(answer.body, `${part}.headers`).find((header) => header.name === "Content-Type")?.value;
    assert.match(String(type).toLowerCase(), new RegExp(`charset=${label}`));
    assert.match(decodeCharset(bytes(at(answer.body, `${part}.body.data`)), label), text);
  });
}

test("headers come as they were sent, in encoded words", async () => {
  const answer = await gmail(
    sandbox,
    mara.access_token,
    `/messages/${await only("from:tidalpost")}?format=metadata&metadataHeaders=subject&metadataHeaders=From`,
  );
  const headers = list(answer.body, "payload.headers");
  assert.deepEqual(headers.map((header) => header.name).sort(), ["From", "Subject"]);
  assert.ok(headers.every((header) => String(header.value).startsWith("=?")));
});

test("every letter reads the same to an independent parser", async () => {
  for (const { id } of list((await gmail(sandbox, mara.access_token, "/messages")).body, "messages")) {
    const full = await gmail(sandbox, mara.access_token, `/messages/${id}`);
    const raw = await gmail(sandbox, mara.access_token, `/messages/${id}?format=raw`);
    const parsed = await PostalMime.parse(bytes(raw.body.raw));
    assert.ok(parsed.from?.address, "has a sender");
    assert.ok(parsed.messageId);
    const named = JSON.stringify(full.body).match(/"attachmentId"/g)?.length ?? 0;
    const calendar = parsed.attachments.filter((one) => one.mimeType === "text/calendar").length;
    assert.equal(parsed.attachments.length - calendar, named, String(parsed.subject));
    assert.equal(raw.body.payload, undefined);
  }
});

test("the hostile letter holds what it must: orders, bidirectional marks, markup", async () => {
  const id = await only("from:billing-check");
  const parsed = await PostalMime.parse(bytes((await gmail(sandbox, mara.access_token, `/messages/${id}?format=raw`)).body.raw));
  assert.match(parsed.text ?? "", /Ignore all previous instructions/);
  assert.match(parsed.text ?? "", /[\u202E\u2067\u200B]/);
  assert.match(parsed.subject ?? "", /\u202E/);
  assert.match(parsed.html ?? "", /<script>/);
});

test("a sent message is in SENT, found by its Message-ID, and in the thread that it names", async () => {
  const thread = String(
    at((await gmail(sandbox, tomas.access_token, `/messages/${await only("subject:yes from:mara", tomas.access_token)}`)).body, "threadId"),
  );
  const raw = rawMail([
    "To: mara.lindqvist@harbourlight.example",
    "Bcc: secret@elsewhere.example",
    "Subject: Re: Need your yes or no on 2.8.2 before Wednesday",
    "Message-ID: <once-1@outband.example>",
    "In-Reply-To: <sign-off@mail.harbourlight.example>",
    "",
    "Yes.",
  ]);
  const sent = await gmail(sandbox, tomas.access_token, "/messages/send", { raw, threadId: thread });
  assert.deepEqual(sent.body.labelIds, ["SENT"]);
  assert.equal(sent.body.threadId, thread);
  assert.deepEqual(await find("rfc822msgid:once-1@outband.example", tomas.access_token), [sent.body.id]);
  const whole = await gmail(sandbox, tomas.access_token, `/threads/${thread}?format=metadata`);
  assert.equal(list(whole.body, "messages").at(-1)?.id, sent.body.id);

  const received = await only("rfc822msgid:once-1@outband.example in:inbox");
  const copy = await gmail(sandbox, mara.access_token, `/messages/${received}?format=raw`);
  assert.deepEqual(copy.body.labelIds, ["INBOX", "UNREAD"]);
  assert.match(bytes(copy.body.raw).toString(), /From: tomas\.okafor/);
  assert.doesNotMatch(bytes(copy.body.raw).toString(), /secret@elsewhere/, "blind recipients stay blind");
});

const BAD_MAIL: [string, unknown, number][] = [
  ["nothing", {}, 400],
  ["not base64url", { raw: "***" }, 400],
  ["nobody to send to", { raw: rawMail(["Subject: x", "", "y"]) }, 400],
  ["an unknown thread", { raw: rawMail(["To: a@b.example", "", "y"]), threadId: "1234567890abcdef" }, 404],
];
for (const [what, json, status] of BAD_MAIL) {
  test(`sending ${what}: ${status}, and nothing is in SENT`, async () => {
    const before = (await find("in:sent")).length;
    assert.equal((await gmail(sandbox, mara.access_token, "/messages/send", json)).status, status);
    assert.equal((await find("in:sent")).length, before);
  });
}

test("a body that is no JSON, or too large, is refused in Google's shape", async () => {
  for (const [body, status] of [
    ["{", 400],
    [JSON.stringify({ raw: "A".repeat(9 * 1024 * 1024) }), 413],
  ] as const) {
    const answer = await fetch(`${sandbox.google.endpoints.api}/gmail/v1/users/me/messages/send`, {
      method: "POST",
      headers: { Authorization: `Bearer ${mara.access_token}`, "Content-Type": "application/json" },
      body,
    });
    assert.equal(answer.status, status);
    assert.equal(at((await answer.json()) as never, "error.code"), status);
  }
});

test("labels are added and removed, and the ones that Gmail keeps for itself are not", async () => {
  const id = await only("from:noor");
  const modify = (json: unknown) => gmail(sandbox, mara.access_token, `/messages/${id}/modify`, json);
  const changed = await modify({ addLabelIds: ["STARRED", "Label_1"], removeLabelIds: ["UNREAD"] });
  assert.ok(["STARRED", "Label_1"].every((label) => (changed.body.labelIds as string[]).includes(label)));
  assert.equal((await find("from:noor is:unread")).length, 0);
  assert.equal((await modify({ addLabelIds: ["Label_404"] })).status, 400);
  assert.equal((await modify({ addLabelIds: ["SENT"] })).status, 400);
  assert.equal((await modify({})).status, 400);
});

test("a label says how much is in it", async () => {
  const fresh = await openSandboxForTests();
  const { access_token } = await grantGoogle(fresh, [READONLY]);
  const inbox = list((await gmail(fresh, access_token, "/messages?labelIds=INBOX")).body, "messages");
  const unread = list((await gmail(fresh, access_token, "/messages?labelIds=INBOX&labelIds=UNREAD")).body, "messages");
  const label = (await gmail(fresh, access_token, "/labels/INBOX")).body;
  assert.deepEqual([label.messagesTotal, label.messagesUnread], [inbox.length, unread.length]);
  assert.equal((await gmail(fresh, access_token, "/labels/Label_404")).status, 404);
});

test("a draft is a draft: listed as one, sent to nobody", async () => {
  const raw = rawMail(["To: tomas.okafor@harbourlight.example", "Subject: draft for later", "", "not yet"]);
  const made = await gmail(sandbox, mara.access_token, "/drafts", { message: { raw } });
  assert.match(String(made.body.id), /^r\d+$/);
  assert.deepEqual(at(made.body, "message.labelIds"), ["DRAFT"]);
  assert.equal((await find("subject:later", tomas.access_token)).length, 0);
});

test("fields cuts the answer to what was named, and a broken mask is refused", async () => {
  const fields = encodeURIComponent("messages(id),nextPageToken");
  const answer = await gmail(sandbox, mara.access_token, `/messages?maxResults=1&fields=${fields}`);
  assert.deepEqual(Object.keys(answer.body).sort(), ["messages", "nextPageToken"]);
  assert.deepEqual(Object.keys(list(answer.body, "messages")[0] ?? {}), ["id"]);
  const deep = await gmail(
    sandbox,
    mara.access_token,
    `/messages/${await only("from:noor")}?fields=${encodeURIComponent("id,payload/headers/name")}`,
  );
  assert.deepEqual(Object.keys(deep.body), ["id", "payload"]);
  assert.deepEqual(Object.keys(list(deep.body, "payload.headers")[0] ?? {}), ["name"]);
  assert.equal((await gmail(sandbox, mara.access_token, "/messages?fields=a((")).status, 400);
});
