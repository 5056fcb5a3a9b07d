// The one installation that the matrix is run against: everybody signed in once, with what they hold, and a look at what changed.
import assert from "node:assert/strict";
import { MARA, TOMAS } from "../../src/sandbox/people.js";
import { type Browser, createBrowser, hiddenFields } from "../support/browser.js";
import { startKeyedApi } from "../support/keyedApi.js";
import { registered, type TestClient, type Tokens, tokensFor } from "../support/oauthClient.js";
import { ADMIN_KEY, type Outband, PASSWORD, startOutband } from "../support/outband.js";
import type { Reply } from "./cell.js";
import { ACTORS, type Actor, emailOf, HERE, nameOf, PEOPLE, type Person } from "./people.js";
import { openRecords, type Records } from "./records.js";
import { type Seed, seed } from "./seed.js";

const GOOGLE = ["openid", "email", "https://www.googleapis.com/auth/gmail.readonly", "https://www.googleapis.com/auth/gmail.send", "https://www.googleapis.com/auth/gmail.modify", "https://www.googleapis.com/auth/gmail.compose"];
const SLACK = ["channels:read", "groups:read", "chat:write", "channels:history", "groups:history", "users:read", "users:read.email", "reactions:write"];

export interface Visitor {
  cookie: string;
  csrf: string;
}

export interface World extends Seed {
  outband: Outband;
  records: Records;
  visitors: Record<Actor, Visitor>;
  /** Everybody's default account at the practice Google, which answers. */
  real: Record<string, string>;
  /** The newest letter in each one's mailbox, as the provider itself tells: who reads another's mailbox shows by it. */
  letters: Record<string, string>;
  clients: { one: TestClient; two: TestClient; third: TestClient };
  bearers: Record<string, string>;
  grants: Record<string, Tokens>;
  keys: Record<string, string>;
  needles: { sub: string; kind: string; text: string }[];
  secrets: { kind: string; text: string }[];
  send(method: string, path: string, options?: { cookie?: string; form?: Record<string, string>; json?: unknown; headers?: Record<string, string> }): Promise<Reply>;
  /** As a person at a browser; a form carries the session's token unless told another. */
  visit(actor: Actor, method: string, path: string, form?: Record<string, string>, more?: { csrf?: string; cookie?: string; headers?: Record<string, string> }): Promise<Reply>;
  takeAccount(person: Person): string;
  close(): Promise<void>;
}

