// Pages by time, newest first: the cursor is the time and the id of the last row given. Rows that come or go in between
// shift nothing, and the row itself may be gone.

export interface TimeCursor {
  createdAt: Date;
  id: string;
}

export function cursorOf(at: TimeCursor): string {
  return Buffer.from(JSON.stringify([at.createdAt.toISOString(), at.id])).toString("base64url");
}

/** Null: not made here. Of its parts only what a database can read goes on. */
export function readCursor(text: string): TimeCursor | null {
  try {
    const [time, id] = JSON.parse(Buffer.from(text, "base64url").toString()) as [unknown, unknown];
    if (typeof time !== "string" || !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(time) || time < "1970") return null;
    if (typeof id !== "string" || !/^[^\0\p{Cs}]{1,255}$/u.test(id)) return null;
    const createdAt = new Date(time);
    return Number.isNaN(createdAt.getTime()) ? null : { createdAt, id };
  } catch {
    return null;
  }
}
