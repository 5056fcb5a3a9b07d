// A mail as bytes, by nodemailer's MailComposer. Must never happen: a header, a recipient or a body part that an argument
// brought in by a line break; a file or a URL read because of what an argument says.
import MailComposer from "nodemailer/lib/mail-composer";
import { encodeWord } from "nodemailer/lib/mime-funcs";
import { holdsControls } from "../untrusted.js";
import type { Recipient } from "./addresses.js";

export interface Draft {
  to: Recipient[];
  cc: Recipient[];
  bcc: Recipient[];
  subject: string;
  body: string;
  htmlBody: string | undefined;
  date: Date;
  /** With its angle brackets. */
  messageId: string;
  onceToken: string;
  reply: { inReplyTo: string; references: string[] } | null;
}

/** A subject's encoded words stay under 75 characters (RFC 2047 section 2) with its name before them. */
const WORD_CHARS_MAX = 60;

/** No From: Gmail fills in the person's own default address and name. */
export async function composeMail(draft: Draft): Promise<Buffer> {
  const headerTexts = [
    draft.subject,
    draft.messageId,
    draft.onceToken,
    ...(draft.reply ? [draft.reply.inReplyTo, ...draft.reply.references] : []),
  ];
  const names = [...draft.to, ...draft.cc, ...draft.bcc].flatMap((one) => [one.name, one.address]);
  // The schemas refuse these before; here it is what nothing else can undo.
  if ([...headerTexts, ...names].some(holdsControls)) throw new Error("a header value holds control characters");

  const composer = new MailComposer({
    to: draft.to,
    ...(draft.cc.length > 0 ? { cc: draft.cc } : {}),
    ...(draft.bcc.length > 0 ? { bcc: draft.bcc } : {}),
    messageId: draft.messageId,
    date: draft.date,
    ...(draft.reply ? { inReplyTo: draft.reply.inReplyTo, references: draft.reply.references } : {}),
    headers: { "X-Outband-Once": draft.onceToken, Subject: { prepared: true, value: subjectHeader(draft.subject) } },
    text: draft.body,
    ...(draft.htmlBody === undefined ? {} : { html: draft.htmlBody }),
    textEncoding: "B",
    newline: "\r\n",
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  const node = composer.compile();
  // Gmail reads the recipients from the headers and takes Bcc out before it delivers.
  node.keepBcc = true;
  return node.build();
}

/** ASCII stays as it is, save where it looks like an encoded word and would be read as one. */
export function subjectHeader(subject: string): string {
  const plain = /^[\x20-\x7e]*$/.test(subject) && !subject.includes("=?") && subject.length <= 900;
  if (plain) return subject;
  return encodeWord(subject, "B", WORD_CHARS_MAX).split(" ").join("\r\n ");
}

const MESSAGE_ID = /^<[\x21-\x3b\x3d\x3f-\x7e]{1,250}>$/;
const REFERENCES_MAX = 20;

/** What a reply carries (RFC 5322 section 3.6.4), from headers that a third party wrote: only well-formed ids pass. */
export function replyHeaders(original: { messageId: string | undefined; references: string | undefined }): Draft["reply"] {
  const id = original.messageId?.trim() ?? "";
  if (!MESSAGE_ID.test(id)) return null;
  const earlier = (original.references ?? "")
    .slice(0, 16_384)
    .split(/\s+/)
    .filter((one) => MESSAGE_ID.test(one) && one !== id);
  return { inReplyTo: id, references: [...earlier.slice(-(REFERENCES_MAX - 1)), id] };
}
