// A rotation of the master key over many connections, its process killed with -9 again and again and started anew, while
// another process opens credentials all the time, half of them cold. On PostgreSQL. Small in a test, whole in bench/rotation.ts.
import { type ChildProcess, fork } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { systemClock } from "../../src/clock.js";
import { createSealer } from "../../src/crypto/dataKeys.js";
import { createKeyRing, keyCheckOf, kidOfMasterKey } from "../../src/crypto/keyring.js";
import { openKeyRing } from "../../src/crypto/masterKey.js";
import { Secret, secret } from "../../src/crypto/secret.js";
import { type Database, openDatabase } from "../../src/db/client.js";
import { createCredentialBox } from "../../src/vault/credential.js";
import { freshPostgresUrl } from "./database.js";
import { type Random, randomFrom } from "./random.js";
import { accessOf, type ProcessOrder, type ReadReport, refreshOf } from "./rotationProcess.js";
import { silentLog } from "./silentLog.js";

const PROCESS = fileURLToPath(new URL("./rotationProcess.ts", import.meta.url));
const ROWS_AT_ONCE = 500;
/** For rotations that were through before they could be killed: on a busy machine the parent comes late. */
const SPARE_KEYS = 10;
const READY_MAX = 6;

export interface LoadOptions {
  connections: number;
  accounts: number;
  kills: number;
  /** So many kills, then the rotation may come to its end, and the next one begins. */
  killsEach: number;
  seed: number;
  told?: (line: string) => void;
}

export interface LoadOutcome {
  kills: number;
  /** With some data keys moved and some not. */
  killsMidway: number;
  /** Came to their end: two processes at once ended each of them, after its kills. */
  rotations: number;
  reader: ReadReport;
  /** Cold reads under a key that was not the one rotated to at the end. */
  coldUnderFormer: number;
  /** Data keys that are not under the last key at the end. */
  leftUnderFormer: number;
  /** Opened at the end with the last key alone. */
  openedAtEnd: number;
}

interface Stage {
  options: LoadOptions;
  databaseUrl: string;
  keys: string[];
  watch: pg.Client;
  random: Random;
  start(role: "rotate" | "read", order: ProcessOrder): Promise<ChildProcess>;
}

export async function rotateUnderLoad(options: LoadOptions): Promise<LoadOutcome> {
  const databaseUrl = await freshPostgresUrl();
  if (databaseUrl === null) throw new Error("TEST_DATABASE_URL is not set");
  // Every process has every key, as an operator does it: the new key is added everywhere before it is made the current one.
  const keys = Array.from({ length: 1 + Math.ceil(options.kills / options.killsEach) + SPARE_KEYS }, () => randomBytes(32).toString("base64"));
  const db = await openDatabase({ databaseUrl: secret(databaseUrl), dataDir: ".", log: silentLog, clock: systemClock, poolMax: 2 });
  const watch = new pg.Client({ connectionString: databaseUrl });
  await watch.connect();
  const children = new Set<ChildProcess>();
  const born = (): Promise<ChildProcess> => {
    const child = fork(PROCESS, { execArgv: ["--import", import.meta.resolve("tsx")], stdio: ["ignore", "ignore", "inherit", "ipc"] });
    children.add(child);
    child.once("exit", () => children.delete(child));
    return message(child, "ready").then(() => child);
  };
  // Started ahead, so that a kill costs no start: the reader, the killed ones, and the two that end each rotation.
  let toBeBorn = 1 + options.kills + 2 * Math.ceil(options.kills / options.killsEach);
  const ready: Promise<ChildProcess>[] = [];
  const start: Stage["start"] = async (role, order) => {
    for (; toBeBorn > 0 && ready.length < READY_MAX; toBeBorn -= 1) ready.push(born());
    const child = await (ready.shift() ?? born());
    const begun = message(child, "begun");
    child.send({ role, order });
    await begun;
    return child;
  };
  try {
    await fill(db, databaseUrl, keys[0] ?? "", options);
    options.told?.(`${options.connections} connections and ${options.accounts} accounts are there`);
    return await run({ options, databaseUrl, keys, watch, random: randomFrom(options.seed), start }, db);
  } finally {
    for (const child of children) child.kill("SIGKILL");
    await watch.end();
    await db.close();
  }
}

async function run(stage: Stage, db: Database): Promise<LoadOutcome> {
  const { options, databaseUrl, keys } = stage;
  const reader = await stage.start("read", { databaseUrl, keys, seed: options.seed });
  const ended = message(reader, "report");
  const outcome = { kills: 0, killsMidway: 0, rotations: 0 };
  while (outcome.kills < options.kills) {
    const current = keys[outcome.rotations + 1];
    if (current === undefined) throw new Error("the rotations end too quickly to be killed");
    const order = { databaseUrl, keys: [current, ...keys.filter((key) => key !== current)], seed: 0 };
    const wanted = Math.min(options.killsEach, options.kills - outcome.kills);
    for (let nth = 1; nth <= wanted; nth += 1) {
      const moved = await killedOnTheWay(stage, order, nth / (wanted + 1));
      if (moved === null) break;
      outcome.kills += 1;
      if (moved > 0 && moved < options.connections) outcome.killsMidway += 1;
      options.told?.(`kill ${outcome.kills}: ${moved} of ${options.connections} moved`);
    }
    // Two at once, as two operators would do it: each row is moved by one of them.
    const last = await Promise.all([0, 1].map(async () => message(await stage.start("rotate", order), "done")));
    for (const { remaining } of last) if (remaining !== 0) throw new Error(`at the end ${String(remaining)} remain`);
    outcome.rotations += 1;
  }
  reader.send("stop");
  const report = (await ended)["report"] as ReadReport;
  const finalKey = keys[outcome.rotations] ?? "";
  const finalKid = kidOfMasterKey(secret(finalKey));
  const coldUnderFormer = Object.entries(report.byKid).reduce((sum, [kid, count]) => sum + (kid === finalKid ? 0 : count), 0);
  const { rows } = await stage.watch.query<{ left: number }>("select count(*)::int as left from data_key where kid <> $1", [finalKid]);
  return { ...outcome, reader: report, coldUnderFormer, leftUnderFormer: rows[0]?.left ?? -1, openedAtEnd: await openAll(db, finalKey) };
}

