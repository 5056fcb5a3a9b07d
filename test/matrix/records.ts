// What stands in the database, as one digest for each person and table: a look before and after a request says whose rows changed.
// Left out: what a refused request may touch (its own browser session, rate limits, the audit, when a key was last used), and
// what the worker takes up by itself (grants on their way back).
import pg from "pg";
import type { Outband } from "../support/outband.js";

export interface Records {
  /** Whose rows (by sub; "": the installation's) are not as they were at the last look. */
  changed(): Promise<string[]>;
  close(): Promise<void>;
}

const TABLES: readonly [table: string, whose: string, without: readonly string[], where?: string][] = [
  ["user_account", "sub", ["last_sign_in_at", "updated_at"]],
  ["connected_account", "identifier", ["last_used_at", "updated_at"]],
  ["authorization_link", "identifier", []],
  ["tool_execution", "identifier", []],
  ["elicitation", "identifier", []],
  ["one_time_link", "coalesce(sub, '')", []],
  ["browser_session", "sub", ["data", "expires_at"], "sub IS NOT NULL"],
  ["oauth_record", "coalesce(sub, '')", [], "type IN ('Grant', 'RefreshToken', 'AuthorizationCode', 'Client')"],
  ["event", "coalesce(data->>'identifier', '')", []],
  ["connection", "''", []],
  ["api_key", "''", ["last_used_at"]],
  ["data_key", "''", []],
  ["signing_key", "''", []],
];

const TEXT = TABLES.map(([table, whose, without, where]) => {
  const row = `md5((to_jsonb(t)${without.map((column) => ` - '${column}'`).join("")})::text)`;
  return `SELECT '${table}' AS place, ${whose} AS whose, md5(string_agg(${row}, '' ORDER BY ${row})) AS digest FROM "${table}" t${where ? ` WHERE ${where}` : ""} GROUP BY 2`;
}).join(" UNION ALL ");

export async function openRecords(outband: Outband): Promise<Records> {
  const { databaseUrl } = outband;
  if (databaseUrl === null) return compared(() => overTheApi(outband), async () => {});
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  const look = async (): Promise<Map<string, string>> => {
    const { rows } = await client.query<{ place: string; whose: string; digest: string }>(TEXT);
    return new Map(rows.map(({ place, whose, digest }) => [`${whose}\n${place}`, digest]));
  };
  return compared(look, () => client.end());
}

async function compared(look: () => Promise<Map<string, string>>, close: () => Promise<void>): Promise<Records> {
  let last = await look();
  return {
    async changed() {
      const now = await look();
      const keys = [...new Set([...last.keys(), ...now.keys()])].filter((key) => last.get(key) !== now.get(key));
      last = now;
      return [...new Set(keys.map((key) => key.split("\n")[0] ?? ""))];
    },
    close,
  };
}

/** The embedded database is the program's alone: what its API shows of everybody. */
async function overTheApi(outband: Outband): Promise<Map<string, string>> {
  const read = async (path: string): Promise<Record<string, unknown>[]> => (await outband.api("GET", path)).body.data;
  const [users, accounts, connections, keys] = await Promise.all([read("/users?limit=200"), read("/accounts?limit=200"), read("/connections"), read("/api-keys?limit=200")]);
  const rows: [string, string][] = [];
  const without = (row: Record<string, unknown>): string => JSON.stringify({ ...row, last_used_at: null, last_sign_in_at: null, updated_at: null });
  for (const user of users) rows.push([`${user["sub"]}\nuser`, without(user)]);
  for (const account of accounts) rows.push([`${account["identifier"]}\n${account["id"]}`, without(account)]);
  for (const row of [...connections, ...keys]) rows.push([`\n${row["id"] ?? row["name"]}`, without(row)]);
  return new Map(rows);
}
