// The search of needles.ts for thousands of secrets at once: one walk over the text, whatever their number. A rolling hash of
// the last characters says where a needle may end; only there is anything compared. Must never happen: fewer forms than
// needles.ts looks for, or a find without a comparison of the whole needle.
import { NEEDLE_CHARS_MIN, needlesOf, type Searcher, type Secret } from "./needles.js";

/** The end of a needle, not its beginning: all JWTs begin alike. */
const WINDOW = NEEDLE_CHARS_MIN;
const BASE = 0x01000193;
const LEAD = Array.from({ length: WINDOW }).reduce<number>((power) => Math.imul(power, BASE), 1);
/** 2^24 marks for some 200,000 needles: one window in a hundred is looked up in vain. */
const MARK_BITS = 24;

export function manySearcherFor(secrets: readonly Secret[]): Searcher {
  const byEnd = new Map<string, { needle: string; secret: Secret }[]>();
  const marks = new Uint8Array(2 ** (MARK_BITS - 3));
  for (const secret of secrets) {
    for (const needle of needlesOf(secret.value)) {
      const end = needle.slice(-WINDOW);
      const bucket = byEnd.get(end) ?? [];
      if (bucket.length === 0) byEnd.set(end, bucket);
      bucket.push({ needle, secret });
      let hash = 0;
      for (let index = 0; index < WINDOW; index += 1) hash = (Math.imul(hash, BASE) + end.charCodeAt(index)) | 0;
      const mark = markOf(hash);
      marks[mark >>> 3] = (marks[mark >>> 3] ?? 0) | (1 << (mark & 7));
    }
  }
  return {
    secrets,
    find: (text) => {
      const found = new Set<Secret>();
      let hash = 0;
      for (let index = 0; index < text.length; index += 1) {
        const gone = index < WINDOW ? 0 : Math.imul(text.charCodeAt(index - WINDOW), LEAD);
        hash = (Math.imul(hash, BASE) + text.charCodeAt(index) - gone) | 0;
        const mark = markOf(hash);
        if (index < WINDOW - 1 || ((marks[mark >>> 3] ?? 0) & (1 << (mark & 7))) === 0) continue;
        const end = index + 1;
        for (const { needle, secret } of byEnd.get(text.slice(end - WINDOW, end)) ?? []) {
          if (!found.has(secret) && text.startsWith(needle, end - needle.length)) found.add(secret);
        }
      }
      return [...found];
    },
  };
}

function markOf(hash: number): number {
  return Math.imul(hash ^ (hash >>> 15), 0x9e3779b1) >>> (32 - MARK_BITS);
}
