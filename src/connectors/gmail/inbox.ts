// summarize_inbox: what came in, from whom, what is unread, what seems to need an answer. Must never happen: a sender's words
// in a sentence of ours; more than 4 KB of text.
import { z } from "zod";
import { defineTool, type ToolContext } from "../connector.js";
import { idAt, listAt, numberAt } from "../json.js";
import { capText } from "../untrusted.js";
import { gmailCall, MESSAGES } from "./api.js";
import { dateInWords } from "./dates.js";
import { listedMessage, mailbox, mailboxLine, type ReadMessage, readMany } from "./message.js";
import { seemsToNeedAnswer } from "./needsAnswer.js";
import { GMAIL_READ } from "./scopes.js";

const TEXT_BYTES_MAX = 4 * 1024;
/** Left for our own sentences. */
const OWN_BYTES = 900;
const SENDERS_SHOWN = 5;

export const summarizeInbox = defineTool({
  name: "summarize_inbox",
  title: "Summarize the inbox",
  description:
    "Looks at the newest messages of the person's Gmail inbox and tells how many there are, who wrote, what is unread and what seems to need an answer. " +
    'Start here for questions such as "what is new in my mail". Reads headers and the first words only; use gmail_get_message for a whole message.',
  input: z.strictObject({
    max_messages: z.int().min(1).max(50).default(20).describe("How many of the newest messages to look at, 1 to 50."),
  }),
  output: z.strictObject({
    looked_at: z.int().describe("Messages that were read."),
    inbox_total: z.int().nullable().describe("Messages in the whole inbox; null when Gmail did not say."),
    inbox_unread: z.int().nullable().describe("Unread messages in the whole inbox; null when Gmail did not say."),
    unread: z.int().describe("Unread messages among those looked at."),
    senders: z.array(mailbox.extend({ count: z.int() })).describe("Who wrote, most frequent first, at most 20."),
    needs_answer: z.array(z.string()).describe("Ids of messages that seem to need an answer. A guess from headers and first words."),
    messages: z.array(listedMessage).describe("Newest first."),
    gone: z.int().describe("Messages that disappeared while they were read."),
  }),
  scopes: [GMAIL_READ],
  effect: "read",
  hints: { idempotent: true },
  async run(context, args) {
    const ids = await newest(context, args.max_messages);
    // Two round trips: the list alone first, so that a token that has run out is met once.
    const [{ messages, gone }, totals] = await Promise.all([readMany(context, ids), inboxTotals(context)]);
    const own = context.account.external?.email ?? null;
    const needing = messages.filter((message) => seemsToNeedAnswer(message, own));
    const senders = countSenders(messages);
    const structured = {
      looked_at: messages.length,
      inbox_total: totals.total,
      inbox_unread: totals.unread,
      unread: messages.filter((message) => message.shown.unread).length,
      senders: senders.slice(0, 20),
      needs_answer: needing.map((message) => message.shown.id),
      messages: messages.map((message) => message.shown),
      gone,
    };
    const text = ownWords(structured, messages, needing, context.clock.now());
    return { text, untrusted: untrustedBlocks(messages, senders, TEXT_BYTES_MAX - OWN_BYTES), structured };
  },
});

async function newest(context: ToolContext, count: number): Promise<string[]> {
  const body = await gmailCall(context, {
    method: "GET",
    path: MESSAGES,
    query: { labelIds: "INBOX", maxResults: count, fields: "messages(id)" },
    scopes: [GMAIL_READ],
  });
  return listAt(body, "messages")
    .flatMap((one) => idAt(one, "id") ?? [])
    .slice(0, count);
}

/** The whole inbox's counts; a summary without them is still one. */
async function inboxTotals(context: ToolContext): Promise<{ total: number | null; unread: number | null }> {
  const nothing = { total: null, unread: null };
  const body = await gmailCall(context, {
    method: "GET",
    path: "/gmail/v1/users/me/labels/INBOX",
    query: { fields: "messagesTotal,messagesUnread" },
    scopes: [GMAIL_READ],
  }).catch(() => nothing);
  return { total: wholeNumber(numberAt(body, "messagesTotal")), unread: wholeNumber(numberAt(body, "messagesUnread")) };
}

