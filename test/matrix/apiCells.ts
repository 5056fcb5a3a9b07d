// The vault API by key and object. A key is a server's and stands for no person: its scopes say which calls it may make, and the
// call says whose thing it is. So what must hold: no call beyond the scope, no call by what is no key, no other person's rows than
// those of the one who is named.
import type { Cell, Reply, Want } from "./cell.js";
import { HERE, HOLDERS, type Holder, PEOPLE, type Person } from "./people.js";
import { APP_LINKS, LINKS, STATUSES } from "./seed.js";
import type { World } from "./world.js";

type Scope = "read" | "execute" | "manage" | "admin";

/** Contract, section 7: admin is all of them. */
const HELD: Record<string, readonly Scope[]> = {
  read: ["read"],
  execute: ["execute"],
  manage: ["manage"],
  "all but admin": ["read", "execute", "manage"],
  admin: ["read", "execute", "manage", "admin"],
  "the settings' own": ["read", "execute", "manage", "admin"],
};
const API_SCOPES = ["read", "execute", "manage", "admin"];
/** What opens a door elsewhere is no key here. */
const NO_KEYS: Record<string, (world: World) => Record<string, string>> = {
  "an expired key": ({ keys }) => bearer(keys["expired"]),
  "a deleted key": ({ keys }) => bearer(keys["deleted"]),
  "a guessed key": ({ keys }) => bearer(keys["a guess"]),
  "nothing": () => ({}),
  "a person's session token": ({ bearers }) => bearer(bearers["owner's session"]),
  "a person's access token": ({ bearers }) => bearer(bearers["owner by client one"]),
  "an administrator's session token": ({ bearers }) => bearer(bearers["admin's session"]),
  "an administrator's cookie": ({ visitors }) => ({ cookie: visitors.admin.cookie }),
  "a key in another scheme": ({ keys }) => ({ authorization: `Basic ${Buffer.from(`x:${keys["admin"]}`).toString("base64")}` }),
};

const bearer = (token: string | undefined): Record<string, string> => ({ authorization: `Bearer ${token}` });

interface Call {
  route: string;
  about: string;
  scope: Scope;
  /** Below /api/v1. */
  path(world: World): string;
  body?: (world: World) => unknown;
  status: number;
  code?: string;
  changes?: readonly string[];
  also?: Cell["also"];
  /** False: what is no key, and keys of several scopes, were asked at this route already; scopes alone are looked at again. */
  strangers?: false;
  /** After it was done: what it used up is put away. */
  after?(world: World): void;
}

const IS: Record<number, string> = { 400: "not sound", 404: "not found", 409: "not connected", 422: "unknown" };

function cellsOf(call: Call): Cell[] {
  const base = { route: `${call.route.split(" ")[0]} /api/v1${call.route.split(" ")[1]}`, about: call.about };
  const sender = (headersOf: (world: World) => Record<string, string>): Cell["run"] => async (world) => {
    const path = `/api/v1${call.path(world)}`;
    const json = call.body?.(world);
    const [method = ""] = call.route.split(" ");
    const reply = await world.send(method === "ALL" ? "PROPFIND" : method, path, { headers: headersOf(world), ...(json === undefined ? {} : { json }) });
    return { reply, sent: `${path} ${decodeURIComponent(path)} ${JSON.stringify(json ?? {})}` };
  };
  const allowed: Want = { says: IS[call.status] ?? "done", status: call.status, refuses: call.status >= 400, ...(call.code ? { code: call.code } : {}) };
  const refused = { changes: [], shows: [] };
  return [
    ...Object.entries(HELD).filter(([who]) => call.strangers !== false || API_SCOPES.includes(who)).map(([who, scopes]): Cell => {
      const run = sender(({ keys }) => bearer(keys[who]));
      if (!scopes.includes(call.scope)) return { ...base, who: `key: ${who}`, want: { says: "scope missing", status: 403, code: "insufficient_scope", refuses: true }, ...refused, run };
      const shows = call.status >= 400 ? [] : null;
      const runAndPutAway: Cell["run"] = async (world) => {
        const done = await run(world);
        call.after?.(world);
        return done;
      };
      return { ...base, who: `key: ${who}`, want: allowed, changes: call.changes ?? [], shows, run: runAndPutAway, ...(call.also ? { also: call.also } : {}) };
    }),
    ...(call.strangers === false ? [] : Object.entries(NO_KEYS)).map(([who, headers]): Cell => ({ ...base, who, want: { says: "no key", status: 401, code: "unauthorized", refuses: true }, ...refused, run: sender(headers) })),
  ];
}

