// A write is done once: a row is claimed before the tool runs, and keeps its sealed result for 24 h. The same key again
// gets the recorded result. A claim is held by the database's clock and put off while its process lives: one whose process
// died is `unknown` soon after. Must never happen: two claims of one key; a result that opens under another row.
import type { Clock } from "../clock.js";
import type { ToolResult } from "../connectors/connector.js";
import { hashToken } from "../crypto/tokens.js";
import type { Sealer } from "../crypto/seal.js";
import type { Database } from "../db/client.js";
import { newId } from "../ids.js";
import type { Log } from "../log.js";

const KEPT_MS = 24 * 3600 * 1000;
/** A claim is nobody's when its process was silent for so long. Whoever asks then is told that the outcome is not known, and nothing is sent: too short a time costs a less useful word, never a second write. */
const HELD_S = 15;
/** Several times within HELD_S: a database that restarts takes one or two of them. */
const PUT_OFF_MS = 4_000;

export interface OnceKey {
  identifier: string;
  clientId: string;
  tool: string;
  accountId: string;
  /** What makes the call the same: the caller's key, or the state of the round that ran it. */
  key: string;
}

export type Claim =
  | { kind: "yours"; executionId: string; onceToken: string }
  | { kind: "done"; executionId: string; result: ToolResult }
  | { kind: "running" }
  | { kind: "unknown"; executionId: string; reference: string | null }
  | { kind: "other_arguments" };

export interface OnceOnly {
  claim(key: OnceKey, argumentsDigest: string): Promise<Claim>;
  /** Which of these, alone, was claimed before: a repeated call names its account no better than the first did. */
  known(keys: readonly OnceKey[]): Promise<OnceKey | null>;
  /** Waits for the call that holds the key. Null: it did not end in time. */
  waitFor(key: OnceKey, argumentsDigest: string, signal: AbortSignal): Promise<Claim | null>;
  done(executionId: string, connectionId: string, result: ToolResult): Promise<void>;
  unknown(executionId: string, reference: string | null): Promise<void>;
  /** The tool certainly did nothing: the key is free again. */
  release(executionId: string): Promise<void>;
  /** The call is over. If none of the three above was said of it, its outcome is not known from now on. */
  letGo(executionId: string): Promise<void>;
}

interface Row {
  id: string;
  account_id: string | null;
  arguments_digest: string;
  status: string;
  reference: string | null;
  result_sealed: Buffer | null;
  is_held: boolean;
}

