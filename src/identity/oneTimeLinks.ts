// Set-up links and invitations: single use, short-lived, the token hashed. Must never happen: a link that works twice, a
// second administrator out of two set-up links, or a token stored in clear.
import type { Clock } from "../clock.js";
import type { Secret } from "../crypto/secret.js";
import { hashToken, newToken } from "../crypto/tokens.js";
import type { Database, Tx } from "../db/client.js";

export type LinkPurpose = "setup" | "invitation";

const LIFE_MS: Record<LinkPurpose, number> = {
  // The operator is at the terminal that printed it.
  setup: 3_600_000,
  // It travels by mail or chat, over a weekend.
  invitation: 72 * 3_600_000,
};

export interface OneTimeLinks {
  make(purpose: LinkPurpose, sub: string | null): Promise<Secret>;
  /** Changes nothing. Null: unknown, used or expired. */
  read(token: string): Promise<{ purpose: LinkPurpose; sub: string | null } | null>;
  /** The single-use mark: true for exactly one caller. Inside the transaction of what the link allows. */
  claim(tx: Tx, token: string, purpose: LinkPurpose): Promise<boolean>;
}

export function createOneTimeLinks(deps: { db: Pick<Database, "prisma">; clock: Clock }): OneTimeLinks {
  const { db, clock } = deps;
  const alive = (token: string) => ({ tokenHash: hashToken(token), usedAt: null, expiresAt: { gt: clock.date() } });

  return {
    make: async (purpose, sub) => {
      const token = newToken(clock);
      const now = clock.now();
      const data = { tokenHash: hashToken(token), purpose, sub, createdAt: new Date(now), expiresAt: new Date(now + LIFE_MS[purpose]) };
      await db.prisma.oneTimeLink.create({ data, select: { tokenHash: true } });
      return token;
    },
    read: async (token) => {
      const row = await db.prisma.oneTimeLink.findFirst({ where: alive(token), select: { purpose: true, sub: true } });
      if (row === null || (row.purpose !== "setup" && row.purpose !== "invitation")) return null;
      return { purpose: row.purpose, sub: row.sub };
    },
    claim: async (tx, token, purpose) => {
      const claimed = await tx.oneTimeLink.updateMany({ where: { ...alive(token), purpose }, data: { usedAt: clock.date() } });
      return claimed.count === 1;
    },
  };
}
