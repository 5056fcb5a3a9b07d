// The MCP endpoint by bearer, tool and whose account: person, client and scopes come from the token alone, whatever an argument,
// a header or a requestState says (contract 6.1). Clients here say that they can show forms but open no address, so that an account
// that is not there ends the call in words and makes no link.
import { mcp } from "../support/mcpCall.js";
import type { Cell, Reply, Want } from "./cell.js";
import { type Holder, PEOPLE, type Person } from "./people.js";
import type { World } from "./world.js";

/** Every tool that ships (the list of tools/list is held against it), with arguments that are sound. */
const TOOLS: readonly { name: string; writes: boolean; connection: "gmail" | "slack" | null; args: Record<string, unknown>; own: boolean }[] = [
  { name: "list_my_connections", writes: false, connection: null, args: {}, own: true },
  { name: "disconnect_account", writes: true, connection: "gmail", args: { connection_name: "gmail" }, own: false },
  { name: "summarize_inbox", writes: false, connection: "gmail", args: { max_messages: 2 }, own: true },
  { name: "gmail_list_messages", writes: false, connection: "gmail", args: { max_results: 2 }, own: true },
  { name: "gmail_get_message", writes: false, connection: "gmail", args: { id: "none" }, own: false },
  { name: "gmail_send_message", writes: true, connection: "gmail", args: { to: ["kim@people.example"], subject: "s", body: "b" }, own: false },
  { name: "slack_list_channels", writes: false, connection: "slack", args: {}, own: true },
  { name: "slack_post_message", writes: true, connection: "slack", args: { channel: "C0", text: "t" }, own: false },
];

/** Whose each bearer is. */
const BEARERS: Record<string, Person> = {
  "owner by client one": "owner",
  "owner by client two": "owner",
  "owner's session": "owner",
  "other by client one": "other",
  "other by client two": "other",
  "other's session": "other",
  "twin by case's session": "twin by case",
  "twin by composition's session": "twin by composition",
  "twin by decoding's session": "twin by decoding",
  "twin by plus's session": "twin by plus",
  "viewer's session": "viewer",
  "admin's session": "admin",
};

const NO_BEARERS: Record<string, (world: World) => string> = {
  "a session token that ran out": ({ bearers }) => bearers["expired"] ?? "",
  "a token for another audience": ({ bearers }) => bearers["other audience"] ?? "",
  "a token for another resource here": ({ bearers }) => bearers["other resource"] ?? "",
  "a token of a key that is gone": ({ bearers }) => bearers["nobody's key"] ?? "",
  "the disabled person's token": ({ bearers }) => bearers["disabled"] ?? "",
  "the deleted person's token": ({ bearers }) => bearers["deleted"] ?? "",
  "an API key": ({ keys }) => keys["admin"] ?? "",
  "a refresh token": ({ grants }) => grants["owner by client one"]?.refresh ?? "",
  "a link's token": ({ links }) => links.owner.open.token,
  "a cut token": ({ bearers }) => bearers["owner's session"]?.slice(0, -2) ?? "",
};

const NO_LINKS = { elicitation: { form: {} } };
const noToken: Want = { says: "no token", status: 401, code: -32600, refuses: true };
const answered: Want = { says: "answered", status: 200, refuses: false };

function call(who: string, tokenOf: (world: World) => string, about: string, want: Want, method: string, paramsOf: (world: World) => Record<string, unknown>, more: { also?: Cell["also"]; retry?: (world: World) => Promise<Record<string, unknown>>; changes?: readonly string[]; endpoint?: string } = {}): Cell {
  const person = BEARERS[who];
  return {
    route: `ALL ${more.endpoint ?? "/mcp"}`,
    who: `bearer: ${who}`,
    about,
    want,
    changes: more.changes ?? [],
    shows: person ? [PEOPLE[person].sub] : [],
    ...(more.also ? { also: more.also } : {}),
    async run(world) {
      const params = paramsOf(world);
      const retry = await more.retry?.(world);
      const answer = await mcp(world.outband.url, tokenOf(world), method, params, { ...NO_LINKS, ...(retry ? { retry } : {}), ...(more.endpoint ? { endpoint: more.endpoint } : {}) });
      const text = JSON.stringify(answer.body ?? {});
      return { reply: { status: answer.status, location: null, text }, sent: JSON.stringify({ params, retry }) };
    },
  };
}

