// The sandbox as a whole: loopback and its own names only, marked on every page, nothing lost or readable on the disk.
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Sandbox } from "../../src/sandbox/sandbox.js";
import { startSandbox } from "../../src/sandbox/sandbox.js";
import { systemClock } from "../../src/clock.js";
import { silentLog } from "../support/silentLog.js";
import { formsOf } from "../support/awkwardPerson.js";
import {
  at,
  gmail,
  googleClient,
  googleCredentials,
  googleUrl,
  grantGoogle,
  grantSlack,
  list,
  MODIFY,
  openSandboxForTests,
  postToken,
  PUBLIC_URL,
  READONLY,
  SLACK_CALLBACK,
  slack,
} from "./support.js";

let sandbox: Sandbox;
before(async () => {
  sandbox = await openSandboxForTests();
});

const directories: string[] = [];
after(async () => {
  for (const folder of directories) await rm(folder, { recursive: true, force: true });
});

async function directory(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sandbox-test-"));
  directories.push(folder);
  return folder;
}

function statusFor(host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const { port } = new URL(sandbox.origin);
    request({ host: "127.0.0.1", port, path: "/google/.well-known/openid-configuration", headers: { Host: host } }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    })
      .on("error", reject)
      .end();
  });
}

test("answers on both loopback addresses under the computer's own names, and under no other", async () => {
  const { port } = new URL(sandbox.origin);
  assert.equal(sandbox.origin, `http://localhost:${port}`);
  for (const host of ["localhost", "127.0.0.1", "[::1]"]) {
    assert.equal((await fetch(`http://${host}:${port}/`)).status, 200, host);
    assert.equal(await statusFor(`${host}:${port}`), 200);
  }
  for (const host of ["evil.test", `evil.test:${port}`, "localhost", `localhost.evil.test:${port}`, `localhost:${Number(port) + 1}`]) {
    assert.equal(await statusFor(host), 421, host);
  }
});

test("metadata is built from the sandbox's own origin, whatever the Host header said", async () => {
  const { port } = new URL(sandbox.origin);
  const metadata = (await (await fetch(`http://127.0.0.1:${port}/google/.well-known/openid-configuration`)).json()) as { issuer: string };
  assert.equal(metadata.issuer, `${sandbox.origin}/google`);
});

test("a port that is taken is an error, and leaves nothing listening", async () => {
  const port = Number(new URL(sandbox.origin).port);
  const open = startSandbox({ port, publicUrl: PUBLIC_URL, file: null, clock: systemClock, log: silentLog });
  await assert.rejects(open, { name: "ListenRefusal", message: `Port ${port} is taken by another program. Stop it, or set PORT to another one. The practice providers listen there, on the port after PORT; SANDBOX=off does without them.` });
  assert.equal((await fetch(sandbox.origin)).status, 200, "the first one still answers");
});

