// Reading an answer whose shape we do not control, without trusting it: every miss is undefined, nothing throws.

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `a.b.0.c`: own properties only, so that `__proto__` and `constructor` lead nowhere. */
export function pick(value: unknown, path: string): unknown {
  let at: unknown = value;
  for (const step of path.split(".")) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, step)) return undefined;
    at = (at as Record<string, unknown>)[step];
  }
  return at;
}

export function textAt(value: unknown, path: string): string | undefined {
  const found = pick(value, path);
  return typeof found === "string" ? found : undefined;
}

export function numberAt(value: unknown, path: string): number | undefined {
  const found = pick(value, path);
  return typeof found === "number" && Number.isFinite(found) ? found : undefined;
}

export function listAt(value: unknown, path: string): unknown[] {
  const found = pick(value, path);
  return Array.isArray(found) ? found : [];
}

/** An id that came as text or as a number. */
export function idAt(value: unknown, path: string): string | undefined {
  const found = pick(value, path);
  if (typeof found === "number" && Number.isSafeInteger(found)) return String(found);
  return typeof found === "string" && found !== "" ? found : undefined;
}
