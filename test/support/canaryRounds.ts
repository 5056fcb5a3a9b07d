// Secrets by the thousand through the whole program: each round is one person with accounts put over the API, keys, sign-ins,
// links and mishaps. What is typed or issued here is written down; the rest is read off the wire by secretsOf.ts.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { GMAIL_READ, GMAIL_SEND } from "../../src/connectors/gmail/scopes.js";
import { MARA } from "../../src/sandbox/people.js";
import { type Browser, createBrowser } from "./browser.js";
import type { EchoingApi } from "./echoingApi.js";
import { connect } from "./journey.js";
import { callTool } from "./mcpCall.js";
import type { Secret } from "./needles.js";
import { approve, attempt, codeOf, exchange, LOOPBACK_REDIRECT, refresh, register } from "./oauthClient.js";
import type { Answer, Outband } from "./outband.js";

/** Sign-ins from one address are limited to 100 in a quarter of an hour, registrations to 100 an hour. */
export const ROUNDS_MAX = 90;
const PUT_EACH = 6;
const KEYS_EACH = 3;
/** API keys, session tokens, links that nobody opens, refreshes of an MCP client. */
const GIVEN_EACH = 8;
const REFRESHES_EACH = 20;
const LINKS = ["gmail", "slack", "gmail", "slack"] as const;

export interface Canaries {
  typed: Secret[];
  round(nth: number): Promise<void>;
}

