// The practice Gmail REST API (v1), below /google/api/gmail/v1/users/{user}.
// Must never happen: an answer to a token that is unknown, expired, revoked or lacks the scope of the call.
import type { Request, Response } from "express";
import type { Endpoint } from "../endpoint.js";
import { personBySub, type PracticePerson } from "../people.js";
import { bearerOf, type Parameters, parametersOf } from "../request.js";
import { type GoogleError, invalidArgument, NOT_FOUND, sendGoogleError, sendScopeInsufficient, sendUnauthenticated } from "./errors.js";
import { applyFields, parseFields } from "./fields.js";
import type { GoogleDeps } from "./google.js";
import { createMail, type Mailbox, type MailMessage, type SendProblem } from "./mailbox.js";
import { parseQuery } from "./query.js";
import { attachmentOf, MESSAGE_FORMATS, type MessageFormat, messageResource } from "./resource.js";
import { CALL_SCOPES, GMAIL, type GmailCall } from "./scopes.js";

const BASE = "/google/api/gmail/v1/users/:user";

/** As documented for users.messages.list. */
const PAGE_SIZE_DEFAULT = 100;
const PAGE_SIZE_MAX = 500;
/** 5 MiB of message; Gmail's own limit for a plain request. */
const RAW_BYTES_MAX = 5 * 1024 * 1024;

const SYSTEM_LABELS = ["INBOX", "SENT", "DRAFT", "UNREAD", "STARRED", "IMPORTANT", "SPAM", "TRASH", "CHAT"];
const CATEGORY_LABELS = ["CATEGORY_PERSONAL", "CATEGORY_PROMOTIONS", "CATEGORY_UPDATES", "CATEGORY_SOCIAL", "CATEGORY_FORUMS"];
/** What the practice people made themselves. */
const OWN_LABELS = [
  { id: "Label_1", name: "Suppliers" },
  { id: "Label_2", name: "Sea trial" },
];
const KNOWN_LABELS = [...SYSTEM_LABELS, ...CATEGORY_LABELS, ...OWN_LABELS.map((label) => label.id)];
/** Gmail sets these itself. */
const FIXED_LABELS = ["SENT", "DRAFT", "CHAT"];

interface Call {
  req: Request;
  query: Parameters;
  body: Record<string, unknown>;
  person: PracticePerson;
  box: Mailbox;
  scopes: readonly string[];
}

/** An error to be sent in Google's shape; thrown by the calls below, caught in one place. */
class Refusal extends Error {
  readonly error: GoogleError;
  constructor(error: GoogleError) {
    super(error.message);
    this.error = error;
  }
}

const PROBLEMS: Record<SendProblem, GoogleError> = {
  no_recipient: invalidArgument("Recipient address required"),
  unknown_thread: NOT_FOUND,
  empty: invalidArgument("'raw' RFC822 payload message string or uploading message via /upload/* URL required"),
};

function found(message: MailMessage | null): MailMessage {
  if (!message) throw new Refusal(NOT_FOUND);
  return message;
}

function textsIn(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}

/** With the metadata scope alone, texts stay closed. */
function onlyMetadata(scopes: readonly string[]): boolean {
  return scopes.includes(GMAIL.metadata) && ![GMAIL.full, GMAIL.modify, GMAIL.readonly].some((scope) => scopes.includes(scope));
}

function formatOf(call: Call): MessageFormat {
  const format = call.query.get("format")?.toLowerCase() ?? "full";
  if (!MESSAGE_FORMATS.includes(format)) throw new Refusal(invalidArgument("Invalid value for format"));
  if (onlyMetadata(call.scopes) && (format === "full" || format === "raw")) {
    const message = `Metadata scope doesn't allow format ${format.toUpperCase()}`;
    throw new Refusal({ code: 403, status: "PERMISSION_DENIED", reason: "forbidden", message });
  }
  return format as MessageFormat;
}

function shown(call: Call, message: MailMessage): Record<string, unknown> {
  return messageResource(message, formatOf(call), call.query.all("metadataHeaders"));
}

function reference(message: MailMessage): Record<string, unknown> {
  return { id: message.id, threadId: message.threadId, labelIds: message.labelIds };
}

