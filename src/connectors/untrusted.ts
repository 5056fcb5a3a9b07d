// Text that third parties wrote, made safe to carry: no control characters, no bidirectional overrides, no invisible
// characters that smuggle orders to a model, capped. Must never happen: such text inside a sentence of ours.

/** C0, DEL and C1, save tab and line feed. */
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
/**
 * Bidirectional marks, embeddings, overrides and isolates; soft hyphen, zero-width space, word joiner and invisible
 * operators, BOM, interlinear anchors; the tag block and the supplementary variation selectors, which can hold whole hidden
 * texts. The joiners U+200C and U+200D stay: Persian and family emojis need them.
 */
const INVISIBLE =
  /[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|[\u{e0100}-\u{e01ef}]/gu;
const LONE_SURROGATES = /\p{Surrogate}/gu;

export interface CleanText {
  text: string;
  /** Characters were left out at the end. */
  truncated: boolean;
  /** How long the cleaned text was before that, in characters. */
  charsTotal: number;
}

/** One line: white space folded to single spaces, at most `charsMax` characters with an ellipsis as the last. */
export function cleanLine(value: string, charsMax: number): string {
  const line = strip(value.slice(0, charsMax * 8))
    .replace(/\s+/g, " ")
    .trim();
  const capped = capText(line, charsMax);
  return capped.truncated ? `${capText(line, charsMax - 1).text.trimEnd()}…` : line;
}

/** Several lines: line ends made one, at most one empty line in a row. */
export function cleanBlock(value: string, limits: { charsMax: number; bytesMax?: number }): CleanText {
  const lines = strip(value.replace(/\r\n?|\u2028|\u2029|\u0085|\f|\v/g, "\n"))
    .split("\n")
    .map((line) => line.trimEnd());
  const text = lines
    .filter((line, index) => line !== "" || lines[index - 1] !== "")
    .join("\n")
    .trim();
  const capped = capText(text, limits.charsMax, limits.bytesMax);
  return { ...capped, charsTotal: text.length };
}

/** Cuts between code points, never inside one. */
export function capText(text: string, charsMax: number, bytesMax = Number.POSITIVE_INFINITY): { text: string; truncated: boolean } {
  if (text.length <= charsMax && (bytesMax === Number.POSITIVE_INFINITY || Buffer.byteLength(text) <= bytesMax))
    return { text, truncated: false };
  let chars = 0;
  let bytes = 0;
  for (const point of text) {
    const more = Buffer.byteLength(point);
    if (chars + point.length > charsMax || bytes + more > bytesMax) break;
    chars += point.length;
    bytes += more;
  }
  return { text: text.slice(0, chars), truncated: chars < text.length };
}

function strip(value: string): string {
  return value.replace(CONTROLS, " ").replace(INVISIBLE, "").replace(LONE_SURROGATES, "\ufffd");
}

/** Whether a text holds what ends a line or a header: for refusing instead of changing. */
export function holdsControls(value: string): boolean {
  return value.search(CONTROLS) !== -1 || /[\n\t\u2028\u2029]/.test(value);
}

/** Whether a text holds what cannot be seen, or turns the reading direction. */
export function holdsInvisible(value: string): boolean {
  return value.search(INVISIBLE) !== -1;
}
