// The practice Google's token and revocation endpoints: each way a request can be wrong is refused, in the words of the RFCs.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import type { Sandbox } from "../../../src/sandbox/sandbox.js";
import { authorizeAs } from "../../support/awkwardPerson.js";
import {
  GMAIL_CALLBACK,
  gmail,
  googleCredentials,
  googleUrl,
  grantGoogle,
  movableClock,
  openSandboxForTests,
  postToken,
  READONLY,
  VERIFIER,
} from "../support.js";

const clock = movableClock();
let sandbox: Sandbox;
before(async () => {
  sandbox = await openSandboxForTests({ clock });
});

async function freshCode(): Promise<string> {
  return (await authorizeAs(googleUrl(sandbox, { prompt: "consent", access_type: "offline" }))).searchParams.get("code") ?? "";
}

async function exchange(change: Record<string, string | null>): Promise<{ status: number; body: Record<string, unknown> }> {
  const form: Record<string, string | null> = {
    ...googleCredentials(sandbox),
    grant_type: "authorization_code",
    redirect_uri: GMAIL_CALLBACK,
    code_verifier: VERIFIER,
    ...change,
  };
  return postToken(sandbox, Object.fromEntries(Object.entries(form).filter(([, value]) => value !== null)) as Record<string, string>);
}

const WRONG: [string, Record<string, string | null>, number, string][] = [
  ["a wrong verifier", { code_verifier: "x".repeat(43) }, 400, "invalid_grant"],
  ["no verifier", { code_verifier: null }, 400, "invalid_grant"],
  ["another redirect URI", { redirect_uri: `${GMAIL_CALLBACK}2` }, 400, "redirect_uri_mismatch"],
  ["no redirect URI", { redirect_uri: null }, 400, "redirect_uri_mismatch"],
  ["a wrong secret", { client_secret: "guess" }, 401, "invalid_client"],
  ["no secret", { client_secret: null }, 401, "invalid_client"],
  ["another client", { client_id: "somebody-else" }, 401, "invalid_client"],
  ["another grant type", { grant_type: "password" }, 400, "unsupported_grant_type"],
  ["no grant type", { grant_type: null }, 400, "invalid_request"],
  ["an unknown code", { code: "4/sandbox-made-up" }, 400, "invalid_grant"],
];
for (const [what, change, status, error] of WRONG) {
  test(`${what}: ${status} ${error}, and no token`, async () => {
    const answer = await exchange({ code: await freshCode(), ...change });
    assert.equal(answer.status, status);
    assert.equal(answer.body.error, error);
    assert.equal(answer.body.access_token, undefined);
  });
}

test("a secret in the body and in the header at once is refused (RFC 6749 section 2.3)", async () => {
  const { client_id, client_secret } = googleCredentials(sandbox);
  const answer = await fetch(sandbox.google.endpoints.token ?? "", {
    method: "POST",
    headers: { Authorization: `Basic ${Buffer.from(`${client_id}:${client_secret}`).toString("base64")}` },
    body: new URLSearchParams({ grant_type: "refresh_token", refresh_token: "x", client_secret: client_secret ?? "" }),
  });
  assert.equal(answer.status, 401);
  assert.match(answer.headers.get("www-authenticate") ?? "", /^Basic/);
});

test("a code used twice is refused, and what the first use gave stops working", async () => {
  const code = await freshCode();
  const first = await exchange({ code });
  const token = String(first.body.access_token);
  assert.equal((await gmail(sandbox, token, "/profile")).status, 200);
  assert.equal((await exchange({ code })).body.error, "invalid_grant");
  assert.equal((await gmail(sandbox, token, "/profile")).status, 401);
  const refresh = { ...googleCredentials(sandbox), grant_type: "refresh_token", refresh_token: String(first.body.refresh_token) };
  assert.equal((await postToken(sandbox, refresh)).body.error, "invalid_grant");
});

test("five exchanges of one code at once leave at most one set of tokens, and it ends with the family", async () => {
  const code = await freshCode();
  const answers = await Promise.all(Array.from({ length: 5 }, () => exchange({ code })));
  assert.equal(answers.filter((answer) => answer.status === 200).length, 1);
});

test("a code is too old after five minutes", async () => {
  const code = await freshCode();
  clock.move(5 * 60_000 + 1);
  assert.equal((await exchange({ code })).body.error, "invalid_grant");
});

test("an access token ends with its hour; the refresh token goes on and may narrow, never widen, its scope", async () => {
  const tokens = await grantGoogle(sandbox, [READONLY]);
  clock.move(3600_000 - 5_000);
  assert.equal((await gmail(sandbox, tokens.access_token, "/profile")).status, 200);
  clock.move(6_000);
  assert.equal((await gmail(sandbox, tokens.access_token, "/profile")).status, 401);

  const refresh = { ...googleCredentials(sandbox), grant_type: "refresh_token", refresh_token: tokens.refresh_token ?? "" };
  const narrow = await postToken(sandbox, { ...refresh, scope: "openid" });
  assert.equal(narrow.body.scope, "openid");
  assert.equal((await gmail(sandbox, String(narrow.body.access_token), "/profile")).status, 403);
  const wide = await postToken(sandbox, { ...refresh, scope: `openid ${READONLY} https://mail.google.com/` });
  assert.equal(wide.body.error, "invalid_scope");
  const again = await postToken(sandbox, refresh);
  assert.equal((await gmail(sandbox, String(again.body.access_token), "/profile")).status, 200);
});

test("revoking a refresh token ends its access tokens, and revoking it again is Google's 400 invalid_token", async () => {
  const tokens = await grantGoogle(sandbox, [READONLY]);
  const revoke = (form: Record<string, string>) =>
    fetch(sandbox.google.endpoints.revocation ?? "", { method: "POST", body: new URLSearchParams(form) });
  assert.equal(
    (await revoke({ token: tokens.refresh_token ?? "", client_id: sandbox.google.clientId, client_secret: "guess" })).status,
    401,
  );
  assert.equal((await gmail(sandbox, tokens.access_token, "/profile")).status, 200);
  assert.equal((await revoke({ token: tokens.refresh_token ?? "" })).status, 200);
  assert.equal((await gmail(sandbox, tokens.access_token, "/profile")).status, 401);
  const unknown = await revoke({ token: "made-up" });
  assert.equal(unknown.status, 400);
  assert.equal(((await unknown.json()) as { error: string }).error, "invalid_token");
});

test("one person's revocation leaves the other's grant alone", async () => {
  const mara = await grantGoogle(sandbox, [READONLY]);
  const tomas = await grantGoogle(sandbox, [READONLY], { person: "Tomás" });
  await fetch(sandbox.google.endpoints.revocation ?? "", { method: "POST", body: new URLSearchParams({ token: mara.access_token }) });
  assert.equal((await gmail(sandbox, mara.access_token, "/profile")).status, 401);
  assert.equal((await gmail(sandbox, tomas.access_token, "/profile")).body.emailAddress, "tomas.okafor@harbourlight.example");
});

test("token answers are never stored by anybody on the way", async () => {
  const answer = await fetch(sandbox.google.endpoints.token ?? "", {
    method: "POST",
    body: new URLSearchParams({
      ...googleCredentials(sandbox),
      grant_type: "authorization_code",
      code: await freshCode(),
      redirect_uri: GMAIL_CALLBACK,
      code_verifier: VERIFIER,
    }),
  });
  assert.equal(answer.headers.get("cache-control"), "no-store");
  assert.equal(answer.headers.get("pragma"), "no-cache");
});