function pageSize(call: Call): number {
  const asked = Number(call.query.get("maxResults") ?? PAGE_SIZE_DEFAULT);
  if (!Number.isInteger(asked) || asked < 1) throw new Refusal(invalidArgument("Invalid maxResults"));
  return Math.min(asked, PAGE_SIZE_MAX);
}

/** A token names the last message of the page before, so that new mail does not shift the pages. */
function pageOf(messages: MailMessage[], token: string | null): MailMessage[] {
  if (token === null) return messages;
  const at = messages.findIndex((message) => message.id === Buffer.from(token, "base64url").toString());
  if (at < 0) throw new Refusal(invalidArgument("Invalid pageToken"));
  return messages.slice(at + 1);
}

function listMessages(call: Call, nowMs: number): unknown {
  const query = call.query.get("q");
  if (query !== null && onlyMetadata(call.scopes)) {
    throw new Refusal({
      code: 403,
      status: "PERMISSION_DENIED",
      reason: "forbidden",
      message: "Metadata scope does not support 'q' parameter",
    });
  }
  const labelIds = call.query.all("labelIds");
  const hidden =
    call.query.get("includeSpamTrash") === "true" || /\bin:(anywhere|spam|trash)\b/i.test(query ?? "") ? [] : ["SPAM", "TRASH"];
  const wanted = parseQuery(query ?? "");
  const matching = call.box
    .list()
    .filter((message) => labelIds.every((label) => message.labelIds.includes(label)))
    .filter((message) => !hidden.some((label) => message.labelIds.includes(label) && !labelIds.includes(label)))
    .filter((message) => wanted(message.searchable, nowMs));
  const rest = pageOf(matching, call.query.get("pageToken"));
  const page = rest.slice(0, pageSize(call));
  const last = page.at(-1);
  return {
    // Absent when empty, as at Gmail.
    ...(page.length > 0 && { messages: page.map(({ id, threadId }) => ({ id, threadId })) }),
    ...(last && rest.length > page.length && { nextPageToken: Buffer.from(last.id).toString("base64url") }),
    resultSizeEstimate: matching.length,
  };
}

function readRaw(body: Record<string, unknown>): { raw: Buffer; threadId: string | null } {
  const { raw, threadId } = body;
  if (typeof raw !== "string" || raw === "") throw new Refusal(PROBLEMS.empty);
  if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(raw)) throw new Refusal(invalidArgument("Invalid value for ByteString: raw"));
  if (raw.length > (RAW_BYTES_MAX * 4) / 3) {
    throw new Refusal({ code: 413, status: "INVALID_ARGUMENT", reason: "uploadTooLarge", message: "Message exceeds the size limit" });
  }
  return { raw: Buffer.from(raw, "base64url"), threadId: typeof threadId === "string" && threadId !== "" ? threadId : null };
}

function made(outcome: MailMessage | SendProblem): MailMessage {
  if (typeof outcome === "string") throw new Refusal(PROBLEMS[outcome]);
  return outcome;
}

function modify(call: Call): unknown {
  const add = textsIn(call.body.addLabelIds);
  const remove = textsIn(call.body.removeLabelIds);
  const id = String(call.req.params.id);
  found(call.box.get(id));
  const unknown = [...add, ...remove].find((label) => !KNOWN_LABELS.includes(label));
  if (unknown !== undefined) throw new Refusal(invalidArgument("Invalid label"));
  if ([...add, ...remove].some((label) => FIXED_LABELS.includes(label))) throw new Refusal(invalidArgument("Cannot set this label"));
  if (add.length + remove.length === 0) throw new Refusal(invalidArgument("No label add or removes specified"));
  return reference(found(call.box.modify(id, add, remove)));
}

function oneLabel(call: Call): unknown {
  const id = String(call.req.params.id);
  const own = OWN_LABELS.find((label) => label.id === id);
  if (!KNOWN_LABELS.includes(id)) throw new Refusal(NOT_FOUND);
  const messages = call.box.list().filter((message) => message.labelIds.includes(id));
  const unread = messages.filter((message) => message.labelIds.includes("UNREAD"));
  const threads = (among: MailMessage[]): number => new Set(among.map((message) => message.threadId)).size;
  return {
    id,
    name: own?.name ?? id,
    type: own ? "user" : "system",
    messagesTotal: messages.length,
    messagesUnread: unread.length,
    threadsTotal: threads(messages),
    threadsUnread: threads(unread),
  };
}