export async function makeWorld(kind: "embedded" | "postgresql"): Promise<World> {
  const outband = await startOutband({ kind });
  const keyed = await startKeyedApi();
  await must(outband.api("POST", "/connections", { name: "keyed", connector: "generic-api-key", title: "Keyed", endpoints: { api: keyed.origin } }), 201);
  await must(outband.api("POST", "/users", { sub: PEOPLE.other.sub, email: emailOf("other"), password: PASSWORD, name: nameOf("other") }), 201);
  const seeded = await seed(outband);
  const send: World["send"] = (method, path, options) => sendTo(outband.url, method, path, options);
  const signIns = await everybodySignedIn(outband);
  const real = await realAccounts(outband);
  const secrets = real.secrets;
  const clients = { one: await registered(outband.url), two: await registered(outband.url, { client_name: "Second Client" }), third: await registered(outband.url, { client_name: "Third Client" }) };
  const grants: Record<string, Tokens> = {};
  for (const person of ["owner", "other"] as const) {
    for (const name of ["one", "two", "third"] as const) grants[`${person} by client ${name}`] = await tokensFor(outband.url, signIns.browsers[person] as Browser, clients[name]);
  }
  grants["owner, reading alone"] = await tokensFor(outband.url, signIns.browsers.owner as Browser, clients.one, {}, { decision: "allow" });
  for (const person of ["disabled", "deleted"] as const) grants[person] = await tokensFor(outband.url, signIns.browsers[person] as Browser, clients.one);
  const bearers: Record<string, string> = Object.fromEntries(Object.entries(grants).map(([name, { access }]) => [name, access]));
  const keys = await apiKeys(outband);
  for (const person of ["owner", "other"] as const) bearers[`${person}'s META session`] = (await must(outband.api("POST", "/session-tokens", { identifier: PEOPLE[person].sub, ttl_s: 3_600, endpoint: "/mcp/meta" }, keys["execute"]), 201)).token;
  for (const person of HERE) bearers[`${person}'s session`] = (await must(outband.api("POST", "/session-tokens", { identifier: PEOPLE[person].sub, ttl_s: 3_600 }, keys["execute"]), 201)).token;
  await must(outband.api("PATCH", `/users/${encodeURIComponent(PEOPLE.disabled.sub)}`, { role: "disabled" }), 200);
  await must(outband.api("DELETE", `/users/${encodeURIComponent(PEOPLE.deleted.sub)}`), 204);

  const records = await openRecords(outband);
  return {
    ...seeded,
    outband,
    records,
    visitors: signIns.visitors,
    real: real.accounts,
    letters: real.letters,
    clients,
    grants,
    bearers: { ...bearers, ...seeded.tokens },
    keys: { ...keys, expired: seeded.expiredKey },
    needles: await needlesOf(outband, seeded, real.accounts),
    secrets,
    send,
    visit: (actor, method, path, form, more = {}) => {
      const visitor = signIns.visitors[actor];
      const fields = method === "GET" || method === "HEAD" ? undefined : { _csrf: more.csrf ?? visitor.csrf, ...form };
      return send(method, path, { cookie: more.cookie ?? visitor.cookie, headers: { accept: "text/html", ...more.headers }, ...(fields ? { form: fields } : {}) });
    },
    takeAccount: (person) => seeded.spares[person]?.accounts.pop() ?? assert.fail(`no spare account of ${person} is left`),
    close: async () => {
      await records.close();
      await outband.close();
    },
  };
}

async function must(answer: Promise<{ status: number; body: Record<string, string> }>, status: number): Promise<Record<string, string> & { token: string; id: string; key: string }> {
  const { status: given, body } = await answer;
  assert.equal(given, status, JSON.stringify(body));
  return body as Awaited<ReturnType<typeof must>>;
}

async function sendTo(url: string, method: string, path: string, options: Parameters<World["send"]>[2] = {}): Promise<Reply> {
  const { cookie, form, json } = options;
  const headers = { ...(cookie === undefined || cookie === "" ? {} : { cookie }), ...(json === undefined ? {} : { "content-type": "application/json" }), ...options.headers };
  const body = form ? new URLSearchParams(form) : json === undefined ? undefined : JSON.stringify(json);
  const answer = await fetch(url + path, { method, redirect: "manual", headers, ...(body === undefined ? {} : { body }) });
  const location = answer.headers.get("location");
  return { status: answer.status, location: location?.startsWith(`${url}/`) ? location.slice(url.length) : location, text: await answer.text() };
}

/** Once each; nobody and those who are gone keep the cookies that they had. */
async function everybodySignedIn(outband: Outband): Promise<{ visitors: World["visitors"]; browsers: Record<string, Browser> }> {
  const visitors = {} as World["visitors"];
  const browsers: Record<string, Browser> = {};
  for (const actor of ACTORS) {
    const browser = createBrowser(outband.url);
    const login = await browser.get("/login");
    if (actor !== "nobody") {
      const email = emailOf(actor === "signed out" ? "other" : actor);
      assert.equal((await browser.post("/login", { email, password: PASSWORD }, { from: login })).status, 303, actor);
    }
    const page = await browser.get(actor === "nobody" ? "/login" : "/account");
    browsers[actor] = browser;
    visitors[actor] = { cookie: `outband_session=${browser.cookie("outband_session")}`, csrf: hiddenFields(page.text)["_csrf"] ?? assert.fail(`no form for ${actor}`) };
    if (actor === "signed out") assert.equal((await browser.post("/logout", {}, { from: page })).status, 303);
  }
  return { visitors, browsers };
}

