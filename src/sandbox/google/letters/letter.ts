// One practice letter as data: who, when, which boxes and labels, and its parts. Dates count from the sandbox's first start.
import { createHash } from "node:crypto";
import type { PracticePerson } from "../../people.js";
import { type Branch, composeMessage, type Leaf } from "../compose.js";

export interface LetterData {
  /** Short and unique; the message's ids are made from it. */
  key: string;
  minutesBefore: number;
  from: string;
  to: string;
  cc?: string;
  subject: string;
  /** The keys of the letters it answers, oldest first. */
  answers?: readonly string[];
  headers?: readonly (readonly [string, string])[];
  boxes: readonly (readonly [PracticePerson, readonly string[]])[];
  content: Leaf | Branch;
}

export interface Letter {
  id: string;
  threadId: string;
  minutesBefore: number;
  /** Null: not in this person's box. The same array each time. */
  labels(person: PracticePerson): readonly string[] | null;
  compose(atMs: number): Buffer;
}

function idOf(key: string): string {
  return `1${createHash("sha256").update(key).digest("hex").slice(0, 15)}`;
}

function messageIdOf(key: string): string {
  return `<${key}@mail.harbourlight.example>`;
}

/** RFC 5322 section 3.3. */
function mailDate(atMs: number): string {
  return new Date(atMs).toUTCString().replace("GMT", "+0000");
}

export function letter(data: LetterData): Letter {
  const answers = data.answers ?? [];
  const last = answers.at(-1);
  return {
    id: idOf(data.key),
    threadId: idOf(answers[0] ?? data.key),
    minutesBefore: data.minutesBefore,
    labels: (person) => data.boxes.find(([owner]) => owner === person)?.[1] ?? null,
    compose: (atMs) =>
      composeMessage(
        [
          ["Date", mailDate(atMs)],
          ["From", data.from],
          ["To", data.to],
          ...(data.cc ? [["Cc", data.cc] as const] : []),
          ["Subject", data.subject],
          ["Message-ID", messageIdOf(data.key)],
          ...(last ? [["In-Reply-To", messageIdOf(last)] as const, ["References", answers.map(messageIdOf).join("\r\n ")] as const] : []),
          ...(data.headers ?? []),
        ],
        data.content,
      ),
  };
}

export function plain(text: string): Leaf {
  return { type: "text/plain; charset=UTF-8", encoding: "quoted-printable", content: text };
}

export function markup(text: string): Leaf {
  return { type: "text/html; charset=UTF-8", encoding: "quoted-printable", content: text };
}

export const INBOX = ["INBOX", "CATEGORY_PERSONAL"] as const;
export const UNREAD = ["INBOX", "UNREAD", "CATEGORY_PERSONAL"] as const;
export const SENT = ["SENT"] as const;
