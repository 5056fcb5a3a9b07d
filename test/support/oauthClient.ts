// An MCP client's OAuth part by hand, so that a test can leave out or bend any single step.
import { createHash, randomBytes } from "node:crypto";
import type { Browser, Page } from "./browser.js";

export interface Answer {
  status: number;
  headers: Headers;
  body: Record<string, unknown>;
}

export interface TestClient {
  id: string;
  redirectUri: string;
}

export interface Attempt {
  url: string;
  verifier: string;
  state: string;
}

export const LOOPBACK_REDIRECT = "http://127.0.0.1:33418/callback";

export async function register(origin: string, metadata: Record<string, unknown> = {}): Promise<Answer> {
  return json(`${origin}/oauth/register`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ client_name: "Test Client", redirect_uris: [LOOPBACK_REDIRECT], token_endpoint_auth_method: "none", ...metadata }),
  });
}

export async function registered(origin: string, metadata: Record<string, unknown> = {}): Promise<TestClient> {
  const answer = await register(origin, metadata);
  if (answer.status !== 201) throw new Error(`registration failed: ${JSON.stringify(answer.body)}`);
  const [redirectUri] = answer.body.redirect_uris as string[];
  return { id: String(answer.body.client_id), redirectUri: redirectUri ?? "" };
}

/** An authorization request; `change` replaces parameters, null leaves one out. */
export function attempt(origin: string, client: TestClient, change: Record<string, string | null> = {}): Attempt {
  const verifier = randomBytes(32).toString("base64url");
  const state = randomBytes(8).toString("hex");
  const parameters: Record<string, string | null> = {
    response_type: "code",
    client_id: client.id,
    redirect_uri: client.redirectUri,
    code_challenge: createHash("sha256").update(verifier).digest("base64url"),
    code_challenge_method: "S256",
    state,
    scope: "mcp:read mcp:write",
    resource: `${origin}/mcp`,
    ...change,
  };
  const url = new URL(`${origin}/oauth/authorize`);
  for (const [name, value] of Object.entries(parameters)) if (value !== null) url.searchParams.set(name, value);
  return { url: url.href, verifier, state };
}

/** Opens the request in a signed-in browser and says yes on the consent page, or gives back what came instead. */
export async function approve(browser: Browser, request: Attempt, fields: Record<string, string> = { decision: "allow", write: "yes" }): Promise<Page> {
  const page = await browser.follow(await browser.get(request.url));
  if (page.status !== 200 || !page.text.includes('name="decision"')) return page;
  const action = /action="(\/oauth\/interaction\/[^"]+)"/.exec(page.text)?.[1] ?? "";
  return browser.follow(await browser.post(action, fields, { from: page }));
}

/** The code out of the redirect to the client. */
export function codeOf(page: Page): string {
  const code = page.location === null ? null : new URL(page.location).searchParams.get("code");
  if (code === null) throw new Error(`no code: ${page.status} ${page.location} ${page.text.slice(0, 2000)}`);
  return code;
}

export async function token(origin: string, form: Record<string, string>, headers: Record<string, string> = {}): Promise<Answer> {
  return json(`${origin}/oauth/token`, { method: "POST", headers, body: new URLSearchParams(form) });
}

export function exchange(origin: string, client: TestClient, request: Attempt, code: string, change: Record<string, string> = {}): Promise<Answer> {
  return token(origin, { grant_type: "authorization_code", client_id: client.id, code, redirect_uri: client.redirectUri, code_verifier: request.verifier, ...change });
}

export function refresh(origin: string, client: TestClient, refreshToken: string, change: Record<string, string> = {}): Promise<Answer> {
  return token(origin, { grant_type: "refresh_token", client_id: client.id, refresh_token: refreshToken, ...change });
}

export interface Tokens {
  access: string;
  refresh: string;
  scope: string;
}

/** The whole way: consent, code, tokens. */
export async function tokensFor(origin: string, browser: Browser, client: TestClient, change: Record<string, string | null> = {}, fields?: Record<string, string>): Promise<Tokens> {
  const request = attempt(origin, client, change);
  const answer = await exchange(origin, client, request, codeOf(await approve(browser, request, fields)));
  if (answer.status !== 200) throw new Error(`no tokens: ${JSON.stringify(answer.body)}`);
  return { access: String(answer.body.access_token), refresh: String(answer.body.refresh_token), scope: String(answer.body.scope) };
}

export async function json(url: string, init: RequestInit = {}): Promise<Answer> {
  const answer = await fetch(url, init);
  const text = await answer.text();
  let body: Record<string, unknown> = {};
  try {
    body = JSON.parse(text) as Record<string, unknown>;
  } catch {
    body = { text };
  }
  return { status: answer.status, headers: answer.headers, body };
}
