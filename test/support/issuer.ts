// An awkward OpenID Connect issuer on loopback: it signs people in without asking, checks what an issuer must check, counts,
// and lies on command. Lies stay until `honest()`.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { calculateJwkThumbprint, type CryptoKey, exportJWK, exportSPKI, generateKeyPair, SignJWT } from "jose";

export type Claims = Record<string, unknown>;
export type Endpoint = "discovery" | "authorize" | "token" | "jwks" | "userinfo";
/** Who signs a token: the current key; an older or a foreign one; nobody; or the public key taken for a shared secret. */
export type Signer = "current" | "foreign" | "none" | "public_as_secret";

export interface Lies {
  idToken?: Claims | undefined;
  header?: Claims;
  signer?: Signer;
  userinfo?: Claims;
  metadata?: Claims;
  /** Changes of the answer's parameters; undefined leaves one out. */
  answer?: Record<string, string | undefined>;
  status?: Partial<Record<Endpoint, number>>;
  delayMs?: Partial<Record<Endpoint, number>>;
  /** In place of every body with an error status, and in errors of the answer. */
  text?: string;
}

export interface Issuer {
  url: string;
  clientId: string;
  clientSecret: string;
  /** For the program under test. */
  settings: Record<string, string>;
  /** Who is signed in there: the next authorization is theirs. */
  person: Claims & { sub: string };
  /** Claims besides `sub` are told at userinfo alone. */
  thin: boolean;
  lies: Lies;
  honest(): void;
  /** A new key; the old one is published no longer. */
  rotate(): Promise<void>;
  count(endpoint: Endpoint): number;
  /** Parameters of the authorization requests so far. */
  asked: URLSearchParams[];
  /** An access token as RFC 9068 has it, bent where a test says so; null leaves a claim out. */
  accessToken(claims: Claims, how?: { header?: Claims; signer?: Signer; key?: CryptoKey }): Promise<string>;
  currentKey(): CryptoKey;
  close(): Promise<void>;
}

interface Code {
  redirectUri: string;
  challenge: string;
  nonce: string | null;
  person: Claims & { sub: string };
}

const started = new Set<Issuer>();
after(async () => {
  for (const issuer of started) await issuer.close();
});

