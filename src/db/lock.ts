// One process per data directory. PGlite has no lock of its own: two processes on one directory lose acknowledged rows
// (21 of 400 in a trial). A Unix socket in the directory is the lock: the kernel drops it with the process, however that
// ends. Must never happen: two holders; a dead process that locks out the next one.
import { lstat, readdir, unlink } from "node:fs/promises";
import { createConnection, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import type { Clock } from "../clock.js";
import { DatabaseRefusal } from "./refusal.js";

/** `sun_path` ends at 104 bytes on macOS; the name below takes 12 of them. */
export const DIRECTORY_BYTES_MAX = 90;
/** A process that accepts but does not answer is alive (stopped, or busy in a long query): it keeps the directory. */
const ANSWER_MS = 3_000;
const RETRY_MS = 10;

const PREFIX = "lock-";
const CANDIDATE = "c";
const HOLDER = "h";

export interface Lock {
  release(): Promise<void>;
}

/**
 * Every starter listens on a socket of its own first and asks all others afterwards, so of any two at least one sees the
 * other. A holder wins over everyone; of two candidates the one with the smaller name goes on, but waits until the other
 * has given way, because that one may have looked before it was there. Taking over one shared socket file instead needs
 * an unlink, and an unlink can hit the file of a starter that was faster.
 */
export async function acquireLock(directory: string, clock: Clock): Promise<Lock> {
  const name = PREFIX + clock.randomBytes(3).toString("hex");
  const candidate = await listen(join(directory, name));
  try {
    const dead: string[] = [];
    for (const other of await socketsIn(directory)) {
      if (other === name) continue;
      const state = await ask(join(directory, other), clock, (answer) => answer === CANDIDATE && other > name);
      if (state === "gone") dead.push(other);
      else throw taken(directory);
    }
    candidate.hold();
    // Only the holder cleans up: whoever is removed here by mistake (bound, not yet listening) finds the holder.
    for (const other of dead) await unlink(join(directory, other)).catch(() => {});
    return { release: () => candidate.close() };
  } catch (error) {
    await candidate.close();
    throw error;
  }
}

function taken(directory: string): DatabaseRefusal {
  return new DatabaseRefusal(
    `Another Outband process uses the data directory ${directory}: stop it first, or set DATABASE_URL to run several on one PostgreSQL.`,
  );
}

async function socketsIn(directory: string): Promise<string[]> {
  const names = (await readdir(directory)).filter((entry) => entry.startsWith(PREFIX));
  const found: string[] = [];
  for (const entry of names) {
    const stat = await lstat(join(directory, entry)).catch(() => null);
    if (stat?.isSocket()) found.push(entry);
  }
  return found;
}

/** `waitFor` says whether an answer is worth waiting for its change. */
async function ask(path: string, clock: Clock, waitFor: (answer: string) => boolean): Promise<"gone" | "alive"> {
  const deadline = clock.deadline(ANSWER_MS);
  for (;;) {
    const state = await askOnce(path, deadline, waitFor);
    if (state !== "reset") return state;
    await clock.sleep(RETRY_MS);
  }
}

/** `reset`: it closed while we were connecting, most likely on its way out; the next question tells. */
function askOnce(path: string, deadline: AbortSignal, waitFor: (answer: string) => boolean): Promise<"gone" | "alive" | "reset"> {
  return new Promise((resolve) => {
    const socket = createConnection(path);
    const finish = (state: "gone" | "alive" | "reset"): void => {
      deadline.removeEventListener("abort", onDeadline);
      socket.destroy();
      resolve(state);
    };
    const onDeadline = (): void => finish("alive");
    deadline.addEventListener("abort", onDeadline);
    socket.on("data", (bytes) => {
      if (!waitFor(bytes.toString("latin1").slice(-1))) finish("alive");
    });
    socket.on("error", (error: NodeJS.ErrnoException) => {
      if (deadline.aborted) finish("alive");
      else if (error.code === "ECONNREFUSED" || error.code === "ENOENT") finish("gone");
      else if (error.code === "ECONNRESET" || error.code === "EPIPE") finish("reset");
      else finish("alive");
    });
    socket.on("close", () => finish("gone"));
  });
}

interface Candidate {
  hold(): void;
  close(): Promise<void>;
}

async function listen(path: string): Promise<Candidate> {
  const sockets = new Set<Socket>();
  let state = CANDIDATE;
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
    socket.write(state);
  });
  await bound(server, path);
  server.unref();
  return {
    hold: () => {
      state = HOLDER;
      for (const socket of sockets) socket.write(HOLDER);
    },
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
      await unlink(path).catch(() => {});
    },
  };
}

function bound(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause) => {
      reject(new DatabaseRefusal(`The data directory does not allow a socket file (${path}): put DATA_DIR on a local disk.`, { cause }));
    });
    server.listen(path, resolve);
  });
}