async function realAccounts(outband: Outband): Promise<{ accounts: Record<string, string>; letters: Record<string, string>; secrets: World["secrets"] }> {
  const accounts: Record<string, string> = {};
  const letters: Record<string, string> = {};
  const secrets: World["secrets"] = [];
  for (const person of HERE) {
    const upstream = person === "owner" ? MARA : TOMAS;
    const { google, slack } = outband.provider.grants;
    const ofGoogle = google.issue({ person: upstream.sub, kind: "google", scopes: GOOGLE, withRefresh: true });
    const put = { identifier: PEOPLE[person].sub, credential: { type: "oauth", access_token: ofGoogle.access, refresh_token: ofGoogle.refresh, expires_at: new Date(Date.now() + 7_200_000).toISOString(), scopes: GOOGLE } };
    accounts[person] = (await must(outband.api("POST", "/accounts", { connection_name: "gmail", ...put }), 201)).id;
    secrets.push({ kind: `${person}'s access token`, text: ofGoogle.access }, { kind: `${person}'s refresh token`, text: String(ofGoogle.refresh) });
    letters[person] = await newestLetter(outband, ofGoogle.access);
    if (person !== "owner" && person !== "other") continue;
    const ofSlack = slack.issue({ person: upstream.slackId, kind: "user", scopes: SLACK, withRefresh: false });
    accounts[`${person} on slack`] = (await must(outband.api("POST", "/accounts", { connection_name: "slack", identifier: PEOPLE[person].sub, credential: { type: "oauth", access_token: ofSlack.access, scopes: SLACK } }), 201)).id;
    secrets.push({ kind: `${person}'s slack token`, text: ofSlack.access });
  }
  assert.notEqual(letters["owner"], letters["other"]);
  return { accounts, letters, secrets };
}

async function newestLetter({ provider }: Outband, token: string): Promise<string> {
  const answer = await fetch(`${provider.google.endpoints.api}/gmail/v1/users/me/messages?maxResults=1`, { headers: { authorization: `Bearer ${token}` } });
  const { messages } = (await answer.json()) as { messages: { id: string }[] };
  return messages[0]?.id ?? assert.fail("an empty mailbox");
}

async function apiKeys(outband: Outband): Promise<Record<string, string>> {
  const keys: Record<string, string> = { "the settings' own": ADMIN_KEY, "a guess": `obk_${"A".repeat(43)}` };
  for (const [name, scopes] of Object.entries({ read: ["read"], execute: ["execute"], manage: ["manage"], admin: ["admin"], "all but admin": ["read", "execute", "manage"], deleted: ["admin"] })) {
    const made = await must(outband.api("POST", "/api-keys", { name: `for ${name}`, scopes, return_to_origins: ["https://app.example"] }), 201);
    keys[name] = made.key;
    if (name === "deleted") await must(outband.api("DELETE", `/api-keys/${made.id}`), 204);
  }
  return keys;
}

/** What tells one person from all others, in an answer. */
async function needlesOf(outband: Outband, seeded: Seed, real: World["real"]): Promise<World["needles"]> {
  const needles: World["needles"] = [];
  for (const person of Object.keys(PEOPLE) as Person[]) {
    const { sub } = PEOPLE[person];
    const add = (kind: string, text: string | null): void => void (text && needles.push({ sub, kind, text }));
    add("the identifier", sub);
    add("the e-mail address", emailOf(person));
    add("the name", nameOf(person));
    const { data } = (await outband.api("GET", `/accounts?limit=200&identifier=${encodeURIComponent(sub)}`)).body;
    for (const account of data) {
      add("an account id", account.id);
      if (account.label !== "") add("a label", account.label);
      // The two practice people write to each other, so that their addresses are in everybody's letters.
      if (account.id !== real[person] && account.id !== real[`${person} on slack`]) add("an upstream address", account.external_account?.email);
    }
    for (const { id, token } of [...Object.values((seeded.links as Record<string, object>)[person] ?? {}), ...(seeded.spares[person]?.oauth ?? []), ...(seeded.spares[person]?.key ?? [])]) {
      add("a link's id", id);
      add("a link's token", token);
    }
  }
  return needles;
}
