// `generic-api-key`: any API that takes a key, described by an operator's settings. No tools of its own.
import { z } from "zod";
import type { ApiKeyMethod, Connector, KeyPlacement } from "../connector.js";
import { apiPath } from "./oauth.js";

/** RFC 9110 section 5.6.2: a field name is a token. */
const headerName = z
  .string()
  .min(1)
  .max(100)
  .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, "must be a header name");
/** Headers that are the connection's own, not a place for a key. */
const TAKEN = new Set([
  "host",
  "content-length",
  "content-type",
  "transfer-encoding",
  "connection",
  "cookie",
  "accept",
  "upgrade",
  "te",
  "trailer",
  "keep-alive",
  "proxy-authorization",
]);

const placement = z.discriminatedUnion("in", [
  z.strictObject({
    in: z.literal("header"),
    name: headerName.refine((name) => !TAKEN.has(name.toLowerCase()), "must not be a header that the connection itself uses").optional(),
    prefix: z
      .string()
      .max(50)
      .regex(/^[\x20-\x7e]*$/, "must be plain characters")
      .optional(),
  }),
  z.strictObject({
    in: z.literal("query"),
    name: z
      .string()
      .min(1)
      .max(100)
      .regex(/^[\w.~-]+$/, "must be a parameter name"),
  }),
  z.strictObject({ in: z.literal("basic") }),
]);

const field = z.strictObject({
  name: z.string().regex(/^[a-z][a-z0-9_]{0,31}$/, "must be lower case letters, digits and _"),
  title: z.string().min(1).max(80),
  secret: z.boolean().default(true),
});

/** Contract, section 7. */
export const genericApiKeySettings = z.strictObject({
  api_key: placement.optional(),
  fields: z.array(field).min(1).max(5).optional(),
  probe: z
    .strictObject({ method: z.enum(["GET", "POST"]).default("GET"), path: apiPath, status: z.int().min(100).max(599).default(200) })
    .optional(),
});
type Settings = z.infer<typeof genericApiKeySettings>;

const KEY_FIELD = [{ name: "api_key", title: "API key", secret: true }];
const BASIC_FIELDS = [
  { name: "username", title: "User name", secret: false },
  { name: "password", title: "Password or key", secret: true },
];

export const genericApiKey: Connector = {
  name: "generic-api-key",
  title: "API key",
  method: methodFor({}),
  scopes: [],
  endpoints: {},
  tools: [],
  readsAuthFailure: null,
};

/** The connector as one connection's settings make it. */
export function shapeApiKey(settings: Settings, connection: { endpoints: Connector["endpoints"] }): Connector {
  return { ...genericApiKey, method: methodFor(settings), endpoints: connection.endpoints };
}

function methodFor(settings: Settings): ApiKeyMethod {
  const placed = placementFor(settings.api_key);
  return {
    kind: "api_key",
    fields: settings.fields ?? (placed.in === "basic" ? BASIC_FIELDS : KEY_FIELD),
    placement: placed,
    probe: settings.probe ?? null,
    identity: null,
  };
}

function placementFor(given: Settings["api_key"]): KeyPlacement {
  if (!given || given.in === "header") {
    const name = given?.name ?? "authorization";
    // `Bearer ` belongs to Authorization; a header of the provider's own takes the key bare.
    return { in: "header", name, prefix: given?.prefix ?? (name.toLowerCase() === "authorization" ? "Bearer " : "") };
  }
  return given;
}
