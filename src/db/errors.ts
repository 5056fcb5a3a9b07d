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
  return [codeOf(thrown), codeOf(driverCause(thrown))].some((code) => code === "22021" || code === "22P05");
}

/** The database cannot be reached now, or took too long; the same act may work later. */
export function isUnavailable(thrown: unknown): boolean {
  const causes = [thrown, driverCause(thrown), (thrown as { cause?: unknown } | null)?.cause];
  return causes.some((cause) => {
    const code = codeOf(cause);
    if (code !== undefined && (UNAVAILABLE.has(code) || code.startsWith("08") || code.startsWith("57P"))) return true;
    return UNAVAILABLE_WORDS.test(messageOf(cause));
  });
}

/** What pg says without a code. */
const UNAVAILABLE_WORDS =
  /Connection terminated|Connection ended|connect timeout|timeout exceeded|read timeout|not queryable|pool after calling end|socket hang up/i;

/** Where the Prisma adapter keeps what the driver said. */
function driverCause(thrown: unknown): unknown {
  return (thrown as { meta?: { driverAdapterError?: { cause?: unknown } } } | null)?.meta?.driverAdapterError?.cause;
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
  const message = (thrown as { message?: unknown } | null)?.message;
  return typeof message === "string" ? message : "";
}
