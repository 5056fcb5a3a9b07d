// Where browser sessions live: the table browser_session. The id of the cookie is hashed, the data is sealed.
// Must never happen: a session that comes back after it was ended, because a request of before was still under way.
import session from "express-session";
import type { Clock } from "../clock.js";
import { UnreadableError, type Sealer } from "../crypto/seal.js";
import { hashToken } from "../crypto/tokens.js";
import type { Database } from "../db/client.js";

const HOUR_MS = 3_600_000;
export const SESSION_IDLE_MS = 12 * HOUR_MS;
export const SESSION_LIFE_MS = 7 * 24 * HOUR_MS;
/** Of a session without a person: it holds the CSRF token of the sign-in form and the way back. */
const PRE_SESSION_IDLE_MS = 2 * HOUR_MS;
/** How much idle time may be lost to save the write at every page. */
const TOUCH_STEP_MS = 5 * 60_000;

declare module "express-session" {
  interface SessionData {
    sub?: string;
    signedInAtMs?: number;
    /** The way back at that time. */
    signedInFor?: string;
    /** An own path, kept while the person signs in. */
    wayBack?: string;
    /** Where the way back may send the browser on, for the form-action of the sign-in page. */
    wayBackTargets?: string[];
    /** Set when the data came from the table: until when it is kept there. Never stored. */
    keptUntilMs?: number;
  }
}

interface StoreDeps {
  db: Pick<Database, "prisma">;
  sealer: Sealer;
  clock: Clock;
}

type Data = session.SessionData;

export class BrowserSessionStore extends session.Store {
  readonly #deps: StoreDeps;

  constructor(deps: StoreDeps) {
    super();
    this.#deps = deps;
  }

  override get(sid: string, done: (error: unknown, data?: Data | null) => void): void {
    settle(this.#read(sid), done);
  }

  override set(sid: string, data: Data, done: (error?: unknown) => void = () => {}): void {
    settle(this.#write(sid, data), done);
  }

  override touch(sid: string, data: Data, done: (error?: unknown) => void = () => {}): void {
    settle(this.#touch(sid, data), done);
  }

  override destroy(sid: string, done: (error?: unknown) => void = () => {}): void {
    settle(this.#remove(sid), done);
  }

  async endAllOf(sub: string): Promise<void> {
    await this.#deps.db.prisma.browserSession.deleteMany({ where: { sub } });
  }

  async #read(sid: string): Promise<Data | null> {
    const { db, sealer, clock } = this.#deps;
    const idHash = hashToken(sid);
    const now = clock.now();
    const row = await db.prisma.browserSession.findUnique({ where: { idHash } });
    if (row === null || row.expiresAt.getTime() <= now || row.createdAt.getTime() + SESSION_LIFE_MS <= now) return null;
    try {
      const clear = await sealer.open("installation", placeOf(idHash), row.data);
      return { ...(JSON.parse(clear.reveal()) as Data), keptUntilMs: row.expiresAt.getTime() };
    } catch (error) {
      // Its key is gone (keys abandoned): a new session, and a new sign-in.
      if (error instanceof UnreadableError) return null;
      throw error;
    }
  }

  /** A session from the table is only ever updated: an upsert would bring back what a sign-out has just deleted. */
  async #write(sid: string, session: Data): Promise<void> {
    const { db, sealer, clock } = this.#deps;
    const idHash = hashToken(sid);
    const { keptUntilMs, ...kept } = JSON.parse(JSON.stringify(session)) as Data;
    const sub = kept.sub ?? null;
    const data = await sealer.seal("installation", placeOf(idHash), JSON.stringify(kept));
    const expiresAt = new Date(this.#keepUntil(session));
    if (keptUntilMs !== undefined) {
      await db.prisma.browserSession.updateMany({ where: { idHash }, data: { sub, data, expiresAt } });
    } else {
      const fresh = { idHash, sub, data, createdAt: clock.date(), expiresAt };
      await db.prisma.browserSession.upsert({ where: { idHash }, create: fresh, update: { sub, data, expiresAt }, select: { idHash: true } });
    }
  }

  async #touch(sid: string, session: Data): Promise<void> {
    const until = this.#keepUntil(session);
    if (session.keptUntilMs !== undefined && until - session.keptUntilMs < TOUCH_STEP_MS) return;
    await this.#deps.db.prisma.browserSession.updateMany({ where: { idHash: hashToken(sid) }, data: { expiresAt: new Date(until) } });
  }

  async #remove(sid: string): Promise<void> {
    await this.#deps.db.prisma.browserSession.deleteMany({ where: { idHash: hashToken(sid) } });
  }

  #keepUntil(session: Data): number {
    return this.#deps.clock.now() + (session.sub === undefined ? PRE_SESSION_IDLE_MS : SESSION_IDLE_MS);
  }
}

function placeOf(idHash: string) {
  return { table: "browser_session", row: idHash, field: "data", generation: 0 };
}

/** express-session speaks callbacks. The callback runs outside the promise, so that what it throws is not taken for a failed query. */
function settle<Value>(work: Promise<Value>, done: (error: unknown, value?: Value) => void): void {
  work.then(
    (value) => queueMicrotask(() => done(null, value)),
    (error: unknown) => queueMicrotask(() => done(error)),
  );
}
