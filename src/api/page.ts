// Pages of a list that is short enough to be read whole. The cursor names the last row that was given, so that rows which
// come in between shift nothing.
import { OutbandError } from "../errors.js";

export function pageOf<Row>(rows: readonly Row[], nameOf: (row: Row) => string, asked: { limit: number; cursor?: string | undefined }): { data: Row[]; next_cursor: string | null } {
  const start = asked.cursor === undefined ? 0 : rows.findIndex((row) => nameOf(row) === asked.cursor) + 1;
  if (asked.cursor !== undefined && start === 0) {
    throw new OutbandError("invalid_request", { problems: [{ path: "cursor", message: "What this cursor names is gone: begin with the first page." }] });
  }
  const data = rows.slice(start, start + asked.limit);
  const last = data.at(-1);
  return { data, next_cursor: last !== undefined && start + data.length < rows.length ? nameOf(last) : null };
}
