// The mail of the practice people: the letters that ship, and what was sent, drafted, delivered or relabelled since.
// Must never happen: one person's mail in another's box, or mail that leaves the process.
import type { Clock } from "../../clock.js";
import { personByHint, PEOPLE, type PracticePerson } from "../people.js";
import type { KeptMail, Store } from "../state.js";
import { LETTERS, type Letter } from "./letters/letters.js";
import { allParts, decodeWords, headerOf, type MimePart, parseMime, textOf } from "./mime.js";
import type { Searchable } from "./query.js";

export interface MailMessage {
  id: string;
  threadId: string;
  labelIds: readonly string[];
  atMs: number;
  raw: Buffer;
  mime: MimePart;
  searchable: Searchable;
}

export type SendProblem = "no_recipient" | "unknown_thread" | "empty";

export interface Mailbox {
  /** Newest first. */
  list(): MailMessage[];
  get(id: string): MailMessage | null;
  /** Oldest first; empty when there is none. */
  thread(threadId: string): MailMessage[];
  modify(id: string, add: readonly string[], remove: readonly string[]): MailMessage | null;
  send(raw: Buffer, threadId: string | null): MailMessage | SendProblem;
  draft(raw: Buffer, threadId: string | null): MailMessage | SendProblem;
}

/** Kept beside the letters; past either bound the oldest go. */
const KEPT_MAX = 300;
const KEPT_BYTES_MAX = 24 * 1024 * 1024;

interface Envelope {
  id: string;
  threadId: string;
  labelIds: readonly string[];
  atMs: number;
}

function openMessage(envelope: Envelope, raw: Buffer): MailMessage {
  const mime = parseMime(raw);
  const field = (name: string): string => decodeWords(headerOf(mime, name) ?? "");
  return {
    ...envelope,
    raw,
    mime,
    searchable: {
      from: field("from"),
      to: [field("to"), field("cc"), field("bcc")].join(" "),
      subject: field("subject"),
      text: textOf(mime),
      messageId: headerOf(mime, "message-id") ?? "",
      labelIds: envelope.labelIds,
      hasAttachment: allParts(mime).some((part) => part.filename !== ""),
      atMs: envelope.atMs,
    },
  };
}

/** Addresses of a header; enough to tell who of ours a mail is for. */
function addressesIn(value: string): string[] {
  return value.match(/[^\s<>,;:"()]{1,64}@[^\s<>,;:"()]{1,255}/g) ?? [];
}

function fieldEnd(raw: string): number {
  const end = /\r?\n\r?\n/.exec(raw);
  return end ? end.index : raw.length;
}

/** Gmail adds what a sender left out. */
function completed(raw: Buffer, person: PracticePerson, atMs: number, id: string): Buffer {
  const mime = parseMime(raw);
  const lacking = [
    headerOf(mime, "from") === null && `From: ${person.email}`,
    headerOf(mime, "date") === null && `Date: ${new Date(atMs).toUTCString().replace("GMT", "+0000")}`,
    headerOf(mime, "message-id") === null && `Message-ID: <${id}@mail.sandbox.example>`,
  ].filter((line) => line !== false);
  return Buffer.concat([Buffer.from(lacking.map((line) => `${line}\r\n`).join("")), raw]);
}

/** The copy that others receive names no blind recipients. */
function withoutBcc(raw: Buffer): Buffer {
  const text = raw.toString("latin1");
  const end = fieldEnd(text);
  return Buffer.from(text.slice(0, end).replace(/^bcc:[^\n]*(?:\n[ \t][^\n]*)*\n?/gim, "") + text.slice(end), "latin1");
}