/** Every row of the answer is this person's, and there are some. */
function onlyOf(sub: string): Cell["also"] {
  return ({ text }: Reply) => {
    const { data } = JSON.parse(text) as { data: { identifier: string }[] };
    const foreign = data.find(({ identifier }) => identifier !== sub);
    return data.length === 0 ? "nothing of theirs is there" : foreign ? `a row of ${foreign.identifier}` : null;
  };
}

const KEY = { type: "api_key", fields: { api_key: "sk_live_this-is-the-good-key" } };

/** Calls about an account: one that is there, and none. */
function accountCalls(): Call[] {
  const calls: Call[] = [];
  const holder = PEOPLE.owner.sub;
  const rows: Omit<Call, "about" | "path">[] = [
    { route: "GET /accounts/:id", scope: "read", status: 200 },
    { route: "PATCH /accounts/:id", scope: "manage", body: () => ({ label: `named ${Math.random()}` }), status: 200, changes: [holder] },
    { route: "DELETE /accounts/:id", scope: "manage", status: 200, changes: [holder], after: (world) => void world.takeAccount("owner") },
    { route: "POST /accounts/:id/refresh", scope: "manage", status: 200 },
    { route: "PUT /accounts/:id/credential", scope: "manage", body: () => ({ credential: KEY }), status: 200, changes: [holder] },
  ];
  for (const row of rows) {
    const at = (id: string): string => row.route.split(" ")[1]?.replace(":id", id) ?? "";
    calls.push({ ...row, about: "a person's account", path: (world) => at(row.route.startsWith("DELETE") ? (world.spares["owner"]?.accounts.at(-1) ?? "") : (world.spares["owner"]?.accounts[0] ?? "")) });
    for (const [about, id] of [["no account", () => "ca_none"], ["an account's id in capitals", ({ accounts }: World) => accounts.owner.ACTIVE.toUpperCase()], ["a link's id", ({ links }: World) => links.owner.open.id]] as const) {
      const { changes: _changes, after: _after, ...rest } = row;
      calls.push({ ...rest, about, path: (world) => at(id(world)), status: 404, code: "not_found" });
    }
  }
  for (const who of HOLDERS) for (const status of STATUSES) calls.push({ route: "GET /accounts/:id", about: `${who}'s ${status} account`, scope: "read", path: ({ accounts }) => `/accounts/${accounts[who][status]}`, status: 200 });
  for (const who of HERE) calls.push({ route: "GET /accounts", about: `of ${who} alone`, scope: "read", path: () => `/accounts?limit=200&identifier=${encodeURIComponent(PEOPLE[who].sub)}`, status: 200, also: onlyOf(PEOPLE[who].sub) });
  calls.push({ route: "GET /accounts", about: "of everybody", scope: "read", path: () => "/accounts?limit=200", status: 200 });
  for (const who of HERE) {
    const { sub } = PEOPLE[who];
    calls.push({ route: "POST /accounts", about: `for ${who}`, scope: "manage", path: () => "/accounts", body: () => ({ connection_name: "keyed", identifier: sub, label: `put ${Math.random()}`, credential: KEY }), status: 201, changes: [sub], also: identifies(sub) });
  }
  for (const gone of ["disabled", "deleted"] as const) calls.push({ route: "POST /accounts", about: `for a person who is ${gone}`, scope: "manage", path: () => "/accounts", body: () => ({ connection_name: "keyed", identifier: PEOPLE[gone].sub, credential: KEY }), status: 422, code: "unknown_identifier" });
  return calls;
}

function identifies(sub: string): Cell["also"] {
  return ({ text }: Reply) => ((JSON.parse(text) as { identifier: string }).identifier === sub ? null : "it is another person's");
}

