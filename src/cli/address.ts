// Where the server is: one text of the person's, read once into the addresses that the commands use.
import { usageError } from "./exit.js";
import { plainLine } from "./plain.js";

export interface ServerAddress {
  /** Base of the API and the health pages. */
  origin: string;
  /** The MCP endpoint. */
  mcp: string;
  /** Where the address came from, for doctor. */
  from: string;
}

/** An origin (then `/mcp` is meant), or a whole endpoint such as http://localhost:3000/mcp/servers/support. */
export function readAddress(text: string, from: string): ServerAddress {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw usageError(`${from} is not a web address: ${plainLine(text)}`, "Give one such as http://localhost:3000");
  }
  if (url.username !== "" || url.password !== "") throw usageError(`${from} must not hold a user name or password.`);
  if (url.search !== "" || url.hash !== "") throw usageError(`${from} must not have a query or a fragment.`);
  return { origin: url.origin, mcp: url.pathname === "/" ? `${url.origin}/mcp` : `${url.origin}${url.pathname.replace(/\/+$/, "")}`, from };
}

/** The machine itself: what is sent there stays there. Not `*.localhost`, which some resolvers ask the network for. */
export function isLoopback(url: URL): boolean {
  const name = url.hostname;
  return name === "localhost" || name === "[::1]" || /^127(\.\d{1,3}){3}$/.test(name);
}

/** The same host and port; the loopback names count as one. */
export function isSameHost(one: URL, other: URL): boolean {
  if (one.host === other.host && one.protocol === other.protocol) return true;
  return isLoopback(one) && isLoopback(other) && one.port === other.port && one.protocol === other.protocol;
}
