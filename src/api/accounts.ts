// Accounts and authorization links over the API.
import { OutbandError } from "../errors.js";
import { asIdentifier } from "../ids.js";
import { clientIdOf } from "../identity/principal.js";
import type { AccountsDoor, LinksDoor } from "../vault/front.js";
import type { AccountView } from "../vault/types.js";
import { accountCreate, accountDeleteQuery, accountsQuery, accountUpdate, credentialReplace, linkCreate, linkQuery, linkVerify } from "./contract.js";
import { accountBody, linkBody } from "./json.js";
import { returnToOf } from "./returnTo.js";
import { created, ok, type Route, route } from "./route.js";

export interface AccountRoutesDeps {
  accounts: AccountsDoor;
  links: LinksDoor;
  /** Null: a key of the settings has none. */
  apiKeyName(id: string): Promise<string | null>;
  stopping: AbortSignal;
}

export function accountRoutes(deps: AccountRoutesDeps): Route[] {
  const { accounts, links } = deps;

  async function need(id: string | undefined): Promise<AccountView> {
    const found = await accounts.get(id ?? "");
    if (!found) throw new OutbandError("not_found");
    return found;
  }

  return [
    route({
      method: "get",
      path: "/accounts",
      scope: "read",
      query: accountsQuery,
      handle: async ({ query }) => {
        const page = await accounts.list({
          connectionName: query.connection_name,
          identifier: query.identifier,
          status: query.status,
          limit: query.limit,
          cursor: query.cursor,
        });
        return ok({ data: page.data.map(accountBody), next_cursor: page.nextCursor });
      },
    }),
    route({
      method: "post",
      path: "/accounts",
      scope: "manage",
      body: accountCreate,
      handle: async ({ actor, body }) =>
        created(
          accountBody(
            await accounts.put(actor, {
              connectionName: body.connection_name,
              identifier: asIdentifier(body.identifier),
              label: body.label,
              credential: body.credential,
            }),
          ),
        ),
    }),
    route({ method: "get", path: "/accounts/:id", scope: "read", handle: async ({ params }) => ok(accountBody(await need(params["id"]))) }),
    route({
      method: "patch",
      path: "/accounts/:id",
      scope: "manage",
      body: accountUpdate,
      handle: async ({ actor, params, body }) => ok(accountBody(await accounts.rename(actor, params["id"] ?? "", body.label))),
    }),
    route({
      method: "delete",
      path: "/accounts/:id",
      scope: "manage",
      query: accountDeleteQuery,
      handle: async ({ actor, params, query }) =>
        ok(accountBody(await accounts.disconnect(actor, params["id"] ?? "", { purge: query.purge ?? false }))),
    }),
    route({
      method: "post",
      path: "/accounts/:id/refresh",
      scope: "manage",
      handle: async ({ actor, params }) => ok(accountBody(await accounts.refresh(actor, params["id"] ?? ""))),
    }),
    route({
      method: "put",
      path: "/accounts/:id/credential",
      scope: "manage",
      body: credentialReplace,
      handle: async ({ actor, params, body }) => {
        const account = await need(params["id"]);
        const { connectionName, identifier, label } = account;
        return ok(accountBody(await accounts.put(actor, { connectionName, identifier, label, credential: body.credential })));
      },
    }),
    route({
      method: "post",
      path: "/authorization-links",
      scope: "execute",
      body: linkCreate,
      handle: async ({ actor, body }) => {
        const link = await links.create(actor, {
          connectionName: body.connection_name,
          identifier: asIdentifier(body.identifier),
          label: body.label ?? "",
          askedBy: "api",
          clientId: clientIdOf(actor),
          clientName: await deps.apiKeyName(actor.keyId),
          tool: null,
          returnTo: returnToOf(actor, body),
          verification: body.verification ?? "sign_in",
          callerState: body.state ?? null,
          ...(body.scopes === undefined ? {} : { scopesRequired: body.scopes }),
        });
        if (link === "asked_too_often") throw new OutbandError("rate_limited");
        return created({ id: link.id, url: link.url, expires_at: link.expiresAt.toISOString(), account_id: link.accountId });
      },
    }),
    route({
      method: "get",
      path: "/authorization-links/:id",
      scope: "read",
      query: linkQuery,
      handle: async ({ params, query, signal }) => {
        const link = await links.get(params["id"] ?? "");
        if (!link) throw new OutbandError("not_found");
        if (query.wait_s === 0 || (link.status !== "open" && link.status !== "started")) return ok(linkBody(link));
        // Told to stop, the program answers with what is known; the caller asks again.
        await links.wait({ linkId: link.id, accountId: link.accountId, timeoutMs: query.wait_s * 1000, signal: AbortSignal.any([signal, deps.stopping]) });
        return ok(linkBody((await links.get(link.id)) ?? link));
      },
    }),
    route({
      method: "post",
      path: "/authorization-links/:id/verify",
      scope: "execute",
      body: linkVerify,
      handle: async ({ actor, params, body }) =>
        ok(linkBody(await links.verify(actor, params["id"] ?? "", { code: body.verification_code, identifier: asIdentifier(body.identifier) }))),
    }),
  ];
}
