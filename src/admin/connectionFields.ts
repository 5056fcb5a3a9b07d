// The form of a connection as sections of fields, ready to be printed. Pure. Must never happen: a value in the field of
// the client secret, whatever came in.
import type { EndpointName } from "../connectors/connector.js";
import type { ConnectionView } from "../vault/types.js";
import { endpointsOf, type FormSpec, type Problems, takesClient, takesEndpoints, type Values } from "./connectionInput.js";
import { type Choice, settingFields, settingText } from "./settingFields.js";

export interface Field {
  name: string;
  title: string;
  kind: "text" | "url" | "secret" | "choice" | "lines" | "code";
  hint: string | null;
  value: string;
  placeholder: string | null;
  required: boolean;
  choices: readonly Choice[];
  problem: string | null;
}

export interface Tick {
  name: string;
  title: string;
  ticked: boolean;
}

export interface Section {
  id: string;
  title: string;
  lead: string | null;
  fields: Field[];
  /** Asked for anyway. */
  always: string[];
  ticks: Tick[];
  /** Folded away until opened; never when one of its fields has a problem. */
  folded: boolean;
}

export const ENDPOINT_WORDS: Readonly<Record<EndpointName, { title: string; hint: string | null }>> = {
  issuer: { title: "Issuer", hint: "The provider's OpenID Connect or OAuth issuer. The other addresses are then read from its own description." },
  authorization: { title: "Authorization endpoint", hint: "Where the person is sent to agree." },
  token: { title: "Token endpoint", hint: null },
  revocation: { title: "Revocation endpoint", hint: "Where a grant is given back when somebody disconnects." },
  userinfo: { title: "Userinfo endpoint", hint: null },
  jwks: { title: "Keys (JWKS)", hint: null },
  api: { title: "Base of the API", hint: "The one place where the credential is used for requests, such as https://api.example.com." },
};

export function sectionsOf(spec: FormSpec, values: Values, problems: Problems): Section[] {
  const { connector, before } = spec;
  const field = (name: string, title: string, more: Partial<Field> = {}): Field => {
    return { name, title, kind: "text", hint: null, value: values[name] ?? "", placeholder: null, required: false, choices: [], problem: problems.get(name) ?? null, ...more };
  };
  const section = (id: string, title: string, more: Partial<Section>): Section => {
    const made = { id, title, lead: null, fields: [], always: [], ticks: [], folded: false, ...more };
    return { ...made, folded: made.folded && made.fields.every(({ problem }) => problem === null) };
  };

  const sections = [section("name", before === null ? "Name and title" : "Title", { fields: nameFields(spec, field) })];
  if (takesClient(spec)) sections.push(section("client", "Client at the provider", { fields: clientFields(before, field) }));
  if (connector.method.kind === "oauth") sections.push(section("scopes", "Permissions", scopeSection(spec, values, field)));
  if (takesEndpoints(spec)) {
    const isKnown = Object.keys(connector.endpoints).length > 0;
    const fields = endpointsOf(spec).map((name) => field(`endpoint.${name}`, ENDPOINT_WORDS[name].title, { kind: "url", hint: ENDPOINT_WORDS[name].hint, placeholder: connector.endpoints[name] ?? null }));
    sections.push(section("addresses", isKnown ? "Other addresses" : "Addresses", { fields, folded: isKnown && fields.every(({ value }) => value === ""), lead: isKnown ? `Only for a ${connector.title} that stands elsewhere. Empty: the usual ones.` : null }));
  }
  const settings = settingFields(connector.name);
  const settingInputs =
    settings === null
      ? [field("settings", "Settings (JSON)", { kind: "code" })]
      : settings.map(({ path, title, hint, as, choices = [] }) => field(`settings.${path}`, title, { hint: hint ?? null, choices, kind: choices.length > 0 ? "choice" : as === "json" ? "code" : "text" }));
  sections.push(section("settings", "Settings", { fields: settingInputs }));
  return sections;
}

/** It is part of the redirect URI and of tool names: there is no renaming. */
const NAME_HINT = "What agents call it: small letters, digits, _ and -. It cannot be changed later.";

type MakeField = (name: string, title: string, more?: Partial<Field>) => Field;

function nameFields({ connector, before }: FormSpec, field: MakeField): Field[] {
  const title = field("title", "Title", { hint: "What people read on the pages.", placeholder: connector.title });
  if (before !== null) return [title];
  return [field("name", "Name", { required: true, hint: NAME_HINT }), title];
}

function clientFields(before: ConnectionView | null, field: MakeField): Field[] {
  const secretHint = before?.hasClientSecret ? "One is stored. Leave this empty to keep it." : "Sealed when saved, and never shown again.";
  return [
    field("client_id", "Client id", { hint: before === null ? "May wait: save first, and register the redirect URI at the provider." : null }),
    field("client_secret", "Client secret", { kind: "secret", hint: secretHint, value: "" }),
  ];
}

function scopeSection({ connector }: FormSpec, values: Values, field: MakeField): Partial<Section> {
  const always = connector.scopes.filter(({ required }) => required).map(({ title }) => title);
  const ticks = connector.scopes
    .filter(({ required }) => !required)
    .map(({ name, title }) => ({ name: `scope:${name}`, title, ticked: values[`scope:${name}`] !== undefined }));
  return {
    lead: ticks.length > 0 ? "A tool asks for what it needs when it needs it. What is ticked here is asked for from the start." : null,
    always,
    ticks,
    fields: [field("scopes", connector.scopes.length > 0 ? "Other scopes" : "Scopes", { kind: "lines", hint: "In the provider's own words, separated by spaces or lines." })],
  };
}

/** What the form of a stored connection starts with. */
export function valuesOf(spec: FormSpec & { before: ConnectionView }): Values {
  const { connector, before } = spec;
  const settings = settingFields(connector.name);
  const ticked = connector.scopes.filter(({ name, required }) => !required && before.scopes.includes(name)).map(({ name }) => name);
  return {
    title: before.title,
    client_id: before.clientId ?? "",
    scopes: before.scopes.filter((scope) => !ticked.includes(scope)).join("\n"),
    ...Object.fromEntries(ticked.map((name) => [`scope:${name}`, "1"])),
    ...Object.fromEntries(Object.entries(before.endpoints).map(([name, url]) => [`endpoint.${name}`, url])),
    ...(settings === null
      ? { settings: JSON.stringify(before.settings, null, 2) }
      : Object.fromEntries(settings.map((field) => [`settings.${field.path}`, settingText(field, before.settings)]))),
  };
}

/** What the form of a new connection starts with. */
export function newValues({ connector }: FormSpec, takenNames: readonly string[]): Values {
  const isGeneric = connector.name.startsWith("generic-");
  return {
    name: isGeneric || takenNames.includes(connector.name) ? "" : connector.name,
    ...Object.fromEntries((settingFields(connector.name) ?? []).map((field) => [`settings.${field.path}`, settingText(field, {})])),
  };
}

/** What a confirm page carries on to the next post: every field of the form that was filled in, but the secret. */
export function carried(sections: readonly Section[]): { name: string; value: string }[] {
  const fields = sections.flatMap((section) => section.fields).filter(({ kind, value }) => kind !== "secret" && value !== "");
  const ticks = sections.flatMap((section) => section.ticks).filter(({ ticked }) => ticked);
  return [...fields.map(({ name, value }) => ({ name, value })), ...ticks.map(({ name }) => ({ name, value: "1" }))];
}
