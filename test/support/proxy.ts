// A wire between the program and its PostgreSQL that a test can spoil: cut, refuse, swallow in silence (half-open), slow
// down, heal. Connections can be told apart by the name they give themselves at their start (application_name).
import { connect, createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";
import { after } from "node:test";

export type Trouble =
  | "none"
  /** New connections end at once. */
  | "refused"
  /** Connections stay open and carry nothing, in neither direction: the other side is gone without a word. */
  | "silent";

export interface DatabaseProxy {
  /** The database's URL, through here. */
  url: string;
  /** From now on, for the connections whose name matches; default: all. */
  trouble(kind: Trouble, which?: RegExp): void;
  /** Ends the open connections that match, at once. */
  cut(which?: RegExp): void;
  /** Everything that comes from the database comes this much later. */
  delay(ms: number): void;
  /** No trouble, no delay; connections that were silent are cut, as a network that comes back does. */
  heal(): void;
  /** Heals for new connections alone: those that were silent stay so for ever. */
  abandon(): void;
  open(which?: RegExp): number;
  close(): Promise<void>;
}

interface Pair {
  name: string;
  near: Socket;
  far: Socket;
  abandoned: boolean;
}

const ANY = /.*/s;
const opened = new Set<DatabaseProxy>();
after(async () => {
  for (const proxy of opened) await proxy.close();
});

export async function startDatabaseProxy(databaseUrl: string): Promise<DatabaseProxy> {
  const target = new URL(databaseUrl);
  const pairs = new Set<Pair>();
  let kind: Trouble = "none";
  let affected = ANY;
  let delayMs = 0;
  const isSilent = (pair: Pair): boolean => pair.abandoned || (kind === "silent" && affected.test(pair.name));

  const server = createServer((near) => {
    near.once("data", (first: Buffer) => begin(near, first));
    near.on("error", () => near.destroy());
  });

  function begin(near: Socket, first: Buffer): void {
    const name = nameIn(first);
    if (kind === "refused" && affected.test(name)) return void near.destroy();
    const far = connect(Number(target.port || 5432), target.hostname);
    const pair: Pair = { name, near, far, abandoned: false };
    pairs.add(pair);
    const end = (): void => {
      pairs.delete(pair);
      near.destroy();
      far.destroy();
    };
    for (const socket of [near, far]) {
      socket.on("error", end);
      socket.on("close", end);
      socket.setNoDelay(true);
    }
    const pass = (to: Socket, bytes: Buffer): void => {
      if (!isSilent(pair) && to.writable) to.write(bytes);
    };
    pass(far, first);
    near.on("data", (bytes: Buffer) => pass(far, bytes));
    far.on("data", (bytes: Buffer) => {
      if (delayMs === 0) pass(near, bytes);
      else setTimeout(() => pass(near, bytes), delayMs);
    });
  }

  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = new URL(databaseUrl);
  url.hostname = "127.0.0.1";
  url.port = String((server.address() as AddressInfo).port);

  const proxy: DatabaseProxy = {
    url: url.href,
    trouble(which, names = ANY) {
      kind = which;
      affected = names;
    },
    cut(names = ANY) {
      for (const pair of [...pairs]) if (names.test(pair.name)) pair.near.destroy();
    },
    delay(ms) {
      delayMs = ms;
    },
    heal() {
      const swallowed = [...pairs].filter(isSilent);
      kind = "none";
      affected = ANY;
      delayMs = 0;
      for (const pair of swallowed) pair.near.destroy();
    },
    abandon() {
      for (const pair of pairs) pair.abandoned = isSilent(pair);
      kind = "none";
      affected = ANY;
    },
    open: (names = ANY) => [...pairs].filter((pair) => names.test(pair.name)).length,
    async close() {
      opened.delete(proxy);
      const done = new Promise<void>((resolve) => server.close(() => resolve()));
      proxy.cut();
      await done;
    },
  };
  opened.add(proxy);
  return proxy;
}

/** The name in a StartupMessage (length, protocol, then pairs of NUL-ended words). */
function nameIn(first: Buffer): string {
  const words = first.subarray(8).toString("utf8").split("\0");
  const at = words.indexOf("application_name");
  return at < 0 ? "" : (words[at + 1] ?? "");
}
