// The bodies and queries of the vault API: the one place of their shapes (contract section 7). JSON, snake_case,
// unknown keys refused, every text bounded.
import { z } from "zod";

const text = (max: number) => z.string().min(1).max(max);
const connectionName = z.string().regex(/^[a-z][a-z0-9_-]{0,31}$/, "Small letters, digits, _ and -, starting with a letter, 32 at most.");
const identifier = z.string().min(1).max(255);
/** In UTF-16 units; the vault counts characters. */
const label = z.string().max(128);
const url = z.string().max(2048);
/** RFC 6749, section 3.3: white space would make one scope two. */
const scopes = z.array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,256}$/, "A scope is one word without white space.")).max(100);

const endpoints = z.strictObject({
  issuer: url.optional(),
  authorization: url.optional(),
  token: url.optional(),
  revocation: url.optional(),
  userinfo: url.optional(),
  jwks: url.optional(),
  api: url.optional(),
});
const requestAllow = z
  .array(z.strictObject({ method: z.enum(["GET", "POST", "PUT", "PATCH", "DELETE"]), path_prefix: z.string().startsWith("/").max(512) }))
  .max(50);

const connectionChange = {
  title: text(80).optional(),
  client_id: text(512).optional(),
  client_secret: text(4096).optional(),
  scopes: scopes.optional(),
  endpoints: endpoints.optional(),
  settings: z.record(z.string().max(64), z.unknown()).optional(),
  enabled: z.boolean().optional(),
  request_allow: requestAllow.optional(),
};

export const connectionCreate = z.strictObject({ name: connectionName, connector: text(64), ...connectionChange });
export const connectionUpdate = z.strictObject(connectionChange);
const flag = z.enum(["true", "false"]).transform((value) => value === "true");
export const connectionUpdateQuery = z.strictObject({ reset: flag.optional() });
export const connectionDeleteQuery = z.strictObject({ disconnect: flag.optional() });

const limit = z.coerce.number().int().min(1).max(200).default(50);
const cursor = z.string().max(512).optional();

export const accountsQuery = z.strictObject({
  connection_name: connectionName.optional(),
  identifier: identifier.optional(),
  status: z.enum(["PENDING", "ACTIVE", "EXPIRED", "REVOKED", "ERROR"]).optional(),
  limit,
  cursor,
});

const apiKeyCredential = z.strictObject({ type: z.literal("api_key"), fields: z.record(z.string().max(64), z.string().max(8192)) });
/** What a header can carry (RFC 6750, section 2.1). */
const token = z.string().regex(/^[\x21-\x7e]{1,16384}$/, "A token is one word of plain characters, 16384 at most.");
/** Years that every store and language can keep. */
const time = z.iso.datetime({ offset: true }).refine((text) => Date.parse(text) >= Date.UTC(1970) && Date.parse(text) < Date.UTC(9999), "A time between 1970 and 9998.");
const oauthCredential = z.strictObject({
  type: z.literal("oauth"),
  access_token: token,
  refresh_token: token.optional(),
  expires_at: time.optional(),
  scopes: scopes.optional(),
});
export const accountCreate = z.strictObject({
  connection_name: connectionName,
  identifier,
  label: label.optional(),
  credential: z.discriminatedUnion("type", [apiKeyCredential, oauthCredential]),
});
export const accountUpdate = z.strictObject({ label });
export const accountDeleteQuery = z.strictObject({ purge: flag.optional() });
export const credentialReplace = z.strictObject({ credential: z.discriminatedUnion("type", [apiKeyCredential, oauthCredential]) });

const verification = z.enum(["sign_in", "app"]);

export const linkCreate = z.strictObject({
  connection_name: connectionName,
  identifier,
  label: label.optional(),
  scopes: scopes.optional(),
  return_to: url.optional(),
  verification: verification.optional(),
  state: z.string().max(1024).optional(),
});
export const linkQuery = z.strictObject({ wait_s: z.coerce.number().int().min(0).max(25).default(0) });

/** Longer codes are wrong ones too, and are not looked at. */
export const linkVerify = z.strictObject({ verification_code: text(256), identifier });

export const toolExecute = z.strictObject({
  identifier,
  account: z.string().max(320).optional(),
  arguments: z.record(z.string(), z.unknown()),
  idempotency_key: text(255).optional(),
});

export const sessionTokenCreate = z.strictObject({
  identifier,
  ttl_s: z.number().int().min(60).max(86_400),
  endpoint: z.string().startsWith("/mcp").max(128).optional(),
  scopes: z.array(z.enum(["mcp:read", "mcp:write"])).min(1).optional(),
  verification: verification.optional(),
  return_to: url.optional(),
});

/** What an address, a password and a name may be, the people's room says: the same for every way in. */
export const userCreate = z.strictObject({
  // A client resolves a dot segment before it asks: nobody could be reached under it.
  sub: identifier.regex(/^(?!\.\.?$)/, "A name that an address can hold.").optional(),
  email: text(254),
  password: text(1024).optional(),
  name: text(120).optional(),
  role: z.enum(["user", "viewer", "admin", "disabled"]).default("user"),
});
export const userUpdate = z.strictObject({
  email: text(254).optional(),
  password: text(1024).optional(),
  name: text(120).optional(),
  role: z.enum(["user", "viewer", "admin", "disabled"]).optional(),
});
export const pageQuery = z.strictObject({ limit, cursor });

export const apiKeyCreate = z.strictObject({
  name: text(80),
  scopes: z.array(z.enum(["read", "execute", "manage", "admin"])).min(1),
  return_to_origins: z.array(url).max(20).optional(),
  expires_at: time.optional(),
});

export const eventsQuery = z.strictObject({
  after: z.string().max(64).optional(),
  type: z.string().max(64).optional(),
  account_id: z.string().max(64).optional(),
  limit,
});

/** An unknown word may be the wish for a rehearsal: refused rather than done. */
export const keysRotate = z.strictObject({});
