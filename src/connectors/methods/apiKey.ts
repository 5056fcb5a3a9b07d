// API keys: what a pasted value may be, and where it goes in a request. Must never happen: a key, or a part of one, in a
// problem or an error; a header that a line break in a key has split.
import type { Secret } from "../../crypto/secret.js";
import type { ApiKeyMethod } from "../connector.js";

const CHARS_MAX = 8_192;
/** White space and byte order marks: what pasting and text files add. */
const EDGES = /^[\s\ufeff]+|[\s\ufeff]+$/g;

/** The problem is one of these fixed sentences. */
export function cleanField(value: string): { ok: true; value: string } | { ok: false; problem: string } {
  if (value.length > CHARS_MAX * 2) return { ok: false, problem: "This is too long to be a key." };
  const trimmed = value.replace(EDGES, "");
  if (trimmed === "") return { ok: false, problem: "Paste the key here." };
  if (trimmed.length > CHARS_MAX) return { ok: false, problem: "This is too long to be a key." };
  if (/[\r\n]/.test(trimmed)) return { ok: false, problem: "There is a line break inside. Copy the key as one line." };
  // Anything else would fail later, inside a library whose error repeats the value.
  if (!/^[\x20-\x7e]+$/.test(trimmed))
    return { ok: false, problem: "There is a character inside that keys do not have. Copy the key again." };
  return { ok: true, value: trimmed };
}

export interface AppliedKey {
  headers: Record<string, string>;
  query: Record<string, string>;
}

/** `fields` as `cleanField` left them. Basic (RFC 7617): the first field is the user, the second, if there is one, the password. */
export function applyKey(method: ApiKeyMethod, fields: Record<string, Secret>): AppliedKey {
  const values = method.fields.map((field) => fields[field.name]?.reveal() ?? "");
  const { placement } = method;
  const key = values[method.fields.findIndex((field) => field.secret)] ?? values[0] ?? "";
  switch (placement.in) {
    case "header":
      return { headers: { [placement.name.toLowerCase()]: safeForHeader(placement.prefix + key) }, query: {} };
    case "query":
      return { headers: {}, query: { [placement.name]: key } };
    case "basic":
      return { headers: { authorization: `Basic ${Buffer.from(`${values[0] ?? ""}:${values[1] ?? ""}`).toString("base64")}` }, query: {} };
    default:
      return placement satisfies never;
  }
}

function safeForHeader(value: string): string {
  if (!/^[\x20-\x7e]*$/.test(value)) throw new Error("a key holds characters that a header cannot carry");
  return value;
}
