// Opens the sockets of outbound calls, to permitted addresses only. The look-up, the check and the connection are one step:
// a check before the call leaves a gap in which the name may get another address (DNS rebinding). Must never happen: a
// socket to an address that was not checked, a literal address (it is never looked up) included.
import { lookup } from "node:dns";
import type { LookupAddress } from "node:dns";
import type { LookupFunction } from "node:net";
import { buildConnector } from "undici";
import { isAddress, plainHost, type AddressPolicy } from "./addresses.js";

/** The host has no address that may be reached. */
export class RefusedAddress extends Error {
  override readonly name = "RefusedAddress";
}

export type Resolve = (host: string, done: (error: Error | null, addresses: LookupAddress[]) => void) => void;

/** The operating system's look-up: /etc/hosts and search domains count as they do for every other program. */
export const systemResolve: Resolve = (host, done) => lookup(host, { all: true }, (error, addresses) => done(error, addresses ?? []));

/** Longer than a slow handshake, shorter than the deadline of a call that wants to tell its caller something. */
const CONNECT_MS_MAX = 8_000;

export function createConnector(policy: AddressPolicy, resolve: Resolve): buildConnector.connector {
  const guardedLookup: LookupFunction = (hostname, options, done) => {
    resolve(hostname, (error, addresses) => {
      // Permitted ones are kept, others dropped: with DNS64 every name has a translated address beside its own.
      const permitted = addresses.filter(({ address }) => policy.permits(hostname, address));
      const first = permitted[0];
      if (error) return done(error, "");
      if (first === undefined) return done(new RefusedAddress(), "");
      return options.all === true ? done(null, permitted) : done(null, first.address, first.family);
    });
  };
  const connect = buildConnector({ timeout: CONNECT_MS_MAX, lookup: guardedLookup } as buildConnector.BuildOptions);
  return (options, callback) => {
    const host = plainHost(options.hostname);
    if (isAddress(host) && !policy.permits(host, host)) return callback(new RefusedAddress(), null);
    return connect(options, (...[error, socket]) => {
      if (error !== null) return callback(error, null);
      // A belt to the braces: nothing is written before the other end's address was seen.
      if (policy.permits(host, socket.remoteAddress ?? "")) return callback(null, socket);
      socket.destroy();
      return callback(new RefusedAddress(), null);
    });
  };
}
