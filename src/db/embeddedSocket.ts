// The "socket" between node-postgres and the database in this process: bytes go in and out of PGlite's engine, nothing
// touches a network. Must never happen: two of these in use at once on one engine (it has one session), or a session
// handed on with what the last user left in it (an open transaction, prepared statements).
import { Duplex } from "node:stream";
import type { PGlite } from "@electric-sql/pglite";

/** A frontend message of the simple query protocol. */
function simpleQuery(sql: string): Buffer {
  const text = Buffer.from(`${sql}\0`);
  const message = Buffer.alloc(5 + text.length);
  message.write("Q");
  message.writeInt32BE(4 + text.length, 1);
  text.copy(message, 5);
  return message;
}

const RESET = [simpleQuery("ROLLBACK"), simpleQuery("DISCARD ALL")];

/** The engine answers within the same turn of the event loop: without a pause, a queue of queries keeps timers and sockets
 *  waiting until it is empty. */
const ENTRIES_PER_TURN = 16;

/** Given to `pg.Pool` as `stream`. node-postgres corks a query, so that one query is one entry into the engine. */
export class EmbeddedSocket extends Duplex {
  readonly #lite: PGlite;
  #entries = 0;

  constructor(lite: PGlite) {
    super();
    this.#lite = lite;
  }

  connect(): this {
    this.#reset().then(
      () => this.emit("connect"),
      (error: unknown) => this.destroy(asError(error)),
    );
    return this;
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  override _read(): void {
    // Answers are pushed when the engine gives them.
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#enter(chunk).then(
      () => done(),
      (error: unknown) => done(asError(error)),
    );
  }

  override _writev(chunks: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), "utf8", done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.push(null);
    done();
  }

  /** The streaming entry: `execProtocolRaw` also keeps every message it ever answered, which is a leak. The bytes lie in
   *  the engine's memory and are copied out at once. */
  async #enter(message: Uint8Array): Promise<void> {
    this.#entries += 1;
    if (this.#entries % ENTRIES_PER_TURN === 0) await new Promise((resume) => setImmediate(resume));
    const answer: Buffer[] = [];
    await this.#lite.execProtocolRawStream(message, { syncToFs: false, onRawData: (bytes) => answer.push(Buffer.from(bytes)) });
    if (answer.length > 0) this.push(answer.length === 1 ? answer[0] : Buffer.concat(answer));
  }

  /** The engine has one session: what the last connection left is cleared before the next one begins. */
  async #reset(): Promise<void> {
    for (const message of RESET) await this.#lite.execProtocolRawStream(message, { syncToFs: false, onRawData: () => {} });
  }
}

function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error("The embedded database failed.", { cause: thrown });
}
