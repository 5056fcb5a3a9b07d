// Checks of a connection's endpoints and scopes, for every connector. Must never happen: the value in a problem's message.
import type { EndpointName } from "./connector.js";

export interface Problem {
  path: string;
  message: string;
}

const ENDPOINT_NAMES: readonly EndpointName[] = ["issuer", "authorization", "token", "revocation", "userinfo", "jwks", "api"];
const URL_CHARS_MAX = 2_000;
const SCOPES_MAX = 100;
/** Of those the program reads or appends to the path; a query would swallow it. */
const NO_QUERY: readonly EndpointName[] = ["issuer", "api"];

/** `refuses` is the egress's rule: scheme, user names, link-local and private addresses. */
export function checkEndpoints(endpoints: Readonly<Record<string, string>>, refuses: (url: string) => string | null): Problem[] {
  return Object.entries(endpoints).flatMap(([name, url]) => {
    const problem = checkEndpoint(name, url, refuses);
    return problem === null ? [] : [{ path: `endpoints.${isEndpointName(name) ? name : "?"}`, message: problem }];
  });
}

function checkEndpoint(name: string, text: unknown, refuses: (url: string) => string | null): string | null {
  if (!isEndpointName(name)) return `There is no such endpoint. Known: ${ENDPOINT_NAMES.join(", ")}.`;
  if (typeof text !== "string" || text.length > URL_CHARS_MAX || /\s/.test(text) || !URL.canParse(text)) return "This is not a URL.";
  const url = new URL(text);
  if (url.protocol !== "https:" && url.protocol !== "http:") return "The URL must begin with https://.";
  if (url.username !== "" || url.password !== "") return "The URL must not hold a user name or a password.";
  if (url.hash !== "" || text.includes("#")) return "The URL must not have a fragment (#).";
  if (url.search !== "" && NO_QUERY.includes(name)) return "The URL must not have a query (?).";
  return refuses(text);
}

function isEndpointName(name: string): name is EndpointName {
  return ENDPOINT_NAMES.some((known) => known === name);
}

/** RFC 6749 section 3.3: a scope is printable characters without white space, `"` and `\`. */
export function checkScopes(scopes: readonly string[]): Problem[] {
  if (scopes.length > SCOPES_MAX) return [{ path: "scopes", message: `There are too many scopes; at most ${SCOPES_MAX}.` }];
  return scopes.flatMap((scope, index) =>
    typeof scope === "string" && /^[\x21\x23-\x5b\x5d-\x7e]{1,300}$/.test(scope)
      ? []
      : [{ path: `scopes.${index}`, message: "A scope must be one word without white space." }],
  );
}
