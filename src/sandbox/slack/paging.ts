// Slack's cursors. The second page of a longer list is empty and has a cursor all the same, as Slack warns it may be.
import { SlackRefusal, type SlackCall } from "./call.js";

/** Small, so that a workspace of eight channels already has pages. Slack too may give fewer than asked. */
const PAGE_MAX = 5;
/** As documented for conversations.list. */
const LIMIT_MAX = 1000;

export function limitOf(call: SlackCall, fallback: number): number {
  const limit = Number(call.text("limit") ?? fallback);
  if (!Number.isInteger(limit) || limit < 1 || limit > LIMIT_MAX) throw new SlackRefusal("invalid_limit");
  return limit;
}

export function pageOf<Item>(items: readonly Item[], call: SlackCall): { items: Item[]; nextCursor: string } {
  const size = Math.min(limitOf(call, 100), PAGE_MAX);
  const cursor = call.text("cursor");
  const { start, empty } = cursor === null ? { start: 0, empty: false } : readCursor(cursor, items.length);
  if (empty) return { items: [], nextCursor: cursorAt(start, false) };
  const end = start + size;
  return { items: items.slice(start, end), nextCursor: end < items.length ? cursorAt(end, start === 0) : "" };
}

function cursorAt(start: number, empty: boolean): string {
  return Buffer.from(`${empty ? "pause" : "next"}:${start}`).toString("base64");
}

function readCursor(cursor: string, length: number): { start: number; empty: boolean } {
  const found = /^(pause|next):(\d{1,6})$/.exec(Buffer.from(cursor, "base64").toString());
  const start = Number(found?.[2] ?? Number.NaN);
  if (!found || !(start <= length)) throw new SlackRefusal("invalid_cursor");
  return { start, empty: found[1] === "pause" };
}
