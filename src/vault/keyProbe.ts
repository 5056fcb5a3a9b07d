// Tries an API key at its provider before it is kept. Must never happen: a key in an error or a log; a key tried at
// another host than the API's own.
import type { ApiKeyMethod, Connector, ExternalAccount } from "../connectors/connector.js";
import { applyKey } from "../connectors/methods/apiKey.js";
import type { Secret } from "../crypto/secret.js";
import { type Egress, EgressError } from "../net/egress.js";
import { apiUrl } from "./access.js";
import type { ConnectionRow } from "./store.js";
import type { Targets } from "./target.js";

export type ProbeEnd = { kind: "accepted"; external: ExternalAccount | null } | { kind: "refused" } | { kind: "unavailable" };

export interface KeyProbe {
  try(connection: ConnectionRow, connector: Connector, method: ApiKeyMethod, fields: Record<string, Secret>): Promise<ProbeEnd>;
}

const TIMEOUT_MS = 10_000;
const BYTES_MAX = 256 * 1024;

export function createKeyProbe(deps: { egress: Egress; targets: Targets }): KeyProbe {
  return {
    async try(connection, connector, method, fields) {
      // The operator declared no probe: there is nothing to try, and the page says so.
      if (!method.probe) return { kind: "accepted", external: null };
      const url = apiUrl(connector, method.probe.path);
      const applied = applyKey(method, fields);
      for (const [name, value] of Object.entries(applied.query)) url.searchParams.set(name, value);
      const exemptOrigin = deps.targets.exemptOriginOf(connection);
      try {
        const answer = await deps.egress.send({
          method: method.probe.method,
          url: url.href,
          headers: { accept: "application/json", ...applied.headers },
          timeoutMs: TIMEOUT_MS,
          bytesMax: BYTES_MAX,
          ...(exemptOrigin === undefined ? {} : { exemptOrigin }),
        });
        if (answer.status === method.probe.status) return { kind: "accepted", external: null };
        if (answer.status === 429 || answer.status >= 500) return { kind: "unavailable" };
        return { kind: "refused" };
      } catch (thrown) {
        if (thrown instanceof EgressError) return { kind: "unavailable" };
        throw thrown;
      }
    },
  };
}
