// What a mail says: its text from a MIME tree, in any charset, and its attachments as metadata. Charsets, encoded words and
// parameters are postal-mime's, HTML is html-to-text's. Must never happen: the text of an attached mail taken for the
// mail's own; a throw because of what somebody wrote.
import { type HtmlToTextOptions, convert } from "html-to-text";
import PostalMime, { addressParser } from "postal-mime";
import { cleanBlock, cleanLine } from "../untrusted.js";
import { decodeBytes, decodeHeader, withWindowsCharacters } from "./charset.js";
import { header, isAttachment, type Part } from "./parts.js";

export interface Mailbox {
  name: string;
  email: string;
}

export interface AttachmentInfo {
  filename: string;
  mime_type: string;
  size_bytes: number;
  attachment_id: string | null;
}

export interface MailBody {
  text: string;
  source: "plain" | "html" | "none";
  truncated: boolean;
  charsTotal: number;
}

/** About 5,000 tokens: what a client takes without trouble beside other things. */
const BODY_CHARS_MAX = 20_000;
/** The text stands in a block and in the structured answer: the whole stays under 100 KB. */
const BODY_BYTES_MAX = 24_000;
/** One text part; more of it would be cut anyway. */
const PART_BYTES_MAX = 512 * 1024;
/** Parsing costs the square of the nesting: 300,000 characters of open tags held a core for 4.5 s, 100,000 for 0.2 s. Gmail clips there too. */
const HTML_CHARS_MAX = 100_000;
const ATTACHMENTS_MAX = 50;
const MAILBOXES_MAX = 50;
const HEADER_CHARS_MAX = 16_384;

/** Fetches the bytes of a text part that Gmail left out of the tree; null: leave it. */
export type LoadPart = (part: Part) => Promise<string | null>;

export async function readBody(root: Part, load: LoadPart = async () => null): Promise<MailBody> {
  const found = await textsOf(root, load);
  const block = cleanBlock(found.map((one) => one.text).join("\n\n"), { charsMax: BODY_CHARS_MAX, bytesMax: BODY_BYTES_MAX });
  const source = block.text === "" ? "none" : found.some((one) => one.html) ? "html" : "plain";
  return { text: block.text, source, truncated: block.truncated || found.some((one) => one.cut), charsTotal: block.charsTotal };
}

interface FoundText {
  text: string;
  html: boolean;
  /** More was there than was read. */
  cut: boolean;
}

/** The texts that are the message's own: of alternatives one (plain over HTML), of related ones the root's, of others all. */
async function textsOf(part: Part, load: LoadPart): Promise<FoundText[]> {
  if (isAttachment(part)) return [];
  switch (part.mimeType) {
    case "text/plain":
    case "text/html": {
      const read = await partText(part, load);
      return read.text.trim() === "" ? [] : [{ ...read, html: part.mimeType === "text/html" }];
    }
    case "multipart/alternative":
      return firstFilled(
        [...part.parts].sort((a, b) => Number(holdsHtml(a)) - Number(holdsHtml(b))),
        load,
      );
    // RFC 2387 section 3.2 and RFC 1847: the first part is the root; the others belong to it or sign it.
    case "multipart/related":
    case "multipart/signed":
      return firstFilled(part.parts.slice(0, 1), load);
    default: {
      const all: FoundText[] = [];
      for (const child of part.parts) all.push(...(await textsOf(child, load)));
      return all;
    }
  }
}

/** Senders leave the plain alternative empty, so that only what holds words counts. */
async function firstFilled(parts: readonly Part[], load: LoadPart): Promise<FoundText[]> {
  for (const part of parts) {
    const texts = await textsOf(part, load);
    if (texts.length > 0) return texts;
  }
  return [];
}

function holdsHtml(part: Part): boolean {
  return part.mimeType === "text/html" || part.parts.some(holdsHtml);
}

async function partText(part: Part, load: LoadPart): Promise<{ text: string; cut: boolean }> {
  const data = part.data ?? (part.attachmentId ? await load(part) : null);
  if (!data) return { text: "", cut: false };
  const bytes = bytesOf(data);
  // The type as Gmail read it, the parameters as the sender wrote them.
  const params = /;.*/s.exec(header(part, "Content-Type") ?? "")?.[0] ?? "";
  const text = await decodeBytes(bytes, part.mimeType + params);
  const cut = bytes.length >= PART_BYTES_MAX - 4;
  if (part.mimeType !== "text/html") return { text, cut };
  const read = htmlText(text);
  return { text: read.text, cut: cut || read.cut };
}

