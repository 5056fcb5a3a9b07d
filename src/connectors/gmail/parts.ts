// Gmail's message tree (format=full), read defensively: any member may be missing, and a tree made to hurt is cut.
import { isObject, listAt, numberAt, textAt } from "../json.js";

export interface Part {
  mimeType: string;
  filename: string;
  headers: { name: string; value: string }[];
  sizeBytes: number;
  /** base64url, or undefined where Gmail leaves the bytes for a request of their own. */
  data: string | undefined;
  attachmentId: string | undefined;
  parts: Part[];
}

const PARTS_MAX = 300;
const DEPTH_MAX = 30;
const HEADERS_MAX = 300;

export function readParts(payload: unknown): Part {
  let left = PARTS_MAX;
  function read(value: unknown, depth: number): Part {
    left -= 1;
    const below = depth < DEPTH_MAX ? listAt(value, "parts") : [];
    const parts: Part[] = [];
    for (const one of below) if (left > 0 && isObject(one)) parts.push(read(one, depth + 1));
    return {
      mimeType: (textAt(value, "mimeType") ?? "text/plain").toLowerCase(),
      filename: textAt(value, "filename") ?? "",
      headers: readHeaders(value),
      sizeBytes: numberAt(value, "body.size") ?? 0,
      data: textAt(value, "body.data"),
      attachmentId: textAt(value, "body.attachmentId"),
      parts,
    };
  }
  return read(payload, 0);
}

function readHeaders(value: unknown): { name: string; value: string }[] {
  return listAt(value, "headers")
    .slice(0, HEADERS_MAX)
    .flatMap((header) => {
      const name = textAt(header, "name");
      const text = textAt(header, "value");
      return name === undefined || text === undefined ? [] : [{ name, value: text }];
    });
}

/** The first header of that name; names are compared without case (RFC 5322 section 1.2.2: `Message-Id`, `Message-ID`). */
export function header(part: Pick<Part, "headers">, name: string): string | undefined {
  const wanted = name.toLowerCase();
  return part.headers.find((one) => one.name.toLowerCase() === wanted)?.value;
}

export function isAttachment(part: Part): boolean {
  if (part.mimeType.startsWith("multipart/")) return false;
  // A forwarded message is a thing of its own: its text is not this message's (RFC 2046 section 5.2.1).
  if (part.mimeType === "message/rfc822") return true;
  if (/^\s*attachment\b/i.test(header(part, "Content-Disposition") ?? "")) return true;
  return part.filename !== "" || (part.mimeType !== "text/plain" && part.mimeType !== "text/html");
}
