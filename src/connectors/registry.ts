// Every connector that ships, and what an operator's connection makes of it. Adding a connector is one row here, a folder and
// a test. Must never happen: settings that are stored without having been checked.
import type { z } from "zod";
import { OutbandError } from "../errors.js";
import { checkEndpoints, checkScopes, type Problem } from "./check.js";
import type { Connector, EndpointName, Endpoints } from "./connector.js";
import { genericApiKey, genericApiKeySettings, shapeApiKey } from "./generic/apiKey.js";
import { genericOAuth, genericOAuthSettings, shapeOAuth } from "./generic/oauth.js";
import { gmail, gmailSettings } from "./gmail/connector.js";
import { slack, slackSettings } from "./slack/connector.js";

export type { Problem } from "./check.js";

export interface ConnectionShape {
  connector: string;
  endpoints: Readonly<Record<string, string>>;
  settings: Readonly<Record<string, unknown>>;
  scopes: readonly string[];
}

export interface Registry {
  get(name: string): Connector | null;
  list(): Connector[];
  /** The connector as this connection has it: endpoints merged, generic ones shaped by the settings. Null: not in this build. */
  forConnection(connection: ConnectionShape): Connector | null;
  /** Everything that is wrong with a connection, before it is stored; empty: nothing. `refuses` is the egress's. */
  check(connection: ConnectionShape, refuses?: (url: string) => string | null): Problem[];
}

interface Row {
  base: Connector;
  settings: z.ZodType;
  /** The connector for settings that passed. */
  shape(settings: unknown, connection: { endpoints: Endpoints; scopes: readonly string[] }): Connector;
  /** What must be written down beside what the connector brings. */
  needs(settings: unknown, endpoints: Endpoints): { path: string; message: string }[];
}

const ROWS: readonly Row[] = [
  row({ base: gmail, settings: gmailSettings, shape: (_settings, { endpoints }) => ({ ...gmail, endpoints }) }),
  row({ base: slack, settings: slackSettings, shape: (_settings, { endpoints }) => ({ ...slack, endpoints }) }),
  row({
    base: genericOAuth,
    settings: genericOAuthSettings,
    shape: shapeOAuth,
    needs: (settings, endpoints) => [
      ...(endpoints.issuer || (endpoints.authorization && endpoints.token)
        ? []
        : [missing("authorization", "Give the issuer, or both the authorization and the token endpoint.")]),
      ...(settings.identity && !endpoints.api ? [missing("api", "The identity is read below the API's base: give it.")] : []),
    ],
  }),
  row({
    base: genericApiKey,
    settings: genericApiKeySettings,
    shape: shapeApiKey,
    needs: (_settings, endpoints) => (endpoints.api ? [] : [missing("api", "Give the base of the API, such as https://api.example.com.")]),
  }),
];

export function createRegistry(): Registry {
  const rows = new Map(ROWS.map((one) => [one.base.name, one]));

  return {
    get: (name) => rows.get(name)?.base ?? null,
    list: () => ROWS.map((one) => one.base),

    forConnection(connection) {
      const found = rows.get(connection.connector);
      if (!found) return null;
      const settings = found.settings.safeParse(connection.settings);
      if (!settings.success)
        throw new OutbandError("internal", {
          cause: new Error(`the stored settings of a ${connection.connector} connection do not fit this build`),
        });
      return found.shape(settings.data, { endpoints: merged(found.base, connection), scopes: connection.scopes });
    },

    check(connection, refuses = () => null) {
      const found = rows.get(connection.connector);
      if (!found) return [{ path: "connector", message: "There is no connector of that name." }];
      const settings = found.settings.safeParse(connection.settings);
      return [
        ...(settings.success
          ? []
          : settings.error.issues.map((issue) => ({ path: ["settings", ...issue.path].join("."), message: plainMessage(issue) }))),
        ...checkEndpoints(connection.endpoints, refuses),
        ...checkScopes(connection.scopes),
        ...(settings.success ? found.needs(settings.data, merged(found.base, connection)) : []),
      ];
    },
  };
}

function merged(base: Connector, connection: ConnectionShape): Endpoints {
  return { ...base.endpoints, ...(connection.endpoints as Endpoints) };
}

/** Keeps each row typed by its own schema while the table holds plain rows. */
function row<Settings extends z.ZodType>(typed: {
  base: Connector;
  settings: Settings;
  shape(settings: z.output<Settings>, connection: { endpoints: Endpoints; scopes: readonly string[] }): Connector;
  needs?(settings: z.output<Settings>, endpoints: Endpoints): { path: string; message: string }[];
}): Row {
  const { base, settings } = typed;
  return {
    base,
    settings,
    shape: (parsed, connection) => typed.shape(parsed as z.output<Settings>, connection),
    needs: (parsed, endpoints) => typed.needs?.(parsed as z.output<Settings>, endpoints) ?? [],
  };
}

function missing(name: EndpointName, message: string): Problem {
  return { path: `endpoints.${name}`, message };
}

/** zod's sentence, save where it would repeat what was sent (the names of unknown members). */
function plainMessage(issue: z.core.$ZodIssue): string {
  return issue.code === "unrecognized_keys" ? "There is a member here that this connector does not know." : issue.message;
}