const tokenNamed = (name: string) => ({ bearers }: World): string => bearers[name] ?? "";

/** The call ended without the work, for a reason that is no fault of the arguments. */
function notDone(...outcomes: string[]): Cell["also"] {
  return ({ text }) => {
    const { result, error } = JSON.parse(text);
    const outcome = result?._meta?.["dev.outband/outcome"]?.outcome;
    if (error) return `a JSON-RPC error: ${text.slice(0, 200)}`;
    return outcomes.includes(outcome) && result.isError === true ? null : `ended ${outcome ?? "done"}: ${text.slice(0, 300)}`;
  };
}

/** Done, and with one's own mailbox. */
function isDoneFor(person: Person, tool: string): Cell["also"] {
  return (reply, world) => {
    const wrong = isDone(reply);
    if (wrong !== null || tool !== "gmail_list_messages") return wrong;
    const foreign = person === "owner" ? world.letters["other"] : world.letters["owner"];
    if (reply.text.includes(`"${foreign}"`)) return "shows another's letter";
    return reply.text.includes(`"${world.letters[person]}"`) ? null : "shows none of the own letters";
  };
}

function isDone({ text }: Reply): string | null {
  return JSON.parse(text).result?.isError ? `was refused: ${text.slice(0, 300)}` : null;
}

/** By what others might be reached: their account's id, its label, its address upstream, their identifier. */
const REACHES: [string, Holder, (world: World) => string | undefined][] = [
  ["the owner's account by its id", "owner", ({ real }) => real["owner"]],
  ["the owner's account by its label", "owner", () => "owner-active"],
  ["the owner's account by its address", "owner", () => "owner-active@upstream.example"],
  ["the other's account by its id", "other", ({ real }) => real["other"]],
  ["the other's account by its address", "other", () => "other-active@upstream.example"],
];

/** META mode: a token of the other endpoint opens nothing; within it, names reach one's own accounts alone. */
function meta(): Cell[] {
  const endpoint = "/mcp/meta";
  const list = () => ({ name: "list_connections", arguments: {} });
  const cells: Cell[] = [];
  for (const who of Object.keys(BEARERS)) cells.push(call(who, tokenNamed(who), "list_connections", noToken, "tools/call", list, { endpoint }));
  for (const [who, token] of Object.entries(NO_BEARERS)) cells.push(call(who, token, "list_connections", noToken, "tools/call", list, { endpoint }));
  for (const person of ["owner", "other"] as const) {
    const who = `${person}'s META session`;
    const shows = [PEOPLE[person].sub];
    cells.push({ ...call(who, tokenNamed(who), "list_connections", answered, "tools/call", list, { endpoint, also: isDone }), shows });
    cells.push({ ...call(who, tokenNamed(who), "on the direct endpoint", noToken, "tools/call", () => ({ name: "list_my_connections", arguments: {} })), shows });
    for (const tool of TOOLS) {
      // Our own tools are not run through this one.
      if (tool.connection === null || tool.name === "disconnect_account") continue;
      const params = (account: string | undefined) => ({ name: "execute_tool", arguments: { tool_name: tool.name, arguments: tool.args, account } });
      if (tool.own) cells.push({ ...call(who, tokenNamed(who), `execute_tool ${tool.name}, own`, answered, "tools/call", () => params("default"), { endpoint, also: isDone }), shows });
      for (const [about, holder, account] of REACHES) {
        if (person === holder) continue;
        cells.push({ ...call(who, tokenNamed(who), `execute_tool ${tool.name}, ${about}`, answered, "tools/call", (world) => params(account(world)), { endpoint, also: isNotConnected }), shows });
      }
    }
  }
  return cells;
}

function isNotConnected({ text }: Reply): string | null {
  return JSON.parse(text).result?.structuredContent?.status === "not_connected" ? null : `was answered otherwise: ${text.slice(0, 300)}`;
}

