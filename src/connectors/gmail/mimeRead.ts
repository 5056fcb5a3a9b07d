// What a mail says: its text from a MIME tree, in any charset, and its attachments as metadata. Charsets, encoded words and
// parameters are postal-mime's, HTML is html-to-text's. Must never happen: the text of an attached mail taken for the
// mail's own; a throw because of what somebody wrote.
import { type HtmlToTextOptions, convert } from "html-to-text";
import PostalMime, { addressParser, decodeWords } from "postal-mime";
import { cleanBlock, cleanLine } from "../untrusted.js";
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
const BODY_BYTES_MAX = 32_000;
/** One text part; more of it would be cut anyway. */
const PART_BYTES_MAX = 512 * 1024;
const HTML_CHARS_MAX = 400_000;
const ATTACHMENTS_MAX = 50;
const MAILBOXES_MAX = 50;
const HEADER_CHARS_MAX = 16_384;

/** Fetches the bytes of a text part that Gmail left out of the tree; null: leave it. */
export type LoadPart = (part: Part) => Promise<string | null>;

export async function readBody(root: Part, load: LoadPart = async () => null): Promise<MailBody> {
  const pieces = textParts(root);
  const texts: string[] = [];
  for (const part of pieces) {
    const text = await partText(part, load);
    if (text.trim() !== "") texts.push(text);
  }
  const block = cleanBlock(texts.join("\n\n"), { charsMax: BODY_CHARS_MAX, bytesMax: BODY_BYTES_MAX });
  const source = block.text === "" ? "none" : pieces.some((part) => part.mimeType === "text/html") ? "html" : "plain";
  return { text: block.text, source, truncated: block.truncated, charsTotal: block.charsTotal };
}

/** The parts whose text is the message's: of alternatives one (plain over HTML), of related ones the root, of others all. */
function textParts(part: Part): Part[] {
  if (isAttachment(part)) return [];
  if (!part.mimeType.startsWith("multipart/")) return [part];
  const children = part.parts.map(textParts);
  switch (part.mimeType) {
    case "multipart/alternative": {
      const filled = children.filter((child) => child.some((one) => one.data !== undefined || one.sizeBytes > 0));
      return filled.find((child) => child.every((one) => one.mimeType === "text/plain")) ?? filled[0] ?? [];
    }
    // RFC 2387 section 3.2 and RFC 1847: the first part is the root; the others belong to it or sign it.
    case "multipart/related":
    case "multipart/signed":
      return children[0] ?? [];
    default:
      return children.flat();
  }
}

async function partText(part: Part, load: LoadPart): Promise<string> {
  const data = part.data ?? (part.attachmentId ? await load(part) : null);
  if (!data) return "";
  const text = await decode(bytesOf(data), header(part, "Content-Type") ?? part.mimeType);
  return part.mimeType === "text/html" ? htmlText(text) : text;
}

function bytesOf(data: string): Buffer {
  const whole = Buffer.from(data.slice(0, Math.ceil((PART_BYTES_MAX * 4) / 3) + 4), "base64url");
  if (whole.length < PART_BYTES_MAX) return whole;
  let end = PART_BYTES_MAX;
  // Not inside a UTF-8 sequence: the rest would make the whole part look like another charset.
  while (end > PART_BYTES_MAX - 4 && ((whole[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return whole.subarray(0, end);
}

const CHARSET = /(charset\*?\s*=\s*)(?:"([^"]*)"|([^\s;"]+))/i;

/**
 * Gmail often hands out UTF-8 while the header still names the old charset, so bytes that are UTF-8 are read as that. The
 * 7-bit charsets that switch by escape sequences, and UTF-16, look like UTF-8 too: they are told by their own marks.
 */
async function decode(bytes: Buffer, contentType: string): Promise<string> {
  const type = contentType.replace(/[\r\n]+/g, " ").slice(0, 1_000);
  const declared = (CHARSET.exec(type)?.[2] ?? CHARSET.exec(type)?.[3] ?? "utf-8").toLowerCase();
  const switches =
    (declared.startsWith("iso-2022") && bytes.includes(0x1b)) ||
    (declared.startsWith("hz") && bytes.includes("~{")) ||
    (declared.startsWith("utf-16") && bytes.includes(0));
  const asIs = !switches && isUtf8(bytes);
  const named = asIs ? (CHARSET.test(type) ? type.replace(CHARSET, "$1utf-8") : `${type}; charset=utf-8`) : type;
  const message = Buffer.concat([
    Buffer.from(`Content-Type: ${named}\r\nContent-Transfer-Encoding: base64\r\n\r\n`),
    Buffer.from(bytes.toString("base64")),
  ]);
  try {
    const read = await PostalMime.parse(message);
    return read.html ?? read.text ?? (asIs ? bytes.toString("utf8") : "");
  } catch {
    return bytes.toString("latin1");
  }
}

function isUtf8(bytes: Buffer): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
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

export function htmlText(html: string): string {
  try {
    return convert(html.slice(0, HTML_CHARS_MAX), HTML_OPTIONS);
  } catch {
    // A tree too deep for the converter: the bare text is better than nothing.
    return html.slice(0, HTML_CHARS_MAX).replace(/<[^<>]{0,2000}>/g, " ");
  }
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
  if (part.filename !== "") return decodeWords(part.filename.slice(0, HEADER_CHARS_MAX));
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
    return read.attachments[0]?.filename ?? "";
  } catch {
    return "";
  }
}

export function readLine(part: Pick<Part, "headers">, name: string, charsMax: number): string {
  return cleanLine(decodeWords((header(part, name) ?? "").slice(0, HEADER_CHARS_MAX)), charsMax);
}

export function readMailboxes(part: Pick<Part, "headers">, name: string): Mailbox[] {
  const value = header(part, name);
  if (value === undefined) return [];
  try {
    return addressParser(value.slice(0, HEADER_CHARS_MAX), { flatten: true })
      .slice(0, MAILBOXES_MAX)
      .map((one) => ({ name: cleanLine(one.name, 100), email: cleanLine(one.address ?? "", 254) }));
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
