// Addresses that a caller writes: one recipient each, checked in one pass. Must never happen: a pattern that runs on a text
// of any length; a character that ends a header or begins another recipient.
import { holdsControls, holdsInvisible } from "../untrusted.js";

/** RFC 5321 section 4.5.3.1: 64 for the local part, 255 for the domain; the rest is for a name. */
export const ADDRESS_CHARS_MAX = 320;
const LOCAL_CHARS_MAX = 64;
const DOMAIN_CHARS_MAX = 253;

/** Characters that have a meaning in a list of addresses, and white space. */
const RESERVED = /[\s<>()[\]\\,;:"@]/;
const LABEL = /^[\p{L}\p{N}](?:[\p{L}\p{N}\p{M}-]{0,61}[\p{L}\p{N}\p{M}])?$/u;

export interface Recipient {
  name: string;
  address: string;
}

/** `j@x.test`, or `Doe, John <j@x.test>`; null: not one address. */
export function parseRecipient(value: string): Recipient | null {
  if (value.length > ADDRESS_CHARS_MAX || holdsControls(value) || holdsInvisible(value)) return null;
  const text = value.trim();
  if (!text.endsWith(">")) return isAddress(text) ? { name: "", address: text } : null;
  const open = text.lastIndexOf("<");
  const address = text.slice(open + 1, -1).trim();
  const name = unquote(text.slice(0, open).trim());
  // An encoded word in a name would be read as what it stands for by some and as it is by others.
  if (open === -1 || !isAddress(address) || name.includes("=?") || /[<>]/.test(name)) return null;
  return { name, address };
}

export function isAddress(text: string): boolean {
  const at = text.indexOf("@");
  const local = text.slice(0, at);
  const domain = text.slice(at + 1);
  if (at < 1 || local.length > LOCAL_CHARS_MAX || domain.length > DOMAIN_CHARS_MAX) return false;
  if (RESERVED.test(local) || local.startsWith(".") || local.endsWith(".") || local.includes("..")) return false;
  return domain.includes(".") && domain.split(".").every((label) => label.length <= 63 && LABEL.test(label));
}

function unquote(name: string): string {
  const quoted = name.length >= 2 && name.startsWith('"') && name.endsWith('"');
  return quoted ? name.slice(1, -1).replace(/\\(.)/g, "$1") : name;
}
