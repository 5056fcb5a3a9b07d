// What the sandbox's tests share: a clock that a test moves, a sandbox of its own, and grants made the long way.
import { randomBytes } from "node:crypto";
import { after } from "node:test";
import * as client from "openid-client";
import { type Clock, systemClock } from "../../src/clock.js";
import { type Sandbox, startSandbox } from "../../src/sandbox/sandbox.js";
import { authorizeAs, type PersonAnswers } from "../support/awkwardPerson.js";
import { silentLog } from "../support/silentLog.js";

export const PUBLIC_URL = "http://localhost:3000";
export const GMAIL_CALLBACK = `${PUBLIC_URL}/connect/callback/gmail`;
export const SLACK_CALLBACK = `${PUBLIC_URL}/connect/callback/slack`;
export const READONLY = "https://www.googleapis.com/auth/gmail.readonly";
export const SEND = "https://www.googleapis.com/auth/gmail.send";
export const MODIFY = "https://www.googleapis.com/auth/gmail.modify";
export const COMPOSE = "https://www.googleapis.com/auth/gmail.compose";

// Registered here, not where a sandbox is opened: inside a hook, `after` would close it when the hook ends.
const opened = new Set<Sandbox>();
after(async () => {
  for (const sandbox of opened) await sandbox.close();
});

export interface MovableClock extends Clock {
  move(ms: number): void;
}

export function movableClock(): MovableClock {
  let aheadMs = 0;
  return {
    ...systemClock,
    now: () => systemClock.now() + aheadMs,
    date: () => new Date(systemClock.now() + aheadMs),
    randomBytes: (length) => randomBytes(length),
    move(ms) {
      aheadMs += ms;
    },
  };
}

export async function openSandboxForTests(options: { file?: string | null; clock?: Clock } = {}): Promise<Sandbox> {
  const sandbox = await startSandbox({
    port: 0,
    publicUrl: PUBLIC_URL,
    file: options.file ?? null,
    clock: options.clock ?? systemClock,
    log: silentLog,
  });
  opened.add(sandbox);
  return sandbox;
}

/** openid-client, set up as the program sets it up. */
export async function googleClient(sandbox: Sandbox, auth: "post" | "basic" = "post"): Promise<client.Configuration> {
  const { clientId, clientSecret, endpoints } = sandbox.google;
  const method = auth === "post" ? client.ClientSecretPost(clientSecret.reveal()) : client.ClientSecretBasic(clientSecret.reveal());
  const configuration = await client.discovery(new URL(endpoints.issuer ?? ""), clientId, undefined, method, {
    execute: [client.allowInsecureRequests],
  });
  client.enableNonRepudiationChecks(configuration);
  return configuration;
}

export interface GoogleFlow {
  url: URL;
  checks: { pkceCodeVerifier: string; expectedState: string; expectedNonce: string; idTokenExpected: boolean };
}

export async function beginGoogle(
  configuration: client.Configuration,
  scopes: readonly string[],
  extra: Record<string, string> = { access_type: "offline", prompt: "consent" },
): Promise<GoogleFlow> {
  const pkceCodeVerifier = client.randomPKCECodeVerifier();
  const expectedState = client.randomState();
  const expectedNonce = client.randomNonce();
  const url = client.buildAuthorizationUrl(configuration, {
    redirect_uri: GMAIL_CALLBACK,
    scope: scopes.join(" "),
    state: expectedState,
    nonce: expectedNonce,
    code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
    code_challenge_method: "S256",
    ...extra,
  });
  return { url, checks: { pkceCodeVerifier, expectedState, expectedNonce, idTokenExpected: scopes.includes("openid") } };
}

export type GoogleTokens = Awaited<ReturnType<typeof client.authorizationCodeGrant>>;

export async function grantGoogle(
  sandbox: Sandbox,
  scopes: readonly string[],
  answers: PersonAnswers & { params?: Record<string, string> } = {},
): Promise<GoogleTokens> {
  const configuration = await googleClient(sandbox);
  const flow = await beginGoogle(configuration, ["openid", "email", ...scopes], answers.params);
  return client.authorizationCodeGrant(configuration, await authorizeAs(flow.url, answers), flow.checks);
}