function tools(): Cell[] {
  const cells: Cell[] = [];
  for (const tool of TOOLS) {
    const params = (more: Record<string, unknown> = {}) => ({ name: tool.name, arguments: { ...tool.args, ...more } });
    for (const [who, person] of Object.entries(BEARERS)) {
      if (tool.own && (tool.connection !== "slack" || person === "owner" || person === "other")) {
        const own = tool.connection === null ? {} : { account: "default" };
        cells.push(call(who, tokenNamed(who), `${tool.name}, own`, answered, "tools/call", () => params(own), { also: isDoneFor(person, tool.name) }));
        // Nothing in arguments, _meta or headers names a person.
        cells.push(call(who, tokenNamed(who), `${tool.name}, own, with another named in _meta`, answered, "tools/call", () => ({ ...params(own), _meta: { sub: PEOPLE.owner.sub, identifier: PEOPLE.owner.sub } }), { also: isDoneFor(person, tool.name) }));
      }
      if (tool.connection === null) continue;
      for (const [about, holder, account] of REACHES) {
        if (person === holder) continue;
        cells.push(call(who, tokenNamed(who), `${tool.name}, ${about}`, { ...answered, says: "not connected", refuses: false }, "tools/call", (world) => params({ account: account(world) }), { also: notDone("not_connected") }));
      }
    }
    const lacking: Want = { says: "scope missing", status: 403, code: -32600, refuses: true };
    cells.push(call("owner, reading alone", tokenNamed("owner, reading alone"), `${tool.name}, own`, tool.writes ? lacking : answered, "tools/call", () => params(tool.writes || tool.connection === null ? {} : { account: "default" }), tool.own ? { also: isDone } : {}));
    for (const [who, token] of Object.entries(NO_BEARERS)) cells.push(call(who, token, tool.name, noToken, "tools/call", () => params()));
  }
  const reader = cells.filter(({ who }) => who === "bearer: owner, reading alone");
  for (const cell of reader) cell.shows = [PEOPLE.owner.sub];
  return cells;
}

/** Methods beside tools/call: a list that is everybody's, and what this server does not have. */
function otherMethods(): Cell[] {
  const cells: Cell[] = [];
  const unknown: Want = { says: "no such method", status: 404, code: -32601, refuses: true };
  for (const [method, params] of [
    ["resources/list", {}],
    ["resources/templates/list", {}],
    // The name is for the header that goes with it.
    ["resources/read", { uri: "outband://accounts/owner", name: "outband://accounts/owner" }],
    ["prompts/list", {}],
    ["prompts/get", { name: "p" }],
    ["completion/complete", { ref: { type: "ref/prompt", name: "p" }, argument: { name: "account", value: "o" } }],
    ["tasks/list", {}],
  ] as const) {
    for (const who of Object.keys(BEARERS)) cells.push(call(who, tokenNamed(who), method, unknown, method, () => params));
    for (const [who, token] of Object.entries(NO_BEARERS)) cells.push(call(who, token, method, noToken, method, () => params));
  }
  for (const who of Object.keys(BEARERS)) cells.push(call(who, tokenNamed(who), "tools/list", answered, "tools/list", () => ({}), { also: areInTheMatrix }));
  return cells;
}

/** A new tool must be placed here. */
const areInTheMatrix: Cell["also"] = ({ text }) => {
  const { tools } = JSON.parse(text).result as { tools: { name: string }[] };
  const listed = tools.map(({ name }) => name).sort();
  const known = TOOLS.map(({ name }) => name).sort();
  return listed.join() === known.join() ? null : `lists ${listed.join()}`;
};

/** A call of the owner's that stopped to ask: what the client was given to come back with. */
interface Asked {
  about: string;
  name: string;
  args: Record<string, unknown>;
  answers: Record<string, unknown>;
}
const ASKED: readonly Asked[] = [
  { about: "to connect", name: "summarize_inbox", args: { account: "a new one" }, answers: { connect_gmail: { action: "accept" } } },
  { about: "to pick a channel", name: "slack_post_message", args: { text: "t", account: "default" }, answers: { pick_channel: { action: "accept", content: { channel: "C0" } } } },
  { about: "to confirm a disconnect", name: "disconnect_account", args: { connection_name: "slack" }, answers: {} },
];
const states = new WeakMap<World, Map<string, Promise<string>>>();

function stateOf(world: World, asked: Asked): Promise<string> {
  const known = states.get(world) ?? new Map<string, Promise<string>>();
  states.set(world, known);
  const state = known.get(asked.about) ?? ask(world, asked);
  known.set(asked.about, state);
  return state;
}

async function ask(world: World, { name, args }: Asked): Promise<string> {
  const answer = await mcp(world.outband.url, world.bearers["owner's session"] ?? "", "tools/call", { name, arguments: args });
  await world.records.changed();
  const state = answer.body?.result?.requestState;
  if (typeof state !== "string") throw new Error(`${name} did not ask: ${JSON.stringify(answer.body)}`);
  return state;
}

