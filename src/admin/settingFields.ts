// The settings of each connector as fields of a form, as data: a new connector gets its row here, or else one JSON field.
// The connector's own schema decides what is valid (connectors/registry.ts); here is only how it is typed in and shown.
import { isDeepStrictEqual } from "node:util";

export interface Choice {
  value: string;
  title: string;
}

export interface SettingField {
  /** Where it lies in the settings: `probe.path`. */
  path: string;
  title: string;
  hint?: string;
  choices?: readonly Choice[];
  /** How the text becomes a value; default text. */
  as?: "number" | "boolean" | "json";
  /** Shown when it is not set. */
  fallback?: string;
  /** Written down even when it is the fallback. */
  always?: boolean;
  /** Spaces at the ends count. */
  spaces?: boolean;
  /** Kept only while another field is filled in, or holds one of these. */
  onlyWhen?: { path: string; in?: readonly string[] };
}

const CONFIRM_SENDS: SettingField = {
  path: "confirm_sends",
  title: "Ask the person before something is sent",
  hint: "The person types a word in their client before the message goes out.",
  fallback: "off",
  choices: [
    { value: "off", title: "Never" },
    { value: "new_recipients", title: "When somebody is written to for the first time" },
    { value: "always", title: "Always" },
  ],
};

const FIELDS: Readonly<Record<string, readonly SettingField[]>> = {
  gmail: [CONFIRM_SENDS],
  slack: [CONFIRM_SENDS],
  "generic-oauth": [
    {
      path: "token_auth",
      title: "How the client id and secret are sent",
      fallback: "client_secret_post",
      choices: [
        { value: "client_secret_post", title: "In the body (client_secret_post)" },
        { value: "client_secret_basic", title: "In the header (client_secret_basic)" },
        { value: "none", title: "No secret: a public client" },
      ],
    },
    {
      path: "pkce",
      title: "PKCE",
      as: "boolean",
      fallback: "true",
      hint: "Protects the sign-in against a stolen code. Switch it off only for a provider that refuses it.",
      choices: [
        { value: "true", title: "On" },
        { value: "false", title: "Off" },
      ],
    },
    { path: "identity.path", title: "Where the API says whose account it is", hint: "A path below the base of the API, such as /v1/me. Empty: the account is not named." },
    { path: "identity.id", title: "… the member that holds the id", hint: "Names separated by dots, such as data.user.id." },
    { path: "identity.email", title: "… the e-mail address", hint: "May be left out." },
    { path: "identity.name", title: "… the name", hint: "May be left out." },
  ],
  "generic-api-key": [
    {
      path: "api_key.in",
      title: "Where the key goes",
      fallback: "header",
      always: true,
      choices: [
        { value: "header", title: "In a header" },
        { value: "query", title: "In the query of the address" },
        { value: "basic", title: "As a user name and password (Basic)" },
      ],
    },
    { path: "api_key.name", title: "Name of the header or parameter", hint: "Empty: Authorization.", onlyWhen: { path: "api_key.in", in: ["header", "query"] } },
    {
      path: "api_key.prefix",
      title: "What stands before the key in the header",
      hint: "With the space after it, as in “Token ”. Empty: “Bearer ” in Authorization, nothing in another header.",
      spaces: true,
      onlyWhen: { path: "api_key.in", in: ["header"] },
    },
    { path: "probe.path", title: "Try a key before it is kept, at", hint: "A path below the base of the API that answers only to a good key, such as /v1/me. Empty: keys are kept untried." },
    {
      path: "probe.method",
      title: "… with the method",
      fallback: "GET",
      onlyWhen: { path: "probe.path" },
      choices: [
        { value: "GET", title: "GET" },
        { value: "POST", title: "POST" },
      ],
    },
    { path: "probe.status", title: "… and a good key answers with the status", as: "number", fallback: "200", onlyWhen: { path: "probe.path" } },
    {
      path: "fields",
      title: "What people type in (JSON)",
      as: "json",
      hint: 'For more than one field: [{"name": "api_key", "title": "API key", "secret": true}]. Empty: one key.',
    },
  ],
};