export function createOnceOnly(deps: { db: Database; clock: Clock; log: Log; sealer: Sealer; scopeOf(accountId: string): Promise<string> }): OnceOnly {
  const { db, clock, log, sealer } = deps;
  const place = (id: string) => ({ table: "tool_execution", row: id, field: "result", generation: 0 });
  /** The claims of this process whose calls are under way. */
  const held = new Set<string>();
  let stopPuttingOff: (() => void) | null = null;

  async function claim(key: OnceKey, argumentsDigest: string): Promise<Claim> {
    const onceKey = hashOf(key);
    const id = newId(clock, "exe");
    const now = clock.date();
    const expiresAt = new Date(now.getTime() + KEPT_MS);
    const mine = await db.query<{ id: string }>(CLAIM, [id, onceKey, key.identifier, key.clientId, key.tool, key.accountId, argumentsDigest, now, expiresAt, HELD_S]);
    if (mine.length === 1) {
      hold(id);
      return { kind: "yours", executionId: id, onceToken: onceKey.slice(0, 32) };
    }
    const [row] = await db.query<Row>(READ, [onceKey]);
    // It was released in between: the next turn may have it.
    if (!row) return { kind: "running" };
    return read(row, argumentsDigest);
  }

  async function read(row: Row, argumentsDigest: string): Promise<Claim> {
    if (row.arguments_digest !== argumentsDigest) return { kind: "other_arguments" };
    if (row.status === "done" && row.result_sealed && row.account_id) {
      const opened = await sealer.open(await deps.scopeOf(row.account_id), place(row.id), row.result_sealed);
      return { kind: "done", executionId: row.id, result: JSON.parse(opened.reveal()) as ToolResult };
    }
    if (row.status === "started" && row.is_held) return { kind: "running" };
    return { kind: "unknown", executionId: row.id, reference: row.reference };
  }

  function hold(executionId: string): void {
    held.add(executionId);
    stopPuttingOff ??= clock.every(PUT_OFF_MS, () => {
      db.query(PUT_OFF, [[...held], HELD_S]).catch((error: unknown) => log.warn("claims of running calls were not put off", { calls: held.size, error }));
    });
  }

  function unhold(executionId: string): boolean {
    const was = held.delete(executionId);
    if (held.size === 0) {
      stopPuttingOff?.();
      stopPuttingOff = null;
    }
    return was;
  }

  return {
    claim,
    async known(keys) {
      const byHash = new Map(keys.map((key) => [hashOf(key), key]));
      const rows = await db.query<{ once_key: string }>(KNOWN, [[...byHash.keys()]]);
      return rows.length === 1 ? (byHash.get(rows[0]?.once_key ?? "") ?? null) : null;
    },
    async waitFor(key, argumentsDigest, signal) {
      for (let pauseMs = 100; !signal.aborted; pauseMs = Math.min(pauseMs * 1.5, 1000)) {
        const now = await claim(key, argumentsDigest);
        if (now.kind !== "running") return now;
        try {
          await clock.sleep(pauseMs, signal);
        } catch {
          return null;
        }
      }
      return null;
    },
    async done(executionId, connectionId, result) {
      const resultSealed = await sealer.seal(connectionId, place(executionId), JSON.stringify(result));
      await db.prisma.toolExecution.updateMany({ where: { id: executionId }, data: { status: "done", resultSealed, finishedAt: clock.date() } });
      unhold(executionId);
    },
    async unknown(executionId, reference) {
      await db.prisma.toolExecution.updateMany({ where: { id: executionId }, data: { status: "unknown", reference, finishedAt: clock.date() } });
      unhold(executionId);
    },
    async release(executionId) {
      await db.prisma.toolExecution.deleteMany({ where: { id: executionId, status: "started" } });
      unhold(executionId);
    },
    async letGo(executionId) {
      if (!unhold(executionId)) return;
      // A database that is gone hears nothing; then the claim runs out by itself.
      await db.query(LET_GO, [executionId]).catch((error: unknown) => log.warn("a claim was left to run out", { execution_id: executionId, error }));
    },
  };
}

function hashOf(key: OnceKey): string {
  return hashToken(JSON.stringify([key.identifier, key.clientId, key.tool, key.accountId, key.key]));
}

const KNOWN = { name: "once_known", text: "select once_key from tool_execution where once_key = any($1::text[])" };

const CLAIM = {
  name: "once_claim",
  text: `insert into tool_execution (id, once_key, identifier, client_id, tool, account_id, arguments_digest, status, created_at, expires_at, held_until)
         values ($1, $2, $3, $4, $5, $6, $7, 'started', $8, $9, now() + make_interval(secs => $10))
         on conflict (once_key) do nothing returning id`,
};

/** A claim of the build before has no time: it says nothing about its process, so it is held as long as a call may take. */
const READ = {
  name: "once_read",
  text: `select id, account_id, arguments_digest, status, reference, result_sealed,
           coalesce(held_until, created_at + interval '40 seconds') > now() as is_held
         from tool_execution where once_key = $1`,
};

const PUT_OFF = {
  name: "once_put_off",
  text: "update tool_execution set held_until = now() + make_interval(secs => $2) where id = any($1::text[]) and status = 'started'",
};

const LET_GO = {
  name: "once_let_go",
  text: "update tool_execution set held_until = now() where id = $1 and status = 'started'",
};
