// Connectors for the page tests: two with scopes in words, a generic one without, and a key.
import type { ApiKeyMethod, Connector, OAuthMethod } from "../../src/connectors/connector.js";

const OAUTH: OAuthMethod = {
  kind: "oauth",
  tokenAuth: "client_secret_post",
  pkce: true,
  openid: true,
  baseScopes: ["openid", "email"],
  authorizationParams: {},
  scopeSeparator: " ",
  scopeParam: "scope",
  normalizeTokenAnswer: null,
  identity: { source: "none", read: () => null },
  revoke: null,
};

const KEY: ApiKeyMethod = {
  kind: "api_key",
  fields: [
    { name: "account_id", title: "Account id", secret: false, hint: "On the page “Settings”." },
    { name: "api_key", title: "API key", secret: true },
  ],
  placement: { in: "header", name: "Authorization", prefix: "Bearer " },
  probe: { method: "GET", path: "/me", status: 200 },
  identity: null,
};

export const MAIL_READ = "https://mail.test/auth/read";
export const MAIL_SEND = "https://mail.test/auth/send";
export const MAIL_LABELS = "https://mail.test/auth/labels";

export const PAGE_CONNECTORS: Connector[] = [
  {
    name: "gmail",
    title: "Gmail",
    method: OAUTH,
    scopes: [
      { name: MAIL_READ, title: "Read your mail", required: true },
      { name: MAIL_SEND, title: "Send mail as you", required: false },
      { name: MAIL_LABELS, title: "Change labels on your mail", required: false },
    ],
    endpoints: { issuer: "https://accounts.mail.test", authorization: "https://accounts.mail.test/o/auth", api: "https://api.mail.test" },
    tools: [],
    readsAuthFailure: null,
  },
  {
    name: "slack",
    title: "Slack",
    method: OAUTH,
    scopes: [
      { name: "channels:read", title: "See the list of channels", required: true },
      { name: "chat:write", title: "Post messages as you", required: false },
    ],
    endpoints: { authorization: "https://chat.test/oauth/v2/authorize", api: "https://chat.test/api" },
    tools: [],
    readsAuthFailure: null,
  },
  { name: "generic-oauth", title: "OAuth", method: OAUTH, scopes: [], endpoints: {}, tools: [], readsAuthFailure: null },
  { name: "generic-api-key", title: "API key", method: KEY, scopes: [], endpoints: { api: "https://api.weather.test" }, tools: [], readsAuthFailure: null },
];
