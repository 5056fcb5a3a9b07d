// Google's `fields` parameter: answers with the named fields only, as in `messages(id,payload/headers),nextPageToken`.

type Mask = Map<string, Mask | null>;

/** Nesting and length beyond which a mask is refused. */
const CHARS_MAX = 2000;

/** Null: not a mask. */
export function parseFields(text: string): Mask | null {
  if (text.length > CHARS_MAX) return null;
  const tokens = text.match(/[A-Za-z0-9_*]+|[,/()]/g) ?? [];
  if (tokens.join("") !== text.replace(/\s/g, "")) return null;
  const at = { index: 0 };
  const mask = readList(tokens, at);
  return at.index === tokens.length ? mask : null;
}

function readList(tokens: readonly string[], at: { index: number }): Mask | null {
  const mask: Mask = new Map();
  for (;;) {
    const name = tokens[at.index];
    if (name === undefined || /[,/()]/.test(name)) return null;
    at.index += 1;
    const below = readBelow(tokens, at);
    if (below === undefined) return null;
    mask.set(name, merge(mask.get(name), below));
    if (tokens[at.index] !== ",") return mask;
    at.index += 1;
  }
}

/** Null: the whole field. Undefined: not a mask. */
function readBelow(tokens: readonly string[], at: { index: number }): Mask | null | undefined {
  if (tokens[at.index] === "/") {
    at.index += 1;
    const name = tokens[at.index];
    if (name === undefined || /[,/()]/.test(name)) return undefined;
    at.index += 1;
    const below = readBelow(tokens, at);
    return below === undefined ? undefined : new Map([[name, below]]);
  }
  if (tokens[at.index] !== "(") return null;
  at.index += 1;
  const inner = readList(tokens, at);
  if (inner === null || tokens[at.index] !== ")") return undefined;
  at.index += 1;
  return inner;
}

function merge(before: Mask | null | undefined, more: Mask | null): Mask | null {
  if (before === undefined) return more;
  if (before === null || more === null) return null;
  return new Map([...before, ...more]);
}

export function applyFields(value: unknown, mask: Mask | null): unknown {
  if (mask === null || typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((one) => applyFields(one, mask));
  const kept = Object.entries(value).filter(([name]) => mask.has(name) || mask.has("*"));
  return Object.fromEntries(kept.map(([name, inner]) => [name, applyFields(inner, mask.get(name) ?? mask.get("*") ?? null)]));
}
