// The log: JSON lines on a writer that is handed in. Must never happen: a credential in a line, whatever shape it came in.
// Three nets, because each alone has leaked somewhere: the Secret type, the name of the key, and the look of the value.
// Of an error only the name, the code and the stack's frames are printed; its message is printed if it is one of ours.
import type { Settings } from "./config/settings.js";
import { Secret } from "./crypto/secret.js";
import { systemClock, type Clock } from "./clock.js";
import { OutbandError } from "./errors.js";

export interface Log {
  debug(message: string, fields?: Record<string, unknown>): void;
  info(message: string, fields?: Record<string, unknown>): void;
  warn(message: string, fields?: Record<string, unknown>): void;
  error(message: string, fields?: Record<string, unknown>): void;
  /** The same log with these fields in every line. */
  child(fields: Record<string, unknown>): Log;
}

type Level = Exclude<Settings["logLevel"], "silent">;

const RANK: Record<Settings["logLevel"], number> = { debug: 0, info: 1, warn: 2, error: 3, silent: 4 };

export interface LogOptions {
  level: Settings["logLevel"];
  /** Gets one line without its newline. */
  write: (line: string) => void;
  clock?: Pick<Clock, "date">;
}

export function createLog(options: LogOptions): Log {
  const clock = options.clock ?? systemClock;
  const build = (context: Record<string, unknown>): Log => {
    const line = (level: Level) => (message: string, fields?: Record<string, unknown>) => {
      if (RANK[level] < RANK[options.level]) return;
      options.write(lineOf(clock.date(), level, message, { ...context, ...fields }));
    };
    return {
      debug: line("debug"),
      info: line("info"),
      warn: line("warn"),
      error: line("error"),
      child: (fields) => build({ ...context, ...fields }),
    };
  };
  return build({});
}

function lineOf(time: Date, level: Level, message: string, fields: Record<string, unknown>): string {
  const head = { time: time.toISOString(), level, message: redactText(message) };
  try {
    // The head comes last, so that a field cannot pose as the line's time, level or message; it still prints first.
    return JSON.stringify({ ...head, ...(redact(fields) as Record<string, unknown>), ...head });
  } catch {
    // A log call must not end the work it tells of: a field that throws when read (a getter, a proxy) costs the fields only.
    return JSON.stringify({ ...head, fields: "[unreadable]" });
  }
}

const MASK = "[redacted]";
const DEPTH_MAX = 6;
const ITEMS_MAX = 50;
const TEXT_CHARS_MAX = 2_000;
/** Text past this is dropped before the patterns run: they are linear, but a megabyte is still a megabyte. */
const SCANNED_CHARS_MAX = 16_000;
const FRAMES_MAX = 12;
const CAUSES_MAX = 3;

/** Any value as plain JSON without a credential in it. */
export function redact(value: unknown): unknown {
  return redactValue(value, DEPTH_MAX, new Set());
}

function redactValue(value: unknown, depth: number, above: Set<object>): unknown {
  switch (typeof value) {
    case "string":
      return redactText(value);
    case "number":
      return Number.isFinite(value) ? value : String(value);
    case "bigint":
      return value.toString();
    case "boolean":
      return value;
    case "object":
      return value === null ? null : redactObject(value, depth, above);
    default:
      return undefined;
  }
}

function redactObject(value: object, depth: number, above: Set<object>): unknown {
  if (value instanceof Secret) return value.toJSON();
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "[no date]" : value.toISOString();
  if (value instanceof Error) return errorSummary(value, CAUSES_MAX);
  if (value instanceof URL) return redactText(value.href);
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (above.has(value)) return "[circular]";
  if (depth === 0) return "[deep]";
  const inside = new Set(above).add(value);
  if (Array.isArray(value)) return redactList(value, depth, inside);
  if (value instanceof Set) return redactList([...value], depth, inside);
  if (value instanceof Map)
    return redactEntries(
      [...value].map(([key, item]) => [String(key), item]),
      depth,
      inside,
    );
  const prototype: unknown = Object.getPrototypeOf(value);
  // Objects of a class (sockets, requests, clients, provider answers) hold more than anybody meant to log.
  if (prototype !== Object.prototype && prototype !== null) return `[${prototypeName(prototype)}]`;
  // A JWK: its private members have names of one letter.
  if ("kty" in value) return "[key]";
  return redactEntries(Object.entries(value), depth, inside);
}

