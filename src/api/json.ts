// From the vault's views to the API's JSON: snake_case, RFC 3339 times, never a stored secret.
import type { Connector } from "../connectors/connector.js";
import { type AccountJson, accountJson } from "../vault/store.js";
import type { AccountView, ConnectionView, LinkView } from "../vault/types.js";

export function accountBody(view: AccountView): AccountJson {
  return accountJson(view);
}

export function connectionBody(view: ConnectionView): Record<string, unknown> {
  return {
    id: view.id,
    name: view.name,
    connector: view.connector,
    title: view.title,
    method: view.method,
    client_id: view.clientId,
    client_secret_set: view.hasClientSecret,
    scopes: view.scopes,
    endpoints: view.endpoints,
    settings: view.settings,
    request_allow: view.requestAllow,
    enabled: view.enabled,
    sandbox: view.sandbox,
    redirect_uri: view.redirectUri,
    created_at: view.createdAt.toISOString(),
    updated_at: view.updatedAt.toISOString(),
  };
}

export function connectorBody(connector: Connector): Record<string, unknown> {
  return {
    name: connector.name,
    title: connector.title,
    method: connector.method.kind,
    scopes: connector.scopes,
    fields: connector.method.kind === "api_key" ? connector.method.fields.map(({ name, title, secret }) => ({ name, title, secret })) : [],
    tools: connector.tools.map((tool) => tool.name),
  };
}

export function linkBody(view: LinkView): Record<string, unknown> {
  const reason = linkReason(view);
  return {
    id: view.id,
    account_id: view.accountId,
    status: view.status,
    ...(reason === undefined ? {} : { reason }),
    expires_at: view.expiresAt.toISOString(),
  };
}

/** In the contract's word for an account (section 2) where there is one; time alone expires a link, before a reason is written. */
function linkReason(view: LinkView): string | undefined {
  if (view.status === "expired") return "link_expired";
  const word = view.reason?.split(":")[0];
  return word === "denied" ? "consent_denied" : word;
}
