// Bytes and encoded words as text, whatever charset they claim and whatever they are in. Must never happen: a throw because of a
// label; readable text turned into replacement characters.
import PostalMime, { decodeWords } from "postal-mime";

/** RFC 2047 words of a header. */
export function decodeHeader(value: string): string {
  return withWindowsCharacters(decodeWords(value));
}

/**
 * Node 20 decodes windows-1252 as if it were ISO-8859-1, so that quotes, dashes and the euro come as C1 controls, which would be
 * cleaned away. No mail holds C1 controls on purpose: they are read as the characters that were meant (as HTML does).
 */
export function withWindowsCharacters(text: string): string {
  return text.replace(/[\u0080-\u009f]/g, (control) => WINDOWS_1252[control.charCodeAt(0) - 0x80] ?? "");
}

/** 0x80 to 0x9f; a space where windows-1252 has nothing. */
const WINDOWS_1252 = "€ ‚ƒ„…†‡ˆ‰Š‹Œ Ž  ‘’“”•–—˜™š›œ žŸ";

const CHARSET = /(charset\*?\s*=\s*)(?:"([^"]*)"|([^\s;"]+))/i;

/**
 * Gmail often hands out UTF-8 while the header still names the old charset, so bytes that are UTF-8 are read as that. The
 * 7-bit charsets that switch by escape sequences, and UTF-16, look like UTF-8 too: they are told by their own marks.
 */
export async function decodeBytes(bytes: Buffer, contentType: string): Promise<string> {
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
    return withWindowsCharacters(read.html ?? read.text ?? (asIs ? bytes.toString("utf8") : ""));
  } catch {
    return withWindowsCharacters(bytes.toString("latin1"));
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