/** The connections `ledger` (key in a header) and `meter` (in a query) are made here; `planted` is no secret, and must be found. */
export async function createCanaries(outband: Outband, keyApi: EchoingApi, planted: Secret): Promise<Canaries> {
  const typed: Secret[] = [];
  const fresh = (kind: string, prefix: string): string => {
    const value = prefix + randomBytes(24).toString("base64url");
    typed.push({ kind, value });
    return value;
  };
  const done = async (asked: Promise<Answer>, ...statuses: number[]): Promise<Answer> => {
    const answer = await asked;
    assert.ok(statuses.includes(answer.status), `${answer.status} ${JSON.stringify(answer.body)}`);
    return answer;
  };
  const { api } = outband;
  for (const [name, settings] of [
    ["ledger", { probe: { method: "GET", path: "/v1/me", status: 200 } }],
    ["meter", { api_key: { in: "query", name: "key" }, probe: { method: "GET", path: "/v2/me", status: 200 } }],
  ] as const) {
    await done(api("POST", "/connections", { name, connector: "generic-api-key", title: name, endpoints: { api: keyApi.origin }, settings }), 201);
  }

  /** Tokens that the practice Google knows, and that nobody got from it. */
  function issued(): Record<string, unknown> {
    const tokens = outband.provider.grants.google.issue({ person: MARA.sub, kind: "google", scopes: [GMAIL_READ, GMAIL_SEND, "openid", "email"], withRefresh: true });
    typed.push({ kind: "upstream access token", value: tokens.access }, { kind: "upstream refresh token", value: tokens.refresh ?? "" });
    return { type: "oauth", access_token: tokens.access, refresh_token: tokens.refresh, scopes: tokens.scopes, expires_at: new Date(Date.now() + 3_600_000).toISOString() };
  }

  async function putAccounts(sub: string): Promise<void> {
    const ids: string[] = [];
    for (let nth = 0; nth < PUT_EACH; nth += 1) {
      const put = await done(api("POST", "/accounts", { connection_name: "gmail", identifier: sub, label: `put ${nth}`, credential: issued() }), 200, 201);
      ids.push(put.body.id);
    }
    for (const id of ids) await done(api("PUT", `/accounts/${id}/credential`, { credential: issued() }), 200);
    const [renewed = "", failing = "", ended = "", gone = "", purged = ""] = ids;
    await done(api("POST", `/accounts/${renewed}/refresh`), 200);
    const said = typed.at(-1)?.value ?? "";
    const parrot = (error: string) => ({ error, error_description: `No ${said}`, error_uri: `https://provider.example/?${said}`, [said]: said });
    outband.provider.fault({ match: "POST /google/token", status: 500, body: parrot("server_error") });
    await done(api("POST", `/accounts/${failing}/refresh`), 503);
    outband.provider.fault({ match: "POST /google/token", status: 400, body: parrot(`invalid_grant: ${said}`) });
    await done(api("POST", `/accounts/${ended}/refresh`), 200, 503);
    await done(api("DELETE", `/accounts/${gone}`), 200);
    await done(api("DELETE", `/accounts/${purged}?purge=true`), 200);
    await done(api("PATCH", `/accounts/${renewed}`, { label: planted.value }), 200);
  }

  async function putKeys(sub: string): Promise<void> {
    for (const [connection, kind, prefix] of [["ledger", "key in a header", "hk_"], ["meter", "key in a query", "qk/+"]] as const) {
      for (let nth = 0; nth < KEYS_EACH; nth += 1) {
        const key = fresh(kind, prefix);
        keyApi.keys.add(key);
        const account = await done(api("POST", "/accounts", { connection_name: connection, identifier: sub, label: `key ${nth}`, credential: { type: "api_key", fields: { api_key: key } } }), 200, 201);
        const bad = nth === 0 ? fresh("refused key", "bad_") : `${fresh("malformed key", "torn_")}\u0007`;
        const refused = await api("PUT", `/accounts/${account.body.id}/credential`, { credential: { type: "api_key", fields: { api_key: bad } } });
        assert.ok(refused.status >= 400, JSON.stringify(refused.body));
      }
    }
  }

  async function connectionOf(nth: number): Promise<void> {
    const { clientId, endpoints } = outband.provider.google;
    await done(api("POST", "/connections", { name: `mail-${nth}`, connector: "gmail", client_id: clientId, client_secret: fresh("upstream client secret", "GOCSPX-"), endpoints }), 201);
    await done(api("PATCH", `/connections/mail-${nth}`, { client_secret: fresh("upstream client secret", "GOCSPX-") }), 200);
  }

  async function ownClient(browser: Browser): Promise<string> {
    const made = await register(outband.url, { token_endpoint_auth_method: "client_secret_post" });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const client = { id: String(made.body.client_id), redirectUri: LOOPBACK_REDIRECT };
    const proof = { client_secret: String(made.body.client_secret) };
    let access = "";
    for (let nth = 0; nth < 2; nth += 1) {
      const request = attempt(outband.url, client, { state: randomBytes(16).toString("hex") });
      const code = codeOf(await approve(browser, request));
      const first = await exchange(outband.url, client, request, code, proof);
      assert.equal(first.status, 200, JSON.stringify(first.body));
      let tokens = first;
      for (let more = 0; more < REFRESHES_EACH / 2; more += 1) {
        tokens = await refresh(outband.url, client, String(tokens.body.refresh_token), proof);
        assert.equal(tokens.status, 200, JSON.stringify(tokens.body));
      }
      access = String(tokens.body.access_token);
      // Redeemed twice: the whole family ends, and says so in the log.
      if (nth === 0) assert.equal((await exchange(outband.url, client, request, code, proof)).status, 400);
    }
    return access;
  }

  async function links(sub: string, browser: Browser): Promise<void> {
    for (const [nth, name] of LINKS.entries()) {
      const link = await done(api("POST", "/authorization-links", { connection_name: name, identifier: sub, label: `link ${nth}` }), 200, 201);
      const page = await connect(link.body.url, browser);
      assert.equal(page.status, 200, page.text);
    }
  }

  async function mishaps(sub: string, access: string): Promise<void> {
    const wrong = (): string => fresh("put access token", "ya29.wrong-");
    const put = (credential: unknown, more = {}) => done(api("POST", "/accounts", { connection_name: "gmail", identifier: sub, credential, ...more }), 400, 404, 422);
    const [one, two, three, four, five] = [wrong(), wrong(), wrong(), wrong(), wrong()];
    await put({ type: "oauth", access_token: one, [one]: one });
    await put({ type: two, access_token: two });
    await put({ type: "oauth", access_token: three }, { connection_name: three });
    await fetch(`${outband.url}/mcp`, { method: "POST", headers: { authorization: `Bearer ${four}`, "content-type": "application/json" }, body: `{"token":"${four}` });
    await api("GET", `/accounts/${five}?${five}=${five}`);
    await callTool(outband.url, access, "gmail_list_messages", { [access]: access, max_results: access });
    outband.provider.fault({ match: /gmail\/v1\/users\/\{user\}\/messages$/, status: 403, body: { error: { code: 403, message: access, errors: [{ reason: access }] } } });
    await callTool(outband.url, access, "gmail_list_messages", { account: "put 3" });
    outband.provider.clearFaults();
    await callTool(outband.url, access, "summarize_inbox", { account: "unopened" });
  }

  return {
    typed,
    async round(nth) {
      const sub = `person-${nth}`;
      const email = `${sub}@people.example`;
      await done(api("POST", "/users", { sub, email, password: fresh("password", "first "), name: sub }), 201);
      const password = fresh("password", "next ");
      await done(api("PATCH", `/users/${sub}`, { password }), 200);
      await done(api("POST", "/users", { email: `invited-${email}`, role: "viewer" }), 201);
      for (let more = 0; more < GIVEN_EACH; more += 1) {
        await done(api("POST", "/api-keys", { name: `${sub} ${more}`, scopes: ["read"] }), 201);
        await done(api("POST", "/session-tokens", { identifier: sub, ttl_s: 3_600 + more }), 201);
        await done(api("POST", "/authorization-links", { connection_name: "gmail", identifier: sub, label: `unopened ${more}` }), 200, 201);
      }
      const browser = createBrowser(outband.url);
      const page = await browser.get("/login");
      if (nth % 10 === 0) assert.equal((await browser.post("/login", { email, password: fresh("wrong password", "wrong ") }, { from: page })).status, 401);
      assert.equal((await browser.post("/login", { email, password }, { from: page })).status, 303);
      await putAccounts(sub);
      await putKeys(sub);
      await connectionOf(nth);
      await links(sub, browser);
      await mishaps(sub, await ownClient(browser));
      for (const path of ["/connections", "/account"]) assert.equal((await browser.get(path)).status, 200, path);
    },
  };
}
