// Every call of the vault API that there is, with the scope that contract section 7 gives it: for tests that go through all of
// them. Written by hand, not read from the program's own table, which is what they test.
export type Scope = "read" | "execute" | "manage" | "admin";

export interface Call {
  method: "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
  /** `*` stands for an id or a name. */
  path: string;
  scope: Scope;
  /** Sound to the last field, about things that are not there. */
  body?: Record<string, unknown>;
  /** What a caller with the scope gets for it. */
  status: number;
}

const IDENTIFIER = "nobody-here";
const OAUTH = { type: "oauth", access_token: "at-1", refresh_token: "rt-1", expires_at: "2098-01-01T00:00:00Z", scopes: ["a"] };

export const CALLS: readonly Call[] = [
  { method: "GET", path: "/connectors", scope: "read", status: 200 },
  { method: "GET", path: "/connections", scope: "read", status: 200 },
  { method: "POST", path: "/connections", scope: "manage", body: { name: "nowhere", connector: "none", title: "N", client_id: "c", client_secret: "s", scopes: ["a"], settings: {}, enabled: false }, status: 400 },
  { method: "POST", path: "/connections", scope: "admin", body: { name: "nowhere", connector: "none", endpoints: {} }, status: 400 },
  { method: "POST", path: "/connections", scope: "admin", body: { name: "nowhere", connector: "none", request_allow: [] }, status: 400 },
  { method: "GET", path: "/connections/*", scope: "read", status: 404 },
  { method: "PATCH", path: "/connections/*", scope: "manage", body: { title: "N", client_id: "c", client_secret: "s", scopes: ["a"], settings: {}, enabled: false }, status: 404 },
  { method: "PATCH", path: "/connections/*", scope: "admin", body: { endpoints: { issuer: "https://issuer.example" } }, status: 404 },
  { method: "PATCH", path: "/connections/*", scope: "admin", body: { request_allow: [{ method: "GET", path_prefix: "/" }] }, status: 404 },
  { method: "DELETE", path: "/connections/*", scope: "manage", status: 404 },
  { method: "GET", path: "/accounts", scope: "read", status: 200 },
  { method: "POST", path: "/accounts", scope: "manage", body: { connection_name: "nowhere", identifier: IDENTIFIER, label: "l", credential: OAUTH }, status: 404 },
  { method: "POST", path: "/accounts", scope: "manage", body: { connection_name: "nowhere", identifier: IDENTIFIER, credential: { type: "api_key", fields: { api_key: "k" } } }, status: 404 },
  { method: "GET", path: "/accounts/*", scope: "read", status: 404 },
  { method: "PATCH", path: "/accounts/*", scope: "manage", body: { label: "l" }, status: 404 },
  { method: "DELETE", path: "/accounts/*", scope: "manage", status: 404 },
  { method: "POST", path: "/accounts/*/refresh", scope: "manage", status: 404 },
  { method: "PUT", path: "/accounts/*/credential", scope: "manage", body: { credential: OAUTH }, status: 404 },
  { method: "POST", path: "/authorization-links", scope: "execute", body: { connection_name: "nowhere", identifier: IDENTIFIER, label: "l", scopes: ["a"], verification: "sign_in", state: "s" }, status: 404 },
  { method: "GET", path: "/authorization-links/*", scope: "read", status: 404 },
  { method: "POST", path: "/authorization-links/*/verify", scope: "execute", body: { verification_code: "c", identifier: IDENTIFIER }, status: 404 },
  { method: "GET", path: "/tools", scope: "read", status: 200 },
  { method: "POST", path: "/tools/*/execute", scope: "execute", body: { identifier: IDENTIFIER, account: "l", arguments: { a: 1 }, idempotency_key: "k" }, status: 404 },
  { method: "POST", path: "/session-tokens", scope: "execute", body: { identifier: IDENTIFIER, ttl_s: 60, endpoint: "/mcp", scopes: ["mcp:read"] }, status: 422 },
  { method: "GET", path: "/users", scope: "admin", status: 200 },
  { method: "POST", path: "/users", scope: "admin", body: { sub: IDENTIFIER, email: "not an address", name: "N", role: "user" }, status: 400 },
  { method: "PATCH", path: "/users/*", scope: "admin", body: { email: "n@people.example", password: "long enough to be one", name: "N", role: "user" }, status: 404 },
  { method: "DELETE", path: "/users/*", scope: "admin", status: 404 },
  { method: "GET", path: "/api-keys", scope: "admin", status: 200 },
  { method: "POST", path: "/api-keys", scope: "admin", body: { name: "k", scopes: ["read"], return_to_origins: ["https://app.example/path"], expires_at: "2098-01-01T00:00:00Z" }, status: 400 },
  { method: "DELETE", path: "/api-keys/*", scope: "admin", status: 404 },
  { method: "GET", path: "/events", scope: "read", status: 200 },
];

export function named(call: Call, name: string): string {
  return call.path.replace("*", name);
}

/** Each call's method and path once. */
export const PATHS: readonly Call[] = CALLS.filter((call, index) => CALLS.findIndex((one) => one.method === call.method && one.path === call.path) === index);
