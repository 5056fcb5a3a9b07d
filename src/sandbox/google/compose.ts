// Puts a practice message together from its parts, to the byte. Used for the letters that the sandbox ships, never for what is sent.

export interface Leaf {
  type: string;
  encoding: "7bit" | "8bit" | "base64" | "quoted-printable";
  content: string | Buffer;
  headers?: readonly (readonly [string, string])[];
}

export interface Branch {
  type: `multipart/${string}`;
  parts: readonly (Leaf | Branch)[];
}

const CRLF = "\r\n";

export function encodedWord(text: string, charset = "UTF-8", bytes = Buffer.from(text, "utf8")): string {
  return `=?${charset}?B?${bytes.toString("base64")}?=`;
}

/** `=?utf-8?Q?…?=` for texts that are mostly ASCII. */
export function quotedWord(text: string): string {
  const quoted = [...Buffer.from(text, "utf8")]
    .map((byte) => (/[A-Za-z0-9]/.test(String.fromCharCode(byte)) ? String.fromCharCode(byte) : byte === 32 ? "_" : hexOf(byte)))
    .join("");
  return `=?utf-8?Q?${quoted}?=`;
}

function hexOf(byte: number): string {
  return `=${byte.toString(16).toUpperCase().padStart(2, "0")}`;
}

function isBranch(part: Leaf | Branch): part is Branch {
  return "parts" in part;
}

function encodeBody(leaf: Leaf): Buffer {
  const bytes = typeof leaf.content === "string" ? Buffer.from(leaf.content.replace(/\r?\n/g, CRLF), "utf8") : leaf.content;
  if (leaf.encoding === "base64") return Buffer.from(bytes.toString("base64").replace(/.{76}/g, `$&${CRLF}`), "latin1");
  if (leaf.encoding === "quoted-printable") return Buffer.from(quotedPrintable(bytes), "latin1");
  return bytes;
}

function quotedPrintable(bytes: Buffer): string {
  return bytes
    .toString("latin1")
    .split(CRLF)
    .map((line) =>
      softBreaks(
        [...Buffer.from(line, "latin1")].map((byte) => (byte === 61 || byte < 32 || byte > 126 ? hexOf(byte) : String.fromCharCode(byte))),
      ),
    )
    .join(CRLF);
}

/** Lines of at most 76 characters, never cut inside an escape (RFC 2045 section 6.7). */
function softBreaks(signs: readonly string[]): string {
  let out = "";
  let width = 0;
  for (const sign of signs) {
    if (width + sign.length > 75) {
      out += `=${CRLF}`;
      width = 0;
    }
    out += sign;
    width += sign.length;
  }
  return out.replace(/[ \t]$/, (last) => hexOf(last.charCodeAt(0)));
}

function renderPart(part: Leaf | Branch, mark: { next: number }): Buffer {
  if (!isBranch(part)) {
    const headers = [["Content-Type", part.type], ["Content-Transfer-Encoding", part.encoding], ...(part.headers ?? [])];
    return Buffer.concat([
      Buffer.from(headers.map(([name, value]) => `${name}: ${value}${CRLF}`).join("") + CRLF, "utf8"),
      encodeBody(part),
    ]);
  }
  mark.next += 1;
  const boundary = `=_part_${mark.next}_harbourlight`;
  const pieces = part.parts.flatMap((one) => [Buffer.from(`--${boundary}${CRLF}`), renderPart(one, mark), Buffer.from(CRLF)]);
  const head = `Content-Type: ${part.type}; boundary="${boundary}"${CRLF}${CRLF}`;
  return Buffer.concat([Buffer.from(head), ...pieces, Buffer.from(`--${boundary}--${CRLF}`)]);
}

export function composeMessage(headers: readonly (readonly [string, string])[], content: Leaf | Branch): Buffer {
  const head = headers.map(([name, value]) => `${name}: ${value}${CRLF}`).join("");
  return Buffer.concat([Buffer.from(`${head}MIME-Version: 1.0${CRLF}`, "utf8"), renderPart(content, { next: 0 })]);
}
