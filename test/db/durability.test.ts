import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { systemClock } from "../../src/clock.js";
import { openDatabase } from "../../src/db/client.js";
import { freshEmbeddedDir, freshEmptyDir, silentLog } from "../support/database.js";

const WRITER = fileURLToPath(new URL("../support/databaseWriter.ts", import.meta.url));
const KILLS = 8;
const COMMITS_BEFORE_KILL = 15;

function startWriter(dataDir: string, word: string): ChildProcess {
  return spawn(process.execPath, ["--import", "tsx", WRITER, dataDir, word], { stdio: ["ignore", "pipe", "inherit"] });
}

/** Writes until some commits were acknowledged, kills the writer in the midst of the next ones, gives all it had printed. */
async function writeAndKill(dataDir: string, word: string, afterMs: number): Promise<string[]> {
  const child = startWriter(dataDir, word);
  assert.ok(child.stdout);
  const acknowledged: string[] = [];
  let kill: Promise<void> | null = null;
  for await (const line of createInterface({ input: child.stdout })) {
    if (line !== "open") acknowledged.push(line);
    if (acknowledged.length === COMMITS_BEFORE_KILL) {
      kill = delay(afterMs).then(() => {
        child.kill("SIGKILL");
      });
    }
  }
  await kill;
  assert.ok(acknowledged.length >= COMMITS_BEFORE_KILL, "the writer ended by itself");
  return acknowledged;
}

test("what was acknowledged survives kill -9, again and again, and half of nothing is ever there", async () => {
  const dataDir = await freshEmbeddedDir();
  const acknowledged: string[] = [];
  // The kills fall at other points of a commit each time.
  for (let round = 0; round < KILLS; round += 1) acknowledged.push(...(await writeAndKill(dataDir, `r${round}`, round * 7)));
  const db = await openDatabase({ databaseUrl: null, dataDir, log: silentLog, clock: systemClock });
  const names = new Set((await db.prisma.installation.findMany({ select: { name: true } })).map(({ name }) => name));
  await db.close();
  for (const name of acknowledged) assert.ok(names.has(`${name}-left`) && names.has(`${name}-right`), `${name} was lost`);
  for (const name of names) {
    const other = name.endsWith("-left") ? name.replace(/-left$/, "-right") : name.replace(/-right$/, "-left");
    assert.ok(names.has(other), `${name} is half of a transaction`);
  }
});

test("a first start that is killed while it makes the database is followed by one that works", async () => {
  const dataDir = await freshEmptyDir();
  for (const afterMs of [700, 2_500]) {
    const child = startWriter(dataDir, "first");
    await delay(afterMs);
    child.kill("SIGKILL");
    await once(child, "exit");
  }
  const db = await openDatabase({ databaseUrl: null, dataDir, log: silentLog, clock: systemClock });
  assert.equal(await db.isReady(), true);
  await db.close();
});
