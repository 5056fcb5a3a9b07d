// Takes a message apart into its tree of parts, as the bytes have it: headers unfolded but not decoded, bodies freed of their
// transfer encoding but not of their charset. Must never happen: work that grows faster than the message.

export interface MimeHeader {
  name: string;
  value: string;
}

export interface MimePart {
  headers: MimeHeader[];
  /** Lower case, such as `text/plain`. */
  type: string;
  charset: string;
  filename: string;
  /** Of a leaf; empty for a multipart. */
  body: Buffer;
  parts: MimePart[];
}

/** Nesting and number of parts that are still read; deeper ones stay text. */
const DEPTH_MAX = 12;
const PARTS_MAX = 200;
/** A longer structured header is read up to here. */
const FIELD_CHARS_MAX = 4000;
/** As much of a body as snippets and searches look at. */
const TEXT_CHARS_MAX = 20_000;

export function headerOf(part: Pick<MimePart, "headers">, name: string): string | null {
  return part.headers.find((header) => header.name.toLowerCase() === name.toLowerCase())?.value ?? null;
}

export function parseMime(raw: Buffer): MimePart {
  return parsePart(raw.toString("latin1"), { depth: 0, left: { parts: PARTS_MAX } });
}

/** Depth-first, leaves and branches. */
export function allParts(part: MimePart): MimePart[] {
  return [part, ...part.parts.flatMap(allParts)];
}

function parsePart(text: string, at: { depth: number; left: { parts: number } }): MimePart {
  const { head, body } = splitHead(text);
  const headers = parseHeaders(head);
  const contentType = fieldWithParameters(headerOf({ headers }, "content-type") ?? "text/plain");
  const disposition = fieldWithParameters(headerOf({ headers }, "content-disposition") ?? "");
  const part: MimePart = {
    headers,
    type: contentType.value.toLowerCase(),
    charset: (contentType.parameters.get("charset") ?? "us-ascii").toLowerCase(),
    filename: decodeWords(disposition.parameters.get("filename") ?? contentType.parameters.get("name") ?? ""),
    body: Buffer.alloc(0),
    parts: [],
  };
  const boundary = contentType.parameters.get("boundary");
  const below = { depth: at.depth + 1, left: at.left };
  if (part.type.startsWith("multipart/") && boundary && at.depth < DEPTH_MAX) {
    for (const piece of splitAtBoundary(body, boundary)) if (at.left.parts-- > 0) part.parts.push(parsePart(piece, below));
    return part;
  }
  part.body = decodeTransfer(body, headerOf(part, "content-transfer-encoding") ?? "");
  if (part.type === "message/rfc822" && at.depth < DEPTH_MAX && at.left.parts-- > 0) {
    part.parts.push(parsePart(part.body.toString("latin1"), below));
  }
  return part;
}

function splitHead(text: string): { head: string; body: string } {
  if (/^\r?\n/.test(text)) return { head: "", body: text.replace(/^\r?\n/, "") };
  const end = /\r?\n\r?\n/.exec(text);
  return end ? { head: text.slice(0, end.index), body: text.slice(end.index + end[0].length) } : { head: text, body: "" };
}

function parseHeaders(head: string): MimeHeader[] {
  const headers: MimeHeader[] = [];
  for (const line of head.split(/\r?\n/)) {
    const last = headers.at(-1);
    if (/^[ \t]/.test(line) && last) last.value += ` ${line.trim()}`;
    else if (line.indexOf(":") > 0)
      headers.push({ name: line.slice(0, line.indexOf(":")).trim(), value: line.slice(line.indexOf(":") + 1).trim() });
  }
  // Eight-bit headers are UTF-8 where they are anything (RFC 6532).
  return headers.map(({ name, value }) => ({ name, value: Buffer.from(value, "latin1").toString("utf8") }));
}

function splitAtBoundary(body: string, boundary: string): string[] {
  const pieces: string[] = [];
  const mark = `--${boundary}`;
  let start = -1;
  for (let at = body.indexOf(mark); at >= 0; at = body.indexOf(mark, at + mark.length)) {
    if (at > 0 && body[at - 1] !== "\n") continue;
    // The line break before a boundary belongs to the boundary (RFC 2046 section 5.1.1).
    if (start >= 0) pieces.push(body.slice(start, at).replace(/\r?\n$/, ""));
    if (body.startsWith("--", at + mark.length)) return pieces;
    const lineEnd = body.indexOf("\n", at);
    start = lineEnd < 0 ? body.length : lineEnd + 1;
  }
  if (start >= 0) pieces.push(body.slice(start));
  return pieces;
}

