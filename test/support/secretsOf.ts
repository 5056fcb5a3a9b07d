// The secrets of a journey, read off the wire: what the providers gave and got, and what the program gave out. A value that
// nobody wrote down is found all the same.
import type { Secret } from "./needles.js";
import type { Exchange } from "./wire.js";

type Side = "ours" | "provider";

interface Source {
  kind: string;
  side: Side;
  path: RegExp;
  read: (exchange: Exchange) => unknown[];
}

const query = (exchange: Exchange, name: string): string | null => new URL(exchange.target, "http://x").searchParams.get(name);
const form = (exchange: Exchange, name: string): string | null => new URLSearchParams(exchange.request.body).get(name);

/** Members of the answer's JSON, wherever they stand in it. */
function members(exchange: Exchange, name: string): unknown[] {
  const found: unknown[] = [];
  try {
    JSON.parse(exchange.answer.body, (key, value: unknown) => {
      if (key === name) found.push(value);
      return value;
    });
  } catch {
    // A page.
  }
  return found;
}

function headers(exchange: Exchange, name: string): string[] {
  return exchange.answer.headers.filter(([key]) => key === name).map(([, value]) => value);
}

function locationQuery(exchange: Exchange, name: string, leadsTo: RegExp): (string | null)[] {
  return headers(exchange, "location")
    .filter((location) => leadsTo.test(location))
    .map((location) => new URL(location, "http://x").searchParams.get(name));
}

/** Of the cookies of that name: the value without its signature, and the signature. */
function cookies(exchange: Exchange, name: string): string[] {
  return headers(exchange, "set-cookie")
    .filter((line) => line.startsWith(`${name}=`))
    .flatMap((line) => decodeURIComponent(line.slice(name.length + 1).split(";")[0] ?? "").replace(/^s:/, "").split("."));
}

function inBody(exchange: Exchange, pattern: RegExp): string[] {
  return [...exchange.answer.body.matchAll(pattern)].map((match) => match[1] ?? "");
}

function basicSecret(exchange: Exchange): string | undefined {
  const header = exchange.request.headers.find(([name]) => name === "authorization")?.[1] ?? "";
  return header.startsWith("Basic ") ? decodeURIComponent(Buffer.from(header.slice(6), "base64").toString().split(":")[1] ?? "") : undefined;
}

const TOKEN = /^\/(google\/token|slack\/api\/oauth\.v2\.access)$/;
const AUTHORIZE = /^\/(google\/authorize|slack\/oauth\/v2\/authorize)$/;
const CALLBACK = /\/connect\/callback\//;
const TO_CLIENT = /^http:\/\/127\.0\.0\.1:33418\//;

const SOURCES: Source[] = [
  { kind: "upstream access token", side: "provider", path: TOKEN, read: (exchange) => members(exchange, "access_token") },
  { kind: "upstream refresh token", side: "provider", path: TOKEN, read: (exchange) => members(exchange, "refresh_token") },
  { kind: "upstream id token", side: "provider", path: TOKEN, read: (exchange) => members(exchange, "id_token") },
  { kind: "upstream client secret", side: "provider", path: TOKEN, read: (exchange) => [form(exchange, "client_secret"), basicSecret(exchange)] },
  { kind: "upstream verifier", side: "provider", path: TOKEN, read: (exchange) => [form(exchange, "code_verifier")] },
  { kind: "upstream code", side: "provider", path: /./, read: (exchange) => locationQuery(exchange, "code", CALLBACK) },
  { kind: "upstream state", side: "provider", path: AUTHORIZE, read: (exchange) => [query(exchange, "state")] },
  { kind: "upstream nonce", side: "provider", path: AUTHORIZE, read: (exchange) => [query(exchange, "nonce")] },

  { kind: "session cookie", side: "ours", path: /./, read: (exchange) => cookies(exchange, "outband_session") },
  { kind: "browser cookie", side: "ours", path: /./, read: (exchange) => cookies(exchange, "outband_browser") },
  {
    kind: "authorization cookie",
    side: "ours",
    path: /./,
    read: (exchange) => ["outband_oauth", "outband_oauth.sig", "outband_interaction.sig", "outband_resume.sig"].flatMap((name) => cookies(exchange, name)),
  },
  // Their value is the name of the step: it stands in the address of the step's page too.
  { kind: "step cookie", side: "ours", path: /./, read: (exchange) => ["outband_interaction", "outband_resume"].flatMap((name) => cookies(exchange, name)) },
  { kind: "form token", side: "ours", path: /./, read: (exchange) => inBody(exchange, /name="_csrf" value="([^"]+)"/g) },
  { kind: "link token", side: "ours", path: /./, read: (exchange) => [...members(exchange, "url"), ...headers(exchange, "location")].map((url) => /\/connect\/([\w-]{43})$/.exec(String(url))?.[1]) },
  { kind: "verification code", side: "ours", path: CALLBACK, read: (exchange) => locationQuery(exchange, "verification_code", /./) },
  { kind: "invitation token", side: "ours", path: /\/users$/, read: (exchange) => members(exchange, "invitation_url").map((url) => String(url).split("/").at(-1)) },
  { kind: "request state", side: "ours", path: /^\/mcp$/, read: (exchange) => members(exchange, "requestState") },
  { kind: "session token", side: "ours", path: /\/session-tokens$/, read: (exchange) => members(exchange, "token") },
  { kind: "obk key", side: "ours", path: /\/api-keys$/, read: (exchange) => members(exchange, "key") },
  { kind: "own client secret", side: "ours", path: /^\/oauth\/register$/, read: (exchange) => members(exchange, "client_secret") },
  { kind: "own code", side: "ours", path: /^\/oauth\//, read: (exchange) => locationQuery(exchange, "code", TO_CLIENT) },
  { kind: "own state", side: "ours", path: /^\/oauth\/authorize$/, read: (exchange) => [query(exchange, "state")] },
  { kind: "own verifier", side: "ours", path: /^\/oauth\/token$/, read: (exchange) => [form(exchange, "code_verifier")] },
  { kind: "own access token", side: "ours", path: /^\/oauth\/token$/, read: (exchange) => members(exchange, "access_token") },
  { kind: "own refresh token", side: "ours", path: /^\/oauth\/token$/, read: (exchange) => members(exchange, "refresh_token") },
];

export const HARVESTED = SOURCES.map(({ kind }) => kind);

export function secretsOf(exchanges: readonly Exchange[], sideOf: (exchange: Exchange) => Side | null): Secret[] {
  const found = new Map<string, Secret>();
  for (const exchange of exchanges) {
    for (const { kind, side, path, read } of SOURCES) {
      if (side !== sideOf(exchange) || !path.test(exchange.path)) continue;
      for (const value of read(exchange)) {
        // Shorter ones are words: a cookie that is taken back, a parameter that is not there.
        if (typeof value === "string" && value.length >= 16) found.set(value, found.get(value) ?? { kind, value });
      }
    }
  }
  return [...found.values()];
}
