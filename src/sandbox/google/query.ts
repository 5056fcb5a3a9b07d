// Gmail's search words, as far as the sandbox knows them: one row per operator. An unknown operator is searched as a word, as Gmail does.

export interface Searchable {
  from: string;
  to: string;
  subject: string;
  text: string;
  messageId: string;
  labelIds: readonly string[];
  hasAttachment: boolean;
  atMs: number;
}

export type Predicate = (message: Searchable, nowMs: number) => boolean;

/** Longer queries are cut: a search is not a place for a document. */
const QUERY_CHARS_MAX = 2000;

const IS: Record<string, (message: Searchable) => boolean> = {
  unread: (message) => message.labelIds.includes("UNREAD"),
  read: (message) => !message.labelIds.includes("UNREAD"),
  starred: (message) => message.labelIds.includes("STARRED"),
  important: (message) => message.labelIds.includes("IMPORTANT"),
};

const SPAN_MS: Record<string, number> = { h: 3_600_000, d: 86_400_000, m: 30 * 86_400_000, y: 365 * 86_400_000 };

const OPERATORS: Record<string, (value: string) => Predicate> = {
  from: (value) => (message) => has(message.from, value),
  to: (value) => (message) => has(message.to, value),
  subject: (value) => (message) => has(message.subject, value),
  is: (value) => (message) => Object.hasOwn(IS, value.toLowerCase()) && (IS[value.toLowerCase()]?.(message) ?? false),
  in: (value) => (message) => value.toLowerCase() === "anywhere" || hasLabel(message, value),
  label: (value) => (message) => hasLabel(message, value),
  category: (value) => (message) => message.labelIds.includes(`CATEGORY_${value.toUpperCase()}`),
  has: (value) => (message) => value.toLowerCase() === "attachment" && message.hasAttachment,
  rfc822msgid: (value) => (message) => bare(message.messageId) === bare(value),
  after: (value) => (message) => message.atMs >= dateMs(value),
  newer: (value) => (message) => message.atMs >= dateMs(value),
  before: (value) => (message) => message.atMs < dateMs(value),
  older: (value) => (message) => message.atMs < dateMs(value),
  newer_than: (value) => (message, nowMs) => message.atMs >= nowMs - spanMs(value),
  older_than: (value) => (message, nowMs) => message.atMs < nowMs - spanMs(value),
};

function has(text: string, part: string): boolean {
  return text.toLowerCase().includes(part.toLowerCase());
}

function hasLabel(message: Searchable, name: string): boolean {
  return message.labelIds.some((label) => label.toLowerCase() === name.toLowerCase());
}

function bare(messageId: string): string {
  return messageId.replace(/^<|>$/g, "");
}

/** `2026/08/04`, `2026-08-04` or seconds since the epoch; anything else is no date and finds nothing. */
function dateMs(value: string): number {
  return /^\d{6,}$/.test(value) ? Number(value) * 1000 : Date.parse(value.replaceAll("/", "-"));
}

function spanMs(value: string): number {
  const found = /^(\d{1,5})([hdmy])$/.exec(value);
  return found ? Number(found[1]) * (SPAN_MS[found[2] ?? ""] ?? Number.NaN) : Number.NaN;
}

function wordIn(word: string): Predicate {
  return (message) => [message.subject, message.from, message.to, message.text].some((field) => has(field, word));
}

function termOf(term: string): Predicate {
  const colon = term.indexOf(":");
  const operator = colon > 0 ? term.slice(0, colon).toLowerCase() : "";
  const value = unquoted(term.slice(colon + 1));
  return Object.hasOwn(OPERATORS, operator) && value !== ""
    ? (OPERATORS[operator] as (value: string) => Predicate)(value)
    : wordIn(unquoted(term));
}

function unquoted(text: string): string {
  return text.replaceAll('"', "");
}

export function parseQuery(query: string): Predicate {
  const terms = query.slice(0, QUERY_CHARS_MAX).match(/-?(?:[^\s":]+:)?(?:"[^"]*"|[^\s"]+)/g) ?? [];
  const predicates = terms
    .filter((term) => !/^(AND|-)$/.test(term))
    .map((term): Predicate => {
      const wanted = termOf(term.replace(/^-/, ""));
      return term.startsWith("-") ? (message, nowMs) => !wanted(message, nowMs) : wanted;
    });
  return (message, nowMs) => predicates.every((predicate) => predicate(message, nowMs));
}
