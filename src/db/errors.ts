// What a database error means to its caller, whichever driver told it.

/** A unique index refused the row: Prisma P2002, or PostgreSQL 23505 (unique_violation). */
export function isUniqueViolation(thrown: unknown): boolean {
  const code = codeOf(thrown);
  return code === "P2002" || code === "23505";
}

/** A foreign key still points at the row: Prisma P2003, or PostgreSQL 23503. */
export function isStillReferred(thrown: unknown): boolean {
  const code = codeOf(thrown);
  return code === "P2003" || code === "23503";
}

/** The row to be changed or deleted went away in between. */
export function isMissing(thrown: unknown): boolean {
  return codeOf(thrown) === "P2025";
}

/** Text that no column takes: U+0000 (22021), also inside JSON (22P05). Somebody sent it; it is no fault of ours. */
export function isUnkeepableText(thrown: unknown): boolean {
  const cause = (thrown as { meta?: { driverAdapterError?: { cause?: { code?: unknown } } } } | null)?.meta?.driverAdapterError?.cause;
  return [codeOf(thrown), cause?.code].some((code) => code === "22021" || code === "22P05");
}

/** The database cannot be reached now, or took too long; the same act may work later. */
export function isUnavailable(thrown: unknown): boolean {
  const code = codeOf(thrown);
  if (code === undefined)
    return /Connection terminated|connect timeout|timeout exceeded|Client has encountered a connection error/i.test(messageOf(thrown));
  return UNAVAILABLE.has(code) || code.startsWith("08") || code.startsWith("57P");
}

const UNAVAILABLE = new Set([
  "P1001",
  "P1002",
  "P1008",
  "P1017",
  "P2024",
  "P2028",
  "P2034",
  "ECONNREFUSED",
  "ECONNRESET",
  "ETIMEDOUT",
  "EPIPE",
  "53300",
  "57014",
]);

function codeOf(thrown: unknown): string | undefined {
  const code = (thrown as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : undefined;
}

function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : "";
}
