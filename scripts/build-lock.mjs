// One build at a time: a file that names its process. Must never happen: a build killed half-way that stops all later ones.
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const POLL_MS = 150;
/** Past this age the file's process number may have gone to another program. A build takes seconds. */
const STALE_MS = 180_000;

export async function withBuildLock(directory, run) {
  mkdirSync(directory, { recursive: true });
  const lock = join(directory, ".build-lock");
  while (!take(lock)) {
    if (isAbandoned(lock)) remove(lock);
    else await delay(POLL_MS);
  }
  try {
    return run();
  } finally {
    rmSync(lock, { force: true });
  }
}

/** The file appears whole (written aside, then linked): nobody reads a lock without its process number. */
function take(lock) {
  const own = `${lock}.${process.pid}`;
  writeFileSync(own, String(process.pid));
  try {
    linkSync(own, lock);
    utimesSync(lock, new Date(), new Date());
    return true;
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
    return false;
  } finally {
    rmSync(own, { force: true });
  }
}

function isAbandoned(lock) {
  try {
    const pid = Number(readFileSync(lock, "utf8"));
    return !isAlive(pid) || Date.now() - statSync(lock).mtimeMs > STALE_MS;
  } catch (error) {
    if (error.code === "ENOENT") return false;
    throw error;
  }
}

/** Renamed before it is deleted: if another process has replaced the dead lock meanwhile, its lock is put back. */
function remove(lock) {
  const aside = `${lock}.${process.pid}.old`;
  try {
    renameSync(lock, aside);
  } catch (error) {
    if (error.code === "ENOENT") return;
    throw error;
  }
  try {
    if (!isAbandoned(aside)) linkSync(aside, lock);
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
  } finally {
    rmSync(aside, { force: true });
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}
