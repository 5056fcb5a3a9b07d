// Text that no database can keep as it was sent. Must never happen: two texts that differ on the wire and are one at rest.

/** PostgreSQL refuses U+0000; half of a surrogate pair becomes U+FFFD on its way there. */
const UNKEEPABLE = /[\0\p{Cs}]/u;

/** Looks into lists and objects, keys too; not by recursion, as JSON may be nested deeper than the stack. */
export function holdsUnkeepable(value: unknown): boolean {
  const rest = [value];
  while (rest.length > 0) {
    const one = rest.pop();
    if (typeof one === "string" && UNKEEPABLE.test(one)) return true;
    if (typeof one !== "object" || one === null) continue;
    for (const [key, item] of Object.entries(one)) rest.push(key, item);
  }
  return false;
}
