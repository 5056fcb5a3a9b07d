// Reading requests: parameters of a query or a form, client credentials, bearer tokens. A parameter that comes twice is an error
// (RFC 6749 section 3.1), never a choice.
import type { Request } from "express";
import { sameValue } from "./digest.js";
import type { PracticeClient } from "./state.js";

export interface Parameters {
  get(name: string): string | null;
  all(name: string): string[];
  /** The first name that came more than once, among those that must not. */
  repeated(names: readonly string[]): string | null;
}

export function parametersOf(source: unknown): Parameters {
  const record = typeof source === "object" && source !== null ? (source as Record<string, unknown>) : {};
  const all = (name: string): string[] => {
    const value = Object.hasOwn(record, name) ? record[name] : undefined;
    const values = Array.isArray(value) ? value : value === undefined ? [] : [value];
    return values.filter((one) => typeof one === "string" && one !== "") as string[];
  };
  return {
    all,
    get: (name) => all(name)[0] ?? null,
    repeated: (names) => names.find((name) => all(name).length > 1) ?? null,
  };
}

export function bearerOf(req: Request): string | null {
  return /^Bearer +(\S+)$/i.exec(req.get("authorization") ?? "")?.[1] ?? null;
}

export interface ClientCheck {
  ok: boolean;
  id: string | null;
  secretGiven: boolean;
  basic: boolean;
}

/** client_secret_basic or client_secret_post, never both (RFC 6749 section 2.3). */
export function checkClient(req: Request, form: Parameters, client: PracticeClient): ClientCheck {
  const encoded = /^Basic +(\S+)$/i.exec(req.get("authorization") ?? "")?.[1];
  const [id, secret] = encoded === undefined ? [form.get("client_id"), form.get("client_secret")] : readBasic(encoded);
  const twice = encoded !== undefined && form.get("client_secret") !== null;
  return {
    ok: !twice && sameValue(id ?? "", client.clientId) && sameValue(secret ?? "", client.clientSecret),
    id,
    secretGiven: secret !== null,
    basic: encoded !== undefined,
  };
}

function readBasic(encoded: string): [string | null, string | null] {
  const text = Buffer.from(encoded, "base64").toString("utf8");
  const colon = text.indexOf(":");
  if (colon < 0) return [null, null];
  return [formDecoded(text.slice(0, colon)), formDecoded(text.slice(colon + 1))];
}

/** Both halves are form-encoded before they are joined (RFC 6749 section 2.3.1). */
function formDecoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return text;
  }
}
