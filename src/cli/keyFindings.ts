// What the answer of GET /keys means, in plain words, and what to do about it. For `outband keys` and `outband doctor`.
import { record } from "./api.js";
import { EXIT } from "./exit.js";
import { bad, type Finding, good, open } from "./finding.js";
import { plainLine } from "./plain.js";

const DAY_MS = 86_400_000;
/** Browser sessions are signed with a key that comes from the master key, and last a week at most. */
const FORMER_USEFUL_MS = 7 * DAY_MS;
const NAMES_MAX = 10;
const WHAT = "master key";

export interface KeysAnswer {
  current: string;
  currentSinceMs: number | null;
  keys: { kid: string; source: string | null; dataKeys: number }[];
  remaining: number;
  damaged: { connectionName: string | null; kid: string }[];
}

/** Null: the answer is not one of this call. */
export function readKeysAnswer(answer: unknown): KeysAnswer | null {
  const { current, current_since, keys, remaining, damaged } = record(answer);
  if (typeof current !== "string" || !Array.isArray(keys) || typeof remaining !== "number" || !Array.isArray(damaged)) return null;
  return {
    current: plainLine(current, 40),
    currentSinceMs: typeof current_since === "string" ? Date.parse(current_since) : null,
    keys: keys.map(record).map(({ kid, source, data_keys }) => ({
      kid: plainLine(String(kid), 40),
      source: typeof source === "string" ? plainLine(source, 40) : null,
      dataKeys: Number(data_keys),
    })),
    remaining,
    damaged: damaged.map(record).map(({ connection_name, kid }) => ({
      connectionName: typeof connection_name === "string" ? plainLine(connection_name, 40) : null,
      kid: String(kid),
    })),
  };
}

export function keyFindings(answer: KeysAnswer, nowMs: number): Finding[] {
  return [...currentKey(answer), ...absentKeys(answer), ...damagedKeys(answer), ...unfinished(answer), ...formerKeys(answer, nowMs)];
}

/** Where an operator finds it. */
export function placeOf(source: string | null): string {
  if (source === null) return "not here";
  return source.startsWith("master.key") ? `DATA_DIR/${source}` : source;
}

function currentKey({ current, keys }: KeysAnswer): Finding[] {
  const key = keys.find(({ kid }) => kid === current);
  return [good(WHAT, `${current}, from ${placeOf(key?.source ?? null)}; ${count(key?.dataKeys ?? 0)} under it`)];
}

function absentKeys({ keys }: KeysAnswer): Finding[] {
  return keys
    .filter(({ source, dataKeys }) => source === null && dataKeys > 0)
    .map(({ kid, dataKeys }) =>
      bad(
        WHAT,
        `${count(dataKeys)} under ${kid}, a master key that the server does not have: nothing that they seal can be opened. ` +
          "Add that key to MASTER_KEY_PREVIOUS (or make it MASTER_KEY, if the other instances have it there) and start again. " +
          "If it is lost, `outband keys abandon` erases what is sealed; people then connect their accounts again.",
        EXIT.serverFault,
      ),
    );
}

function damagedKeys({ damaged }: KeysAnswer): Finding[] {
  const names = [...new Set(damaged.flatMap(({ connectionName }) => (connectionName === null ? [] : [connectionName])))];
  const findings: Finding[] = [];
  if (names.length > 0) {
    const some = names.slice(0, NAMES_MAX).join(", ") + (names.length > NAMES_MAX ? ` and ${names.length - NAMES_MAX} more` : "");
    findings.push(
      bad(
        "data key",
        `damaged for ${some}: what is stored there does not open, the rest does. Put the row of data_key back from a backup; ` +
          "or enter the connection's client secret again, if it has one (/admin), and people connect their accounts again when a tool asks them.",
        EXIT.serverFault,
      ),
    );
  }
  if (damaged.some(({ connectionName }) => connectionName === null))
    findings.push(bad("data key", "damaged for sign-ins: people and their MCP clients sign in again. A start of the server makes what is needed anew.", EXIT.serverFault));
  return findings;
}

function unfinished({ current, keys, remaining, damaged }: KeysAnswer): Finding[] {
  const absent = keys.filter(({ source }) => source === null).reduce((sum, { dataKeys }) => sum + dataKeys, 0);
  const waiting = remaining - absent - damaged.filter(({ kid }) => kid !== current).length;
  if (waiting <= 0) return [];
  return [
    bad(
      "rotation",
      `not finished: ${count(waiting)} under a former master key. Run \`outband keys rotate\`; it goes on where it stopped. Keep the former keys until then.`,
      EXIT.serverFault,
    ),
  ];
}

function formerKeys({ current, currentSinceMs, keys }: KeysAnswer, nowMs: number): Finding[] {
  const idle = keys.filter(({ kid, source, dataKeys }) => kid !== current && source !== null && dataKeys === 0);
  if (currentSinceMs === null) return [];
  const freeAtMs = currentSinceMs + FORMER_USEFUL_MS;
  return idle.map(({ kid, source }) => {
    const remove = source === "MASTER_KEY_PREVIOUS" ? "take it out of MASTER_KEY_PREVIOUS" : `delete ${placeOf(source)}`;
    const when =
      freeAtMs <= nowMs
        ? `It can go: ${remove} and start again`
        : `It can go from ${new Date(freeAtMs).toISOString().slice(0, 10)} on (${remove}); sooner, people who are signed in must sign in again`;
    return open("former key", `${kid}, from ${placeOf(source)}: nothing stored needs it. ${when}. Backups from before the rotation need it: keep a copy as long as them.`);
  });
}

function count(dataKeys: number): string {
  return dataKeys === 1 ? "1 data key" : `${dataKeys} data keys`;
}
