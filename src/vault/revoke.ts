// Giving a grant back at the provider. Never blocks an act of ours: what we decided is committed before, the outcome is
// recorded after. Must never happen: one account's farewell that ends another account of the same upstream person.
import { recordAudit } from "../audit/audit.js";
import type { OAuthClient } from "../connectors/methods/oauth.js";
import type { Secret } from "../crypto/secret.js";
import type { Database } from "../db/client.js";
import type { Principal } from "../identity/principal.js";
import type { Log } from "../log.js";
import type { AccountRow } from "./store.js";
import type { TargetOf } from "./target.js";

export type RevokeEnd = "done" | "failed" | "kept_shared" | "not_possible";

export interface Revoker {
  /** Never throws. `tokens` are what the account held before it was erased. */
  revoke(actor: Principal, account: AccountRow, tokens: { access: Secret | null; refresh: Secret | null }, externalId: string | null): Promise<RevokeEnd>;
}

export function createRevoker(deps: { db: Database; log: Log; oauth: OAuthClient; targetOf: TargetOf }): Revoker {
  const { db, log } = deps;

  return {
    async revoke(actor, account, tokens, externalId) {
      const end = await attempt(account, tokens, externalId).catch((cause: unknown): RevokeEnd => {
        log.warn("a grant could not be revoked at its provider", { account_id: account.id, cause });
        return "failed";
      });
      await recordAudit(db.prisma, {
        category: "token_lifecycle",
        action: "grant.revoked_upstream",
        actor,
        identifier: account.identifier,
        connectionName: account.connection.name,
        accountId: account.id,
        outcome: end === "done" ? "ok" : end,
      }).catch((cause: unknown) => log.error("the outcome of a revocation could not be recorded", { account_id: account.id, cause }));
      return end;
    },
  };

  async function attempt(account: AccountRow, tokens: { access: Secret | null; refresh: Secret | null }, externalId: string | null): Promise<RevokeEnd> {
    if (!tokens.access && !tokens.refresh) return "not_possible";
    if (await isShared(account, externalId)) return "kept_shared";
    const target = await deps.targetOf(account.connection);
    if (target.connector.method.kind !== "oauth" || target.connector.method.revoke === null) return "not_possible";
    return deps.oauth.revoke(target, tokens);
  }

  /** Providers revoke all of a person's tokens for a client at once (Google does): an account here (also this one, after a failed try) may live on the same grant, or a grant that waits for its app. */
  async function isShared(account: AccountRow, externalId: string | null): Promise<boolean> {
    if (externalId === null) return false;
    const others = await db.prisma.connectedAccount.count({
      where: { connectionId: account.connectionId, externalId, accessSealed: { not: null } },
    });
    if (others > 0) return true;
    const waiting = await db.prisma.authorizationLink.count({
      where: { connectionId: account.connectionId, grantExternalId: externalId, grantSealed: { not: null }, settledAt: null },
    });
    return waiting > 0;
  }
}
