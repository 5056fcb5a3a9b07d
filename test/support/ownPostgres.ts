// A PostgreSQL of one's own in a temporary directory, to be stopped, killed and started again; the shared one is never touched.
// Needs `initdb` and `postgres` in the PATH. PostgreSQL refuses to run as root: then it runs as the user `postgres`.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { freePort } from "./outband.js";

export interface OwnPostgres {
  url: string;
  /** SIGINT is a fast stop, SIGQUIT an immediate one (as a crash), SIGKILL the death of the first process. */
  stop(signal: "SIGINT" | "SIGQUIT" | "SIGKILL"): Promise<void>;
  start(): Promise<void>;
  close(): Promise<void>;
}

const opened = new Set<OwnPostgres>();
after(async () => {
  for (const one of opened) await one.close();
});

export function hasPostgres(): boolean {
  try {
    execFileSync("initdb", ["--version"], { stdio: "ignore" });
    execFileSync("postgres", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

export async function startOwnPostgres(): Promise<OwnPostgres> {
  const directory = await mkdtemp(join(tmpdir(), "obpg-"));
  const data = join(directory, "data");
  const user = userToRunAs();
  if (user) chownSync(directory, user.uid, user.gid);
  execFileSync("initdb", ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"], { stdio: "ignore", cwd: directory, ...user });
  const port = await freePort();
  const url = `postgresql://postgres@127.0.0.1:${port}/postgres`;
  let child: ChildProcess | null = null;
  let output = "";

  async function start(): Promise<void> {
    for (const until = Date.now() + 30_000; ; await delay(100)) {
      const server = spawn("postgres", ["-D", data, "-p", String(port), "-k", directory, "-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=16MB"], {
        cwd: directory,
        stdio: ["ignore", "ignore", "pipe"],
        ...user,
      });
      child = server;
      server.stderr.on("data", (bytes: Buffer) => {
        output = (output + bytes.toString("utf8")).slice(-4_000);
      });
      while (server.exitCode === null && Date.now() < until) {
        if (await answers(url)) return;
        await delay(30);
      }
      // Children of a killed one hold its shared memory for a moment.
      if (Date.now() >= until) throw new Error(`PostgreSQL does not start:\n${output}`);
    }
  }

  const own: OwnPostgres = {
    url,
    start,
    async stop(signal) {
      const server = child;
      if (!server || server.exitCode !== null || server.signalCode !== null) return;
      const gone = new Promise((resolve) => server.once("exit", resolve));
      server.kill(signal);
      await gone;
    },
    async close() {
      opened.delete(own);
      await own.stop("SIGQUIT");
      await rm(directory, { recursive: true, force: true });
    },
  };
  opened.add(own);
  await start();
  return own;
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
  client.on("error", () => {});
  try {
    await client.connect();
    await client.query("SELECT 1");
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}

function userToRunAs(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string): number => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }));
  return { uid: id("-u"), gid: id("-g") };
}