function wholeNumber(value: number | undefined): number | null {
  return value !== undefined && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

function countSenders(messages: readonly ReadMessage[]): { name: string; email: string; count: number }[] {
  const counts = new Map<string, { name: string; email: string; count: number }>();
  for (const { shown } of messages) {
    const key = shown.from?.email.toLowerCase() || shown.from?.name || "";
    const known = counts.get(key);
    if (known) known.count += 1;
    else counts.set(key, { name: shown.from?.name ?? "", email: shown.from?.email ?? "", count: 1 });
  }
  return [...counts.values()].sort((a, b) => b.count - a.count);
}

interface Figures {
  looked_at: number;
  inbox_total: number | null;
  inbox_unread: number | null;
  unread: number;
  senders: readonly unknown[];
  gone: number;
}

/** Figures, numbers and dates alone. */
function ownWords(figures: Figures, messages: readonly ReadMessage[], needing: readonly ReadMessage[], nowMs: number): string {
  if (figures.looked_at === 0)
    return figures.gone > 0 ? "The messages disappeared while they were read. Try again." : "The inbox is empty.";
  const all =
    figures.inbox_total === null
      ? ""
      : ` The whole inbox holds ${count(figures.inbox_total, "message")}${figures.inbox_unread === null ? "" : `, ${figures.inbox_unread} unread`}.`;
  const oldest = dateInWords(messages.at(-1)?.atMs ?? null, nowMs);
  const latest = dateInWords(messages[0]?.atMs ?? null, nowMs);
  const span =
    latest === null
      ? ""
      : oldest === latest || oldest === null
        ? ` Received ${latest}.`
        : ` The newest came ${latest}, the oldest of them ${oldest}.`;
  const numbers = needing.map((message) => messages.indexOf(message) + 1).join(", ");
  const answer =
    needing.length === 0
      ? " None of them seems to need an answer."
      : ` ${count(needing.length, "message")} ${needing.length === 1 ? "seems" : "seem"} to need an answer (a guess): ${needing.length === 1 ? "number" : "numbers"} ${numbers} of the list.`;
  const gone =
    figures.gone > 0 ? ` ${count(figures.gone, "message")} disappeared meanwhile and ${figures.gone === 1 ? "is" : "are"} left out.` : "";
  return `The newest ${count(figures.looked_at, "message")} of the inbox: ${figures.unread} unread, from ${count(figures.senders.length, "sender")}.${all}${span}${answer}${gone}`;
}

function count(number: number, word: string): string {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}

/** The list, numbered as our words count it, shortened evenly until it fits; then the frequent senders if there is room. */
function untrustedBlocks(
  messages: readonly ReadMessage[],
  senders: readonly { name: string; email: string; count: number }[],
  bytesMax: number,
): string[] {
  if (messages.length === 0) return [];
  const frequent = senders.filter((sender) => sender.count > 1).slice(0, SENDERS_SHOWN);
  const who =
    frequent.length === 0
      ? ""
      : `Wrote more than once: ${frequent.map((sender) => `${capText(mailboxLine(sender), 60).text} (${sender.count})`).join("; ")}`;
  for (const snippetChars of [160, 80, 40, 0]) {
    const list = messages.map((message, index) => line(message, index + 1, snippetChars)).join("\n");
    const blocks = who === "" ? [list] : [list, who];
    if (Buffer.byteLength(blocks.join("\n")) <= bytesMax) return blocks;
    if (Buffer.byteLength(list) <= bytesMax) return [list];
  }
  const perLine = Math.floor(bytesMax / messages.length) - 1;
  return [messages.map((message, index) => capText(line(message, index + 1, 0), 200, perLine).text).join("\n")];
}

function line(message: ReadMessage, number: number, snippetChars: number): string {
  const { shown } = message;
  const from = capText(mailboxLine(shown.from), 70).text;
  const subject = capText(shown.subject || "(no subject)", 100).text;
  const snippet = snippetChars > 0 && shown.snippet !== "" ? ` | ${capText(shown.snippet, snippetChars).text}` : "";
  return `${number}. ${shown.unread ? "[unread] " : ""}${from} | ${subject} | ${shown.date_in_words ?? "no date"}${snippet}`;
}