export function createMail(deps: { store: Store; clock: Clock }): { of(person: PracticePerson): Mailbox } {
  const { store, clock } = deps;
  const { mail, labels } = store.state.google;
  /** Parsed messages by owner and id; the state holds bytes and labels only. */
  const opened = new Map<string, MailMessage>();

  const keyOf = (person: PracticePerson, id: string): string => `${person.sub}/${id}`;

  function open(person: PracticePerson, envelope: Envelope, raw: () => Buffer): MailMessage {
    const key = keyOf(person, envelope.id);
    const labelIds = labels[key] ?? envelope.labelIds;
    const before = opened.get(key);
    if (before && before.labelIds === labelIds) return before;
    const message = openMessage({ ...envelope, labelIds }, before?.raw ?? raw());
    opened.set(key, message);
    return message;
  }

  function shipped(person: PracticePerson): MailMessage[] {
    return LETTERS.flatMap((letter: Letter) => {
      const labelIds = letter.labels(person);
      const atMs = store.state.startedAtMs - letter.minutesBefore * 60_000;
      return labelIds ? [open(person, { id: letter.id, threadId: letter.threadId, labelIds, atMs }, () => letter.compose(atMs))] : [];
    });
  }

  function all(person: PracticePerson): MailMessage[] {
    const kept = mail
      .filter((one) => one.owner === person.sub)
      .map((one) =>
        open(person, { id: one.id, threadId: one.threadId, labelIds: one.labelIds, atMs: one.atMs }, () => Buffer.from(one.raw, "base64")),
      );
    return [...shipped(person), ...kept].sort((a, b) => b.atMs - a.atMs || (a.id < b.id ? 1 : -1));
  }

  function keep(message: KeptMail): void {
    mail.push(message);
    let bytes = mail.reduce((sum, one) => sum + one.raw.length, 0);
    while (mail.length > KEPT_MAX || (bytes > KEPT_BYTES_MAX && mail.length > 1)) {
      const gone = mail.shift() as KeptMail;
      bytes -= gone.raw.length;
      opened.delete(`${gone.owner}/${gone.id}`);
      delete labels[`${gone.owner}/${gone.id}`];
    }
  }

  /** Like Gmail's: 16 hexadecimal digits, the time first. */
  function newId(): string {
    return (clock.now().toString(16) + clock.randomBytes(4).toString("hex")).slice(-16).padStart(16, "0");
  }

  /** A reply lands in the thread of what it answers, also in somebody else's box. */
  function threadFor(person: PracticePerson, mime: MimePart, id: string): string {
    const named = `${headerOf(mime, "in-reply-to") ?? ""} ${headerOf(mime, "references") ?? ""}`;
    return all(person).find((one) => one.searchable.messageId !== "" && named.includes(one.searchable.messageId))?.threadId ?? id;
  }

  function add(person: PracticePerson, raw: Buffer, threadId: string | null, labelIds: string[]): MailMessage | SendProblem {
    if (raw.length === 0) return "empty";
    if (threadId !== null && !all(person).some((one) => one.threadId === threadId)) return "unknown_thread";
    const id = newId();
    const atMs = clock.now();
    const whole = completed(raw, person, atMs, id);
    const message = { owner: person.sub, id, threadId: threadId ?? threadFor(person, parseMime(whole), id), labelIds, atMs };
    keep({ ...message, raw: whole.toString("base64") });
    return open(person, message, () => whole);
  }

  function recipientsOf(mime: MimePart): PracticePerson[] {
    const addresses = ["to", "cc", "bcc"].flatMap((name) => addressesIn(headerOf(mime, name) ?? ""));
    return PEOPLE.filter((person) => addresses.some((address) => personByHint(address) === person));
  }

  function deliver(sent: MailMessage, from: PracticePerson): void {
    for (const person of recipientsOf(sent.mime)) {
      if (person === from) continue;
      const raw = withoutBcc(sent.raw);
      const message = { owner: person.sub, id: newId(), labelIds: ["INBOX", "UNREAD"], atMs: sent.atMs };
      keep({ ...message, threadId: threadFor(person, sent.mime, message.id), raw: raw.toString("base64") });
    }
  }

  function boxOf(person: PracticePerson): Mailbox {
    const get = (id: string): MailMessage | null => all(person).find((one) => one.id === id) ?? null;
    return {
      list: () => all(person),
      get,
      thread: (threadId) =>
        all(person)
          .filter((one) => one.threadId === threadId)
          .reverse(),
      modify(id, adding, removing) {
        const message = get(id);
        if (!message) return null;
        labels[keyOf(person, id)] = [...new Set([...message.labelIds, ...adding])].filter((label) => !removing.includes(label));
        return get(id);
      },
      send(raw, threadId) {
        const mime = parseMime(raw);
        if (["to", "cc", "bcc"].every((name) => addressesIn(headerOf(mime, name) ?? "").length === 0)) return "no_recipient";
        const toSelf = recipientsOf(mime).includes(person);
        const sent = add(person, raw, threadId, toSelf ? ["SENT", "INBOX", "UNREAD"] : ["SENT"]);
        if (typeof sent !== "string") deliver(sent, person);
        return sent;
      },
      draft: (raw, threadId) => add(person, raw, threadId, ["DRAFT"]),
    };
  }

  return { of: boxOf };
}