function bytesOf(data: string): Buffer {
  const whole = Buffer.from(data.slice(0, Math.ceil((PART_BYTES_MAX * 4) / 3) + 4), "base64url");
  if (whole.length < PART_BYTES_MAX) return whole;
  let end = PART_BYTES_MAX;
  // Not inside a UTF-8 sequence: the rest would make the whole part look like another charset.
  while (end > PART_BYTES_MAX - 4 && ((whole[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return whole.subarray(0, end);
}

const HTML_OPTIONS: HtmlToTextOptions = {
  wordwrap: false,
  limits: { maxInputLength: HTML_CHARS_MAX, maxDepth: 60, maxChildNodes: 5_000, ellipsis: "…" },
  selectors: [
    { selector: "img", format: "skip" },
    { selector: "style", format: "skip" },
    { selector: "script", format: "skip" },
    // What a reader of the mail does not see, a model should not be told.
    { selector: "[hidden]", format: "skip" },
    { selector: '[style*="display:none"]', format: "skip" },
    { selector: '[style*="display: none"]', format: "skip" },
    { selector: "a", options: { hideLinkHrefIfSameAsText: true, ignoreHref: false } },
    { selector: "h1", options: { uppercase: false } },
    { selector: "h2", options: { uppercase: false } },
    { selector: "h3", options: { uppercase: false } },
    { selector: "h4", options: { uppercase: false } },
    { selector: "table", options: { uppercaseHeaderCells: false } },
  ],
};

export function htmlText(html: string): { text: string; cut: boolean } {
  const bare = withoutElement(withoutElement(withoutBetween(html, "<!--", "-->"), "style"), "script");
  const cut = bare.length > HTML_CHARS_MAX;
  const kept = cut ? bare.slice(0, HTML_CHARS_MAX).replace(/<[^<>]*$/, "") : bare;
  try {
    return { text: convert(kept, HTML_OPTIONS), cut };
  } catch {
    // A tree that the converter cannot hold: the bare text is better than nothing.
    return { text: kept.replace(/<[^<>]{0,2000}>/g, " "), cut };
  }
}

/** Style sheets and conditional comments are most of a newsletter: out before the cut, in one pass. */
function withoutElement(html: string, name: string): string {
  return withoutBetween(html, `<${name}`, `</${name}`);
}

function withoutBetween(html: string, open: string, close: string): string {
  const lower = html.toLowerCase();
  // Lower-casing may change lengths (İ): then positions would not fit.
  if (lower.length !== html.length) return html;
  const kept: string[] = [];
  let at = 0;
  for (;;) {
    const start = lower.indexOf(open, at);
    if (start === -1) break;
    const end = lower.indexOf(close, start + open.length);
    kept.push(html.slice(at, start));
    if (end === -1) return kept.join("");
    const after = close === "-->" ? end + close.length : lower.indexOf(">", end) + 1;
    if (after === 0) return kept.join("");
    at = after;
  }
  kept.push(html.slice(at));
  return kept.join("");
}

export async function readAttachments(root: Part): Promise<{ list: AttachmentInfo[]; more: number }> {
  const found: Part[] = [];
  function walk(part: Part): void {
    if (isAttachment(part)) found.push(part);
    else part.parts.forEach(walk);
  }
  walk(root);
  const list: AttachmentInfo[] = [];
  for (const part of found.slice(0, ATTACHMENTS_MAX)) {
    list.push({
      filename: cleanLine(await filenameOf(part), 200),
      mime_type: cleanLine(part.mimeType, 100),
      size_bytes: part.sizeBytes,
      attachment_id: part.attachmentId?.slice(0, 1_000) ?? null,
    });
  }
  return { list, more: found.length - list.length };
}

/** Gmail's own reading of the name, else ours from the headers (RFC 2231 pieces, RFC 2047 words). */
async function filenameOf(part: Part): Promise<string> {
  if (part.filename !== "") return decodeHeader(part.filename.slice(0, HEADER_CHARS_MAX));
  const disposition = header(part, "Content-Disposition");
  const type = header(part, "Content-Type");
  if (disposition === undefined && type === undefined) return "";
  const oneLine = (value: string) => value.replace(/[\r\n]+/g, " ").slice(0, 4_000);
  const lines = [
    `Content-Type: ${oneLine(type ?? "application/octet-stream")}`,
    `Content-Disposition: ${oneLine(disposition ?? "attachment")}`,
    "",
    "",
  ];
  try {
    const read = await PostalMime.parse(
      lines.join("\r\n").replace(/^Content-Type: (?:multipart|message)\/[^;\r\n]*/i, "Content-Type: application/octet-stream"),
    );
    return withWindowsCharacters(read.attachments[0]?.filename ?? "");
  } catch {
    return "";
  }
}

export function readLine(part: Pick<Part, "headers">, name: string, charsMax: number): string {
  return cleanLine(decodeHeader((header(part, name) ?? "").slice(0, HEADER_CHARS_MAX)), charsMax);
}

export function readMailboxes(part: Pick<Part, "headers">, name: string): Mailbox[] {
  const value = header(part, name);
  if (value === undefined) return [];
  try {
    return addressParser(value.slice(0, HEADER_CHARS_MAX), { flatten: true })
      .slice(0, MAILBOXES_MAX)
      .map((one) => ({ name: cleanLine(withWindowsCharacters(one.name), 100), email: cleanLine(one.address ?? "", 254) }));
  } catch {
    return [];
  }
}

/** Entities as Gmail puts them into snippets. */
export function snippetText(snippet: string): string {
  const names: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: " " };
  return snippet.replace(
    /&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,6}));/gi,
    (whole, decimal: string | undefined, hex: string | undefined, name: string | undefined) => {
      if (name !== undefined) return names[name.toLowerCase()] ?? whole;
      const point = decimal !== undefined ? Number(decimal) : Number.parseInt(hex ?? "0", 16);
      return point > 0 && point <= 0x10ffff ? String.fromCodePoint(point) : whole;
    },
  );
}
