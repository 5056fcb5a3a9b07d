// Wake-ups between the parts and the instances of the program. A handler in the same process is called at once; other
// instances hear it by LISTEN/NOTIFY on a connection of its own. Must never happen: a secret in a payload (the server may
// log statements); a caller that relies on a wake-up for truth (one can be lost while the connection is down).
import pg from "pg";
import type { Clock } from "../clock.js";
import type { Log } from "../log.js";

/** PostgreSQL's limit is 8000 bytes, sender included. */
const PAYLOAD_BYTES_MAX = 7_900;
const RECONNECT_MIN_MS = 200;
const RECONNECT_MAX_MS = 10_000;
/** A connection that died without a word is noticed by this question. */
const PROBE_EVERY_MS = 30_000;
const GOODBYE_MS = 1_000;

type Handler = (payload: string) => void;

export interface Notifications {
  notify(channel: string, payload: string): Promise<void>;
  listen(channel: string, handler: Handler): () => void;
  close(): Promise<void>;
}

class Handlers {
  readonly #byChannel = new Map<string, Set<Handler>>();
  readonly #log: Log;

  constructor(log: Log) {
    this.#log = log;
  }

  get channels(): string[] {
    return [...this.#byChannel.keys()];
  }

  /** True when the channel is new. */
  add(channel: string, handler: Handler): boolean {
    const known = this.#byChannel.get(channel);
    if (known) known.add(handler);
    else this.#byChannel.set(channel, new Set([handler]));
    return !known;
  }

  /** True when it was the channel's last. */
  remove(channel: string, handler: Handler): boolean {
    const known = this.#byChannel.get(channel);
    if (!known?.delete(handler) || known.size > 0) return false;
    return this.#byChannel.delete(channel);
  }

  call(channel: string, payload: string): void {
    for (const handler of [...(this.#byChannel.get(channel) ?? [])]) {
      // Not in the caller's turn: whoever notifies must not run, or fail in, somebody else's code.
      setImmediate(() => {
        if (!this.#byChannel.get(channel)?.has(handler)) return;
        try {
          handler(payload);
        } catch (error) {
          this.#log.error("A handler of a notification failed.", { channel, error });
        }
      });
    }
  }
}

function assertPayload(payload: string): void {
  if (Buffer.byteLength(payload) > PAYLOAD_BYTES_MAX) throw new Error(`A notification is limited to ${PAYLOAD_BYTES_MAX} bytes.`);
}

/** One process is all there is. */
export function localNotifications(log: Log): Notifications {
  const handlers = new Handlers(log);
  return {
    notify: async (channel, payload) => {
      assertPayload(payload);
      handlers.call(channel, payload);
    },
    listen: (channel, handler) => {
      handlers.add(channel, handler);
      return () => void handlers.remove(channel, handler);
    },
    close: async () => {},
  };
}

function listenSql(channel: string): string {
  return `LISTEN ${pg.escapeIdentifier(channel)}`;
}

interface PostgresNotificationsOptions {
  pool: pg.Pool;
  client: pg.ClientConfig;
  log: Log;
  clock: Clock;
}

export function postgresNotifications({ pool, client: config, log, clock }: PostgresNotificationsOptions): Notifications {
  const handlers = new Handlers(log);
  // What this process sent it has delivered already: the sender goes first in the payload.
  const self = clock.randomBytes(8).toString("hex");
  const stopping = new AbortController();
  /** Sends one command after the other on the current connection. */
  let send: ((sql: string) => void) | null = null;
  let task: Promise<void> | null = null;

  const hear = ({ channel, payload = "" }: pg.Notification): void => {
    const cut = payload.indexOf(" ");
    if (payload.slice(0, cut) !== self) handlers.call(channel, payload.slice(cut + 1));
  };

  /** Connects, listens, and ends when the connection does. */
  const session = async (onReady: () => void): Promise<void> => {
    const client = new pg.Client(config);
    let stop = (): void => {};
    const lost = new Promise<void>((resolve) => {
      stop = resolve;
    });
    client.on("error", stop);
    client.on("end", stop);
    stopping.signal.addEventListener("abort", stop);
    client.on("notification", hear);
    let queue: Promise<unknown> = client.connect();
    const enqueue = (sql: string): void => {
      queue = queue.then(() => client.query(sql));
      // A command that fails, the probe above all, ends the connection.
      queue.catch(() => client.end().catch(() => {}));
    };
    const stopProbe = clock.every(PROBE_EVERY_MS, () => enqueue("SELECT 1"));
    try {
      for (const channel of handlers.channels) enqueue(listenSql(channel));
      send = enqueue;
      await Promise.race([queue, lost]);
      onReady();
      await lost;
    } finally {
      send = null;
      stopProbe();
      stopping.signal.removeEventListener("abort", stop);
      // Without a bound, a connection that is gone without a word would keep the next one waiting.
      await Promise.race([client.end().catch(() => {}), clock.sleep(GOODBYE_MS)]);
    }
  };

  const run = async (): Promise<void> => {
    let waitMs = RECONNECT_MIN_MS;
    while (!stopping.signal.aborted) {
      try {
        await session(() => {
          waitMs = RECONNECT_MIN_MS;
        });
      } catch (error) {
        log.debug("Listening for notifications failed.", { error });
      }
      if (stopping.signal.aborted) return;
      log.warn("The connection for notifications was lost; connecting again.", { waitMs });
      await clock.sleep(waitMs * (0.5 + clock.jitter()), stopping.signal).catch(() => {});
      waitMs = Math.min(waitMs * 2, RECONNECT_MAX_MS);
    }
  };

  return {
    notify: async (channel, payload) => {
      assertPayload(payload);
      handlers.call(channel, payload);
      try {
        await pool.query({ name: "outband_notify", text: "SELECT pg_notify($1, $2)", values: [channel, `${self} ${payload}`] });
      } catch (error) {
        // The act is committed: that its wake-up was lost must not make it look undone.
        log.warn("A notification to the other instances was lost.", { channel, error });
      }
    },
    listen: (channel, handler) => {
      const isNew = handlers.add(channel, handler);
      task ??= run();
      if (isNew) send?.(listenSql(channel));
      return () => {
        if (handlers.remove(channel, handler)) send?.(`UN${listenSql(channel)}`);
      };
    },
    close: async () => {
      stopping.abort();
      await task;
    },
  };
}
