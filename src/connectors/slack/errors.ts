// What Slack's error codes mean: one table. `ok: false` is an error whatever the HTTP status.
// Must never happen: a refused token told as an ordinary error; a code that is missing here retried.
import { CallEnded, type FailureKind, ProviderFailure } from "../connector.js";
import { isObject, textAt } from "../json.js";

interface ErrorRow {
  kind: FailureKind;
  /** With invalid_arguments: our own words. */
  text?: string;
}

export const SLACK_ERRORS: Readonly<Record<string, ErrorRow>> = {
  channel_not_found: {
    kind: "invalid_arguments",
    text: "Slack has no such channel, or it is private and the person is not in it. slack_list_channels lists those that can be used.",
  },
  not_in_channel: { kind: "rejected" },
  is_archived: { kind: "rejected" },
  restricted_action: { kind: "rejected" },
  restricted_action_read_only_channel: { kind: "rejected" },
  restricted_action_thread_only_channel: { kind: "rejected" },
  restricted_action_non_threadable_channel: { kind: "rejected" },
  user_is_restricted: { kind: "rejected" },
  ekm_access_denied: { kind: "rejected" },
  org_login_required: { kind: "rejected" },
  team_access_not_granted: { kind: "rejected" },
  access_denied: { kind: "rejected" },
  no_permission: { kind: "rejected" },
  msg_too_long: {
    kind: "invalid_arguments",
    text: "Slack says that the text is too long (msg_too_long). Send less than 40,000 characters.",
  },
  msg_blocks_too_long: {
    kind: "invalid_arguments",
    text: "Slack says that the text is too long (msg_blocks_too_long). Split it into several messages.",
  },
  no_text: { kind: "invalid_arguments", text: "Slack says that there is no text (no_text)." },
  thread_not_found: {
    kind: "invalid_arguments",
    text: "Slack has no such thread (thread_not_found). `thread_ts` is the `ts` of the message that the thread hangs on.",
  },
  cannot_reply_to_message: { kind: "invalid_arguments", text: "This message takes no replies (cannot_reply_to_message)." },
  invalid_cursor: { kind: "invalid_arguments", text: "The cursor is not valid any more (invalid_cursor). Start again without it." },
  invalid_ts_latest: { kind: "invalid_arguments" },
  invalid_ts_oldest: { kind: "invalid_arguments" },

  missing_scope: { kind: "scope_missing" },
  not_allowed_token_type: { kind: "scope_missing" },

  ratelimited: { kind: "rate_limited" },
  rate_limited: { kind: "rate_limited" },
  message_limit_exceeded: { kind: "rate_limited" },

  invalid_auth: { kind: "unauthorized" },
  not_authed: { kind: "unauthorized" },
  token_expired: { kind: "unauthorized" },
  token_revoked: { kind: "unauthorized" },
  account_inactive: { kind: "unauthorized" },

  internal_error: { kind: "unavailable" },
  fatal_error: { kind: "unavailable" },
  request_timeout: { kind: "unavailable" },
  service_unavailable: { kind: "unavailable" },
  team_added_to_org: { kind: "unavailable" },
};

/** After these nobody knows whether a write was done. */
const MAYBE_DONE = new Set(["internal_error", "fatal_error", "request_timeout", "service_unavailable"]);

const TAKEN_AWAY = new Set(["token_revoked", "account_inactive"]);
const REFUSED = new Set(["invalid_auth", "not_authed", "token_expired"]);

/** The connector's reading of a refused token, which comes with status 200. */
export function readsAuthFailure(_status: number, body: unknown): "token_rejected" | "revoked_at_provider" | null {
  if (!isObject(body) || body["ok"] !== false) return null;
  const error = textAt(body, "error") ?? "";
  return TAKEN_AWAY.has(error) ? "revoked_at_provider" : REFUSED.has(error) ? "token_rejected" : null;
}

/** Throws for an answer with `ok: false`. */
export function slackFailure(body: unknown, more: { write: boolean; scopes: readonly string[]; retryAfterS?: number | undefined }): never {
  const said = textAt(body, "error") ?? "";
  // A code is a word; anything else is text of a third party.
  const code = /^[a-z][a-z0-9_]{0,63}$/.test(said) ? said : "unknown_error";
  const row = Object.hasOwn(SLACK_ERRORS, code) ? SLACK_ERRORS[code] : undefined;
  if (more.write && MAYBE_DONE.has(code)) throw new ProviderFailure("outcome_unknown", code);
  if (row?.kind === "invalid_arguments" && row.text !== undefined) throw new CallEnded("invalid_arguments", code, row.text);
  const needed = textAt(body, "needed")
    ?.split(",")
    .map((scope) => scope.trim())
    .filter((scope) => /^[a-z0-9:._-]{1,64}$/.test(scope));
  throw new ProviderFailure(row?.kind ?? "rejected", code, {
    ...(row?.kind === "scope_missing" ? { scopes: needed && needed.length > 0 ? needed : more.scopes } : {}),
    ...(more.retryAfterS === undefined ? {} : { retryAfterS: more.retryAfterS }),
  });
}