/** Kills a rotation about when that part of the data keys is moved. Answers how many were; null: it was through before. */
async function killedOnTheWay({ options, watch, random, start }: Stage, order: ProcessOrder, part: number): Promise<number | null> {
  const kid = kidOfMasterKey(secret(order.keys[0] ?? ""));
  const child = await start("rotate", order);
  const until = Math.floor(options.connections * part) - random.int(Math.max(1, Math.floor(options.connections / 50)));
  while (child.exitCode === null && child.signalCode === null && (await movedTo(watch, kid)) < until) await new Promise(setImmediate);
  child.kill("SIGKILL");
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  return child.signalCode === "SIGKILL" ? movedTo(watch, kid) : null;
}

async function movedTo(watch: pg.Client, kid: string): Promise<number> {
  const { rows } = await watch.query<{ count: number }>({ name: "moved", text: "select count(*)::int as count from data_key where kid = $1", values: [kid] });
  return rows[0]?.count ?? 0;
}

/** Rejects when the process ends without having said it by itself; a kill of ours is no such end. */
function message(child: ChildProcess, kind: string): Promise<Record<string, unknown>> {
  return new Promise((resolve, reject) => {
    child.on("message", (said: Record<string, unknown>) => {
      if (said["kind"] === kind) resolve(said);
    });
    child.once("exit", (code, signal) => {
      if (signal !== "SIGKILL" && code !== 0) reject(new Error(`a process ended with ${code ?? signal} before "${kind}"`));
    });
  });
}

async function fill(db: Database, databaseUrl: string, firstKey: string, { connections, accounts }: LoadOptions): Promise<void> {
  const settings = { databaseUrl: secret(databaseUrl), dataDir: ".", masterKey: secret(firstKey), masterKeysPrevious: [] };
  const { ring } = await openKeyRing({ settings, db, clock: systemClock });
  const sealer = createSealer({ ring, db, clock: systemClock });
  const box = createCredentialBox(sealer);
  const ids = Array.from({ length: connections }, (_, n) => `conn_load${n}`);
  // One after the other: each makes a data key, and hundreds at once would wait too long for a connection to the database.
  const connectionRows = [];
  for (const [n, id] of ids.entries()) {
    const clientSecretSealed = await sealer.seal(id, { table: "connection", row: id, field: "client_secret", generation: 1 }, `client secret of ${id}`);
    connectionRows.push({ id, name: `load${n}`, connector: "gmail", title: `Load ${n}`, clientId: "client", clientSecretSealed });
  }
  await db.prisma.connection.createMany({ data: connectionRows });
  for (let from = 0; from < accounts; from += ROWS_AT_ONCE) {
    const some = Array.from({ length: Math.min(ROWS_AT_ONCE, accounts - from) }, (_, n) => from + n);
    const rows = await Promise.all(
      some.map(async (n) => {
        const account = { id: `ca_load${n}`, generation: 0, connectionId: ids[n % connections] ?? "" };
        const credential = { access: { kind: "oauth" as const, token: new Secret(accessOf(account.id)) }, refresh: new Secret(refreshOf(account.id)) };
        const sealed = await box.seal(account, credential, { scopes: [], tokenExpiresAt: null });
        return { ...account, generation: 1, identifier: `person-${n}`, status: "ACTIVE" as const, ...sealed };
      }),
    );
    await db.prisma.connectedAccount.createMany({ data: rows });
  }
}

/** Every account, with the last key alone and nothing in memory; the installation's own mark is of that key too. */
async function openAll(db: Database, finalKey: string): Promise<number> {
  const ring = await createKeyRing({ current: secret(finalKey), previous: [] });
  const mark = await db.prisma.installation.findUnique({ where: { name: "key_check" } });
  if (mark?.value !== keyCheckOf(ring, ring.currentKid)) throw new Error("the installation's mark is of another key");
  const box = createCredentialBox(createSealer({ ring, db, clock: systemClock }));
  let opened = 0;
  for (let after = ""; ; ) {
    const rows = await db.prisma.connectedAccount.findMany({ where: { id: { gt: after } }, include: { connection: true }, orderBy: { id: "asc" }, take: ROWS_AT_ONCE });
    for (const row of rows) {
      const access = await box.openAccess(row);
      const refresh = await box.openRefresh(row);
      if (access?.kind !== "oauth" || access.token.reveal() !== accessOf(row.id) || refresh?.reveal() !== refreshOf(row.id)) throw new Error(`${row.id} opened to something else`);
      opened += 1;
    }
    const last = rows.at(-1);
    if (last === undefined) return opened;
    after = last.id;
  }
}
