// Which issuer the people of this installation sign in at: written down with the first person of it. A `sub` is unique at
// one issuer alone: at another one the same text is somebody else, who would find this person's accounts.
import type { Database, Tx } from "../../db/client.js";

const NAME = "sign_in_issuer";
const LOCK = 72_707_402;

/** The program must not start. `message` is one sentence for the operator. */
export class IssuerRefusal extends Error {}

/** Inside the transaction that makes a person of the issuer. False: the installation is another issuer's. */
export async function recordIssuer(tx: Tx, issuer: string): Promise<boolean> {
  await tx.$executeRaw`SELECT pg_advisory_xact_lock(${LOCK}::bigint)`;
  const recorded = await recordedIssuer(tx);
  if (recorded === null) await tx.installation.upsert({ where: { name: NAME }, create: { name: NAME, value: issuer }, update: { value: issuer } });
  return recorded === null || recorded === issuer;
}

/** Before anything is served. `issuer` null: people would sign in with built-in passwords. */
export async function requireSameIssuer(db: Pick<Database, "prisma">, issuer: string | null): Promise<void> {
  const recorded = await recordedIssuer(db.prisma);
  if (recorded === null || recorded === issuer) return;
  const wrong =
    issuer === null
      ? `OIDC_ISSUER is not set, but the people of this installation sign in at ${recorded}`
      : `OIDC_ISSUER names another issuer than ${recorded}, where the people of this installation sign in`;
  throw new IssuerRefusal(`${wrong}: set it back, or delete those people first, because the same sub is somebody else at another issuer.`);
}

/** Null: none, or nobody of it is left. */
async function recordedIssuer(target: Pick<Tx, "installation" | "user">): Promise<string | null> {
  const row = await target.installation.findUnique({ where: { name: NAME }, select: { value: true } });
  if (row === null) return null;
  const somebody = await target.user.findFirst({ where: { issuer: row.value }, select: { sub: true } });
  return somebody === null ? null : row.value;
}
