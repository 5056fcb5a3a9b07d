import assert from "node:assert/strict";
import { test } from "node:test";
import { recordAudit } from "../../src/audit/audit.js";
import { listAudit } from "../../src/audit/read.js";
import { asIdentifier } from "../../src/ids.js";
import { eachDatabase } from "../support/database.js";

eachDatabase("reading the audit", (open) => {
  test("newest first, in pages that neither skip nor repeat a row while rows come in", async () => {
    const { prisma } = await open();
    const add = (action: string): Promise<void> => recordAudit(prisma, { category: "administration", action, actor: { kind: "system" }, outcome: "ok" });
    for (let number = 0; number < 25; number++) await add(`act.${number}`);
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await listAudit(prisma, { limit: 10, cursor });
      seen.push(...page.data.map(({ action }) => action));
      await add("act.late");
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
    assert.deepEqual(seen, Array.from({ length: 25 }, (_, index) => `act.${24 - index}`));
  });

  test("each filter alone and all together give the rows that fit, and no other", async () => {
    const { prisma } = await open();
    const person = { kind: "person", sub: asIdentifier("ann"), clientId: "client", clientName: null, scopes: new Set<string>(), grantId: null, apiKeyId: "key_1", expiresAtMs: 0 } as const;
    await recordAudit(prisma, { category: "tool_call", action: "tool.executed", actor: person, identifier: "ann", connectionName: "gmail", accountId: "ca_1", outcome: "ok", detail: { count: 2 } });
    await recordAudit(prisma, { category: "tool_call", action: "tool.executed", actor: person, identifier: "Ann", connectionName: "slack", accountId: "ca_2", outcome: "failed" });
    await recordAudit(prisma, { category: "authorization", action: "link.created", actor: { kind: "system" }, identifier: "ann", connectionName: "gmail", accountId: "ca_1", outcome: "ok" });
    const found = async (filter: Parameters<typeof listAudit>[1]): Promise<string[]> => (await listAudit(prisma, filter)).data.map(({ accountId, action }) => `${accountId} ${action}`);
    assert.deepEqual(await found({ category: "tool_call" }), ["ca_2 tool.executed", "ca_1 tool.executed"]);
    assert.deepEqual(await found({ action: "link.created" }), ["ca_1 link.created"]);
    assert.deepEqual(await found({ identifier: "ann" }), ["ca_1 link.created", "ca_1 tool.executed"]);
    assert.deepEqual(await found({ accountId: "ca_2" }), ["ca_2 tool.executed"]);
    assert.deepEqual(await found({ connectionName: "gmail" }), ["ca_1 link.created", "ca_1 tool.executed"]);
    assert.deepEqual(await found({ category: "tool_call", action: "tool.executed", identifier: "ann", accountId: "ca_1", connectionName: "gmail" }), ["ca_1 tool.executed"]);
    assert.deepEqual(await found({ category: "authorization", accountId: "ca_2" }), []);
    const [row] = (await listAudit(prisma, { identifier: "ann", category: "tool_call" })).data;
    assert.deepEqual([row?.actor, row?.detail], [{ kind: "person", sub: "ann", clientId: "client", apiKeyId: "key_1" }, { count: 2 }]);
  });

  test("a cursor that was not made here is refused, whatever it holds", async () => {
    const { prisma } = await open();
    for (const text of ["", "x", "-1", "1e3", "9".repeat(19), "1; drop", "\0"]) {
      const cursor = Buffer.from(text).toString("base64url");
      await assert.rejects(listAudit(prisma, { cursor }), { code: "invalid_request" }, text);
    }
    await assert.rejects(listAudit(prisma, { cursor: "M".repeat(5_000) }), { code: "invalid_request" });
  });
});