function prototypeName(prototype: unknown): string {
  const name = (prototype as { constructor?: { name?: unknown } }).constructor?.name;
  return typeof name === "string" && /^\w{1,60}$/.test(name) ? name : "object";
}

function redactList(items: unknown[], depth: number, above: Set<object>): unknown[] {
  // Header lists are flat: name, value, name, value. What follows a name that tells of a secret is one.
  return items.slice(0, ITEMS_MAX).map((item, index) => {
    const before = items[index - 1];
    if (typeof before === "string" && typeof item === "string" && namesSecret(before)) return MASK;
    return redactValue(item, depth - 1, above);
  });
}

function redactEntries(entries: [string, unknown][], depth: number, above: Set<object>): Record<string, unknown> {
  const plain: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
  for (const [key, item] of entries.slice(0, ITEMS_MAX)) {
    const harmless = item === null || item === undefined || typeof item === "boolean";
    plain[redactText(key)] = namesSecret(key) && !harmless ? MASK : redactValue(item, depth - 1, above);
  }
  return plain;
}

interface ErrorSummary {
  name: string;
  code?: string;
  reason?: string;
  message?: string;
  frames?: string[];
  cause?: ErrorSummary;
}

/** Libraries put whole answers and headers into messages and causes (openid-client: the token answer in `err.cause`). */
function errorSummary(error: Error, causesLeft: number): ErrorSummary {
  const summary: ErrorSummary = { name: word(error.name) ?? "Error" };
  const code = word((error as { code?: unknown }).code);
  if (code !== undefined) summary.code = code;
  if (error instanceof OutbandError) {
    summary.message = redactText(error.message);
    const reason = word(error.reason);
    if (reason !== undefined) summary.reason = reason;
  } else {
    summary.frames = framesOf(error);
  }
  if (error.cause instanceof Error && causesLeft > 0) summary.cause = errorSummary(error.cause, causesLeft - 1);
  return summary;
}

/** Names and codes are words (`ECONNREFUSED`, `P2002`, `23505`); anything else is somebody's text. */
function word(value: unknown): string | undefined {
  return typeof value === "string" && /^[A-Za-z0-9_.$-]{1,64}$/.test(value) ? redactText(value) : undefined;
}

/** The stack without its first lines, which repeat the message (in as many lines as the message has). */
function framesOf(error: Error): string[] {
  const stack = typeof error.stack === "string" ? error.stack : "";
  const after = error.message === "" ? 0 : stack.indexOf(error.message) + error.message.length;
  return stack
    .slice(Math.max(after, 0), SCANNED_CHARS_MAX)
    .split("\n")
    .filter((line) => /^ {4}at .{1,300}:\d+:\d+\)?$/.test(line))
    .slice(0, FRAMES_MAX)
    .map((line) => redactText(line.trim()));
}

/** Words that make a key secret wherever they stand in it. */
const SECRET_WORDS = new Set(
  (
    "token tokens secret secrets authorization cookie cookies password passwords passwd passphrase pwd verifier credential credentials " +
    "jwt assertion bearer nonce otp pin apikey session sid"
  ).split(" "),
);
/** Words that make it secret at its end: `apiKey` and `callerState`, not `keyId` and `stateTable`. */
const SECRET_LAST_WORDS = new Set("code codes state key keys signature sig digest hash".split(" "));
/** Ends that tell about a secret without holding it. */
const HARMLESS_LAST_WORDS = new Set("type at count endpoint status expired minutes seconds ms".split(" "));
const HARMLESS_KEYS = new Set(["statusCode", "errorCode", "exitCode", "apiKeyId"]);

