// Where a provider's endpoints are: as the operator or the connector wrote them, else by discovery from the issuer (OpenID
// Connect Discovery, then RFC 8414). Must never happen: metadata of another issuer; a discovered endpoint over a written one.
import { allowInsecureRequests, customFetch, discovery, type ServerMetadata } from "openid-client";
import type { Clock } from "../../clock.js";
import type { Egress } from "../../net/egress.js";
import type { Endpoints } from "../connector.js";
import { OAuthFailure } from "./oauthFailures.js";
import { createWire, readPlainAnswer, TIMEOUT_MS } from "./oauthWire.js";

const KEPT_MS = 60 * 60 * 1000;
const KEPT_MOST = 200;

export interface Discovery {
  /** Metadata for openid-client: complete enough for the endpoints asked for, else an OAuthFailure. */
  metadata(endpoints: Endpoints, exemptOrigin: string | undefined): Promise<ServerMetadata>;
}

export function createDiscovery(deps: { egress: Egress; clock: Clock }): Discovery {
  const known = new Map<string, { at: number; found: Promise<ServerMetadata> }>();

  return {
    async metadata(endpoints, exemptOrigin) {
      const found = endpoints.authorization && endpoints.token ? null : await discovered(endpoints.issuer, exemptOrigin);
      return { ...found, ...written(endpoints), issuer: endpoints.issuer ?? found?.issuer ?? originOf(endpoints.authorization) };
    },
  };

  function discovered(issuer: string | undefined, exemptOrigin: string | undefined): Promise<ServerMetadata> {
    if (!issuer) throw new OAuthFailure("misconfigured", "no_endpoints");
    const key = JSON.stringify([issuer, exemptOrigin]);
    const kept = known.get(key);
    if (kept && deps.clock.monotonic() - kept.at < KEPT_MS) return kept.found;
    if (known.size >= KEPT_MOST) known.clear();
    const found = discover(issuer, exemptOrigin);
    known.set(key, { at: deps.clock.monotonic(), found });
    found.catch(() => known.delete(key));
    return found;
  }

  async function discover(issuer: string, exemptOrigin: string | undefined): Promise<ServerMetadata> {
    const first = await ask(issuer, exemptOrigin, "oidc");
    if (!(first instanceof OAuthFailure)) return first;
    const second = await ask(issuer, exemptOrigin, "oauth2");
    if (!(second instanceof OAuthFailure)) return second;
    throw first;
  }

  async function ask(
    issuer: string,
    exemptOrigin: string | undefined,
    algorithm: "oidc" | "oauth2",
  ): Promise<ServerMetadata | OAuthFailure> {
    const wire = createWire({ egress: deps.egress, exemptOrigin, read: readPlainAnswer });
    try {
      // The client id plays no part in discovery; the library wants one.
      const found = await discovery(new URL(issuer), "discovery", undefined, undefined, {
        algorithm,
        timeout: (TIMEOUT_MS + 2_000) / 1000,
        execute: issuer.startsWith("http:") ? [allowInsecureRequests] : [],
        [customFetch]: wire.fetch,
      });
      return found.serverMetadata();
    } catch {
      return wire.failure ?? new OAuthFailure("transient", "discovery_failed");
    }
  }
}

function written(endpoints: Endpoints): Partial<ServerMetadata> {
  return {
    ...(endpoints.authorization ? { authorization_endpoint: endpoints.authorization } : {}),
    ...(endpoints.token ? { token_endpoint: endpoints.token } : {}),
    ...(endpoints.revocation ? { revocation_endpoint: endpoints.revocation } : {}),
    ...(endpoints.userinfo ? { userinfo_endpoint: endpoints.userinfo } : {}),
    ...(endpoints.jwks ? { jwks_uri: endpoints.jwks } : {}),
  };
}

function originOf(url: string | undefined): string {
  if (!url) throw new OAuthFailure("misconfigured", "no_endpoints");
  return new URL(url).origin;
}
