// A guess whether a mail waits for the person's answer, from its headers and first words. A guess only: never a reason to act.
import type { ReadMessage } from "./message.js";
import { header } from "./parts.js";

const MACHINE_LABELS = new Set(["CATEGORY_PROMOTIONS", "CATEGORY_SOCIAL", "CATEGORY_UPDATES", "CATEGORY_FORUMS", "SPAM", "SENT", "DRAFT"]);
const MACHINE_SENDER = /^(?:no-?reply|do-?not-?reply|notifications?|newsletters?|mailer-daemon|postmaster|bounces?|alerts?|updates?)\b/i;
/** Of many recipients nobody feels asked. */
const RECIPIENTS_MAX = 5;
/** A question mark of any script, or an English request. */
const ASKS =
  /[?？؟՞]|\b(?:please|could you|can you|would you|let me know|your (?:reply|answer|thoughts|opinion)|rsvp|asap|by (?:today|tomorrow|monday|tuesday|wednesday|thursday|friday)|deadline|reminder)\b/iu;

export function seemsToNeedAnswer(message: ReadMessage, ownAddress: string | null): boolean {
  const { shown, part } = message;
  if (shown.labels.some((label) => MACHINE_LABELS.has(label))) return false;
  if (header(part, "List-Id") ?? header(part, "List-Unsubscribe")) return false;
  if (/\b(?:bulk|list|junk)\b/i.test(header(part, "Precedence") ?? "")) return false;
  if (!/^(?:\s*no\s*)?$/i.test(header(part, "Auto-Submitted") ?? "")) return false;
  const from = shown.from?.email.toLowerCase() ?? "";
  if (from === "" || MACHINE_SENDER.test(from) || from === ownAddress?.toLowerCase()) return false;
  if (!isToThem(message, ownAddress)) return false;
  return ASKS.test(`${shown.subject} ${shown.snippet}`);
}

function isToThem(message: ReadMessage, ownAddress: string | null): boolean {
  if (message.to.length > RECIPIENTS_MAX) return false;
  return ownAddress === null || message.to.some((box) => box.email.toLowerCase() === ownAddress.toLowerCase());
}
