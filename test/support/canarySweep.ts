// Looks for every canary in every place that the program writes to or answers from. Each place must also hold what was planted
// there for it: a search that finds nothing anywhere would find no leak.
import { type Carrier, IN_ANSWERS, IN_PROVIDER_REQUESTS, judge } from "./carriers.js";
import { manySearcherFor } from "./manyNeedles.js";
import { type Searcher, searcherFor, type Secret } from "./needles.js";
import type { Place } from "./rawDatabase.js";
import type { Exchange } from "./wire.js";

export interface Swept {
  log: string;
  output: string;
  ours: Exchange[];
  theirs: Exchange[];
  tables: Place[];
  files: Place[];
}

export interface SweepOutcome {
  /** In words, without the values. */
  hits: string[];
  /** Canaries that were met where they belong: in an answer that makes them, at the provider they are for. */
  carried: number;
  /** Characters looked at, by place. */
  chars: Record<string, number>;
  /** Places where what was planted there was not found. */
  blind: string[];
  /** Canaries that were put into a text in a form, and not found. */
  missed: string[];
  tried: number;
}

const FORMS: Record<string, (value: string) => string> = {
  clear: (value) => value,
  base64: (value) => Buffer.from(value).toString("base64"),
  base64url: (value) => Buffer.from(`:${value}:`).toString("base64url"),
  hex: (value) => Buffer.from(value).toString("hex"),
  "url-encoded": (value) => encodeURIComponent(value),
};

export function sweep(places: Swept, secrets: readonly Secret[], planted: Secret): SweepOutcome {
  const searcher = manySearcherFor(secrets);
  const named: Place[] = [{ name: "log", text: places.log }, { name: "output", text: places.output }, ...places.tables, ...places.files];
  const hits = [
    ...named.flatMap(({ name, text }) => searcher.find(text).map((secret) => `${secret.kind} in ${name}`)),
    ...judge(places.ours, "answer", IN_ANSWERS, searcher).leaks,
    ...judge(places.theirs, "request", IN_PROVIDER_REQUESTS, searcher).leaks,
  ];
  const chars: Record<string, number> = { log: places.log.length, output: places.output.length, tables: sizeOf(places.tables), files: sizeOf(places.files) };
  chars["answers"] = places.ours.reduce((sum, { answer }) => sum + answer.body.length + answer.headers.flat().join("").length, 0);
  chars["requests to providers"] = places.theirs.reduce((sum, { target, request }) => sum + target.length + request.body.length + request.headers.flat().join("").length, 0);
  const missed = Object.entries(FORMS).flatMap(([form, of]) =>
    secrets.filter((secret) => !searcher.find(`{"message":"before ${of(secret.value)} behind"}`).includes(secret)).map((secret) => `${secret.kind} as ${form}`),
  );
  return { hits: [...new Set(hits)], carried: carriedIn(places, searcher), chars, blind: blindIn(places, planted), missed, tried: secrets.length * Object.keys(FORMS).length };
}

function sizeOf(places: readonly Place[]): number {
  return places.reduce((sum, { text }) => sum + text.length, 0);
}

function carriedIn({ ours, theirs }: Swept, searcher: Searcher): number {
  const met = new Set<Secret>();
  const texts = [...ours.flatMap(({ answer }) => [answer.body, ...answer.headers.map(([, value]) => value)]), ...theirs.flatMap(({ target, request }) => [target, request.body, ...request.headers.map(([, value]) => value)])];
  for (const text of texts) for (const secret of searcher.find(text)) met.add(secret);
  return met.size;
}

/** `planted` is a label of accounts, words to search for, a printed line: what is no secret stands in all of these. */
function blindIn(places: Swept, planted: Secret): string[] {
  const { find } = searcherFor([planted]);
  const holds = (found: Place[], name: string): boolean => found.some((one) => one.name.includes(name) && find(one.text).length > 0);
  const isSeen = (exchanges: Exchange[], side: "request" | "answer"): boolean => judge(exchanges, side, [] as Carrier[], searcherFor([planted])).leaks.length > 0;
  const seen: Record<string, boolean> = {
    log: find(places.log).length > 0,
    output: find(places.output).length > 0,
    answers: isSeen(places.ours, "answer"),
    "requests to providers": isSeen(places.theirs, "request"),
    "table connected_account": holds(places.tables, "connected_account"),
    "table event": holds(places.tables, "event"),
    ...(places.files.length > 0 ? { files: holds(places.files, "database/") } : {}),
  };
  return Object.keys(seen).filter((name) => !seen[name]);
}
