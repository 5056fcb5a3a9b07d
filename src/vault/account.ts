// The life of a connected account: the state table as data, and transition(), the only writer of `status`.
// One act is one transaction: state, audit row and event row together, or nothing. Must never happen: a status written
// elsewhere; a refresh that brings a disconnected account back; a credential left on an account that lost it.
import { type AuditRow, recordAudit } from "../audit/audit.js";
import type { Tx } from "../db/client.js";
import type { Prisma } from "../db/generated/client.js";
import { appendAccountEvent } from "./accountEvents.js";
import type { AccountRow } from "./store.js";
import type { AccountStatus, StatusReason } from "./types.js";

export type Act =
  | "connected"
  | "try_failed"
  | "awaits_app"
  | "refreshed"
  | "refresh_rejected"
  | "ran_out"
  | "token_rejected"
  | "client_rejected"
  | "client_mended"
  | "unreadable"
  | "disconnected"
  | "revoked_at_provider"
  | "connection_changed"
  | "key_lost";

interface Rule {
  from: readonly AccountStatus[];
  to: AccountStatus;
  reasons: readonly (StatusReason | null)[];
  /** Whether the credential stays, is replaced by the act's own, or is erased. */
  credential: "keeps" | "replaces" | "erases";
}

const HELD = ["ACTIVE", "EXPIRED", "ERROR"] as const;

/** From, act, to, reasons: contract section 2. What is not here cannot happen. */
export const RULES: Readonly<Record<Act, Rule>> = {
  connected: { from: ["PENDING", "REVOKED", ...HELD], to: "ACTIVE", reasons: [null], credential: "replaces" },
  // The reason of a failed try reaches the account only while it was never usable.
  try_failed: { from: ["PENDING"], to: "PENDING", reasons: ["awaiting_user", "consent_denied", "link_expired", "scope_missing"], credential: "keeps" },
  // The grant waits on its link (contract 5.7), not here.
  awaits_app: { from: ["PENDING"], to: "PENDING", reasons: ["awaiting_verification"], credential: "keeps" },
  refreshed: { from: ["ACTIVE"], to: "ACTIVE", reasons: [null], credential: "replaces" },
  refresh_rejected: { from: ["ACTIVE"], to: "EXPIRED", reasons: ["refresh_rejected", "refresh_outcome_unknown"], credential: "erases" },
  ran_out: { from: ["ACTIVE"], to: "EXPIRED", reasons: ["no_refresh_token"], credential: "erases" },
  token_rejected: { from: ["ACTIVE"], to: "EXPIRED", reasons: ["token_rejected"], credential: "erases" },
  // The grant itself may be fine: it is kept for the day the operator mends the client.
  client_rejected: { from: ["ACTIVE"], to: "ERROR", reasons: ["client_rejected", "misconfigured"], credential: "keeps" },
  client_mended: { from: ["ERROR"], to: "ACTIVE", reasons: [null], credential: "keeps" },
  unreadable: { from: ["ACTIVE"], to: "ERROR", reasons: ["unreadable_credential"], credential: "keeps" },
  disconnected: { from: ["PENDING", ...HELD], to: "REVOKED", reasons: ["disconnected_by_user", "disconnected_by_admin"], credential: "erases" },
  revoked_at_provider: { from: ["ACTIVE", "EXPIRED"], to: "REVOKED", reasons: ["revoked_at_provider"], credential: "erases" },
  connection_changed: { from: ["ACTIVE", "ERROR"], to: "EXPIRED", reasons: ["connection_changed"], credential: "erases" },
  key_lost: { from: ["ACTIVE", "ERROR"], to: "EXPIRED", reasons: ["key_lost"], credential: "erases" },
};

/** The columns of a new credential, already sealed for `generation + 1`. */
export interface SealedCredential {
  accessSealed: Uint8Array<ArrayBuffer>;
  refreshSealed: Uint8Array<ArrayBuffer> | null;
  scopes: string[];
  tokenExpiresAt: Date | null;
}

export interface Transition {
  account: Pick<AccountRow, "id" | "generation">;
  act: Act;
  reason: StatusReason | null;
  credential?: SealedCredential;
  /** Columns beside the state that belong to the same act: upstream identity, times. */
  also?: Prisma.ConnectedAccountUpdateManyMutationInput;
  /** Fencing: the finishing refresh must still own its lease. */
  leaseOwner?: string;
  /** Narrows the table's `from`. */
  onlyFromReasons?: StatusReason[];
  audit: Omit<AuditRow, "accountId" | "identifier" | "connectionName">;
}

/**
 * Applies one act inside the caller's transaction. Null: the account was no longer in the state (or of the generation)
 * that the act starts from; nothing was written.
 */
export async function transition(tx: Tx, step: Transition): Promise<AccountRow | null> {
  const rule = RULES[step.act];
  if (!rule.reasons.includes(step.reason)) throw new Error(`${step.act} cannot give the reason ${step.reason ?? "none"}`);
  if ((rule.credential === "replaces") !== (step.credential !== undefined)) throw new Error(`${step.act}: credential ${rule.credential}`);

  const before = await tx.connectedAccount.findUnique({ where: { id: step.account.id }, select: { status: true, statusReason: true } });
  if (!before || !rule.from.includes(before.status)) return null;
  const changed = await tx.connectedAccount.updateMany({
    where: {
      id: step.account.id,
      generation: step.account.generation,
      status: before.status,
      ...(step.leaseOwner === undefined ? {} : { leaseOwner: step.leaseOwner }),
      ...(step.onlyFromReasons ? { statusReason: { in: step.onlyFromReasons } } : {}),
    },
    data: { ...credentialColumns(rule, step), ...step.also, status: rule.to, statusReason: step.reason },
  });
  if (changed.count !== 1) return null;

  const told = before.status !== rule.to || before.statusReason !== step.reason;
  const row = await appendAccountEvent(tx, {
    accountId: step.account.id,
    type: told ? "connected_account.status_updated" : step.act === "refreshed" ? "connected_account.token_refreshed" : "connected_account.updated",
    more: told ? { old_status: before.status, status_reason: step.reason } : {},
  });
  await recordAudit(tx, {
    ...step.audit,
    accountId: row.id,
    identifier: row.identifier,
    connectionName: row.connection.name,
    detail: { from: before.status, to: rule.to, ...step.audit.detail },
  });
  return row;
}

function credentialColumns(rule: Rule, step: Transition): Prisma.ConnectedAccountUpdateManyMutationInput {
  switch (rule.credential) {
    case "keeps":
      return {};
    case "replaces":
      return { ...step.credential, generation: { increment: 1 }, ...LEASE_FREE, failureCount: 0, failureReason: null, retryAt: null };
    case "erases":
      return { accessSealed: null, refreshSealed: null, tokenExpiresAt: null, generation: { increment: 1 }, ...LEASE_FREE };
    default:
      return rule.credential satisfies never;
  }
}

const LEASE_FREE = { leaseOwner: null, leaseUntil: null };

/** Whether another upstream identity may take this account's place (contract section 2). */
export function mayTakeIdentity(account: Pick<AccountRow, "status" | "externalId">, newExternalId: string | null): boolean {
  if (account.status === "PENDING" || account.status === "REVOKED") return true;
  if (account.externalId === null || newExternalId === null) return true;
  return account.externalId === newExternalId;
}
