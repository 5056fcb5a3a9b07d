// Who is asking, as verified from a token, a key or a browser session. Nothing in arguments, `_meta` or headers
// ever makes a Principal.
import type { Identifier } from "../ids.js";

export type ApiScope = "read" | "execute" | "manage" | "admin";
export type McpScope = "mcp:read" | "mcp:write";

/** A person behind an MCP client: from a verified access token or session token. */
export interface PersonPrincipal {
  kind: "person";
  sub: Identifier;
  clientId: string;
  /** As the client calls itself; unverified, always shown as such. */
  clientName: string | null;
  scopes: ReadonlySet<string>;
  /** The grant behind the token; read again at every call. Null: a session token, or one that the external issuer made. */
  grantId: string | null;
  /** The API key that minted the session token. */
  apiKeyId: string | null;
  /** How links made under a session token are verified, and where they lead back to. Absent: by sign-in, and nowhere. */
  links?: { verification: "sign_in" | "app"; returnTo: string | null };
  expiresAtMs: number;
}

/** A person in a browser session. */
export interface BrowserPrincipal {
  kind: "browser";
  sub: Identifier;
  role: "user" | "viewer" | "admin";
}

/** A server with an API key. */
export interface ApiKeyPrincipal {
  kind: "api_key";
  keyId: string;
  scopes: ReadonlySet<ApiScope>;
  returnToOrigins: readonly string[];
}

export interface SystemPrincipal {
  kind: "system";
}

export type Principal = PersonPrincipal | BrowserPrincipal | ApiKeyPrincipal | SystemPrincipal;

/** The client id under which a principal's questions and once-only writes are counted. */
export function clientIdOf(principal: Principal): string {
  switch (principal.kind) {
    case "person":
      return principal.clientId;
    case "browser":
      return "outband:browser";
    case "api_key":
      return `outband:key:${principal.keyId}`;
    case "system":
      return "outband:system";
    default:
      return principal satisfies never;
  }
}
