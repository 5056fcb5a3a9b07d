// What a database error means to its caller, whichever driver told it. The same fault comes in several shapes: pg's own
// errors (an SQLSTATE, a socket's code, or words alone), the Prisma adapter's (a `kind`, with or without the SQLSTATE it
// had), and Prisma's, whose code says how it was asked (every raw statement fails with P2010) and whose `meta` says why.
// Must never happen: a database that is gone, told as a fault of the program.

/** A unique index refused the row: Prisma P2002, or PostgreSQL 23505 (unique_violation). */
export function isUniqueViolation(thrown: unknown): boolean {
  return marksOf(thrown).some(({ code }) => code === "P2002" || code === "23505");
}

/** A foreign key still points at the row: Prisma P2003, or PostgreSQL 23503. */
export function isStillReferred(thrown: unknown): boolean {
  return marksOf(thrown).some(({ code }) => code === "P2003" || code === "23503");
}

/** The row to be changed or deleted went away in between. */
export function isMissing(thrown: unknown): boolean {
  return marksOf(thrown).some(({ code }) => code === "P2025");
}

/** Text that no column takes: U+0000 (22021), also inside JSON (22P05). Somebody sent it; it is no fault of ours. */
export function isUnkeepableText(thrown: unknown): boolean {
  return marksOf(thrown).some(({ code }) => code === "22021" || code === "22P05");
}

/** The database cannot be reached now, took too long, or is not in a state to take this; the same act may work later. */
export function isUnavailable(thrown: unknown): boolean {
  return marksOf(thrown).some(({ code, kind, words }) => UNAVAILABLE_CODES.test(code) || UNAVAILABLE_KINDS.has(kind) || UNAVAILABLE_WORDS.test(words));
}

/**
 * Prisma: P1001, P1002, P1008, P1011, P1017, P1018 (no connection, or one that ended), P2024, P2028, P2034, P2037 (no turn, no
 * transaction, a conflict, too many connections). Node: a socket that does not open or broke. PostgreSQL: the classes 08
 * (connection), 53 (no room, no memory, no disk) and 57P (shut down, crashed, starting), 57014 (took too long), 25006 (a standby:
 * it takes no writes), 25P03 (we stood still inside a transaction), 40001 and 40P01 (a conflict, a deadlock), 55P03 (locked).
 */
const UNAVAILABLE_CODES =
  /^(P1001|P1002|P1008|P1011|P1017|P1018|P2024|P2028|P2034|P2037|E(CONNREFUSED|CONNRESET|CONNABORTED|TIMEDOUT|PIPE|HOSTUNREACH|NETUNREACH|NETDOWN|NOTFOUND|AI_AGAIN)|ERR_STREAM_(DESTROYED|WRITE_AFTER_END)|08\w{3}|53\w{3}|57P\w{2}|57014|25006|25P03|40001|40P01|55P03)$/;

/** What the Prisma adapter makes of an error before it is Prisma's: without a code where the socket had one. */
const UNAVAILABLE_KINDS = new Set(["DatabaseNotReachable", "ConnectionClosed", "SocketTimeout", "TlsConnectionError", "TooManyConnections", "TransactionAlreadyClosed", "TransactionWriteConflict"]);

/** What pg says without a code. */
const UNAVAILABLE_WORDS =
  /Connection terminated|Connection ended|connect timeout|timeout exceeded|timeout expired|read timeout|not queryable|pool after calling end|socket hang up/i;

interface Marks {
  code: string;
  kind: string;
  words: string;
}

const DEPTH_MAX = 4;

/** Of the error and of all that lies below it: its causes, and where the Prisma adapter keeps what the driver said. */
function marksOf(thrown: unknown, depth = DEPTH_MAX): Marks[] {
  if (typeof thrown !== "object" || thrown === null || depth === 0) return [];
  const { code, originalCode, kind, message, originalMessage, cause, meta } = thrown as Record<string, unknown>;
  const words = [message, originalMessage].filter((text) => typeof text === "string").join(" ");
  const own = [code, originalCode].filter((one) => typeof one === "string").map((one) => ({ code: one, kind: "", words: "" }));
  const below = [cause, (meta as { driverAdapterError?: unknown } | null | undefined)?.driverAdapterError];
  return [...own, { code: "", kind: typeof kind === "string" ? kind : "", words }, ...below.flatMap((one) => marksOf(one, depth - 1))];
}