/** Whether a key (camelCase, snake_case or kebab-case) names a secret. */
export function namesSecret(key: string): boolean {
  if (HARMLESS_KEYS.has(key)) return false;
  const words = key
    .slice(0, 100)
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((part) => part !== "");
  const last = words.at(-1) ?? "";
  if (words.length > 1 && HARMLESS_LAST_WORDS.has(last)) return false;
  return SECRET_LAST_WORDS.has(last) || words.some((part) => SECRET_WORDS.has(part));
}

type Rule = [pattern: RegExp, replacement: string | ((whole: string, ...groups: string[]) => string)];

/** By the look of the value, in order. Every repeat is bounded or cannot overlap with its neighbour: no slow inputs. */
const RULES: Rule[] = [
  // A PEM body, to the end: what follows it may be its second half.
  [/-----BEGIN [A-Z ]{1,40}-----[\s\S]*/g, MASK],
  // user:password@host in any URL, the database's too.
  [/\b([a-z][a-z0-9+.-]{0,20}:\/\/)[^\s/@"'<>]{1,512}@/gi, `$1${MASK}@`],
  // Links to the hosted page and set-up links: the path is the right.
  [/(\/(?:connect|setup)\/)(?!callback\/)[^\s/?#"'<>]{6,}/g, `$1${MASK}`],
  // Queries and fragments of URLs and paths carry codes, states and tokens under any name.
  [/(?<=[\w/.~%)\]-])[?#][^\s"'<>]+/g, `?${MASK}`],
  [/\b(set-cookie|cookie)("?\s{0,3}[:=])[^\r\n]+/gi, `$1$2 ${MASK}`],
  [/\b(bearer|basic|dpop)\s{1,3}[A-Za-z0-9._~+/=-]{4,}/gi, `$1 ${MASK}`],
  // `client_secret=…`, `"access_token": "…"`, `x-api-key: …`
  [
    /([A-Za-z][\w-]{0,63})("?\s{0,3}[:=]\s{0,3}["']?)([^\s"'&,;]+)/g,
    (whole, key, between) => (namesSecret(key ?? "") ? `${key}${between}${MASK}` : whole),
  ],
  // Signed or sealed tokens, and the prefixes of providers.
  [/\beyJ[\w-]{6,}(?:\.[\w-]*){1,4}/g, MASK],
  [/\b(?:xox[a-z]-|xapp-|ya29\.|1\/\/|GOCSPX-|gh[a-z]_|github_pat_|sk-|sk_|rk_|whsec_|obk_)[\w./+=-]{6,}/g, MASK],
  // Random bytes in base64: 32 of them are 43 characters.
  [/[A-Za-z0-9+/]{43}=/g, MASK],
  [/[A-Za-z0-9_-]{40,}/g, (run) => (/[a-z]/.test(run) && /[A-Z]/.test(run) && /[0-9]/.test(run) ? MASK : run)],
];

/** Text without whatever looks like a credential, cut to a sane length. */
export function redactText(text: string): string {
  let clean = text.length > SCANNED_CHARS_MAX ? wholeWordsOf(text) : text;
  for (const [pattern, replacement] of RULES) {
    clean = typeof replacement === "string" ? clean.replace(pattern, replacement) : clean.replace(pattern, replacement);
  }
  return clean.length > TEXT_CHARS_MAX ? `${clean.slice(0, TEXT_CHARS_MAX)}… (cut)` : clean;
}

/** The first part of a long text, cut between words: half a token is too short for the patterns and still half a token. */
function wholeWordsOf(text: string): string {
  const start = text.slice(0, SCANNED_CHARS_MAX);
  const end = Math.max(start.lastIndexOf(" "), start.lastIndexOf("\n"));
  return end > 0 ? start.slice(0, end) : `[${text.length} characters]`;
}
