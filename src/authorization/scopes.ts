// The scopes of MCP access tokens, in the wire's words and in a person's. One list: discovery, consent and tokens read it.
import type { McpScope } from "../identity/principal.js";

export interface ScopeWords {
  scope: McpScope;
  title: string;
  detail: string;
}

export const MCP_SCOPES: readonly ScopeWords[] = [
  { scope: "mcp:read", title: "Read through the accounts you connect", detail: "For example list messages and read them. It gets results; never a password, key or token of yours." },
  { scope: "mcp:write", title: "Act through the accounts you connect", detail: "For example send a mail or post a message in your name, or change and delete things." },
];

/** A request without a scope asks for these; the person may still leave out what is optional. */
export const DEFAULT_SCOPE = MCP_SCOPES.map(({ scope }) => scope).join(" ");

/** Scopes of OpenID Connect that clients ask for by habit: an id_token with the `sub` alone, and refresh tokens. */
export const OIDC_SCOPES = ["openid", "offline_access"];

export function isMcpScope(scope: string): scope is McpScope {
  return MCP_SCOPES.some((words) => words.scope === scope);
}

export function scopeList(scope: unknown): string[] {
  return typeof scope === "string" ? [...new Set(scope.split(" "))].filter((name) => name !== "") : [];
}