test("every page says sandbox, has no script, no style attribute, no foreign resource, and may not be framed or kept", async () => {
  await grantGoogle(sandbox, [READONLY]);
  const slackUrl = `${sandbox.slack.endpoints.authorization}?${new URLSearchParams({
    client_id: sandbox.slack.clientId,
    redirect_uri: SLACK_CALLBACK,
    user_scope: "chat:write",
    scope: "chat:write",
  })}`;
  const pages = [
    `${sandbox.origin}/`,
    `${sandbox.origin}/nothing`,
    googleUrl(sandbox),
    googleUrl(sandbox, { login_hint: "mara.lindqvist@harbourlight.example", prompt: "consent" }),
    googleUrl(sandbox, { client_id: "x" }),
    slackUrl,
    `${slackUrl}&state=a&state=b`,
  ];
  for (const url of pages) {
    const answer = await fetch(url);
    const page = await answer.text();
    assert.match(page, /<strong>sandbox<\/strong> — practice\s(Google|Slack)/, url);
    assert.doesNotMatch(page, /<script|\sstyle=|\son\w+=|src=|href="https?:\/\/(?!localhost)/i, url);
    assert.match(answer.headers.get("content-security-policy") ?? "", /^default-src 'none'.*frame-ancestors 'none'/);
    assert.equal(answer.headers.get("cache-control"), "no-store");
    assert.equal(answer.headers.get("referrer-policy"), "no-referrer");
    assert.match(page, /<html lang="en">/);
    assert.match(page, /<h1>/);
    for (const form of formsOf(page)) for (const choice of form.choices) assert.ok(choice.text.length > 3, "every box has a label");
  }
});

test("what a request says is never markup on a page", async () => {
  const hostile = '"><script>alert(1)</script>';
  for (const name of ["client_id", "redirect_uri", "state", "login_hint"]) {
    assert.doesNotMatch(await (await fetch(googleUrl(sandbox, { [name]: hostile }))).text(), /<script/);
  }
});

test("counts every request by endpoint, and nothing that was not asked", async () => {
  const fresh = await openSandboxForTests();
  const { access_token } = await grantGoogle(fresh, [READONLY]);
  await gmail(fresh, access_token, "/messages");
  await gmail(fresh, access_token, "/messages/1");
  await gmail(fresh, access_token, "/messages/2");
  const counts = fresh.counts();
  assert.equal(counts["POST /google/token"], 1);
  assert.equal(counts["GET /google/api/gmail/v1/users/{user}/messages"], 1);
  assert.equal(counts["GET /google/api/gmail/v1/users/{user}/messages/{id}"], 2);
  assert.equal(counts["POST /google/api/gmail/v1/users/{user}/messages/send"], undefined);
});

test("grants, clients, sent mail, labels and messages survive a restart; the key of id_tokens too", async () => {
  const file = join(await directory(), "sandbox.json");
  const first = await openSandboxForTests({ file });
  const tokens = await grantGoogle(first, [MODIFY]);
  const slackToken = await grantSlack(first, "chat:write,channels:history");
  const raw = Buffer.from("To: tomas.okafor@harbourlight.example\r\nSubject: kept\r\n\r\nx").toString("base64url");
  await gmail(first, tokens.access_token, "/messages/send", { raw });
  const noor = list((await gmail(first, tokens.access_token, "/messages?q=from:noor")).body, "messages")[0]?.id;
  await gmail(first, tokens.access_token, `/messages/${noor}/modify`, { addLabelIds: ["STARRED"] });
  const dated = (await gmail(first, tokens.access_token, `/messages/${noor}`)).body.internalDate;
  await slack(first, slackToken, "chat.postMessage", { channel: "C07GENERAL1", text: "kept" });
  const jwks = await (await fetch(first.google.endpoints.jwks ?? "")).text();
  await first.close();

  const second = await openSandboxForTests({ file });
  assert.equal(second.google.clientId, first.google.clientId);
  assert.equal(second.slack.clientSecret.reveal(), first.slack.clientSecret.reveal());
  assert.equal(list((await gmail(second, tokens.access_token, "/messages?q=subject:kept")).body, "messages").length, 1);
  const starred = await gmail(second, tokens.access_token, `/messages/${noor}`);
  assert.ok((starred.body.labelIds as string[]).includes("STARRED"));
  assert.equal(starred.body.internalDate, dated, "dates count from the first start");
  const refreshed = await postToken(second, {
    ...googleCredentials(second),
    grant_type: "refresh_token",
    refresh_token: tokens.refresh_token ?? "",
  });
  assert.equal(refreshed.status, 200);
  assert.equal(
    at((await slack(second, slackToken, "conversations.history", { channel: "C07GENERAL1", limit: 1 })).body, "messages.0.text"),
    "kept",
  );
  assert.equal(await (await fetch(second.google.endpoints.jwks ?? "")).text(), jwks);
});

test("the state file is for its owner alone, holds no token in clear, and is replaced whole", async () => {
  const folder = await directory();
  const file = join(folder, "sandbox.json");
  const kept = await openSandboxForTests({ file });
  const grants = await Promise.all(Array.from({ length: 8 }, () => grantGoogle(kept, [READONLY])));
  const slackToken = await grantSlack(kept, "chat:write");
  assert.equal((await stat(file)).mode & 0o777, 0o600);
  assert.deepEqual(await readdir(folder), ["sandbox.json"]);
  const text = await readFile(file, "utf8");
  assert.equal((JSON.parse(text) as { google: { grants: unknown[] } }).google.grants.length, 8);
  for (const token of [slackToken, ...grants.flatMap((grant) => [grant.access_token, grant.refresh_token ?? ""])]) {
    assert.ok(token.length > 20 && !text.includes(token));
  }
});

for (const content of ["", "{", "[]", '{"version":2}', '{"version":1,"startedAtMs":1,"google":{},"slack":{}}']) {
  test(`a state file that is ${content || "empty"} is kept aside, and the sandbox starts anew`, async () => {
    const folder = await directory();
    const file = join(folder, "sandbox.json");
    await writeFile(file, content);
    const fresh = await openSandboxForTests({ file });
    await googleClient(fresh);
    assert.equal(await readFile(`${file}.damaged`, "utf8"), content);
    assert.equal((JSON.parse(await readFile(file, "utf8")) as { version: number }).version, 1);
  });
}

test("the first page lists what was allowed, and taking it back ends its tokens", async () => {
  const fresh = await openSandboxForTests();
  const google = await grantGoogle(fresh, [READONLY]);
  const slackToken = await grantSlack(fresh, "chat:write");
  const removals = formsOf(await (await fetch(fresh.origin)).text()).filter((form) => form.action === "/grants/remove");
  assert.equal(removals.length, 2);
  const remove = (headers: Record<string, string>) =>
    Promise.all(
      removals.map(({ buttons: [button] }) =>
        fetch(`${fresh.origin}/grants/remove`, {
          method: "POST",
          headers,
          body: new URLSearchParams({ grant: button?.value ?? "" }),
          redirect: "manual",
        }),
      ),
    );
  assert.deepEqual(
    (await remove({ "Sec-Fetch-Site": "cross-site" })).map((answer) => answer.status),
    [403, 403],
  );
  assert.equal((await gmail(fresh, google.access_token, "/profile")).status, 200);
  assert.deepEqual(
    (await remove({ "Sec-Fetch-Site": "same-origin" })).map((answer) => answer.status),
    [303, 303],
  );
  assert.equal((await gmail(fresh, google.access_token, "/profile")).status, 401);
  assert.equal((await slack(fresh, slackToken, "auth.test")).body.error, "token_revoked");
});
