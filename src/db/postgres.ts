// The connections to a PostgreSQL server. Must never happen: a session in another time zone than UTC (the Prisma adapter
// relabels offsets instead of converting them, so times would shift); a query, or a wait for one, without an end; the
// URL, which carries the password, in an error or the log.
import pg from "pg";
import type { Clock } from "../clock.js";
import type { Secret } from "../crypto/secret.js";
import type { Log } from "../log.js";
import { DatabaseRefusal } from "./refusal.js";

/** For a connection to be made, and for a free one of the pool. */
const CONNECT_MS = 5_000;
/** Answers have to end: a call within 30 s, and a request that finds the database silent well before its client gives up. */
const STATEMENT_MS = 10_000;
/** On our side, for a server that went away without a word: later than the server's own limit. */
const QUERY_MS = 12_000;
const IDLE_IN_TRANSACTION_MS = 30_000;
const IDLE_CLOSE_MS = 30_000;
const POOL_MAX = 10;
/** A database that is started together with this program may not answer yet. */
const FIRST_ANSWER_MS = 30_000;
const FIRST_RETRY_MS = 500;

/** `gen_random_uuid()` without an extension, and still maintained when this was written. */
const VERSION_MIN = 140_000;

export interface PostgresConfigs {
  pool: pg.PoolConfig;
  /** For the migrations, which may take as long as they need. */
  patient: pg.ClientConfig;
  /** For the connection that listens. */
  listener: pg.ClientConfig;
}

export function postgresConfigs(databaseUrl: Secret, poolMax: number | undefined): PostgresConfigs {
  const base: pg.ClientConfig = {
    ...connectionOf(databaseUrl),
    application_name: "outband",
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
  };
  const limits = {
    statement_timeout: STATEMENT_MS,
    query_timeout: QUERY_MS,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
  };
  return {
    pool: { ...base, ...limits, max: poolMax ?? POOL_MAX, idleTimeoutMillis: IDLE_CLOSE_MS },
    patient: base,
    listener: { ...base, query_timeout: QUERY_MS, application_name: "outband notifications" },
  };
}

/** The URL, with our session settings behind those it brings (`options`); pg would let the URL's replace ours. */
function connectionOf(databaseUrl: Secret): pg.ClientConfig {
  const own = "-c timezone=UTC -c search_path=public";
  const text = databaseUrl.reveal();
  const cut = text.indexOf("?");
  const parameters = new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1));
  if ((parameters.get("schema") ?? "public") !== "public") {
    throw new DatabaseRefusal("DATABASE_URL asks for a schema other than public: give Outband a database of its own instead.");
  }
  const options = [parameters.get("options"), own].filter((part) => part).join(" ");
  parameters.set("options", options);
  return { connectionString: `${cut < 0 ? text : text.slice(0, cut)}?${parameters.toString().replaceAll("+", "%20")}` };
}

/**
 * A query that got no answer in time leaves its connection waiting for one: whatever is sent after it (a ROLLBACK, the next
 * borrower's query) would wait its own time too, and the Prisma adapter gives such a connection back to the pool.
 */
class LimitedClient extends pg.Client {
  override query = ((...args: Parameters<pg.Client["query"]>) => {
    const outcome: unknown = super.query(...args);
    if (outcome instanceof Promise) {
      outcome.catch((error: unknown) => {
        if (error instanceof Error && error.message === READ_TIMEOUT) this.connection.stream.destroy();
      });
    }
    return outcome;
  }) as pg.Client["query"];
}

/** pg's own words; it gives no code. */
const READ_TIMEOUT = "Query read timeout";

export function openPool(config: pg.PoolConfig, log: Log): pg.Pool {
  const pool = new pg.Pool({ ...config, Client: LimitedClient });
  // Without these a server that restarts ends the process: an idle connection's error has nobody else to go to, nor has
  // a second error of one that is checked out.
  pool.on("error", (error) => log.warn("An idle connection to PostgreSQL was lost.", { error }));
  pool.on("connect", (client) => client.on("error", () => {}));
  return pool;
}

/** A connection for the start: waits for a server that is starting, says in one sentence what is wrong otherwise. */
export async function connectFirst(config: pg.ClientConfig, log: Log, clock: Clock): Promise<pg.Client> {
  const giveUpAt = clock.monotonic() + FIRST_ANSWER_MS;
  for (let attempt = 1; ; attempt += 1) {
    const client = new pg.Client(config);
    client.on("error", () => {});
    try {
      await client.connect();
      await checkVersion(client);
      return client;
    } catch (error) {
      await client.end().catch(() => {});
      if (error instanceof DatabaseRefusal) throw error;
      if (!isPassing(error) || clock.monotonic() > giveUpAt) throw refusalOf(error, client);
      if (attempt === 1) log.warn("PostgreSQL does not answer yet; trying for half a minute.", { error });
      await clock.sleep(FIRST_RETRY_MS);
    }
  }
}

async function checkVersion(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ version: number }>("SELECT current_setting('server_version_num')::int AS version");
  if ((rows[0]?.version ?? 0) < VERSION_MIN) throw new DatabaseRefusal("PostgreSQL 14 or later is needed.");
}

const PASSING = new Set(["ECONNREFUSED", "ECONNRESET", "ENOTFOUND", "EAI_AGAIN", "ETIMEDOUT", "57P03", "53300"]);

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}

function isPassing(error: unknown): boolean {
  return PASSING.has(codeOf(error));
}

const SENTENCES: Record<string, string> = {
  "28P01": "PostgreSQL did not accept the user or the password of DATABASE_URL.",
  "28000": "PostgreSQL did not let the user of DATABASE_URL in.",
  "3D000": "The database that DATABASE_URL names does not exist.",
};

function refusalOf(error: unknown, client: pg.Client): DatabaseRefusal {
  const known = SENTENCES[codeOf(error)];
  return new DatabaseRefusal(known ?? `PostgreSQL at ${client.host}:${client.port} cannot be used: check DATABASE_URL.`, { cause: error });
}
