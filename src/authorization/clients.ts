// What a client may register, and how it is shown to a person. Names are the client's own word, hence always unverified.
// Must never happen: a redirect URI that a browser would run as script, or a plain-http one off this machine. Pure.
import { isLoopbackName } from "../http/guard.js";
import { outsideText } from "../http/words.js";
import { InvalidClientMetadata, type Client, type ClientMetadata } from "./oidcProvider.js";

const REDIRECT_URIS_MAX = 20;
const REDIRECT_URI_CHARACTERS_MAX = 2_000;
const NAME_CHARACTERS_MAX = 200;
/** Schemes that browsers or operating systems act on by themselves: no app of a person's own answers there. */
const FOREIGN_SCHEMES = new Set(
  "javascript vbscript data blob file about ws wss ftp mailto tel sms intent chrome view-source filesystem jar ms-msdt search-ms".split(" ").map((name) => `${name}:`),
);

/** oidc-provider calls this for registered clients and metadata documents alike; it throws what the client reads. */
export function shapeClient(metadata: ClientMetadata): void {
  // A registered scope would cap later requests: a step-up would be refused (RFC 7591 leaves it to us).
  delete metadata.scope;
  if (typeof metadata.client_name === "string" && metadata.client_name.length > NAME_CHARACTERS_MAX) {
    throw new InvalidClientMetadata("client_name is too long");
  }
  const uris: unknown = metadata.redirect_uris;
  // What is not a list of strings is refused by the library's own checks, which follow.
  if (!Array.isArray(uris)) return;
  if (uris.length > REDIRECT_URIS_MAX) throw new InvalidClientMetadata("redirect_uris has too many members");
  const kinds = uris.filter((uri) => typeof uri === "string").map(redirectKind);
  // RFC 8252: loopback and private-use redirects are those of native apps, whatever the client calls itself. A loopback
  // redirect then matches on any port (7.3); everything else matches exactly.
  metadata.application_type = kinds.some((kind) => kind !== "web") ? "native" : "web";
}

export type RedirectKind = "web" | "loopback" | "app";

/** Throws for anything but https, http on this machine, or an app's own scheme. */
function redirectKind(uri: string): RedirectKind {
  const url = uri.length <= REDIRECT_URI_CHARACTERS_MAX ? URL.parse(uri) : null;
  if (url === null) throw new InvalidClientMetadata("redirect_uris must only contain valid uris");
  if (url.username !== "" || url.password !== "") throw new InvalidClientMetadata("redirect_uris must not contain a user or password");
  if (url.protocol === "https:") return "web";
  if (url.protocol === "http:") {
    if (isLoopbackName(url.hostname)) return "loopback";
    throw new InvalidClientMetadata("redirect_uris must use https, a loopback address, or a private-use scheme");
  }
  if (FOREIGN_SCHEMES.has(url.protocol)) throw new InvalidClientMetadata("redirect_uris must not use this scheme");
  return "app";
}

/** Where a redirect URI leads, for a page and for its form-action. */
export interface RedirectTarget {
  kind: RedirectKind;
  /** `app.example.com`, `localhost:33418`, or `cursor:`. */
  place: string;
  /** What form-action must let through: an origin, or a scheme. */
  source: string;
}

export function redirectTarget(uri: string): RedirectTarget | null {
  const url = URL.parse(uri);
  if (url === null) return null;
  if (url.protocol === "https:") return { kind: "web", place: url.host, source: url.origin };
  if (url.protocol === "http:") return { kind: "loopback", place: url.host, source: url.origin };
  return { kind: "app", place: url.protocol, source: url.protocol };
}

/** A client that proves its domain by a metadata document there; anybody else registered just so. */
export function isDocumentClient(client: Client): boolean {
  return client.clientIdMetadataDocument === true;
}

export interface ClientWords {
  /** Null: it gave none. */
  name: string | null;
  /** The host whose metadata document this is: proved, unlike the name. */
  provedHost: string | null;
}

export function clientWords(client: Client): ClientWords {
  const name = typeof client.clientName === "string" ? outsideText(client.clientName) : "";
  return { name: name === "" ? null : name, provedHost: isDocumentClient(client) ? (URL.parse(client.clientId)?.host ?? null) : null };
}
