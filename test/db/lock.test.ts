import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { systemClock } from "../../src/clock.js";
import { acquireLock } from "../../src/db/lock.js";
import { DatabaseRefusal } from "../../src/db/refusal.js";
import { freshEmptyDir } from "../support/database.js";

const CONTENDER = fileURLToPath(new URL("../support/lockContender.ts", import.meta.url));
const STARTERS = 8;
const ROUNDS = 6;

async function contender(): Promise<ChildProcess> {
  const child = fork(CONTENDER, { execArgv: ["--import", "tsx"] });
  assert.deepEqual(await once(child, "message"), ["ready", undefined]);
  return child;
}

async function tell(child: ChildProcess, command: "acquire" | "release", directory: string): Promise<unknown> {
  const answer = once(child, "message");
  child.send({ command, directory });
  return (await answer)[0];
}

test("of eight processes that start at once over the remains of a killed one, exactly one holds the lock", async () => {
  const directory = await freshEmptyDir();
  const children = await Promise.all(Array.from({ length: STARTERS }, contender));
  try {
    for (let round = 0; round < ROUNDS; round += 1) {
      const answers = await Promise.all(children.map((child) => tell(child, "acquire", directory)));
      assert.equal(answers.filter((answer) => answer === "held").length, 1, `round ${round}: ${answers.join()}`);
      assert.equal(answers.filter((answer) => answer === "DatabaseRefusal").length, STARTERS - 1);
      const holder = answers.indexOf("held");
      const child = children[holder];
      assert.ok(child);
      if (round % 2 === 0) {
        child.kill("SIGKILL");
        await once(child, "exit");
        assert.equal(readdirSync(directory).length, 1, "the killed holder leaves its socket file");
        children[holder] = await contender();
      } else {
        assert.equal(await tell(child, "release", directory), "released");
        assert.deepEqual(readdirSync(directory), []);
      }
    }
  } finally {
    for (const child of children) child.kill("SIGKILL");
  }
});

test("of eight starters in one process exactly one holds the lock, a hundred times over", async () => {
  const directory = await freshEmptyDir();
  for (let round = 0; round < 100; round += 1) {
    const outcomes = await Promise.allSettled(Array.from({ length: STARTERS }, () => acquireLock(directory, systemClock)));
    const held = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
    assert.equal(held.length, 1, `round ${round}`);
    for (const outcome of outcomes) {
      if (outcome.status === "rejected") assert.ok(outcome.reason instanceof DatabaseRefusal);
    }
    await assert.rejects(acquireLock(directory, systemClock), DatabaseRefusal);
    await held[0]?.release();
    assert.deepEqual(readdirSync(directory), []);
  }
});

test("a holder that is stopped, and cannot answer, keeps the lock", async () => {
  const directory = await freshEmptyDir();
  const child = await contender();
  try {
    assert.equal(await tell(child, "acquire", directory), "held");
    child.kill("SIGSTOP");
    await assert.rejects(acquireLock(directory, systemClock), DatabaseRefusal);
  } finally {
    child.kill("SIGKILL");
  }
});