function decodeTransfer(body: string, encoding: string): Buffer {
  switch (encoding.trim().toLowerCase()) {
    case "base64":
      return Buffer.from(body, "base64");
    case "quoted-printable":
      return Buffer.from(decodeQuoted(body.replace(/=\r?\n/g, "")), "latin1");
    default:
      return Buffer.from(body, "latin1");
  }
}

function decodeQuoted(text: string): string {
  return text.replace(/=([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

/** `text/plain; charset="x"; name*=utf-8''y`: value and parameters, RFC 2231 pieces joined and decoded. */
function fieldWithParameters(field: string): { value: string; parameters: Map<string, string> } {
  const parameters = new Map<string, string>();
  const pieces = new Map<string, string>();
  for (const found of field.slice(0, FIELD_CHARS_MAX).matchAll(/;\s*([^\s=;]{1,100})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s]*))/g)) {
    const name = (found[1] ?? "").toLowerCase();
    const value = found[2] === undefined ? (found[3] ?? "") : found[2].replace(/\\(.)/g, "$1");
    const star = name.indexOf("*");
    if (star < 0) parameters.set(name, value);
    else pieces.set(name.slice(0, star), (pieces.get(name.slice(0, star)) ?? "") + (name.endsWith("*") ? decodeExtended(value) : value));
  }
  for (const [name, value] of pieces) parameters.set(name, value);
  return { value: (field.split(";")[0] ?? "").trim(), parameters };
}

function decodeExtended(value: string): string {
  const text = value.replace(/^[^']*'[^']*'/, "");
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Bytes as text: the charset where it is known, else UTF-8 with replacement characters. */
export function decodeCharset(bytes: Uint8Array, charset: string): string {
  try {
    // As a stream, because Node 20 reads windows-1252 in one go as if it were ISO-8859-1: no euro sign, no dashes.
    const decoder = new TextDecoder(charset);
    return decoder.decode(bytes, { stream: true }) + decoder.decode();
  } catch {
    return new TextDecoder("utf-8").decode(bytes);
  }
}

/** RFC 2047 encoded words, for searching and snippets; answers carry headers as they were sent. */
export function decodeWords(text: string): string {
  return text
    .replace(/\?=\s+=\?/g, "?==?")
    .replace(/=\?([^?\s*]+)(?:\*[^?\s]*)?\?([bqBQ])\?([^?\s]*)\?=/g, (_, charset: string, kind: string, data: string) => {
      const bytes =
        kind.toLowerCase() === "b" ? Buffer.from(data, "base64") : Buffer.from(decodeQuoted(data.replaceAll("_", " ")), "latin1");
      return decodeCharset(bytes, charset);
    });
}

/** What a reader would see first: the first plain text that is the message's own, else its HTML without tags. */
export function textOf(root: MimePart): string {
  const own = ownLeaves(root);
  const plain = own.find((part) => part.type === "text/plain" && part.filename === "");
  if (plain) return decodeCharset(plain.body, plain.charset).slice(0, TEXT_CHARS_MAX);
  const markup = own.find((part) => part.type === "text/html" && part.filename === "");
  return markup ? stripTags(decodeCharset(markup.body, markup.charset).slice(0, TEXT_CHARS_MAX)) : "";
}

/** Not into an attached message: its text is not this message's. */
function ownLeaves(part: MimePart): MimePart[] {
  return part.type.startsWith("multipart/") ? part.parts.flatMap(ownLeaves) : [part];
}

function stripTags(markup: string): string {
  return markup
    .replace(/<(style|script)\b[^>]{0,200}>[\s\S]{0,5000}?<\/\1>/gi, " ")
    .replace(/<[^>]{0,2000}>/g, " ")
    .replace(/&nbsp;/g, " ")
    .replace(/&lt;/g, "<")
    .replace(/&gt;/g, ">")
    .replace(/&amp;/g, "&");
}
