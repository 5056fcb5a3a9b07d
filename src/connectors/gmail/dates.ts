// Dates in words, in UTC and saying so: a model cannot know the reader's time zone, and must not guess it.

const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_MS = 24 * 60 * 60 * 1000;

/** "today 09:12 UTC", "yesterday 17:40 UTC", "Fri 28 Nov 2025, 08:00 UTC"; null when the time is not known. */
export function dateInWords(atMs: number | null, nowMs: number): string | null {
  if (atMs === null) return null;
  const at = new Date(atMs);
  const time = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())} UTC`;
  const daysAgo = Math.floor(nowMs / DAY_MS) - Math.floor(atMs / DAY_MS);
  if (daysAgo === 0) return `today ${time}`;
  if (daysAgo === 1) return `yesterday ${time}`;
  return `${DAYS[at.getUTCDay()]} ${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]} ${at.getUTCFullYear()}, ${time}`;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}