function labels(): unknown {
  const system = [...SYSTEM_LABELS, ...CATEGORY_LABELS].map((id) => ({ id, name: id, type: "system" }));
  return { labels: [...system, ...OWN_LABELS.map((label) => ({ ...label, type: "user" }))] };
}

function profile(call: Call): unknown {
  const messages = call.box.list();
  return {
    emailAddress: call.person.email,
    messagesTotal: messages.length,
    threadsTotal: new Set(messages.map((message) => message.threadId)).size,
    historyId: String(Math.floor((messages[0]?.atMs ?? 0) / 1000)),
  };
}

function thread(call: Call): unknown {
  const messages = call.box.thread(String(call.req.params.id));
  const last = messages.at(-1);
  if (!last) throw new Refusal(NOT_FOUND);
  return { id: last.threadId, historyId: String(Math.floor(last.atMs / 1000)), messages: messages.map((message) => shown(call, message)) };
}

function draft(call: Call): unknown {
  const inner = call.body.message;
  const { raw, threadId } = readRaw(typeof inner === "object" && inner !== null ? (inner as Record<string, unknown>) : {});
  const message = made(call.box.draft(raw, threadId));
  return { id: `r${BigInt(`0x${message.id}`)}`, message: reference(message) };
}

function attachment(call: Call): unknown {
  const part = attachmentOf(found(call.box.get(String(call.req.params.id))), String(call.req.params.attachment));
  if (!part) throw new Refusal(NOT_FOUND);
  return part;
}

export function gmailEndpoints(deps: GoogleDeps): Endpoint[] {
  const { grants, store, clock } = deps;
  const mail = createMail({ store, clock });

  function open(req: Request, res: Response, name: GmailCall): Call | null {
    const bearer = bearerOf(req);
    const checked = grants.check(bearer ?? "");
    const person = checked.status === "ok" ? personBySub(checked.grant.person) : undefined;
    if (checked.status !== "ok" || !person) {
      sendUnauthenticated(res, name, bearer !== null);
      return null;
    }
    if (!CALL_SCOPES[name].some((scope) => checked.scopes.includes(scope))) {
      sendScopeInsufficient(res, name);
      return null;
    }
    const user = String(req.params.user).toLowerCase();
    if (user !== "me" && user !== person.email) {
      sendGoogleError(res, {
        code: 403,
        status: "PERMISSION_DENIED",
        reason: "forbidden",
        message: `Delegation denied for ${person.email}`,
      });
      return null;
    }
    const body = typeof req.body === "object" && req.body !== null ? (req.body as Record<string, unknown>) : {};
    return { req, query: parametersOf(req.query), body, person, box: mail.of(person), scopes: checked.scopes };
  }

  function row(method: "GET" | "POST", path: string, name: GmailCall, work: (call: Call) => unknown): Endpoint {
    return {
      method,
      path: `${BASE}${path}`,
      async run(req, res) {
        const call = open(req, res, name);
        if (!call) return res;
        try {
          const mask = parseFields(call.query.get("fields") ?? "*");
          if (mask === null) throw new Refusal(invalidArgument("Invalid field selection"));
          const answer = applyFields(work(call), mask);
          if (method === "POST") await store.save();
          return res.set("Cache-Control", "no-store").json(answer);
        } catch (error) {
          if (!(error instanceof Refusal)) throw error;
          return sendGoogleError(res, error.error);
        }
      },
    };
  }

  return [
    row("GET", "/profile", "GetProfile", profile),
    row("GET", "/labels", "ListLabels", labels),
    row("GET", "/labels/:id", "GetLabel", oneLabel),
    row("GET", "/messages", "ListMessages", (call) => listMessages(call, clock.now())),
    row("GET", "/messages/:id", "GetMessage", (call) => shown(call, found(call.box.get(String(call.req.params.id))))),
    row("GET", "/messages/:id/attachments/:attachment", "GetAttachment", attachment),
    row("GET", "/threads/:id", "GetThread", thread),
    row("POST", "/messages/send", "SendMessage", (call) => {
      const { raw, threadId } = readRaw(call.body);
      return reference(made(call.box.send(raw, threadId)));
    }),
    row("POST", "/messages/:id/modify", "ModifyMessage", modify),
    row("POST", "/drafts", "CreateDraft", draft),
  ];
}
