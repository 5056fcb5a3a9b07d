// Which addresses an outbound call may reach. Pure: no look-up, no connection. Reading of addresses is ipaddr.js's alone.
// Must never happen: a link-local or cloud metadata address reached, whatever the settings say; a spelling that we read
// one way and the operating system another (what cannot be read is refused).
import ipaddr from "ipaddr.js";

export type AddressKind =
  | "public"
  /** Reachable only where the settings or the purpose allow it: loopback, private, shared, tunnelled, reserved. */
  | "private"
  /** Never reachable: link-local, metadata, unspecified, multicast, broadcast. */
  | "forbidden";

/** Metadata services that sit outside the link-local ranges: AWS and Google (IPv6), Scaleway, Alibaba, Oracle, Azure. */
const METADATA = ["fd00:ec2::254", "fd20:ce::254", "fd00:42::42", "100.100.100.200", "192.0.0.192", "168.63.129.16"].map((text) =>
  ipaddr.process(text).toNormalizedString(),
);

const FORBIDDEN_RANGES = new Set<string>(["linkLocal", "unspecified", "multicast", "broadcast", "discard"]);
/** IANA hands out global unicast IPv6 from here only; `::127.0.0.1` and other leftovers outside it count as unicast elsewhere. */
const GLOBAL_IPV6 = ipaddr.IPv6.parseCIDR("2000::/3");

type Address = ipaddr.IPv4 | ipaddr.IPv6;

export function classifyAddress(text: string): AddressKind {
  const address = parse(text);
  return address === null ? "forbidden" : kindOf(address);
}

function kindOf(address: Address): AddressKind {
  const range: string = address.range();
  if (FORBIDDEN_RANGES.has(range) || METADATA.includes(address.toNormalizedString())) return "forbidden";
  // A translator or tunnel carries the call on to the IPv4 address inside (RFC 6052, 3056, 4380).
  if (embeddedIn(address).some((inner) => kindOf(inner) === "forbidden")) return "forbidden";
  if (range !== "unicast") return "private";
  return address instanceof ipaddr.IPv6 && !address.match(GLOBAL_IPV6) ? "private" : "public";
}

function parse(text: string): Address | null {
  try {
    return ipaddr.process(text.includes(":") ? canonicalIpv6(text) : text);
  } catch {
    return null;
  }
}

/** As the operating system reads it: ipaddr.js takes `::8.8.8.8` for the mapped form of 8.8.8.8. A zone does not change the range. */
function canonicalIpv6(text: string): string {
  const address = text.replace(/%[\w.-]+$/, "");
  return new URL(`http://[${address}]`).hostname.slice(1, -1);
}

/** The IPv4 addresses that an IPv6 address stands for. */
function embeddedIn(address: Address): ipaddr.IPv4[] {
  if (!(address instanceof ipaddr.IPv6)) return [];
  const [p0 = 0, p1 = 0, p2 = 0, p3 = 0, p4 = 0, p5 = 0, p6 = 0, p7 = 0] = address.parts;
  const range: string = address.range();
  if (range === "6to4") return [ipv4(p1, p2)];
  if (range === "teredo") return [ipv4(p2, p3), ipv4(p6 ^ 0xffff, p7 ^ 0xffff)];
  const compatible = (p0 | p1 | p2 | p3 | p4 | p5) === 0 && p6 !== 0;
  return range === "rfc6052" || range === "rfc6145" || compatible ? [ipv4(p6, p7)] : [];
}

function ipv4(high: number, low: number): ipaddr.IPv4 {
  return new ipaddr.IPv4([high >> 8, high & 0xff, low >> 8, low & 0xff]);
}

/** `host` as a URL carries it: brackets, a last dot and capitals do not make another host. */
export function plainHost(host: string): string {
  return host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, "$1")
    .replace(/\.$/, "");
}

/** The host is an address, not a name. */
export function isAddress(host: string): boolean {
  return parse(plainHost(host)) !== null;
}

/** A name or address that means this machine: localhost and its subdomains (RFC 6761), 127.0.0.0/8, ::1. */
export function isLoopbackHost(host: string): boolean {
  const plain = plainHost(host);
  return plain === "localhost" || plain.endsWith(".localhost") || parse(plain)?.range() === "loopback";
}

export interface AddressPolicy {
  /** Whether a call to `host` may connect to `address`. */
  permits(host: string, address: string): boolean;
}

/** `allow`: what may be reached besides public addresses. Entries are hosts, addresses or CIDRs (ALLOW_PRIVATE_NETWORK). */
export function createAddressPolicy(allow: true | readonly string[]): AddressPolicy {
  if (allow === true) return { permits: (_host, address) => classifyAddress(address) !== "forbidden" };
  const entries = allow.map(readAllowEntry);
  const hosts = new Set(entries.flatMap((entry) => (entry?.kind === "host" ? [entry.host] : [])));
  const blocks = entries.flatMap((entry) => (entry?.kind === "block" ? [entry.block] : []));
  return {
    permits: (host, text) => {
      const address = parse(text);
      if (address === null) return false;
      const kind = kindOf(address);
      if (kind !== "private") return kind === "public";
      return hosts.has(plainHost(host)) || blocks.some(([base, bits]) => address.kind() === base.kind() && address.match(base, bits));
    },
  };
}

type AllowEntry = { kind: "host"; host: string } | { kind: "block"; block: [Address, number] };

/** One entry of ALLOW_PRIVATE_NETWORK; null: neither a host, nor an address, nor a CIDR. */
export function readAllowEntry(text: string): AllowEntry | null {
  const plain = plainHost(text.trim());
  if (plain.includes("/")) {
    try {
      return { kind: "block", block: ipaddr.parseCIDR(plain) };
    } catch {
      return null;
    }
  }
  const address = parse(plain);
  if (address !== null) return { kind: "block", block: [address, address.kind() === "ipv4" ? 32 : 128] };
  return /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*$/.test(plain)
    ? { kind: "host", host: plain }
    : null;
}