/** Calls that act for a person who is named: it is for that one, and for nobody who is not let in. */
function personCalls(): Call[] {
  const calls: Call[] = [];
  for (const who of [...HERE, "disabled", "deleted"] as Person[]) {
    const { sub } = PEOPLE[who];
    const isIn = HERE.includes(who);
    const outcome = isIn ? { status: 201 } : { status: 422, code: "unknown_identifier" };
    calls.push({ route: "POST /authorization-links", about: `for ${who}`, scope: "execute", path: () => "/authorization-links", body: () => ({ connection_name: "gmail", identifier: sub, label: "asked" }), ...outcome, changes: isIn ? [sub] : [] });
    calls.push({ route: "POST /session-tokens", about: `for ${who}`, scope: "execute", path: () => "/session-tokens", body: () => ({ identifier: sub, ttl_s: 60 }), ...outcome });
    calls.push({ route: "POST /session-tokens", about: `for ${who}, for another endpoint`, scope: "execute", path: () => "/session-tokens", body: () => ({ identifier: sub, ttl_s: 60, endpoint: "/mcp/servers/another" }), status: 400, code: "invalid_request" });
    const execute = (about: string, account: (world: World) => string | undefined, mine: boolean): void => {
      const body = (world: World) => ({ identifier: sub, arguments: { max_results: 1 }, ...(account(world) === undefined ? {} : { account: account(world) }) });
      calls.push({ route: "POST /tools/:tool_name/execute", about: `for ${who}, ${about}`, scope: "execute", path: () => "/tools/gmail_list_messages/execute", body, ...(mine ? { status: 200 } : { status: 409, code: "not_connected" }) });
    };
    execute("their own account", () => "default", isIn);
    execute("the owner's account by its id", ({ real }) => real["owner"], false);
    if (who !== "owner") execute("the owner's account by its label", () => "owner-active", false);
    execute("the owner's account by its address", () => "mara.lindqvist@harbourlight.example", who === "owner");
  }
  for (const state of [...LINKS, ...APP_LINKS]) {
    for (const who of HOLDERS) calls.push({ route: "GET /authorization-links/:id", about: `${who}'s ${state} link`, scope: "read", path: ({ links }) => `/authorization-links/${links[who as Holder][state].id}`, status: 200, also: ({ text }, { links }) => (text.includes(links[who as Holder][state].token) ? "the link's token is told" : null) });
  }
  calls.push({ route: "GET /authorization-links/:id", about: "a link's token in place of its id", scope: "read", path: ({ links }) => `/authorization-links/${links.owner.open.token}`, status: 404, code: "not_found" });
  // Made by no key, so by none that may say whose it was.
  for (const state of ["open", "held"] as const) calls.push({ route: "POST /authorization-links/:id/verify", about: `another key's ${state} link`, scope: "execute", path: ({ links }) => `/authorization-links/${links.owner[state].id}/verify`, body: () => ({ verification_code: "a code", identifier: PEOPLE.owner.sub }), status: 404, code: "not_found" });
  return calls;
}

/** What an administrator's key alone may do to people and keys. */
function adminCalls(): Call[] {
  const calls: Call[] = [];
  for (const who of HERE) {
    const { sub } = PEOPLE[who];
    const at = `/users/${encodeURIComponent(sub)}`;
    calls.push({ route: "PATCH /users/:sub", about: who, scope: "admin", path: () => at, body: () => ({ name: `Renamed ${Math.random()}` }), status: 200, changes: [sub] });
  }
  for (const [about, sub] of [["deleted", PEOPLE.deleted.sub], ["nobody", "nobody-here"], ["the owner with a blank behind", `${PEOPLE.owner.sub} `]] as const) {
    const at = `/users/${encodeURIComponent(sub)}`;
    calls.push({ route: "PATCH /users/:sub", about, scope: "admin", path: () => at, body: () => ({ role: "admin" }), status: 404, code: "not_found" });
    calls.push({ route: "DELETE /users/:sub", about, scope: "admin", path: () => at, status: 404, code: "not_found" });
  }
  calls.push({ route: "DELETE /users/:sub", about: "the last administrator", scope: "admin", path: () => `/users/${encodeURIComponent(PEOPLE.admin.sub)}`, status: 403, code: "forbidden" });
  calls.push({ route: "PATCH /users/:sub", about: "the last administrator's role", scope: "admin", path: () => `/users/${encodeURIComponent(PEOPLE.admin.sub)}`, body: () => ({ role: "user" }), status: 403, code: "forbidden" });
  calls.push({ route: "POST /users", about: "an address that is taken", scope: "admin", path: () => "/users", body: () => ({ email: "OWNER@people.example", role: "admin" }), status: 409, code: "already_exists" });
  calls.push({ route: "POST /api-keys", about: "an origin that is none", scope: "admin", path: () => "/api-keys", body: () => ({ name: "k", scopes: ["read"], return_to_origins: ["https://app.example/path"] }), status: 400, code: "invalid_request" });
  calls.push({ route: "POST /api-keys", about: "a new key", scope: "admin", path: () => "/api-keys", body: () => ({ name: "k", scopes: ["read"] }), status: 201, changes: [""] });
  calls.push({ route: "DELETE /api-keys/:id", about: "no key", scope: "admin", path: () => "/api-keys/key_none", status: 404, code: "not_found" });
  for (const path of ["/users", "/api-keys", "/keys"]) calls.push({ route: `GET ${path}`, about: "all", scope: "admin", path: () => path, status: 200 });
  calls.push({ route: "POST /keys/rotate", about: "the master key", scope: "admin", path: () => "/keys/rotate", body: () => ({}), status: 200, changes: [""] });
  return calls;
}

