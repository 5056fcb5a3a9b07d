// A rotation that dies with -9 behind its n-th step, as a process of its own. Argument: the order as JSON. Where there are
// fewer steps, it ends by itself and tells their names.
import { openedAt, steppedRotation, type StepOrder } from "./rotationSteps.js";

const order = JSON.parse(process.argv[2] ?? "") as StepOrder;
await openedAt(order)(async (db) => {
  const run = await steppedRotation(db, order.dataDir, (names) => {
    if (names.length === order.dieAfter) process.kill(process.pid, "SIGKILL");
  });
  await run.done;
  await new Promise<void>((resolve) => process.send?.(run.names, () => resolve()));
});
process.disconnect();