export async function startIssuer(options: { path?: string; port?: number } = {}): Promise<Issuer> {
  const path = options.path ?? "";
  const codes = new Map<string, Code>();
  const access = new Map<string, Claims & { sub: string }>();
  const counts = new Map<Endpoint, number>();
  const foreign = await generateKeyPair("ES256");
  let key = await newKey();

  const server = createServer((request, response) => {
    answer(request, response).catch((thrown: unknown) => {
      if (!response.headersSent) response.writeHead(500, { "content-type": "text/plain" });
      response.end(String(thrown));
    });
  });
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, "127.0.0.1", resolve));
  const origin = `http://localhost:${(server.address() as AddressInfo).port}`;
  const url = origin + path;
  const clientId = "outband";
  const clientSecret = "issuer's secret+for/outband=";

  async function newKey() {
    const pair = await generateKeyPair("ES256", { extractable: true });
    const jwk = await exportJWK(pair.publicKey);
    const kid = await calculateJwkThumbprint(jwk);
    return { ...pair, kid, jwk: { ...jwk, kid, alg: "ES256", use: "sig" } };
  }

  async function sign(claims: Claims, typ: string, how: { header?: Claims | undefined; signer?: Signer | undefined; key?: CryptoKey | undefined }): Promise<string> {
    const whole = Object.fromEntries(Object.entries(claims).filter(([, value]) => value !== null && value !== undefined));
    const header: Claims & { alg: string } = { alg: "ES256", typ, kid: key.kid, ...how.header };
    if (how.signer === "none") {
      const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
      return `${part({ ...header, alg: "none" })}.${part(whole)}.`;
    }
    if (how.signer === "public_as_secret") {
      const secret = new TextEncoder().encode(await exportSPKI(key.publicKey));
      return new SignJWT(whole).setProtectedHeader({ ...header, alg: "HS256" }).sign(secret);
    }
    const crit = Object.fromEntries((Array.isArray(header["crit"]) ? header["crit"] : []).map((name) => [String(name), true]));
    return new SignJWT(whole).setProtectedHeader(header).sign(how.key ?? (how.signer === "foreign" ? foreign.privateKey : key.privateKey), { crit });
  }

  const nowS = () => Math.floor(Date.now() / 1000);

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const asked = new URL(request.url ?? "/", origin);
    const endpoint = ENDPOINTS[asked.pathname.slice(path.length)];
    if (endpoint === undefined || !asked.pathname.startsWith(path)) return void response.writeHead(404).end();
    counts.set(endpoint, (counts.get(endpoint) ?? 0) + 1);
    const { lies } = issuer;
    const delayMs = lies.delayMs?.[endpoint];
    if (delayMs !== undefined) await sleep(delayMs);
    const status = lies.status?.[endpoint];
    if (status !== undefined) return send(response, status, { error: "server_error", error_description: lies.text ?? "told to fail" });
    switch (endpoint) {
      case "discovery":
        return send(response, 200, { ...metadata(), ...lies.metadata });
      case "jwks":
        return send(response, 200, { keys: [key.jwk] });
      case "authorize":
        return authorize(asked.searchParams, response);
      case "token":
        return token(request, new URLSearchParams(await bodyOf(request)), response);
      case "userinfo":
        return userinfo(request, response);
      default:
        endpoint satisfies never;
    }
  }

  function metadata(): Claims {
    return {
      issuer: url,
      authorization_endpoint: `${url}/authorize`,
      token_endpoint: `${url}/token`,
      jwks_uri: `${url}/jwks`,
      userinfo_endpoint: `${url}/userinfo`,
      scopes_supported: ["openid", "email", "profile", "groups"],
      response_types_supported: ["code"],
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: ["ES256", "RS256"],
      code_challenge_methods_supported: ["S256"],
      authorization_response_iss_parameter_supported: true,
    };
  }

  function authorize(params: URLSearchParams, response: ServerResponse): void {
    issuer.asked.push(params);
    assert.equal(params.get("client_id"), clientId);
    assert.equal(params.get("response_type"), "code");
    assert.equal(params.get("code_challenge_method"), "S256");
    const redirectUri = params.get("redirect_uri") ?? "";
    const code = randomBytes(12).toString("hex");
    codes.set(code, { redirectUri, challenge: params.get("code_challenge") ?? "", nonce: params.get("nonce"), person: structuredClone(issuer.person) });
    const back = new URL(redirectUri);
    const told = { code, state: params.get("state") ?? "", iss: url, ...issuer.lies.answer };
    for (const [name, value] of Object.entries(told)) if (value !== undefined) back.searchParams.append(name, value);
    response.writeHead(302, { location: back.href }).end();
  }

  async function token(request: IncomingMessage, form: URLSearchParams, response: ServerResponse): Promise<void> {
    const basic = /^Basic (.+)$/.exec(request.headers.authorization ?? "")?.[1];
    const [id, secret] = basic === undefined ? [form.get("client_id"), form.get("client_secret")] : Buffer.from(basic, "base64").toString().split(":").map(decoded);
    if (id !== clientId || secret !== clientSecret) return send(response, 401, { error: "invalid_client" });
    const code = codes.get(form.get("code") ?? "");
    codes.delete(form.get("code") ?? "");
    const challenge = createHash("sha256").update(form.get("code_verifier") ?? "").digest("base64url");
    if (code === undefined || code.challenge !== challenge || code.redirectUri !== form.get("redirect_uri")) return send(response, 400, { error: "invalid_grant", error_description: issuer.lies.text });
    const opaque = randomBytes(16).toString("hex");
    access.set(opaque, code.person);
    const { sub, ...rest } = code.person;
    const claims = { iss: url, aud: clientId, sub, nonce: code.nonce, iat: nowS(), exp: nowS() + 300, ...(issuer.thin ? {} : rest), ...issuer.lies.idToken };
    const { header, signer } = issuer.lies;
    send(response, 200, { access_token: opaque, token_type: "Bearer", expires_in: 300, id_token: await sign(claims, "JWT", { header, signer }) });
  }

  function userinfo(request: IncomingMessage, response: ServerResponse): void {
    const person = access.get((request.headers.authorization ?? "").replace(/^Bearer /, ""));
    if (person === undefined) return send(response, 401, { error: "invalid_token" });
    send(response, 200, { ...person, ...issuer.lies.userinfo });
  }

  const issuer: Issuer = {
    url,
    clientId,
    clientSecret,
    settings: { OIDC_ISSUER: url, OIDC_CLIENT_ID: clientId, OIDC_CLIENT_SECRET: clientSecret },
    person: { sub: "nobody" },
    thin: false,
    lies: {},
    honest: () => {
      issuer.lies = {};
    },
    rotate: async () => {
      key = await newKey();
    },
    count: (endpoint) => counts.get(endpoint) ?? 0,
    asked: [],
    accessToken: (claims, how = {}) => sign({ iss: url, iat: nowS(), exp: nowS() + 300, client_id: "agent", scope: "mcp:read mcp:write", ...claims }, "at+jwt", how),
    currentKey: () => key.privateKey,
    close: () =>
      new Promise((resolve) => {
        started.delete(issuer);
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  started.add(issuer);
  return issuer;
}

const ENDPOINTS: Partial<Record<string, Endpoint>> = {
  "/.well-known/openid-configuration": "discovery",
  "/authorize": "authorize",
  "/token": "token",
  "/jwks": "jwks",
  "/userinfo": "userinfo",
};

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return text;
}

/** RFC 6749 section 2.3.1: form-encoded before base64. */
function decoded(text: string): string {
  return decodeURIComponent(text.replaceAll("+", " "));
}
