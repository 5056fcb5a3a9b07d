// One cell of the matrix: who asks what about whose thing, what they are to be told, and what may change and show. The answer is
// said by rules in the tables beside this, never read from the program. Must never happen: a cell that cannot fail.
import type { World } from "./world.js";

export interface Reply {
  status: number;
  location: string | null;
  text: string;
}

export interface Want {
  /** What the rule says, for whoever reads a failure. */
  says: string;
  status: number;
  location?: string | RegExp;
  /** Of a problem document, or the JSON-RPC error. */
  code?: string | number;
  /** For a wrong answer: was it a refusal that did not come? */
  refuses: boolean;
}

export interface Sent {
  reply: Reply;
  /** What the asker sent: whatever of another's is in it, they knew before. */
  sent: string;
}

export interface Cell {
  /** Of the program's own table: `GET /connections/:id`. */
  route: string;
  who: string;
  about: string;
  want: Want;
  /** Whose rows may change, by sub; "" are those of the installation. */
  changes: readonly string[];
  /** Whose e-mail address, ids and labels may be in the answer, by sub; null: everybody's. */
  shows: readonly string[] | null;
  run(world: World): Promise<Sent>;
  /** More that must be true of an allowed answer; null: it is. */
  also?(reply: Reply, world: World): string | null;
}

export const shown: Want = { says: "shown", status: 200, refuses: false };
export const signIn: Want = { says: "sign in first", status: 303, location: "/login", refuses: true };
export const notFound: Want = { says: "not found", status: 404, refuses: true };
export const forbidden: Want = { says: "forbidden", status: 403, refuses: true };
export const gone: Want = { says: "gone", status: 410, refuses: true };

export function done(location: string | RegExp): Want {
  return { says: "done", status: 303, location, refuses: false };
}

/** A form of somebody who is not signed in: nothing is done, and the page that it belongs to asks for the sign-in. */
export function startOver(location: string | RegExp): Want {
  return { says: "start over", status: 303, location, refuses: true };
}

export interface Fault {
  cell: string;
  problem: string;
  isWrongAllow: boolean;
}

export const nameOf = (cell: Cell): string => `${cell.route} · ${cell.who} · ${cell.about}`;

/** Everything that is wrong with the answer to a cell. */
export function faultsOf(cell: Cell, { reply, sent }: Sent, world: World): Fault[] {
  const name = nameOf(cell);
  const faults: Fault[] = [];
  const add = (problem: string, isWrongAllow: boolean): void => void faults.push({ cell: name, problem: `${problem} (wanted: ${cell.want.says})`, isWrongAllow });

  const { want } = cell;
  if (reply.status !== want.status || !isLocation(reply.location, want.location) || !hasCode(reply.text, want.code)) {
    const isRefused = reply.status >= 400 || /^\/login(?:\?|$)/.test(reply.location ?? "") || /^\{"jsonrpc":"2\.0"[^{]*"error":/.test(reply.text);
    add(`answered ${reply.status} ${reply.location ?? ""} ${reply.text.slice(0, 200)}`, want.refuses && !isRefused);
  } else {
    const more = cell.also?.(reply, world) ?? null;
    if (more !== null) add(more, true);
  }
  for (const needle of world.needles) {
    if (cell.shows === null || cell.shows.includes(needle.sub) || sent.includes(needle.text)) continue;
    if (reply.text.includes(needle.text) || reply.location?.includes(needle.text)) add(`shows ${needle.kind} of ${needle.sub}: ${needle.text}`, true);
  }
  for (const { kind, text } of world.secrets) if (reply.text.includes(text) || reply.location?.includes(text)) add(`shows ${kind}`, true);
  return faults;
}

/** Of cells that were asked together. `changed`: whose rows are other ones since. */
export function changesOf(cells: readonly Cell[], changed: readonly string[]): Fault[] {
  const wrong = changed.filter((sub) => !cells.some(({ changes }) => changes.includes(sub)));
  return wrong.map((sub) => ({ cell: cells.map(nameOf).join("\n    or "), problem: `changed what is ${sub === "" ? "the installation's" : sub}`, isWrongAllow: true }));
}

function isLocation(location: string | null, wanted: string | RegExp | undefined): boolean {
  if (wanted === undefined) return location === null;
  return typeof wanted === "string" ? location === wanted : wanted.test(location ?? "");
}

function hasCode(text: string, wanted: string | number | undefined): boolean {
  if (wanted === undefined) return true;
  try {
    const body = JSON.parse(text);
    return (body.code ?? body.error?.code ?? body.error) === wanted;
  } catch {
    return false;
  }
}
