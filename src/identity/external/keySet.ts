// The issuer's public keys: fetched when needed, kept for a while, fetched again when a token names a key that is not
// there (rotation). Must never happen: a flood of invented key ids that becomes a flood of requests to the issuer; a
// retired key that is honoured for ever because the issuer is out of reach.
import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from "jose";
import type { Clock } from "../../clock.js";

/** A key that the issuer takes away is honoured no longer than this. */
const KEPT_MS = 10 * 60_000;
/** The issuer is out of reach: sign-ins cannot be made then anyway, but tokens that were given out go on working. */
const KEPT_UNREACHABLE_MS = 60 * 60_000;
const MINUTE_MS = 60_000;
/** For unknown key ids: anybody may send a token that names one. */
const FETCHES_PER_MINUTE_MAX = 6;

/** The keys cannot be had now; that says nothing about a token. */
export class KeysUnavailable extends Error {}

export interface KeySet {
  /** For jose. Throws KeysUnavailable, or jose's errors when there is no such key. */
  find: JWTVerifyGetKey;
}

interface Held {
  find: ReturnType<typeof createLocalJWKSet>;
  atMs: number;
}

export function createKeySet(deps: { fetchKeys: () => Promise<JSONWebKeySet>; clock: Clock }): KeySet {
  const { clock } = deps;
  let held: Held | null = null;
  let fetching: Promise<Held> | null = null;
  let fetchedMs: number[] = [];

  const ageMs = (of: Held): number => Math.abs(clock.now() - of.atMs);

  function fetchOnce(): Promise<Held> {
    fetching ??= fetchNow().finally(() => {
      fetching = null;
    });
    return fetching;
  }

  async function fetchNow(): Promise<Held> {
    fetchedMs.push(clock.now());
    held = { find: createLocalJWKSet(await deps.fetchKeys()), atMs: clock.now() };
    return held;
  }

  async function current(): Promise<Held> {
    if (held !== null && ageMs(held) < KEPT_MS) return held;
    const old = held;
    try {
      return await fetchOnce();
    } catch (cause) {
      if (old !== null && ageMs(old) < KEPT_UNREACHABLE_MS) return old;
      throw new KeysUnavailable("The issuer's keys cannot be had.", { cause });
    }
  }

  function mayFetchAgain(): boolean {
    fetchedMs = fetchedMs.filter((atMs) => Math.abs(clock.now() - atMs) < MINUTE_MS);
    return fetchedMs.length < FETCHES_PER_MINUTE_MAX;
  }

  return {
    find: async (header, token) => {
      const known = await current();
      try {
        return await known.find(header, token);
      } catch (thrown) {
        if (!(thrown instanceof errors.JWKSNoMatchingKey) || !mayFetchAgain()) throw thrown;
      }
      const fresh = await fetchOnce().catch((cause: unknown) => {
        throw new KeysUnavailable("The issuer's keys cannot be had.", { cause });
      });
      return fresh.find(header, token);
    },
  };
}
