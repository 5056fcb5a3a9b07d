// gmail_send_message: sends once. A lost answer is looked up, never answered by a second send. Must never happen: a mail sent
// twice; a header brought in by an argument; a send that the connection's settings want confirmed, unconfirmed.
import { z } from "zod";
import { CallEnded, defineTool, ProviderFailure, type ToolContext } from "../connector.js";
import { idAt, listAt, pick, textAt } from "../json.js";
import { holdsControls } from "../untrusted.js";
import { ADDRESS_CHARS_MAX, parseRecipient, type Recipient } from "./addresses.js";
import { gmailCall, MESSAGES, must } from "./api.js";
import { confirmSend } from "./confirm.js";
import { composeMail, type Draft, replyHeaders } from "./mimeWrite.js";
import { header, readParts } from "./parts.js";
import { messageId } from "./readTools.js";
import { GMAIL_READ, GMAIL_SEND } from "./scopes.js";

/** Gmail takes 500 recipients; a tool that a model calls has no reason for so many. */
const RECIPIENTS_MAX = 50;
const SUBJECT_CHARS_MAX = 500;
const BODY_CHARS_MAX = 100_000;
/** Gmail's search knows a sent message a moment later. */
const LOOK_UP_PAUSES_MS = [0, 2_000];
const LOOK_BACK_S = 300;
const LOOKED_THROUGH_MAX = 10;

const recipient = z
  .string()
  .min(3)
  .max(ADDRESS_CHARS_MAX)
  .refine((value) => parseRecipient(value) !== null, "must be one address, such as ann@example.com or Ann Lee <ann@example.com>");

const recipients = z.array(recipient).max(RECIPIENTS_MAX);

export const sendMessage = defineTool({
  name: "gmail_send_message",
  title: "Send a Gmail message",
  description:
    "Sends a message from the person's own Gmail address, at once. Each entry of `to`, `cc` and `bcc` is one recipient. " +
    "To answer a message, give its id as `reply_to_message_id` and keep its subject: the answer then joins the conversation. " +
    "If the outcome is outcome_unknown, look into the sent mail before anything else; do not send again.",
  input: z.strictObject({
    to: recipients.min(1).describe('Recipients, 1 to 50: "ann@example.com" or "Ann Lee <ann@example.com>".'),
    cc: recipients.optional().describe("Recipients of a copy."),
    bcc: recipients.optional().describe("Recipients that the others do not see."),
    subject: z
      .string()
      .max(SUBJECT_CHARS_MAX)
      .refine((value) => !holdsControls(value), "must be one line without control characters")
      .describe("One line."),
    body: z.string().max(BODY_CHARS_MAX).describe("The text, plain."),
    html_body: z
      .string()
      .max(BODY_CHARS_MAX * 2)
      .optional()
      .describe("The same text as HTML, for readers that show it. `body` is still needed."),
    reply_to_message_id: messageId.optional().describe("Id of the message that this one answers."),
  }),
  output: z.strictObject({
    id: z.string().describe("Id of the sent message."),
    thread_id: z.string(),
    message_id: z.string().describe("Its Message-ID header as we wrote it."),
    recipients: z.int().describe("How many people it went to."),
    confirmed_by: z.enum(["answer", "look_up"]).describe("look_up: Gmail's answer was lost, and the message was found in the sent mail."),
  }),
  scopes: [GMAIL_SEND],
  effect: "write",
  async run(context, args) {
    const to = parsed(args.to);
    const cc = parsed(args.cc ?? []);
    const bcc = parsed(args.bcc ?? []);
    const all = [...to, ...cc, ...bcc];
    await confirmSend(context, all);
    const original = args.reply_to_message_id === undefined ? null : await readOriginal(context, args.reply_to_message_id);
    const draft: Draft = {
      to,
      cc,
      bcc,
      subject: args.subject,
      body: args.body,
      htmlBody: args.html_body,
      date: context.clock.date(),
      messageId: ownMessageId(context.onceToken),
      onceToken: context.onceToken,
      reply: original?.reply ?? null,
    };
    const raw = (await composeMail(draft)).toString("base64url");
    const sent = await send(context, draft, { raw, ...(original ? { threadId: original.threadId } : {}) });
    const people = `${all.length} recipient${all.length === 1 ? "" : "s"}`;
    const how = sent.confirmed_by === "look_up" ? " Gmail's answer was lost; the message was found in the sent mail." : "";
    return { text: `Sent to ${people}.${how}`, structured: { ...sent, message_id: draft.messageId, recipients: all.length } };
  },
});

