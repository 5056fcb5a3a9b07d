// Values as words on a page: dates, and text that somebody outside wrote. Pure.

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

/** "5 minutes ago", "in 9 minutes", "3 days ago"; past a month the day itself (UTC: a server knows no reader's time zone). */
export function dateWords(date: Date, nowMs: number): string {
  const away = date.getTime() - nowMs;
  const size = Math.abs(away);
  if (size < MINUTE) return away > 0 ? "in less than a minute" : "just now";
  if (size >= 30 * DAY) return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
  const [count, unit] = size < HOUR ? [size / MINUTE, "minute"] : size < DAY ? [size / HOUR, "hour"] : [size / DAY, "day"];
  const whole = Math.floor(Number(count));
  const words = `${whole} ${unit}${whole === 1 ? "" : "s"}`;
  return away > 0 ? `in ${words}` : `${words} ago`;
}

/** A name that a client or a provider gave: no control, invisible or bidirectional-override characters, one line, capped. */
export function outsideText(text: string, charactersMax = 80): string {
  const clean = text
    .slice(0, charactersMax * 8)
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ")
    // The joiners U+200C and U+200D are format characters too, but Persian and family emojis need them.
    .replace(/(?!\u200c|\u200d)[\p{Cf}\p{Co}\p{Cs}]|[\u{e0100}-\u{e01ef}]/gu, "")
    .replace(/\s+/g, " ")
    .trim();
  const characters = [...clean];
  return characters.length <= charactersMax ? clean : `${characters.slice(0, charactersMax - 1).join("")}…`;
}