/** An authorization URL that fits, to be spoilt by a test. */
export function googleUrl(sandbox: Sandbox, change: Record<string, string | null> = {}): string {
  const url = new URL(sandbox.google.endpoints.authorization ?? "");
  const params: Record<string, string | null> = {
    client_id: sandbox.google.clientId,
    redirect_uri: GMAIL_CALLBACK,
    response_type: "code",
    scope: `openid ${READONLY}`,
    state: "state-1",
    code_challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    code_challenge_method: "S256",
    ...change,
  };
  for (const [name, value] of Object.entries(params)) if (value !== null) url.searchParams.set(name, value);
  return url.href;
}

/** The verifier of the challenge above (RFC 7636 appendix B). */
export const VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

export async function postToken(
  sandbox: Sandbox,
  form: Record<string, string>,
): Promise<{ status: number; body: Record<string, unknown> }> {
  const answer = await fetch(sandbox.google.endpoints.token ?? "", { method: "POST", body: new URLSearchParams(form) });
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
}

export function googleCredentials(sandbox: Sandbox): Record<string, string> {
  return { client_id: sandbox.google.clientId, client_secret: sandbox.google.clientSecret.reveal() };
}

export interface JsonAnswer {
  status: number;
  headers: Headers;
  // Answers are read by path in assertions; a shape per call would say no more.
  body: JsonObject;
}
export type Json = string | number | boolean | null | undefined | JsonObject | Json[];
export interface JsonObject {
  [name: string]: Json;
}

export async function gmail(sandbox: Sandbox, token: string, path: string, json?: unknown): Promise<JsonAnswer> {
  const answer = await fetch(`${sandbox.google.endpoints.api}/gmail/v1/users/me${path}`, {
    headers: { Authorization: `Bearer ${token}`, ...(json !== undefined && { "Content-Type": "application/json" }) },
    ...(json !== undefined && { method: "POST", body: JSON.stringify(json) }),
  });
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as JsonObject };
}

/** Reads `messages.0.id` in an answer. */
export function at(value: Json, path: string): Json {
  return path
    .split(".")
    .reduce<Json>((inner, key) => (typeof inner === "object" && inner !== null ? (inner as Record<string, Json>)[key] : undefined), value);
}

export function list(value: Json, path: string): JsonObject[] {
  const found = at(value, path);
  return Array.isArray(found) ? (found as JsonObject[]) : [];
}

export async function slackCode(sandbox: Sandbox, scopes: { user?: string; bot?: string }, answers: PersonAnswers = {}): Promise<URL> {
  const url = new URL(sandbox.slack.endpoints.authorization ?? "");
  url.searchParams.set("client_id", sandbox.slack.clientId);
  url.searchParams.set("redirect_uri", SLACK_CALLBACK);
  url.searchParams.set("state", "state-2");
  if (scopes.user) url.searchParams.set("user_scope", scopes.user);
  if (scopes.bot) url.searchParams.set("scope", scopes.bot);
  return authorizeAs(url, answers);
}

export async function slackAccess(sandbox: Sandbox, form: Record<string, string>): Promise<JsonAnswer> {
  const body = new URLSearchParams({
    client_id: sandbox.slack.clientId,
    client_secret: sandbox.slack.clientSecret.reveal(),
    redirect_uri: SLACK_CALLBACK,
    ...form,
  });
  const answer = await fetch(sandbox.slack.endpoints.token ?? "", { method: "POST", body });
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as JsonObject };
}

export async function grantSlack(sandbox: Sandbox, scopes: string, answers: PersonAnswers = {}): Promise<string> {
  const code = (await slackCode(sandbox, { user: scopes }, answers)).searchParams.get("code") ?? "";
  return String(at((await slackAccess(sandbox, { code })).body, "authed_user.access_token"));
}

export async function slack(
  sandbox: Sandbox,
  token: string | null,
  method: string,
  args: Record<string, unknown> = {},
): Promise<JsonAnswer> {
  const answer = await fetch(`${sandbox.slack.endpoints.api}/${method}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(token !== null && { Authorization: `Bearer ${token}` }) },
    body: JSON.stringify(args),
  });
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as JsonObject };
}