function parsed(values: readonly string[]): Recipient[] {
  return values.map((value) => {
    const one = parseRecipient(value);
    if (!one) throw new CallEnded("invalid_arguments", "recipient", "A recipient is not one valid address.");
    return one;
  });
}

/** Ours and the same at each try of one call, so that the sent mail can be asked for it. */
export function ownMessageId(onceToken: string): string {
  return `<${onceToken.replace(/[^\w-]/g, "")}@outband.invalid>`;
}

async function readOriginal(context: ToolContext, id: string): Promise<{ threadId: string; reply: Draft["reply"] }> {
  const body = await gmailCall(context, {
    method: "GET",
    path: `${MESSAGES}/${encodeURIComponent(id)}`,
    query: { format: "metadata", metadataHeaders: ["Message-ID", "References"], fields: "id,threadId,payload(headers)" },
    scopes: [GMAIL_READ],
    notFound: "There is no message of the id in reply_to_message_id.",
  });
  const part = readParts(pick(body, "payload"));
  return {
    threadId: must(body, "threadId"),
    reply: replyHeaders({ messageId: header(part, "Message-ID"), references: header(part, "References") }),
  };
}

interface Sent {
  id: string;
  thread_id: string;
  confirmed_by: "answer" | "look_up";
}

async function send(context: ToolContext, draft: Draft, json: { raw: string; threadId?: string }): Promise<Sent> {
  const beganS = Math.floor(context.clock.now() / 1000);
  try {
    const body = await gmailCall(context, { method: "POST", path: `${MESSAGES}/send`, json, write: true, scopes: [GMAIL_SEND] });
    const id = idAt(body, "id");
    if (id === undefined) throw new ProviderFailure("outcome_unknown", "odd_answer");
    return { id, thread_id: idAt(body, "threadId") ?? "", confirmed_by: "answer" };
  } catch (thrown) {
    if (!(thrown instanceof ProviderFailure) || thrown.kind !== "outcome_unknown") throw thrown;
    const found = await lookUp(context, draft, beganS - LOOK_BACK_S);
    if (found) return { ...found, confirmed_by: "look_up" };
    // Not found proves nothing: Gmail may still be at it.
    throw new ProviderFailure("outcome_unknown", thrown.reason, { reference: draft.messageId });
  }
}

async function lookUp(context: ToolContext, draft: Draft, sinceS: number): Promise<{ id: string; thread_id: string } | null> {
  for (const pauseMs of LOOK_UP_PAUSES_MS) {
    try {
      if (pauseMs > 0) await context.clock.sleep(pauseMs, context.signal);
      const found = (await byMessageId(context, draft.messageId)) ?? (await bySentMail(context, draft, sinceS));
      if (found) return found;
    } catch {
      // What the look-up comes to must not replace what is known: the outcome is unknown.
      if (context.signal.aborted) return null;
    }
  }
  return null;
}

async function byMessageId(context: ToolContext, id: string): Promise<{ id: string; thread_id: string } | null> {
  return firstOf(await search(context, `rfc822msgid:${id.slice(1, -1)}`, 1));
}

/** Gmail may put a Message-ID of its own in place of ours; our other header stays. */
async function bySentMail(context: ToolContext, draft: Draft, sinceS: number): Promise<{ id: string; thread_id: string } | null> {
  for (const one of listAt(await search(context, `in:sent after:${sinceS}`, LOOKED_THROUGH_MAX), "messages")) {
    const id = idAt(one, "id");
    if (id === undefined) continue;
    const body = await gmailCall(context, {
      method: "GET",
      path: `${MESSAGES}/${encodeURIComponent(id)}`,
      query: { format: "metadata", metadataHeaders: ["X-Outband-Once", "Message-ID"], fields: "id,threadId,payload(headers)" },
      scopes: [GMAIL_READ],
    });
    const part = readParts(pick(body, "payload"));
    if (header(part, "X-Outband-Once") === draft.onceToken || header(part, "Message-ID") === draft.messageId)
      return { id, thread_id: textAt(body, "threadId") ?? "" };
  }
  return null;
}

function search(context: ToolContext, q: string, maxResults: number): Promise<unknown> {
  return gmailCall(context, {
    method: "GET",
    path: MESSAGES,
    query: { q, maxResults, fields: "messages(id,threadId)" },
    scopes: [GMAIL_READ],
  });
}

function firstOf(body: unknown): { id: string; thread_id: string } | null {
  const id = idAt(body, "messages.0.id");
  return id === undefined ? null : { id, thread_id: idAt(body, "messages.0.threadId") ?? "" };
}
