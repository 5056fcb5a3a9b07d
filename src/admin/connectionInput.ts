// From a posted form to what the vault takes, and from the vault's problems back to the fields. Pure.
// Must never happen: the client secret among the values that a page is filled with again.
import type { Connector, EndpointName } from "../connectors/connector.js";
import { cleanField } from "../connectors/methods/apiKey.js";
import type { Registry } from "../connectors/registry.js";
import type { ConnectionInput } from "../vault/front.js";
import type { ConnectionView } from "../vault/types.js";
import { printable } from "./page.js";
import { isSame, parseJson, settingFields, settingsFrom } from "./settingFields.js";

export type Values = Readonly<Record<string, string>>;
/** A sentence by field name; `""`: about the whole form. */
export type Problems = ReadonlyMap<string, string>;

export const ENDPOINTS: readonly EndpointName[] = ["issuer", "authorization", "token", "revocation", "userinfo", "jwks", "api"];
/** Contract, section 1. */
const NAME = /^[a-z][a-z0-9_-]{0,31}$/;
const TITLE_CHARACTERS_MAX = 80;
const CLIENT_ID_CHARACTERS_MAX = 512;
const CLIENT_SECRET_CHARACTERS_MAX = 4_096;

/** What a form of this connection holds. */
export interface FormSpec {
  /** As it ships, not as the connection shapes it. */
  connector: Connector;
  /** Null: a new connection. */
  before: ConnectionView | null;
}

/** The client of a connection that the environment or the sandbox provides is theirs: it would be overwritten at the next start. */
export function takesClient({ connector, before }: FormSpec): boolean {
  return connector.method.kind === "oauth" && (before === null || before.origin === "operator");
}

export function takesEndpoints({ before }: FormSpec): boolean {
  return before === null || !before.sandbox;
}

export function endpointsOf({ connector }: FormSpec): readonly EndpointName[] {
  return connector.method.kind === "oauth" ? ENDPOINTS : ["api"];
}

export type Change = Partial<Omit<ConnectionInput, "name" | "connector">>;

export interface ReadForm {
  name: string;
  /** Everything for a new connection; of an old one what differs. */
  change: Change;
  problems: Problems;
}

/** `check` is the registry's: with it, every problem is told at once, those that keep the form from the vault included. */
export function readForm(values: Values, spec: FormSpec, check: Registry["check"]): ReadForm {
  const problems = new Map<string, string>();
  const { before, connector } = spec;
  const text = (name: string): string => printable(values[name] ?? "").trim();

  const name = text("name");
  if (before === null && !NAME.test(name)) problems.set("name", "Small letters, digits, _ and -, starting with a letter, 32 at most.");
  const title = text("title");
  if (title.length > TITLE_CHARACTERS_MAX) problems.set("title", `At most ${TITLE_CHARACTERS_MAX} characters.`);
  if (/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(title)) problems.set("title", "There is a character here that cannot be seen. Type the title again.");
  const wanted: Change = { title: title === "" ? connector.title : title, ...settingsOf(values, spec, problems) };
  if (connector.method.kind === "oauth") wanted.scopes = scopesOf(values, spec);
  if (takesEndpoints(spec)) wanted.endpoints = endpointsFrom(values, spec);
  if (takesClient(spec)) Object.assign(wanted, clientOf(values, spec, problems));

  if (problems.size > 0) {
    const shape = { connector: connector.name, endpoints: wanted.endpoints ?? before?.endpoints ?? {}, settings: wanted.settings ?? {}, scopes: wanted.scopes ?? [] };
    for (const [field, message] of fieldProblems(check(shape), values, spec)) if (!problems.has(field)) problems.set(field, message);
  }
  return { name, change: before === null ? wanted : differing(wanted, before), problems };
}

