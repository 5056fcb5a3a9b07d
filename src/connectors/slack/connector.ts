// Slack, with the person's own (user) token: what is posted is posted as the person, by the person's grant. Data alone.
import { z } from "zod";
import type { Connector, ExternalAccount, ScopeLabel } from "../connector.js";
import { isObject, textAt } from "../json.js";
import { readsAuthFailure } from "./errors.js";
import { CHANNELS_HISTORY, CHANNELS_READ, CHAT_WRITE, GROUPS_HISTORY, GROUPS_READ } from "./scopes.js";
import { slackTools } from "./tools.js";

const scopes: ScopeLabel[] = [
  { name: CHANNELS_READ, title: "See the public channels of your workspace", required: true },
  { name: GROUPS_READ, title: "See the private channels that you are in", required: true },
  { name: CHAT_WRITE, title: "Post messages as you", required: false },
  { name: CHANNELS_HISTORY, title: "Read messages in public channels", required: false },
  { name: GROUPS_HISTORY, title: "Read messages in private channels that you are in", required: false },
];

export const slack: Connector = {
  name: "slack",
  title: "Slack",
  method: {
    kind: "oauth",
    // Slack has answered bad_client_secret to Basic.
    tokenAuth: "client_secret_post",
    // With PKCE Slack makes the app a public client for good, whose refresh tokens end after 30 days.
    pkce: false,
    openid: false,
    authorizationParams: {},
    scopeSeparator: ",",
    scopeParam: "user_scope",
    baseScopes: [],
    normalizeTokenAnswer,
    identity: { source: { method: "POST", path: "/auth.test" }, read: slackAccount },
    revoke: {
      style: "api",
      method: "POST",
      path: "/auth.revoke",
      ok: isRevoked,
      expired: (body) => textAt(body, "error") === "token_expired",
    },
  },
  scopes,
  endpoints: {
    authorization: "https://slack.com/oauth/v2/authorize",
    token: "https://slack.com/api/oauth.v2.access",
    api: "https://slack.com/api",
  },
  tools: slackTools,
  readsAuthFailure,
};

/** Settings of a connection of this connector. */
export const slackSettings = z.strictObject({
  confirm_sends: z.enum(["off", "new_recipients", "always"]).optional(),
});

/**
 * `ok: false` becomes an error (the table of oauthFailures.ts knows Slack's codes), and the user's token, nested in
 * `authed_user` at the exchange and at the top at a refresh, becomes the token.
 */
function normalizeTokenAnswer(status: number, body: unknown): { status: number; body: Record<string, unknown> } {
  if (!isObject(body)) return { status, body: {} };
  if (body["ok"] === false) return { status: Math.max(status, 400), body: { error: body["error"] ?? "unknown_error" } };
  const user = isObject(body["authed_user"]) ? body["authed_user"] : {};
  const holder = typeof user["access_token"] === "string" ? user : body;
  // `identify` is put on every user token by Slack itself; asked for again, it would be refused.
  const scope =
    typeof holder["scope"] === "string"
      ? {
          scope: holder["scope"]
            .split(",")
            .filter((one) => one !== "identify")
            .join(" "),
        }
      : {};
  return { status, body: { ...holder, ...scope } };
}

/** A person is a user of a workspace; user ids alone are not unique. */
function slackAccount(body: unknown): ExternalAccount | null {
  if (!isObject(body) || body["ok"] !== true) return null;
  const user = textAt(body, "user_id");
  const team = textAt(body, "team_id") ?? textAt(body, "enterprise_id");
  if (!user || !team) return null;
  const name = [textAt(body, "user"), textAt(body, "team")].filter((part) => part !== undefined && part !== "");
  return { id: `${team}:${user}`, email: null, name: name.length === 0 ? null : name.join(" at ") };
}

/** A token that Slack no longer honours is a token taken back; one that has run out is not: its refresh token may live. */
function isRevoked(body: unknown): boolean {
  const error = textAt(body, "error") ?? "";
  return (isObject(body) && body["ok"] === true) || ["token_revoked", "invalid_auth", "account_inactive"].includes(error);
}
