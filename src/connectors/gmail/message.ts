// Messages as the read tools show them: headers, labels and snippet of the metadata format, cleaned.
import { z } from "zod";
import type { ToolContext } from "../connector.js";
import { idAt, listAt, numberAt, textAt } from "../json.js";
import { cleanLine } from "../untrusted.js";
import { gmailCall, isGone, MESSAGES } from "./api.js";
import { dateInWords } from "./dates.js";
import { type Mailbox, readLine, readMailboxes, snippetText } from "./mimeRead.js";
import { type Part, readParts } from "./parts.js";
import { mapBounded } from "../bounded.js";
import { GMAIL_READ } from "./scopes.js";

/** messages.get costs 5 of 250 quota units per second and person: 20 side by side leave room. */
const AT_ONCE_MAX = 20;
const SUBJECT_CHARS_MAX = 300;
const SNIPPET_CHARS_MAX = 220;
/** What tells a person's mail from a machine's. */
const HEADERS = ["From", "To", "Cc", "Reply-To", "Subject", "Date", "List-Id", "List-Unsubscribe", "Precedence", "Auto-Submitted"];
const FIELDS = "id,threadId,labelIds,snippet,internalDate,sizeEstimate,payload(headers)";

export const mailbox = z.strictObject({
  name: z.string().describe("Display name. Untrusted: written by the sender."),
  email: z.string().describe("Address. Untrusted: written by the sender."),
});

export const listedMessage = z.strictObject({
  id: z.string().describe("Pass it to gmail_get_message."),
  thread_id: z.string(),
  from: mailbox.nullable(),
  to: z.array(mailbox).describe("At most 10."),
  subject: z.string().describe("Untrusted: written by the sender."),
  snippet: z.string().describe("The beginning of the text. Untrusted: written by the sender."),
  date: z.string().nullable().describe("When Gmail received it, RFC 3339 in UTC."),
  date_in_words: z.string().nullable().describe("The same in words, UTC."),
  unread: z.boolean(),
  labels: z.array(z.string()).describe("Label ids, such as INBOX, UNREAD, IMPORTANT."),
});
export type ListedMessage = z.infer<typeof listedMessage>;

export interface ReadMessage {
  shown: ListedMessage;
  /** With all recipients, and headers that are not shown. */
  part: Part;
  to: Mailbox[];
  atMs: number | null;
}

/** The metadata of many messages; `gone` counts those that were deleted between list and get. */
export async function readMany(context: ToolContext, ids: readonly string[]): Promise<{ messages: ReadMessage[]; gone: number }> {
  const read = await mapBounded(ids, AT_ONCE_MAX, (id) =>
    gmailCall(context, {
      method: "GET",
      path: `${MESSAGES}/${encodeURIComponent(id)}`,
      query: { format: "metadata", metadataHeaders: HEADERS, fields: FIELDS },
      scopes: [GMAIL_READ],
      notFound: "There is no message of that id.",
    }).catch((thrown: unknown) => {
      if (isGone(thrown)) return null;
      throw thrown;
    }),
  );
  const messages = read.filter((body) => body !== null).map((body) => readMetadata(body, context.clock.now()));
  return { messages, gone: ids.length - messages.length };
}

export function readMetadata(body: unknown, nowMs: number): ReadMessage {
  const part = readParts(body !== null && typeof body === "object" ? (body as Record<string, unknown>)["payload"] : null);
  const labels = listAt(body, "labelIds").filter((label) => typeof label === "string");
  const atMs = dateOf(body);
  const to = readMailboxes(part, "To");
  return {
    part,
    to,
    atMs,
    shown: {
      id: idAt(body, "id") ?? "",
      thread_id: idAt(body, "threadId") ?? "",
      from: readMailboxes(part, "From")[0] ?? null,
      to: to.slice(0, 10),
      subject: readLine(part, "Subject", SUBJECT_CHARS_MAX),
      snippet: cleanLine(snippetText((textAt(body, "snippet") ?? "").slice(0, 2_000)), SNIPPET_CHARS_MAX),
      date: atMs === null ? null : new Date(atMs).toISOString(),
      date_in_words: dateInWords(atMs, nowMs),
      unread: labels.includes("UNREAD"),
      labels: labels.slice(0, 50).map((label) => cleanLine(label, 100)),
    },
  };
}

/** Gmail gives milliseconds as text. Times that no calendar has are left out. */
function dateOf(body: unknown): number | null {
  const ms = numberAt(body, "internalDate") ?? Number(textAt(body, "internalDate") ?? Number.NaN);
  return Number.isFinite(ms) && Math.abs(ms) < 8.64e15 ? ms : null;
}

/** "Ann Lee <ann@x.test>", for untrusted blocks. */
export function mailboxLine(box: Mailbox | null): string {
  if (!box) return "(no sender)";
  if (box.name === "" || box.name === box.email) return box.email || "(no address)";
  return box.email === "" ? box.name : `${box.name} <${box.email}>`;
}
