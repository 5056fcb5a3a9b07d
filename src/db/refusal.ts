// A database that must not be used as it is. The message is one sentence for the operator.

/** Thrown while the database is opened. Must never hold the connection URL: it carries a password. */
export class DatabaseRefusal extends Error {
  override readonly name = "DatabaseRefusal";
}
