// One process of the rotation under load, which waits until its parent tells it over IPC what it is: `rotate` re-wraps and
// ends, `read` opens credentials until it is told to stop.
import { fileURLToPath } from "node:url";
import { systemClock } from "../../src/clock.js";
import { createSealer } from "../../src/crypto/dataKeys.js";
import { createKeyRing } from "../../src/crypto/keyring.js";
import { openKeyRing } from "../../src/crypto/masterKey.js";
import { createRotation } from "../../src/crypto/rotate.js";
import { secret } from "../../src/crypto/secret.js";
import { type Database, openDatabase } from "../../src/db/client.js";
import { createCredentialBox } from "../../src/vault/credential.js";
import { randomFrom } from "./random.js";
import { silentLog } from "./silentLog.js";

export interface ProcessOrder {
  databaseUrl: string;
  /** The first one wraps; the others are retired, or will be the next. */
  keys: string[];
  seed: number;
}

export interface ReadReport {
  reads: number;
  /** Through a sealer of its own, which had no data key in memory: each of them read the data key's row and unwrapped it. */
  coldReads: number;
  failed: number;
  /** The first few, in words. */
  failures: string[];
  /** Cold reads by the master key that the data key was wrapped under. */
  byKid: Record<string, number>;
  slowestMs: number;
}

export const accessOf = (accountId: string): string => `access token of ${accountId}`;
export const refreshOf = (accountId: string): string => `refresh token of ${accountId}`;

const BATCH = 20;
/** Every second batch is cold. */
const COLD_EVERY = 2;
const FAILURES_TOLD = 10;

async function rotate(order: ProcessOrder): Promise<void> {
  const db = await open(order, 1);
  const [masterKey = "", ...previous] = order.keys;
  const settings = { databaseUrl: secret(order.databaseUrl), dataDir: ".", masterKey: secret(masterKey), masterKeysPrevious: previous.map(secret) };
  const keys = await openKeyRing({ settings, db, clock: systemClock });
  process.send?.({ kind: "begun" });
  const outcome = await createRotation({ settings, keys, db, clock: systemClock }).rotate();
  await new Promise<void>((resolve) => process.send?.({ kind: "done", ...outcome }, () => resolve()));
  await db.close();
  process.disconnect();
}

async function read(order: ProcessOrder): Promise<void> {
  const db = await open(order, 4);
  const [current = "", ...previous] = order.keys;
  const base = await createKeyRing({ current: secret(current), previous: previous.map(secret) });
  const report: ReadReport = { reads: 0, coldReads: 0, failed: 0, failures: [], byKid: {}, slowestMs: 0 };
  // What a cold read is unwrapped from stands in the wrapped key's own header.
  const ring = {
    ...base,
    unwrap: (wrapped: string, context: string) => {
      const { kid } = JSON.parse(Buffer.from(wrapped.split(".")[0] ?? "", "base64url").toString()) as { kid: string };
      report.byKid[kid] = (report.byKid[kid] ?? 0) + 1;
      return base.unwrap(wrapped, context);
    },
  };
  const freshBox = () => createCredentialBox(createSealer({ ring, db, clock: systemClock }));
  const warm = freshBox();
  const ids = (await db.prisma.connectedAccount.findMany({ select: { id: true } })).map(({ id }) => id);
  const random = randomFrom(order.seed);
  let isStopped = false;
  process.on("message", () => {
    isStopped = true;
  });
  process.send?.({ kind: "begun" });
  for (let turn = 0; !isStopped; turn += 1) {
    const isCold = turn % COLD_EVERY === 0;
    const some = Array.from({ length: BATCH }, () => random.pick(ids));
    const rows = await db.prisma.connectedAccount.findMany({ where: { id: { in: some } }, include: { connection: true } });
    for (const row of rows) {
      const box = isCold ? freshBox() : warm;
      const startedAt = performance.now();
      try {
        const access = await box.openAccess(row);
        const refresh = await box.openRefresh(row);
        const right = access?.kind === "oauth" && access.token.reveal() === accessOf(row.id) && refresh?.reveal() === refreshOf(row.id);
        if (!right) throw new Error("it opened to something else");
      } catch (error) {
        report.failed += 1;
        if (report.failures.length < FAILURES_TOLD) report.failures.push(`${row.id}: ${String(error)}`);
      }
      report.reads += 1;
      if (isCold) report.coldReads += 1;
      report.slowestMs = Math.max(report.slowestMs, performance.now() - startedAt);
    }
  }
  await new Promise<void>((resolve) => process.send?.({ kind: "report", report }, () => resolve()));
  await db.close();
  process.disconnect();
}

function open(order: ProcessOrder, poolMax: number): Promise<Database> {
  return openDatabase({ databaseUrl: secret(order.databaseUrl), dataDir: ".", log: silentLog, clock: systemClock, poolMax });
}

// Only as a process of its own: the parent imports the types and texts.
if (process.send && process.argv[1] === fileURLToPath(import.meta.url)) {
  process.once("message", ({ role, order }: { role: "rotate" | "read"; order: ProcessOrder }) => void (role === "rotate" ? rotate(order) : read(order)));
  // No process stays behind when its parent is gone.
  process.once("disconnect", () => process.exit());
  process.send({ kind: "ready" });
}
