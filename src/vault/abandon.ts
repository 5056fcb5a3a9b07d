// The way out of a lost master key: what is sealed is erased, accounts become EXPIRED/key_lost, people connect again.
// Resumable: each account is its own transaction, and the key check goes last. Must never happen: a sealed field left that
// a later key would stumble over; a write forgotten, so that it is done again.
import { recordAudit } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import type { Database } from "../db/client.js";
import type { Principal } from "../identity/principal.js";
import { transition } from "./account.js";
import { GRANT_GONE } from "./link.js";

export interface Abandoned {
  accounts: number;
  connections: number;
}

const SYSTEM: Principal = { kind: "system" };

/** To be run with every instance stopped. */
export async function abandonKeys({ db, clock }: { db: Database; clock: Clock }): Promise<Abandoned> {
  const held = await db.prisma.connectedAccount.findMany({
    where: { OR: [{ accessSealed: { not: null } }, { refreshSealed: { not: null } }] },
    select: { id: true, generation: true },
  });
  for (const account of held) {
    await db.transaction((tx) =>
      transition(tx, {
        account,
        act: "key_lost",
        reason: "key_lost",
        audit: { category: "token_lifecycle", action: "account.erased", actor: SYSTEM, outcome: "key_lost" },
      }),
    );
  }
  const connections = await db.prisma.connection.count({ where: { clientSecretSealed: { not: null } } });
  await db.transaction(async (tx) => {
    await tx.connection.updateMany({ where: { clientSecretSealed: { not: null } }, data: { clientSecretSealed: null } });
    const open = { settledAt: null };
    await tx.authorizationLink.updateMany({ where: open, data: { status: "expired", reason: "key_lost", settledAt: clock.date() } });
    await tx.authorizationLink.updateMany({ data: { flowSealed: null, tokenSealed: null, codeHash: null, ...GRANT_GONE } });
    const waiting = await tx.connectedAccount.findMany({ where: { status: "PENDING", statusReason: "awaiting_verification" }, select: { id: true, generation: true } });
    for (const account of waiting) {
      await transition(tx, { account, act: "try_failed", reason: "awaiting_user", audit: { category: "authorization", action: "account.try_failed", actor: SYSTEM, outcome: "key_lost" } });
    }
    const { count: farewells } = await tx.farewell.deleteMany();
    // The rows stay: a write that was done is not done again, its answer alone is lost.
    await tx.toolExecution.updateMany({ data: { resultSealed: null } });
    // People and clients sign in again; signing keys are made anew.
    await tx.browserSession.deleteMany();
    await tx.oAuthRecord.deleteMany();
    await tx.signingKey.deleteMany();
    await tx.dataKey.deleteMany();
    await recordAudit(tx, { category: "administration", action: "keys.abandoned", actor: SYSTEM, outcome: "ok", detail: { accounts: held.length, connections, farewells } });
    await tx.installation.deleteMany({ where: { name: "key_check" } });
  });
  return { accounts: held.length, connections };
}