/** A requestState is its person's, client's, tool's and arguments' (contract 6.1.6), also where all session tokens are one client. */
function requestStates(): Cell[] {
  const cells: Cell[] = [];
  const refused: Want = { says: "not your requestState", status: 200, code: -32602, refuses: true };
  for (const asked of ASKED) {
    const retry = (change: (state: string) => string = (state) => state) => async (world: World) => ({ inputResponses: asked.answers, requestState: change(await stateOf(world, asked)) });
    const params = () => ({ name: asked.name, arguments: asked.args });
    for (const who of Object.keys(BEARERS).filter((name) => name !== "owner's session")) cells.push(call(who, tokenNamed(who), `the owner's requestState, asked ${asked.about}`, refused, "tools/call", params, { retry: retry() }));
    for (const [who, token] of Object.entries(NO_BEARERS)) cells.push(call(who, token, `the owner's requestState, asked ${asked.about}`, noToken, "tools/call", params, { retry: retry() }));
    const own = "owner's session";
    cells.push(call(own, tokenNamed(own), `own requestState, asked ${asked.about}, other arguments`, refused, "tools/call", () => ({ name: asked.name, arguments: { ...asked.args, account: "owner-active" } }), { retry: retry() }));
    cells.push(call(own, tokenNamed(own), `own requestState, asked ${asked.about}, another tool`, refused, "tools/call", () => ({ name: "gmail_list_messages", arguments: {} }), { retry: retry() }));
    cells.push(call(own, tokenNamed(own), `own requestState, asked ${asked.about}, one letter less`, refused, "tools/call", params, { retry: retry((state) => state.slice(0, -1)) }));
  }
  return cells;
}

/** A write that was done once is its caller's: the same idempotency key of another person is another write. */
function executions(): Cell[] {
  const post = () => ({ name: "slack_post_message", arguments: { channel: "C0", text: "t", idempotency_key: "the-owner's-key", account: "owner-active" } });
  return Object.entries(BEARERS)
    .filter(([, person]) => person !== "owner")
    .map(([who]) => call(who, tokenNamed(who), "the owner's idempotency key and account", { ...answered, says: "not connected" }, "tools/call", post, { also: notDone("not_connected") }));
}

/** Other ways to the endpoint, and its metadata, which everybody may read. */
function http(): Cell[] {
  const cells: Cell[] = [];
  const raw = (route: string, who: string, about: string, want: Want, method: string, path: string, headers: (world: World) => Record<string, string>): void =>
    void cells.push({ route, who, about, want, changes: [], shows: [], run: async (world) => ({ reply: await world.send(method, path, { headers: headers(world), ...(method === "POST" ? { json: { jsonrpc: "2.0", id: 1, method: "tools/list" } } : {}) }), sent: "" }) });
  const authorization = (token: string | undefined) => ({ authorization: `Bearer ${token}` });
  const notThisWay: Want = { says: "POST alone", status: 405, refuses: true };
  for (const method of ["GET", "DELETE", "PUT"]) {
    raw("ALL /mcp", "owner's session", `by ${method}`, notThisWay, method, "/mcp", ({ bearers }) => authorization(bearers["owner's session"]));
    raw("ALL /mcp", "nobody", `by ${method}`, noToken, method, "/mcp", () => ({}));
  }
  raw("ALL /mcp", "nobody", "no token", noToken, "POST", "/mcp", () => ({}));
  raw("ALL /mcp", "the owner's browser", "a cookie in place of a token", noToken, "POST", "/mcp", ({ visitors }) => ({ cookie: visitors.owner.cookie }));
  raw("ALL /mcp", "a page of another site", "with the owner's token", { says: "not this origin", status: 403, refuses: true }, "POST", "/mcp", ({ bearers }) => ({ ...authorization(bearers["owner's session"]), origin: "https://evil.example" }));
  for (const path of ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource/mcp/meta"]) {
    raw(`ALL ${path}`, "nobody", "the metadata", { says: "shown", status: 200, refuses: false }, "GET", path, () => ({}));
    raw(`ALL ${path}`, "nobody", "the metadata, by POST", { says: "only read", status: 405, refuses: true }, "POST", path, () => ({}));
  }
  return cells;
}

export function mcpCells(): Cell[] {
  return [...tools(), ...meta(), ...otherMethods(), ...requestStates(), ...executions(), ...http()];
}

