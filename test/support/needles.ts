// Looks for secrets in text: as they are, in part, and in the forms in which text travels. Pure.

export interface Secret {
  kind: string;
  value: string;
}

/** A secret cut short is still half a secret; shorter pieces than this are found by chance. */
const PIECE_CHARS = 20;
export const NEEDLE_CHARS_MIN = 12;

/** What may stand for the value in a text: whole and in part, escaped, in base64 (at any offset) and in hex. */
export function needlesOf(value: string): string[] {
  const bytes = Buffer.from(value, "utf8");
  const needles = [value, ...piecesOf(value), encodeURIComponent(value), JSON.stringify(value).slice(1, -1), value.replaceAll("/", "\\/")];
  for (const needle of base64Of(bytes)) needles.push(needle, needle.replaceAll("+", "-").replaceAll("/", "_"));
  needles.push(bytes.toString("hex"), bytes.toString("hex").toUpperCase());
  // 32 random bytes in base64url may be kept as the bytes that they are.
  if (/^[\w-]{43}$/.test(value)) needles.push(Buffer.from(value, "base64url").toString("hex"));
  return [...new Set(needles)].filter((needle) => needle.length >= NEEDLE_CHARS_MIN);
}

function piecesOf(value: string): string[] {
  if (value.length <= PIECE_CHARS) return [];
  // The head of a JWT is the same in all of them, and no secret.
  const head = /^eyJ/.test(value) ? [] : [value.slice(0, PIECE_CHARS)];
  return [...head, value.slice(-PIECE_CHARS)];
}

/** Without the characters that depend on what stands before and behind. */
function base64Of(bytes: Buffer): string[] {
  return [0, 1, 2].map((offset) => {
    const text = Buffer.concat([Buffer.alloc(offset), bytes]).toString("base64").replace(/=+$/, "");
    const isWhole = (offset + bytes.length) % 3 === 0;
    return text.slice(Math.ceil((offset * 8) / 6), isWhole ? undefined : -1);
  });
}

export interface Searcher {
  secrets: readonly Secret[];
  /** The secrets that the text holds in any form. */
  find(text: string): Secret[];
}

export function searcherFor(secrets: readonly Secret[]): Searcher {
  const rows = secrets.map((secret) => ({ secret, needles: needlesOf(secret.value) }));
  return { secrets, find: (text) => rows.filter(({ needles }) => needles.some((needle) => text.includes(needle))).map(({ secret }) => secret) };
}

/** Runs of printable characters in bytes of any kind, each once: what a search of a file has to look at. */
export function printableIn(bytes: Buffer): string {
  return [...new Set(bytes.toString("latin1").match(/[\x20-\x7e]{12,}/g))].join("\n");
}
