// A write is done once: a row is claimed before the tool runs, and keeps its sealed result for 24 h. The same key again
// gets the recorded result. Must never happen: two claims of one key; a result that opens under another row.
import type { Clock } from "../clock.js";
import type { ToolResult } from "../connectors/connector.js";
import { hashToken } from "../crypto/tokens.js";
import type { Sealer } from "../crypto/seal.js";
import type { Database } from "../db/client.js";
import type { ToolExecution } from "../db/generated/client.js";
import { isUniqueViolation } from "../db/errors.js";
import { newId } from "../ids.js";

const KEPT_MS = 24 * 3600 * 1000;
/** A call ends within 30 s; a claim older than this belongs to a process that died. */
const RUNNING_AT_MOST_MS = 40_000;

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
  /** Waits for the call that holds the key. Null: it did not end in time. */
  waitFor(key: OnceKey, argumentsDigest: string, signal: AbortSignal): Promise<Claim | null>;
  done(executionId: string, connectionId: string, result: ToolResult): Promise<void>;
  unknown(executionId: string, reference: string | null): Promise<void>;
  /** The tool certainly did nothing: the key is free again. */
  release(executionId: string): Promise<void>;
}

export function createOnceOnly(deps: { db: Database; clock: Clock; sealer: Sealer; scopeOf(accountId: string): Promise<string> }): OnceOnly {
  const { db, clock, sealer } = deps;
  const place = (id: string) => ({ table: "tool_execution", row: id, field: "result", generation: 0 });

  async function claim(key: OnceKey, argumentsDigest: string): Promise<Claim> {
    const onceKey = hashToken(JSON.stringify([key.identifier, key.clientId, key.tool, key.accountId, key.key]));
    const id = newId(clock, "exe");
    const now = clock.date();
    try {
      await db.prisma.toolExecution.create({
        data: {
          id,
          onceKey,
          identifier: key.identifier,
          clientId: key.clientId,
          tool: key.tool,
          accountId: key.accountId,
          argumentsDigest,
          status: "started",
          createdAt: now,
          expiresAt: new Date(now.getTime() + KEPT_MS),
        },
      });
      return { kind: "yours", executionId: id, onceToken: onceKey.slice(0, 32) };
    } catch (thrown) {
      if (!isUniqueViolation(thrown)) throw thrown;
    }
    const row = await db.prisma.toolExecution.findUnique({ where: { onceKey } });
    // It was released in between: the next turn may have it.
    if (!row) return { kind: "running" };
    return read(row, argumentsDigest);
  }

  async function read(row: ToolExecution, argumentsDigest: string): Promise<Claim> {
    if (row.argumentsDigest !== argumentsDigest) return { kind: "other_arguments" };
    if (row.status === "done" && row.resultSealed && row.accountId) {
      const opened = await sealer.open(await deps.scopeOf(row.accountId), place(row.id), row.resultSealed);
      return { kind: "done", executionId: row.id, result: JSON.parse(opened.reveal()) as ToolResult };
    }
    if (row.status === "started" && clock.now() - row.createdAt.getTime() < RUNNING_AT_MOST_MS) return { kind: "running" };
    return { kind: "unknown", executionId: row.id, reference: row.reference };
  }

  return {
    claim,
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
    },
    async unknown(executionId, reference) {
      await db.prisma.toolExecution.updateMany({ where: { id: executionId }, data: { status: "unknown", reference, finishedAt: clock.date() } });
    },
    async release(executionId) {
      await db.prisma.toolExecution.deleteMany({ where: { id: executionId, status: "started" } });
    },
  };
}
