// Keys of servers and of the operator's own tools. Must never happen: a key stored in clear or shown twice; a key that
// makes more than it has; a key from the environment that can be removed or that outlives its setting.
import { recordAudit } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import { secret, type Secret } from "../crypto/secret.js";
import { hashToken, newToken, sameText } from "../crypto/tokens.js";
import type { Database } from "../db/client.js";
import { OutbandError } from "../errors.js";
import { newId } from "../ids.js";
import type { ApiKeyPrincipal, ApiScope, Principal } from "./principal.js";

export const API_SCOPES: readonly ApiScope[] = ["read", "execute", "manage", "admin"];

export interface ApiKeyView {
  id: string;
  name: string;
  /** The key's first characters, for lists. */
  hint: string;
  scopes: ApiScope[];
  returnToOrigins: string[];
  createdAt: Date;
  expiresAt: Date | null;
  lastUsedAt: Date | null;
}

export interface NewApiKey {
  name: string;
  scopes: string[];
  returnToOrigins?: string[] | undefined;
  expiresAt?: Date | null | undefined;
}

export interface ApiKeys {
  /** Null: unknown or expired. */
  authenticate(bearer: string): Promise<ApiKeyPrincipal | null>;
  /** The key itself is in this answer and nowhere else. Throws invalid_request, insufficient_scope. */
  create(input: NewApiKey, actor?: Principal): Promise<{ id: string; key: Secret }>;
  /** Newest first. */
  list(): Promise<ApiKeyView[]>;
  /** Session tokens that it made die with it. Throws not_found. */
  remove(id: string, actor?: Principal): Promise<void>;
  /** Whether this is a key that lives in the settings or in DATA_DIR, not in the table. */
  isFixed(id: string): boolean;
}

const PREFIX = "obk_";
const HINT_CHARACTERS = 8;
/** Longer bearers are not looked at. */
const BEARER_CHARACTERS_MAX = 512;
const NAME_CHARACTERS_MAX = 100;
const ORIGINS_MAX = 20;
/** `last_used_at` may be this late; it saves a write at every call. */
const LAST_USED_STEP_MS = 60_000;

interface KeyRow {
  id: string;
  scopes: string[];
  returnToOrigins: string[];
  expiresAt: Date | null;
  lastUsedAt: Date | null;
}

const FIND_KEY = {
  name: "api_key_by_hash",
  text: `SELECT id, scopes, return_to_origins AS "returnToOrigins", expires_at AS "expiresAt", last_used_at AS "lastUsedAt"
         FROM api_key WHERE key_hash = $1`,
};

export interface ApiKeyDeps {
  db: Database;
  clock: Clock;
  /** ADMIN_API_KEY, and the key in DATA_DIR/cli.key. Only their hashes are kept. */
  adminKey: Secret | null;
  cliKey: Secret | null;
}

