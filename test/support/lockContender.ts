// A process that tries to take the lock of a directory when it is told to: see test/db/lock.test.ts.
import { systemClock } from "../../src/clock.js";
import { acquireLock, type Lock } from "../../src/db/lock.js";

let lock: Lock | null = null;

process.on("message", (message: { command: "acquire" | "release"; directory: string }) => {
  void answer(message.command, message.directory);
});
process.send?.("ready");

async function answer(command: "acquire" | "release", directory: string): Promise<void> {
  if (command === "release") {
    await lock?.release();
    lock = null;
    process.send?.("released");
    return;
  }
  try {
    lock = await acquireLock(directory, systemClock);
    process.send?.("held");
  } catch (error) {
    process.send?.(error instanceof Error ? error.name : "error");
  }
}