/** Null: this connector's settings are typed as one JSON object. */
export function settingFields(connector: string): readonly SettingField[] | null {
  return Object.hasOwn(FIELDS, connector) ? (FIELDS[connector] ?? null) : null;
}

/** A stored setting as it is typed. */
export function settingText(field: SettingField, settings: Readonly<Record<string, unknown>>): string {
  const value = valueAt(settings, field.path);
  if (value === undefined || value === null) return field.fallback ?? "";
  return field.as === "json" ? JSON.stringify(value, null, 2) : String(value);
}

/** What was typed, laid over what is stored. Members that have no field here stay as they are. */
export function settingsFrom(
  fields: readonly SettingField[],
  texts: (path: string) => string,
  before: Readonly<Record<string, unknown>>,
): { settings: Record<string, unknown>; problems: { path: string; message: string }[] } {
  const settings = structuredClone(before) as Record<string, unknown>;
  const problems: { path: string; message: string }[] = [];
  for (const field of fields) {
    const text = texts(field.path);
    const isIdle = text === "" || (field.onlyWhen !== undefined && !holds(field.onlyWhen, texts));
    const isUnsaid = text === field.fallback && !field.always && valueAt(before, field.path) === undefined;
    if (isIdle) removeAt(settings, field.path);
    else if (!isUnsaid) {
      const value = valueFrom(field, text);
      if (value.ok) putAt(settings, field.path, value.value);
      else problems.push({ path: field.path, message: value.problem });
    }
  }
  return { settings, problems };
}

export function isSame(one: unknown, other: unknown): boolean {
  return isDeepStrictEqual(one, other);
}

/** Says where the text stops being JSON; never repeats the text. */
export function parseJson(text: string): { ok: true; value: unknown } | { ok: false; problem: string } {
  try {
    return { ok: true, value: JSON.parse(text) as unknown };
  } catch (thrown) {
    const position = /position (\d+)/.exec(thrown instanceof Error ? thrown.message : "")?.[1];
    if (position === undefined) return { ok: false, problem: "This is not JSON: it ends too early." };
    const lines = text.slice(0, Number(position)).split("\n");
    return { ok: false, problem: `This is not JSON: look at line ${lines.length}, character ${(lines.at(-1)?.length ?? 0) + 1}.` };
  }
}

function valueFrom(field: SettingField, text: string): { ok: true; value: unknown } | { ok: false; problem: string } {
  switch (field.as) {
    case "json":
      return parseJson(text);
    case "boolean":
      return { ok: true, value: text === "true" };
    case "number":
      return /^\d{1,9}$/.test(text) ? { ok: true, value: Number(text) } : { ok: false, problem: "This must be a number." };
    case undefined:
      return { ok: true, value: text };
    default:
      return field.as satisfies never;
  }
}

function holds(when: NonNullable<SettingField["onlyWhen"]>, texts: (path: string) => string): boolean {
  const text = texts(when.path);
  return when.in === undefined ? text !== "" : when.in.includes(text);
}

type Members = Record<string, unknown>;

function isMembers(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Paths come from the table above alone, never from a request. */
function valueAt(settings: Readonly<Members>, path: string): unknown {
  let at: unknown = settings;
  for (const step of path.split(".")) at = isMembers(at) && Object.hasOwn(at, step) ? at[step] : undefined;
  return at;
}

function putAt(settings: Members, path: string, value: unknown): void {
  const [step = "", ...rest] = path.split(".");
  if (rest.length === 0) {
    settings[step] = value;
    return;
  }
  const inner: Members = isMembers(settings[step]) ? settings[step] : {};
  settings[step] = inner;
  putAt(inner, rest.join("."), value);
}

function removeAt(settings: Members, path: string): void {
  const [step = "", ...rest] = path.split(".");
  const inner = settings[step];
  if (rest.length === 0) delete settings[step];
  else if (isMembers(inner)) {
    removeAt(inner, rest.join("."));
    if (Object.keys(inner).length === 0) delete settings[step];
  }
}
