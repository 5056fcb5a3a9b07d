// A message as Gmail's API shows it: full, metadata, minimal or raw.
import { escapeHtml } from "../html.js";
import type { MailMessage } from "./mailbox.js";
import type { MimePart } from "./mime.js";

export type MessageFormat = "full" | "metadata" | "minimal" | "raw";

export const MESSAGE_FORMATS: readonly string[] = ["full", "metadata", "minimal", "raw"];

/** URL-safe and padded, as Google encodes bytes. */
function base64url(bytes: Buffer): string {
  return bytes.toString("base64").replaceAll("+", "-").replaceAll("/", "_");
}

export function attachmentId(messageId: string, partId: string): string {
  return `ANGj${Buffer.from(`${messageId}/${partId}`).toString("base64url")}`;
}

interface Payload {
  partId: string;
  mimeType: string;
  filename: string;
  headers: { name: string; value: string }[];
  body: { size: number; data?: string; attachmentId?: string };
  parts?: Payload[];
}

function payloadOf(messageId: string, part: MimePart, partId: string): Payload {
  // A named part is fetched on its own; an attached message too, though its parts are shown.
  const apart = part.filename !== "" || part.type === "message/rfc822";
  const multipart = part.type.startsWith("multipart/");
  return {
    partId,
    mimeType: part.type,
    filename: part.filename,
    headers: part.headers,
    body: multipart
      ? { size: 0 }
      : apart
        ? { attachmentId: attachmentId(messageId, partId), size: part.body.length }
        : { size: part.body.length, data: base64url(part.body) },
    ...(part.parts.length > 0 && {
      parts: part.parts.map((one, at) => payloadOf(messageId, one, partId === "" ? String(at) : `${partId}.${at}`)),
    }),
  };
}

export function attachmentOf(message: MailMessage, id: string): { size: number; data: string } | null {
  const search = (part: MimePart, partId: string): MimePart | null => {
    if (attachmentId(message.id, partId) === id) return part;
    for (const [at, one] of part.parts.entries()) {
      const found = search(one, partId === "" ? String(at) : `${partId}.${at}`);
      if (found) return found;
    }
    return null;
  };
  const part = search(message.mime, "");
  return part ? { size: part.body.length, data: base64url(part.body) } : null;
}

/** The first words of the text, as HTML text, cut between words. */
function snippetOf(message: MailMessage): string {
  const text = message.searchable.text.slice(0, 4000).replace(/\s+/g, " ").trim();
  return escapeHtml(text.length <= 200 ? text : text.slice(0, 200).replace(/ \S*$/, ""));
}

export function messageResource(message: MailMessage, format: MessageFormat, metadataHeaders: readonly string[]): Record<string, unknown> {
  const wanted = metadataHeaders.map((name) => name.toLowerCase());
  const headers = message.mime.headers.filter((header) => wanted.length === 0 || wanted.includes(header.name.toLowerCase()));
  return {
    id: message.id,
    threadId: message.threadId,
    labelIds: message.labelIds,
    snippet: snippetOf(message),
    ...(format === "full" && { payload: payloadOf(message.id, message.mime, "") }),
    ...(format === "metadata" && { payload: { mimeType: message.mime.type, headers } }),
    ...(format === "raw" && { raw: base64url(message.raw) }),
    sizeEstimate: message.raw.length,
    historyId: String(Math.floor(message.atMs / 1000)),
    internalDate: String(message.atMs),
  };
}
