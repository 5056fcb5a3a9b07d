// The master keys over the API: what is wrapped under which, and the rotation. Must never happen: a key's value in an answer
// or a row; a rotation that nobody can find in the audit trail, also when the process died in the middle of it.
import { recordAudit, type AuditRow } from "../audit/audit.js";
import type { KeysSeen } from "../crypto/inspect.js";
import type { Rotation } from "../crypto/rotate.js";
import type { Database } from "../db/client.js";
import { keysRotate } from "./contract.js";
import { type CallContext, ok, type Route, route } from "./route.js";

export interface KeysDeps {
  rotation: Rotation;
  inspect(): Promise<KeysSeen>;
  db: Pick<Database, "prisma">;
}

export function keyRoutes(deps: KeysDeps): Route[] {
  const { db } = deps;

  async function audit(context: CallContext<unknown, unknown>, row: Pick<AuditRow, "action" | "outcome" | "detail">): Promise<void> {
    const { actor, requestId, traceId } = context;
    await recordAudit(db.prisma, { category: "administration", actor, requestId, traceId, ...row });
  }

  return [
    route({
      method: "get",
      path: "/keys",
      scope: "admin",
      handle: async () => ok(keysBody(await deps.inspect(), await connectionNames(db))),
    }),
    route({
      method: "post",
      path: "/keys/rotate",
      scope: "admin",
      body: keysRotate,
      handle: async (context) => {
        await audit(context, { action: "keys.rotation_started", outcome: "ok" });
        const { rewrapped, remaining, isNewKey } = await deps.rotation.rotate();
        await audit(context, { action: "keys.rotated", outcome: remaining === 0 ? "ok" : "incomplete", detail: { rewrapped, remaining, new_key: isNewKey } });
        return ok({ rewrapped, remaining });
      },
    }),
  ];
}

export async function connectionNames(db: KeysDeps["db"]): Promise<Map<string, string>> {
  const rows = await db.prisma.connection.findMany({ select: { id: true, name: true } });
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/** `names`: of the connections, by id. */
export function keysBody(seen: KeysSeen, names: ReadonlyMap<string, string>): Record<string, unknown> {
  return {
    current: seen.current,
    current_since: seen.currentSince?.toISOString() ?? null,
    keys: seen.keys.map(({ kid, source, dataKeys }) => ({ kid, source, data_keys: dataKeys })),
    remaining: seen.remaining,
    // Without a connection: what people and their MCP clients are signed in with.
    damaged: seen.damaged.map(({ scope, kid }) => ({ connection_name: names.get(scope) ?? null, kid })),
  };
}
