// Errors of the database as they were seen, shape by shape: what each of them means to its caller.
import assert from "node:assert/strict";
import { test } from "node:test";
import { isMissing, isStillReferred, isUnavailable, isUniqueViolation, isUnkeepableText } from "../../src/db/errors.js";
import { readThrown } from "../../src/http/problem.js";

/** As Prisma throws it: how it was asked, and below it what the adapter made of the driver's error. */
const prisma = (code: string, cause?: Record<string, unknown>): Error =>
  Object.assign(new Error("\nInvalid `prisma.$executeRaw()` invocation:\n\n\nRaw query failed."), {
    name: "PrismaClientKnownRequestError",
    code,
    meta: cause ? { driverAdapterError: adapter(cause) } : {},
    clientVersion: "7.10.0",
  });
const adapter = (cause: Record<string, unknown>): Error => Object.assign(new Error(String(cause["kind"])), { name: "DriverAdapterError", cause });
const postgres = (code: string): Record<string, unknown> => ({ originalCode: code, originalMessage: "words", kind: "postgres", code, severity: "FATAL", message: "words" });
const coded = (code: string): Error => Object.assign(new Error("words"), { code });

const GONE: Record<string, unknown> = {
  // Seen when PostgreSQL was killed under load: a raw statement (a row lock) inside a transaction, its socket reset.
  "a raw statement on a connection that was reset": prisma("P2010", { kind: "ConnectionClosed" }),
  "a raw statement on a server that is gone": prisma("P2010", { kind: "DatabaseNotReachable", host: "127.0.0.1", port: 5432 }),
  "a raw statement that timed out in its socket": prisma("P2010", { kind: "SocketTimeout" }),
  "a raw statement on a server without a free place": prisma("P2010", { originalCode: "53300", originalMessage: "words", kind: "TooManyConnections", cause: "words" }),
  "a raw statement that lost a deadlock": prisma("P2010", { originalCode: "40P01", originalMessage: "words", kind: "TransactionWriteConflict" }),
  "a raw statement on a server that shuts down": prisma("P2010", postgres("57P01")),
  "a statement on a server that crashed": prisma("P2039", postgres("57P02")),
  "a statement on a server that starts": prisma("P2039", postgres("57P03")),
  "a statement that took too long": prisma("P2039", postgres("57014")),
  "a write on a standby": prisma("P2039", postgres("25006")),
  "a full disk": prisma("P2039", postgres("53100")),
  "Prisma's own word for a closed connection": prisma("P1017", { kind: "ConnectionClosed" }),
  "too many connections": prisma("P2037", { originalCode: "53300", kind: "TooManyConnections", cause: "words" }),
  "a transaction that did not start in time": prisma("P2028"),
  "the adapter's error, not wrapped": adapter({ kind: "ConnectionClosed" }),
  "the adapter's error with PostgreSQL's code": adapter(postgres("57P01")),
  "pg without a code": new Error("Connection terminated unexpectedly"),
  "pg: no connection in time": new Error("timeout expired"),
  "pg's pool: no connection in time": new Error("Connection terminated due to connection timeout", { cause: new Error("Connection terminated unexpectedly") }),
  "pg's pool: no free connection": new Error("timeout exceeded when trying to connect"),
  "pg: a broken connection": new Error("Client has encountered a connection error and is not queryable"),
  "pg with PostgreSQL's code": coded("57P01"),
  "pg: no answer": new Error("Query read timeout"),
  "a refused socket": coded("ECONNREFUSED"),
  "a socket that was cut while it was written to": coded("EPIPE"),
  "a socket of our own making that is gone": coded("ERR_STREAM_DESTROYED"),
  "wrapped once more": new Error("the vault could not read", { cause: prisma("P2010", { kind: "ConnectionClosed" }) }),
};

for (const [name, thrown] of Object.entries(GONE)) {
  test(`503 unavailable, and to be tried again: ${name}`, () => {
    assert.equal(isUnavailable(thrown), true);
    const error = readThrown(thrown);
    assert.deepEqual([error.status, error.code, error.retryAfterS], [503, "unavailable", 5]);
  });
}

const OURS: Record<string, unknown> = {
  "a statement that is wrong": prisma("P2010", postgres("42601")),
  "a table that is not there": prisma("P2021", { originalCode: "42P01", kind: "TableDoesNotExist", table: "words" }),
  "a row twice": prisma("P2002", { originalCode: "23505", kind: "UniqueConstraintViolation" }),
  "PostgreSQL's own fault": coded("XX000"),
  "a code that only begins like one": coded("57P01x"),
  "an error of the program": new TypeError("x is not a function"),
  nothing: undefined,
  "a text": "Connection terminated",
};

for (const [name, thrown] of Object.entries(OURS)) {
  test(`500, the operator is told: ${name}`, () => {
    assert.equal(isUnavailable(thrown), false);
    assert.deepEqual([readThrown(thrown).status, readThrown(thrown).code], [500, "internal"]);
  });
}

test("an error that goes round in a circle has an end", () => {
  const round = new Error("words");
  round.cause = round;
  assert.equal(isUnavailable(round), false);
});

test("the other meanings are found in every shape, and in none of the others", () => {
  const shapes = (prismaCode: string, code: string) => [prisma(prismaCode, { originalCode: code, kind: "any" }), prisma("P2010", postgres(code)), coded(code)];
  const meanings = [
    { is: isUniqueViolation, thrown: shapes("P2002", "23505") },
    { is: isStillReferred, thrown: shapes("P2003", "23503") },
    { is: isUnkeepableText, thrown: shapes("P2039", "22021") },
    { is: isMissing, thrown: [prisma("P2025")] },
  ];
  for (const { is, thrown } of meanings) {
    for (const other of meanings) for (const one of other.thrown) assert.equal(is(one), other.thrown === thrown, JSON.stringify([is.name, one]));
    for (const gone of Object.values(GONE)) assert.equal(is(gone), false);
  }
});
