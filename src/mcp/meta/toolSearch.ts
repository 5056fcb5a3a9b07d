// Finds tools by the words of a query, in their names, titles and descriptions (minisearch: prefixes, small slips, weights).
// Must never happen: a ready tool behind one that is not ready; an order that differs from call to call.
import MiniSearch from "minisearch";
import type { Readiness } from "../../vault/types.js";

export interface Findable {
  name: string;
  title: string;
  description: string;
  connectionTitle: string;
  readiness: Readiness;
}

const FIELDS = ["name", "title", "description", "connectionTitle"];
const BOOST = { name: 3, title: 2 };
/** A fifth of a word's letters may be wrong. */
const FUZZY = 0.2;
/** Words of every question that say nothing of what is looked for. */
const EMPTY_WORDS = new Set("a an and are can do for from i in is it me my of on or please the this to want what which with".split(" "));
const READY_FIRST: Record<Readiness, number> = { ready: 0, needs_reauth: 1, needs_connection: 2 };

/** Best first within each readiness. An empty query gives all, in their own order. */
export function searchTools<Tool extends Findable>(tools: readonly Tool[], query: string): Tool[] {
  const words = termsOf(query);
  const byReadiness = (one: Tool, other: Tool): number => READY_FIRST[one.readiness] - READY_FIRST[other.readiness];
  // Sorting is stable: what is equal keeps the order it came in.
  if (words.length === 0) return [...tools].sort(byReadiness);

  const index = new MiniSearch({
    fields: FIELDS,
    idField: "name",
    tokenize: splitWords,
    processTerm: termOf,
    searchOptions: { boost: BOOST, fuzzy: FUZZY, prefix: true },
  });
  index.addAll([...tools]);
  const scores = new Map(index.search(words.join(" ")).map(({ id, score }) => [id as string, score]));
  return tools
    .filter(({ name }) => scores.has(name))
    .sort((one, other) => byReadiness(one, other) || (scores.get(other.name) ?? 0) - (scores.get(one.name) ?? 0));
}

function termsOf(text: string): string[] {
  return splitWords(text).filter((word) => termOf(word) !== null);
}

/** At anything that is no letter or digit, so that `gmail_send_message` is three words. */
function splitWords(text: string): string[] {
  return text
    .normalize("NFKC")
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== "");
}

/** Lower case, without a plural's s; null: not looked for. */
function termOf(word: string): string | null {
  const term = word.toLowerCase();
  if (EMPTY_WORDS.has(term)) return null;
  return term.length > 3 && term.endsWith("s") && !term.endsWith("ss") ? term.slice(0, -1) : term;
}
