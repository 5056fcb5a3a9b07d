// Credentials at rest: sealed under the connection's data key, bound to row, field and generation.
// Must never happen: a credential outside a Secret; a ciphertext that opens in another row, field or generation.
import { Secret } from "../crypto/secret.js";
import type { Sealer } from "../crypto/seal.js";
import type { SealedCredential } from "./account.js";
import type { AccountRow } from "./store.js";

/** An OAuth access token, or the fields of an API key. */
export type AccessCredential = { kind: "oauth"; token: Secret } | { kind: "api_key"; fields: Record<string, Secret> };

export interface Credential {
  access: AccessCredential;
  refresh: Secret | null;
}

export interface CredentialBox {
  /** Seals for the account's next generation. */
  seal(account: Pick<AccountRow, "id" | "generation" | "connectionId">, credential: Credential, facts: Pick<SealedCredential, "scopes" | "tokenExpiresAt">): Promise<SealedCredential>;
  /** Null: the account holds none. Throws UnreadableError when it does not open. */
  openAccess(account: AccountRow): Promise<AccessCredential | null>;
  openRefresh(account: AccountRow): Promise<Secret | null>;
}

const TABLE = "connected_account";

export function createCredentialBox(sealer: Sealer): CredentialBox {
  return {
    async seal(account, credential, facts) {
      const place = { table: TABLE, row: account.id, generation: account.generation + 1 };
      const accessSealed = await sealer.seal(account.connectionId, { ...place, field: "access" }, encodeAccess(credential.access));
      const refreshSealed = credential.refresh ? await sealer.seal(account.connectionId, { ...place, field: "refresh" }, credential.refresh.reveal()) : null;
      return { accessSealed, refreshSealed, ...facts };
    },
    async openAccess(account) {
      if (!account.accessSealed) return null;
      const opened = await sealer.open(account.connectionId, { table: TABLE, row: account.id, field: "access", generation: account.generation }, account.accessSealed);
      return decodeAccess(opened);
    },
    async openRefresh(account) {
      if (!account.refreshSealed) return null;
      return sealer.open(account.connectionId, { table: TABLE, row: account.id, field: "refresh", generation: account.generation }, account.refreshSealed);
    },
  };
}

export function encodeAccess(access: AccessCredential): string {
  if (access.kind === "oauth") return JSON.stringify({ token: access.token.reveal() });
  const fields = Object.fromEntries(Object.entries(access.fields).map(([name, value]) => [name, value.reveal()]));
  return JSON.stringify({ fields });
}

export function decodeAccess(opened: Secret): AccessCredential {
  const parsed = JSON.parse(opened.reveal()) as { token?: string; fields?: Record<string, string> };
  if (parsed.token !== undefined) return { kind: "oauth", token: new Secret(parsed.token) };
  const fields = Object.fromEntries(Object.entries(parsed.fields ?? {}).map(([name, value]) => [name, new Secret(value)]));
  return { kind: "api_key", fields };
}
