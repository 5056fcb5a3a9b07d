// What sign-ins leave behind: sessions, links and counters whose time is over. They are refused by their readers anyway;
// this only keeps the tables small.
import type { Clock } from "../clock.js";
import type { Database } from "../db/client.js";
import { SESSION_LIFE_MS } from "../http/sessionStore.js";

/** For the worker, hourly. */
export async function sweepIdentity(deps: { db: Pick<Database, "prisma">; clock: Clock }): Promise<void> {
  const { db, clock } = deps;
  const now = clock.date();
  const bornBefore = new Date(clock.now() - SESSION_LIFE_MS);
  await db.prisma.browserSession.deleteMany({ where: { OR: [{ expiresAt: { lt: now } }, { createdAt: { lt: bornBefore } }] } });
  await db.prisma.oneTimeLink.deleteMany({ where: { expiresAt: { lt: now } } });
  await db.prisma.rateLimit.deleteMany({ where: { expire: { lt: BigInt(now.getTime()) } } });
}
