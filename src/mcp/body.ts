// Reads the one JSON body of a POST to an MCP endpoint: sized, uncompressed, UTF-8, and no deeper than anybody needs.
// Must never happen: an HTML error page or a stack; a body read before its sender was known; a nesting that overflows
// whoever walks it next.
import type { Request } from "express";
import { OutbandError } from "../errors.js";

/** As the SDK's own limit. A mail with attachments does not travel through here. */
export const BODY_BYTES_MAX = 4 * 1024 * 1024;
/** JSON.parse takes 200,000 nested arrays, JSON.stringify and every recursive walker die of them. */
const DEPTH_MAX = 64;

export type Body =
  | { ok: true; message: Record<string, unknown> }
  | { ok: false; status: 400 | 413 | 415; code: -32700 | -32600; text: string };

export async function readBody(req: Request): Promise<Body> {
  if (!isPlainJson(req)) return refused(415, -32600, "The body must be application/json in UTF-8, not compressed.");
  const bytes = await readBytes(req);
  if (bytes === null) return refused(413, -32600, "The body is too large.");
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    return refused(400, -32700, "The body is not valid JSON.");
  }
  // One request or notification per body: no batches, and nothing that hides a second call from the scope check.
  if (value === null || typeof value !== "object" || Array.isArray(value))
    return refused(400, -32600, "The body must be one JSON-RPC message.");
  if (isTooDeep(value)) return refused(400, -32600, "The body is nested too deeply.");
  return { ok: true, message: value as Record<string, unknown> };
}

function refused(status: 400 | 413 | 415, code: -32700 | -32600, text: string): Body {
  return { ok: false, status, code, text };
}

function isPlainJson(req: Request): boolean {
  const [media = "", ...parameters] = (req.headers["content-type"] ?? "").toLowerCase().split(";");
  const charset = parameters.map((one) => one.trim()).find((one) => one.startsWith("charset="));
  const encoding = req.headers["content-encoding"] ?? "identity";
  return media.trim() === "application/json" && (charset === undefined || /^charset="?utf-?8"?$/.test(charset)) && encoding === "identity";
}

/** Null: more than the limit. The rest is let through to nowhere, so that the answer can still be read. */
async function readBytes(req: Request): Promise<Buffer | null> {
  if (Number(req.headers["content-length"] ?? 0) > BODY_BYTES_MAX) {
    req.resume();
    return null;
  }
  const parts: Buffer[] = [];
  let length = 0;
  return new Promise((resolve, reject) => {
    req.on("data", (part: Buffer) => {
      length += part.length;
      if (length > BODY_BYTES_MAX) resolve(null);
      else parts.push(part);
    });
    req.on("end", () => resolve(Buffer.concat(parts)));
    // The client left before its body was whole: nobody reads the answer.
    req.on("close", () => reject(new OutbandError("invalid_request")));
    req.on("error", () => reject(new OutbandError("invalid_request")));
  });
}

function isTooDeep(root: object): boolean {
  const stack: { value: object; depth: number }[] = [{ value: root, depth: 1 }];
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    if (next.depth > DEPTH_MAX) return true;
    for (const child of Object.values(next.value)) {
      if (child !== null && typeof child === "object") stack.push({ value: child, depth: next.depth + 1 });
    }
  }
  return false;
}
