// Gmail: Google's authorization server and the Gmail API. Data alone; the tools are beside it.
import { z } from "zod";
import type { Connector, ExternalAccount, ScopeLabel } from "../connector.js";
import { textAt } from "../json.js";
import { gmailTools } from "./tools.js";
import { GMAIL_READ, GMAIL_SEND } from "./scopes.js";

const scopes: ScopeLabel[] = [
  { name: GMAIL_READ, title: "Read your mail", required: true },
  { name: GMAIL_SEND, title: "Send mail as you", required: false },
];

export const gmail: Connector = {
  name: "gmail",
  title: "Gmail",
  method: {
    kind: "oauth",
    tokenAuth: "client_secret_post",
    pkce: true,
    openid: true,
    // Google gives a refresh token only with access_type=offline, and only when its consent page was shown.
    authorizationParams: { access_type: "offline", prompt: "consent" },
    scopeSeparator: " ",
    scopeParam: "scope",
    baseScopes: ["openid", "email"],
    normalizeTokenAnswer: null,
    identity: { source: "userinfo", read: googleAccount },
    revoke: { style: "rfc7009" },
  },
  scopes,
  endpoints: {
    issuer: "https://accounts.google.com",
    authorization: "https://accounts.google.com/o/oauth2/v2/auth",
    token: "https://oauth2.googleapis.com/token",
    revocation: "https://oauth2.googleapis.com/revoke",
    userinfo: "https://openidconnect.googleapis.com/v1/userinfo",
    jwks: "https://www.googleapis.com/oauth2/v3/certs",
    api: "https://gmail.googleapis.com",
  },
  tools: gmailTools,
  readsAuthFailure: null,
};

/** Settings of a connection of this connector. */
export const gmailSettings = z.strictObject({
  confirm_sends: z.enum(["off", "new_recipients", "always"]).optional(),
});

/** `sub` never changes and is never given to somebody else; the address may be both. */
function googleAccount(body: unknown): ExternalAccount | null {
  const id = textAt(body, "sub");
  return id ? { id, email: textAt(body, "email") ?? null, name: textAt(body, "name") ?? null } : null;
}