function clientOf(values: Values, { before }: FormSpec, problems: Map<string, string>): Change {
  const client: Change = {};
  const read = (name: string, charactersMax: number): string | undefined => {
    const typed = values[name] ?? "";
    if (typed.trim() === "") return undefined;
    const cleaned = cleanField(typed);
    if (!cleaned.ok) problems.set(name, "There is a line break or another character inside that does not belong there. Copy it again.");
    else if (cleaned.value.length > charactersMax) problems.set(name, `At most ${charactersMax} characters.`);
    else return cleaned.value;
    return undefined;
  };
  const clientId = read("client_id", CLIENT_ID_CHARACTERS_MAX);
  if (clientId !== undefined) client.clientId = clientId;
  else if (before?.clientId && !problems.has("client_id")) problems.set("client_id", "A client id can be replaced, but not taken away.");
  const clientSecret = read("client_secret", CLIENT_SECRET_CHARACTERS_MAX);
  if (clientSecret !== undefined) client.clientSecret = clientSecret;
  return client;
}

/** The ticked scopes in the connector's order, then those written out. */
function scopesOf(values: Values, { connector }: FormSpec): string[] {
  const ticked = connector.scopes.filter(({ name }) => values[`scope:${name}`] !== undefined).map(({ name }) => name);
  const written = printable(values["scopes"] ?? "").split(/[\s,]+/).filter((scope) => scope !== "");
  return [...new Set([...ticked, ...written])];
}

function endpointsFrom(values: Values, spec: FormSpec): Record<string, string> {
  const entries = endpointsOf(spec).map((name) => [name, printable(values[`endpoint.${name}`] ?? "").trim()] as const);
  return Object.fromEntries(entries.filter(([, url]) => url !== ""));
}

function settingsOf(values: Values, { connector, before }: FormSpec, problems: Map<string, string>): Change {
  const stored = before?.settings ?? {};
  const fields = settingFields(connector.name);
  if (fields !== null) {
    const typed = (path: string): string => {
      const value = printable(values[`settings.${path}`] ?? "");
      return fields.find((field) => field.path === path)?.spaces ? value : value.trim();
    };
    const read = settingsFrom(fields, typed, stored);
    for (const { path, message } of read.problems) problems.set(`settings.${path}`, message);
    return { settings: read.settings };
  }
  const typed = printable(values["settings"] ?? "").trim();
  if (typed === "") return { settings: {} };
  const parsed = parseJson(typed);
  if (!parsed.ok) problems.set("settings", parsed.problem);
  else if (typeof parsed.value === "object" && parsed.value !== null && !Array.isArray(parsed.value)) return { settings: parsed.value as Record<string, unknown> };
  else problems.set("settings", "This must be a JSON object: { … }.");
  return {};
}

/** Only what differs is changed: the vault takes a named client id or endpoint as another client or host. */
function differing(wanted: Change, before: ConnectionView): Change {
  const old: Record<string, unknown> = { ...before };
  return Object.fromEntries(Object.entries(wanted).filter(([key, value]) => key === "clientSecret" || !isSame(value, old[key])));
}

/** The vault's problems, by the fields of this form. */
export function fieldProblems(found: readonly { path: string; message: string }[], values: Values, spec: FormSpec): Problems {
  const problems = new Map<string, string>();
  for (const { path, message } of found) {
    const name = fieldOf(path, spec);
    const isEmpty = name.startsWith("settings.") && (values[name] ?? "") === "";
    if (!problems.has(name)) problems.set(name, isEmpty ? "This is needed too." : sentence(name === "settings" || name === "" ? `${path}: ${message}` : message));
  }
  return problems;
}

function fieldOf(path: string, spec: FormSpec): string {
  if (path === "name" || path === "title") return path;
  if (path.startsWith("scopes")) return "scopes";
  const endpoint = /^endpoints\.(\w+)$/.exec(path)?.[1];
  if (endpoint !== undefined) return takesEndpoints(spec) && endpointsOf(spec).some((name) => name === endpoint) ? `endpoint.${endpoint}` : "";
  if (path !== "settings" && !path.startsWith("settings.")) return "";
  const fields = settingFields(spec.connector.name);
  if (fields === null) return "settings";
  const names = fields.map((field) => `settings.${field.path}`);
  return names.find((name) => name === path || path.startsWith(`${name}.`)) ?? names.find((name) => name.startsWith(`${path}.`)) ?? "";
}

function sentence(message: string): string {
  const whole = message.startsWith("must ") ? `This ${message}` : message;
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}
