// The practice Google, put together: its pages, its token endpoints, its Gmail.
import type { JWK } from "jose";
import type { Clock } from "../../clock.js";
import type { Endpoint } from "../endpoint.js";
import type { Grants } from "../grants.js";
import { createShelf } from "../shelf.js";
import type { PracticeClient, Store } from "../state.js";
import { type AuthorizationCode, type AuthorizationRequest, authorizeEndpoints } from "./authorize.js";
import { gmailEndpoints } from "./gmail.js";
import { createSigningKey } from "./signingKey.js";
import { tokenEndpoints } from "./token.js";

export interface GoogleDeps {
  /** `http://localhost:PORT/google`; known once the sandbox listens. */
  issuer: () => string;
  publicUrl: () => string;
  client: PracticeClient;
  grants: Grants;
  makeKey: () => Promise<JWK>;
  store: Store;
  clock: Clock;
}

/** A person may leave a page open for a while; a code is fetched at once. */
const REQUEST_TTL_MS = 30 * 60_000;
const CODE_TTL_MS = 5 * 60_000;
const SHELF_MAX = 500;

export function googleEndpoints(deps: GoogleDeps): Endpoint[] {
  const { clock, store, makeKey } = deps;
  const requests = createShelf<AuthorizationRequest>({ clock, prefix: "", ttlMs: REQUEST_TTL_MS, itemsMax: SHELF_MAX });
  const codes = createShelf<AuthorizationCode>({ clock, prefix: "4/sandbox-", ttlMs: CODE_TTL_MS, itemsMax: SHELF_MAX });
  const signingKey = createSigningKey({ store, clock, makeKey });
  return [...authorizeEndpoints({ ...deps, requests, codes }), ...tokenEndpoints({ ...deps, codes, signingKey }), ...gmailEndpoints(deps)];
}
