// Old rows go in batches: all of them, none that is young, and no statement that takes more than its part.
import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "../../src/clock.js";
import type { Database } from "../../src/db/client.js";
import { deleteOld, type OldRows } from "../../src/db/deleteOld.js";
import { sweepIdentity } from "../../src/identity/sweep.js";
import { sweepRecords } from "../../src/authorization/sweep.js";
import { awkwardProviderForTests } from "../support/awkwardProvider.js";
import { eachDatabase } from "../support/database.js";
import { vaultRig } from "../support/vaultRig.js";

const COUNTERS: OldRows = { name: "test_counters", table: "rate_limit", key: "key", where: "old.expire < $2::bigint" };

eachDatabase("old rows", (open) => {
  /** How many rows each statement took, by its name. */
  function watched(db: Database): { db: Database; took: Record<string, number[]> } {
    const took: Record<string, number[]> = {};
    return {
      took,
      db: {
        ...db,
        query: async <Row>(statement: { name: string; text: string }, values: unknown[]) => {
          const rows = await db.query<Row>(statement, values);
          const name = statement.name.replace("delete_old_", "");
          if (name !== statement.name) took[name] = [...(took[name] ?? []), (rows[0] as { count: number }).count];
          return rows;
        },
      },
    };
  }

  test("more than a batch go in several, up to the pass's bound; the young stay", async () => {
    const { db, took } = watched(await open());
    await db.prisma.$executeRaw`insert into rate_limit (key, points, expire) select 'k' || n, 1, n from generate_series(1, 1050) n`;
    assert.equal(await deleteOld(db, COUNTERS, [1_001], { rows: 100, batches: 4 }), 400);
    assert.equal(await db.prisma.rateLimit.count(), 650);
    assert.equal(await deleteOld(db, COUNTERS, [1_001], { rows: 100, batches: 50 }), 600);
    assert.deepEqual(took["test_counters"], [...Array<number>(4).fill(100), ...Array<number>(6).fill(100), 0]);
    assert.deepEqual([await db.prisma.rateLimit.count(), await db.prisma.rateLimit.count({ where: { expire: { lte: 1_000n } } })], [50, 0]);
    assert.equal(await deleteOld(db, COUNTERS, [1_001]), 0);
  });

  test("two at once: each row goes once, and neither waits for the other's", async () => {
    const db = await open();
    await db.prisma.$executeRaw`insert into rate_limit (key, points, expire) select 'k' || n, 1, 0 from generate_series(1, 2000) n`;
    const counts = await Promise.all([1, 2, 3].map(() => deleteOld(db, COUNTERS, [1], { rows: 100, batches: 100 })));
    const last = await deleteOld(db, COUNTERS, [1]);
    assert.equal(counts.reduce((sum, count) => sum + count, last), 2_000);
    assert.equal(await db.prisma.rateLimit.count(), 0);
  });

  test("the sweeps of the vault, of sign-ins and of the authorization server take more than a batch of each kind, and leave the young", async () => {
    const { db, took } = watched(await open());
    const provider = await awkwardProviderForTests();
    const rig = await vaultRig({ db, provider, clock: systemClock });
    const { id } = await rig.put("ann");
    const kept = async () => Promise.all([db.prisma.event.count(), db.prisma.auditEntry.count()]);
    const before = await kept();
    for (const [old, count] of [["2 years", 5_001], ["0 s", 3]] as const) {
      const way = old === "0 s" ? "+ interval '1 hour'" : `- interval '${old}'`;
      const mark = old === "0 s" ? "young" : "old";
      const each = `from generate_series(1, ${count}) n`;
      await db.prisma.$executeRawUnsafe(`insert into audit_entry (category, action, actor_kind, outcome, occurred_at) select 'tool_call', '${mark}', 'system', 'ok', now() ${way} ${each}`);
      await db.prisma.$executeRawUnsafe(`insert into event (id, type, account_id, account_sequence, data, occurred_at) select '${mark}' || n, 't', '-', n, '{}', now() ${way} ${each}`);
      await db.prisma.$executeRawUnsafe(`insert into elicitation (id, identifier, client_id, endpoint, tool, arguments_digest, kind, key, round, asked_at) select '${mark}' || n, '-', '-', '-', '-', '-', 'form', '-', 1, now() ${way} ${each}`);
      await db.prisma.$executeRawUnsafe(`insert into tool_execution (id, once_key, identifier, client_id, tool, arguments_digest, status, expires_at) select '${mark}' || n, '${mark}' || n, '-', '-', '-', '-', 'done', now() ${way} ${each}`);
      await db.prisma.$executeRawUnsafe(`insert into authorization_link (id, token_hash, account_id, connection_id, identifier, asked_by, status, settled_at, expires_at) select '${mark}' || n, '${mark}' || n, '${id}', '-', '-', 'api', 'failed', now() ${way}, now() ${each}`);
      await db.prisma.$executeRawUnsafe(`insert into browser_session (id_hash, data, expires_at) select '${mark}' || n, '', now() ${way} ${each}`);
      await db.prisma.$executeRawUnsafe(`insert into one_time_link (token_hash, purpose, expires_at) select '${mark}' || n, 'setup', now() ${way} ${each}`);
      await db.prisma.$executeRawUnsafe(`insert into rate_limit (key, points, expire) select '${mark}' || n, 1, extract(epoch from now() ${way}) * 1000 ${each}`);
      await db.prisma.$executeRawUnsafe(`insert into oauth_record (type, id_hash, payload, expires_at) select 'AccessToken', '${mark}' || n, '', now() ${way} ${each}`);
      await db.prisma.$executeRawUnsafe(`insert into oauth_record (type, id_hash, payload, created_at) select 'Client', '${mark}' || n, '', now() ${way} ${each}`);
    }
    await rig.vault.close();
    await (await rig.instance({ db })).sweep();
    await sweepIdentity({ db, clock: systemClock });
    await sweepRecords({ db, clock: systemClock });
    const names = ["audit", "elicitations", "events", "executions", "expired_records", "links", "one_time_links", "rate_limits", "sessions", "unused_clients"];
    assert.deepEqual(took, Object.fromEntries(names.map((name) => [name, [5_000, 1]])));
    const [events, entries] = await kept();
    assert.deepEqual([events, entries], before.map((count) => count + 3));
    const left = [db.prisma.elicitation.count(), db.prisma.toolExecution.count(), db.prisma.authorizationLink.count(), db.prisma.browserSession.count(), db.prisma.oneTimeLink.count(), db.prisma.rateLimit.count(), db.prisma.oAuthRecord.count()];
    assert.deepEqual(await Promise.all(left), [3, 3, 3, 3, 3, 3, 6]);
    await rig.close();
  });
});
