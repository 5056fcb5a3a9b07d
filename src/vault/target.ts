// From a connection's row to what a method needs to speak to its provider. Must never happen: a client secret outside a Secret.
import type { Connector } from "../connectors/connector.js";
import type { OAuthTarget } from "../connectors/methods/oauth.js";
import { OAuthFailure } from "../connectors/methods/oauthFailures.js";
import type { ConnectionShape, Registry } from "../connectors/registry.js";
import type { Secret } from "../crypto/secret.js";
import { type Sealer, UnreadableError } from "../crypto/seal.js";
import { OutbandError } from "../errors.js";
import type { ConnectionRow } from "./store.js";

/** Throws OAuthFailure `misconfigured` when the stored client secret does not open: the operator must enter it again. */
export type TargetOf = (connection: ConnectionRow) => Promise<OAuthTarget>;

export interface Targets {
  connectorOf(connection: ConnectionShape | ConnectionRow): Connector;
  targetOf: TargetOf;
  /** The origin that is exempt from the address check for this connection: the sandbox's, for its own connections. */
  exemptOriginOf(connection: ConnectionRow): string | undefined;
  sealClientSecret(connection: Pick<ConnectionRow, "id" | "generation">, value: Secret): Promise<Uint8Array<ArrayBuffer>>;
}

export function createTargets(deps: { registry: Registry; sealer: Sealer; sandboxOrigin: () => string | null }): Targets {
  const place = (id: string, generation: number) => ({ table: "connection", row: id, field: "client_secret", generation });

  function connectorOf(connection: ConnectionShape | ConnectionRow): Connector {
    const connector = deps.registry.forConnection({
      connector: connection.connector,
      endpoints: connection.endpoints as Record<string, string>,
      settings: connection.settings as Record<string, unknown>,
      scopes: connection.scopes,
    });
    if (!connector) throw new OutbandError("internal", { cause: new Error(`connector ${connection.connector} is not in this build`) });
    return connector;
  }

  function exemptOriginOf(connection: ConnectionRow): string | undefined {
    return connection.origin === "sandbox" ? (deps.sandboxOrigin() ?? undefined) : undefined;
  }

  async function openSecret(connection: ConnectionRow, sealed: Uint8Array): Promise<Secret> {
    try {
      return await deps.sealer.open(connection.id, place(connection.id, connection.generation), sealed);
    } catch (thrown) {
      if (thrown instanceof UnreadableError) throw new OAuthFailure("misconfigured", "client_secret_unreadable");
      throw thrown;
    }
  }

  return {
    connectorOf,
    exemptOriginOf,
    async targetOf(connection) {
      const connector = connectorOf(connection);
      const clientSecret = connection.clientSecretSealed ? await openSecret(connection, connection.clientSecretSealed) : null;
      const exemptOrigin = exemptOriginOf(connection);
      return { connector, endpoints: connector.endpoints, clientId: connection.clientId ?? "", clientSecret, ...(exemptOrigin ? { exemptOrigin } : {}) };
    },
    sealClientSecret: (connection, value) => deps.sealer.seal(connection.id, place(connection.id, connection.generation), value.reveal()),
  };
}
