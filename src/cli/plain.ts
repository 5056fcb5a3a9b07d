// Makes text that others wrote harmless in a terminal. Must never happen: an escape sequence, a control character or a
// direction override of a mail, a server or a file name that reaches the screen (cursor games, fake prompts, clipboard
// writes by OSC 52, "evil.example" shown backwards).

/** Whole sequences go, so that `ESC[31mred` leaves `red` and not `[31mred`. Unterminated ones lose only their introducer. */
const SEQUENCES =
  /(?:\u001b[\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)|(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|\u001b[ -/]*[0-~]/g;
/** A lone CR would let the rest of a line overwrite its beginning. */
const LINE_ENDS = /\r\n?|[\v\f\u0085\u2028\u2029]/g;
const CONTROLS = /[\u0000-\u0008\u000e-\u001f\u007f-\u009f]/g;
/** Bidirectional marks, overrides and isolates; invisible characters and tags. Joiners stay: emoji and scripts need them. */
const INVISIBLE = /[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** Text of several lines, without anything that could act on a terminal. */
export function plain(text: string): string {
  return text.replace(SEQUENCES, "").replace(LINE_ENDS, "\n").replace(CONTROLS, "").replace(INVISIBLE, "");
}

/** The same on one line, for a name or a value inside a sentence of ours. */
export function plainLine(text: string, charactersMax = 200): string {
  const line = plain(text).replace(/\s+/g, " ").trim();
  return line.length > charactersMax ? `${line.slice(0, charactersMax - 1)}…` : line;
}

/** Narrower than this is no screen: some terminals say 0 columns. */
const COLUMNS_MIN = 40;

/** Every line marked, so that text of others cannot pass for ours. Long lines become several marked lines when the width is known. */
export function framed(text: string, options: { columns?: number | undefined; linesMax?: number } = {}): string {
  const { columns = 0, linesMax = Number.POSITIVE_INFINITY } = options;
  const width = columns < COLUMNS_MIN ? Number.POSITIVE_INFINITY : columns - 3;
  const lines = plain(text)
    .split("\n")
    .flatMap((line) => wrapped(line, width));
  const shown = lines.slice(0, linesMax);
  if (shown.length < lines.length) shown.push(`… (${lines.length - shown.length} more lines)`);
  return shown.map((line) => `| ${line}`.trimEnd()).join("\n");
}

/** At the last space that fits, else in the middle of a word. */
function wrapped(line: string, width: number): string[] {
  const parts: string[] = [];
  let rest = Array.from(line);
  while (rest.length > width) {
    const space = rest.lastIndexOf(" ", width);
    const end = space > 0 ? space : width;
    parts.push(rest.slice(0, end).join(""));
    rest = rest.slice(space > 0 ? end + 1 : end);
  }
  return [...parts, rest.join("")];
}

/** JSON for a terminal or a pipe: the same value, with everything that `plain` would remove written as \\uXXXX. */
export function plainJson(value: unknown): string {
  // JSON.stringify escapes U+0000 to U+001F only; the C1 range and the overrides would pass as they are.
  return JSON.stringify(value, null, 2)
    .replace(/[\u007f-\u009f\u2028\u2029]/g, escaped)
    .replace(INVISIBLE, escaped);
}

function escaped(character: string): string {
  return Array.from({ length: character.length }, (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`).join("");
}