export function createApiKeys(deps: ApiKeyDeps): ApiKeys {
  const { db, clock } = deps;
  const fixed = [deps.adminKey, deps.cliKey].filter((key) => key !== null).map(fixedKey);

  async function fromTable(bearer: string): Promise<ApiKeyPrincipal | null> {
    const [row] = await db.query<KeyRow>(FIND_KEY, [hashToken(bearer)]);
    const now = clock.now();
    if (!row || (row.expiresAt !== null && row.expiresAt.getTime() <= now)) return null;
    if (row.lastUsedAt === null || now - row.lastUsedAt.getTime() > LAST_USED_STEP_MS) {
      await db.prisma.apiKey.updateMany({ where: { id: row.id }, data: { lastUsedAt: new Date(now) } });
    }
    return principalOf(row.id, row.scopes, row.returnToOrigins);
  }

  return {
    authenticate: async (bearer) => {
      if (bearer.length > BEARER_CHARACTERS_MAX) return null;
      const hash = hashToken(bearer);
      const known = fixed.find((key) => sameText(key.hash, hash));
      if (known) return principalOf(known.id, ["admin"], []);
      return bearer.startsWith(PREFIX) ? fromTable(bearer) : null;
    },

    create: async (input, actor = { kind: "system" }) => {
      const scopes = requireSound(input, clock.now());
      requireHeld(actor, scopes);
      const id = newId(clock, "key");
      const key = secret(PREFIX + newToken(clock).reveal());
      const origins = input.returnToOrigins ?? [];
      await db.transaction(async (tx) => {
        const data = {
          id,
          name: input.name.trim(),
          keyHash: hashToken(key),
          hint: key.reveal().slice(0, HINT_CHARACTERS),
          scopes,
          returnToOrigins: origins.map((origin) => new URL(origin).origin),
          createdBy: actor.kind === "browser" ? actor.sub : actor.kind === "api_key" ? actor.keyId : null,
          createdAt: clock.date(),
          expiresAt: input.expiresAt ?? null,
        };
        await tx.apiKey.create({ data, select: { id: true } });
        await recordAudit(tx, { category: "administration", action: "api_key.created", actor, outcome: "ok", detail: { key_id: id, scopes } });
      });
      return { id, key };
    },

    list: async () => {
      const select = { id: true, name: true, hint: true, scopes: true, returnToOrigins: true, createdAt: true, expiresAt: true, lastUsedAt: true };
      const rows = await db.prisma.apiKey.findMany({ select, orderBy: [{ createdAt: "desc" }, { id: "desc" }] });
      return rows.map((row) => ({ ...row, scopes: row.scopes.filter(isScope) }));
    },

    remove: async (id, actor = { kind: "system" }) => {
      await db.transaction(async (tx) => {
        const removed = await tx.apiKey.deleteMany({ where: { id } });
        if (removed.count === 0) throw new OutbandError("not_found");
        await recordAudit(tx, { category: "administration", action: "api_key.removed", actor, outcome: "ok", detail: { key_id: id } });
      });
    },

    isFixed: (id) => fixed.some((key) => key.id === id),
  };
}

/** The id holds a part of the hash: when the setting changes, the old key's session tokens are nobody's. */
function fixedKey(key: Secret): { id: string; hash: string } {
  const hash = hashToken(key);
  return { id: `key_fixed_${hash.slice(0, 16)}`, hash };
}

function principalOf(keyId: string, scopes: string[], returnToOrigins: string[]): ApiKeyPrincipal {
  const held = scopes.includes("admin") ? API_SCOPES : scopes.filter(isScope);
  return { kind: "api_key", keyId, scopes: new Set(held), returnToOrigins };
}

function isScope(scope: string): scope is ApiScope {
  return (API_SCOPES as readonly string[]).includes(scope);
}

/** Nothing mints more than it has (contract, section 7). */
function requireHeld(actor: Principal, scopes: ApiScope[]): void {
  if (actor.kind !== "api_key") return;
  if (!scopes.every((scope) => actor.scopes.has(scope))) throw new OutbandError("insufficient_scope");
}

function requireSound(input: NewApiKey, nowMs: number): ApiScope[] {
  const problems: { path: string; message: string }[] = [];
  const name = input.name.trim();
  if (name === "" || [...name].length > NAME_CHARACTERS_MAX || /[\p{Cc}\p{Cf}]/u.test(name)) {
    problems.push({ path: "name", message: `The name must have 1 to ${NAME_CHARACTERS_MAX} printable characters.` });
  }
  const scopes = [...new Set(input.scopes)].filter(isScope);
  if (scopes.length === 0 || !input.scopes.every(isScope)) problems.push({ path: "scopes", message: `The scopes are ${API_SCOPES.join(", ")}.` });
  const origins = input.returnToOrigins ?? [];
  if (origins.length > ORIGINS_MAX || !origins.every(isOrigin)) {
    problems.push({ path: "return_to_origins", message: `At most ${ORIGINS_MAX} origins, such as https://app.example.com.` });
  }
  if (input.expiresAt && !(input.expiresAt.getTime() > nowMs)) problems.push({ path: "expires_at", message: "The time is in the past." });
  if (problems.length > 0) throw new OutbandError("invalid_request", { problems });
  return scopes;
}

/** https, or http on this machine; no path, no user, no query, and no pattern: origins are compared whole. */
function isOrigin(text: string): boolean {
  const url = URL.parse(text);
  if (url === null || url.hostname.includes("*") || (url.origin !== text && `${url.origin}/` !== text)) return false;
  return url.protocol === "https:" || (url.protocol === "http:" && ["localhost", "127.0.0.1", "[::1]"].includes(url.hostname));
}