function connectionCalls(): Call[] {
  const calls: Call[] = [];
  for (const path of ["/connectors", "/connections", "/tools", "/events"]) calls.push({ route: `GET ${path}`, about: "all", scope: "read", path: () => path, status: 200 });
  calls.push({ route: "GET /connections/:name", about: "one", scope: "read", path: () => "/connections/gmail", status: 200 });
  calls.push({ route: "GET /connections/:name", about: "none", scope: "read", path: () => "/connections/none", status: 404, code: "not_found" });
  calls.push({ route: "PATCH /connections/:name", about: "one, its title", scope: "manage", path: () => "/connections/slack", body: () => ({ title: `Slack ${Math.random()}` }), status: 200, changes: [""] });
  calls.push({ route: "PATCH /connections/:name", about: "none", scope: "manage", path: () => "/connections/none", body: () => ({ title: "N" }), status: 404, code: "not_found" });
  calls.push({ route: "DELETE /connections/:name", about: "one with accounts", scope: "manage", path: () => "/connections/gmail", status: 409, code: "connection_in_use" });
  calls.push({ route: "POST /connections", about: "a connector that is none", scope: "manage", path: () => "/connections", body: () => ({ name: "fresh", connector: "none" }), status: 400, code: "invalid_request" });
  return calls;
}

/** Where credentials go is an administrator's word alone, in a call that lesser keys may make without it. */
function whereCredentialsGo(): Cell[] {
  const cells: Cell[] = [];
  for (const [about, more] of [
    ["its endpoints", { endpoints: { api: "https://thief.example" } }],
    ["what may be requested", { request_allow: [{ method: "GET", path_prefix: "/" }] }],
  ] as const) {
    for (const [route, path, body] of [
      ["PATCH /connections/:name", "/connections/none", more],
      ["POST /connections", "/connections", { name: "fresh", connector: "none", ...more }],
    ] as const) {
      cells.push(...cellsOf({ route, about, scope: "admin", path: () => path, body: () => body, status: route.startsWith("POST") ? 400 : 404 }));
    }
  }
  return cells;
}

/** Another method on a known address is a 405 for every key, and a 401 for what is none: before anything is looked at. */
function otherMethods(paths: readonly string[]): Cell[] {
  return [...new Set(paths)].flatMap((path) => {
    const cells = cellsOf({ route: `ALL ${path}`, about: "by a method that is none", scope: "read", path: () => path.replace(/:\w+/g, "x"), status: 405, code: "method_not_allowed" });
    return cells.filter(({ want }) => want.status !== 403);
  });
}

export function apiCells(): Cell[] {
  const calls = [...accountCalls(), ...personCalls(), ...adminCalls(), ...connectionCalls()];
  const asked = new Set<string>();
  const once = (call: Call): Call => (asked.size < asked.add(call.route).size ? call : { ...call, strangers: false });
  return [...calls.map(once).flatMap(cellsOf), ...whereCredentialsGo(), ...leaving(), ...otherMethods(calls.map(({ route }) => route.split(" ")[1] ?? ""))];
}

/** Each allowed removal takes a person of its own, and that one alone. */
function leaving(): Cell[] {
  const call: Call = { route: "DELETE /users/:sub", about: "a person", scope: "admin", path: ({ leavers }) => `/users/${encodeURIComponent(leavers[0] ?? "")}`, status: 204 };
  return cellsOf(call).map((cell) => {
    if (cell.want.refuses) return cell;
    const changes = [""];
    const run: Cell["run"] = async (world) => {
      const sent = await cell.run(world);
      changes.splice(0, 1, world.leavers.shift() ?? "");
      return sent;
    };
    return { ...cell, changes, run };
  });
}
