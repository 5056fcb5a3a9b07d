// Connections and connectors over the API. Endpoints and request_allow decide where credentials are sent: admin alone.
import type { Registry } from "../connectors/registry.js";
import { OutbandError } from "../errors.js";
import type { ApiKeyPrincipal } from "../identity/principal.js";
import type { ConnectionInput, ConnectionsDoor } from "../vault/front.js";
import { connectionCreate, connectionDeleteQuery, connectionUpdate, connectionUpdateQuery, pageQuery } from "./contract.js";
import { connectionBody, connectorBody } from "./json.js";
import { pageOf } from "./page.js";
import { created, noContent, ok, type Route, route } from "./route.js";

interface ChangeBody {
  title?: string | undefined;
  client_id?: string | undefined;
  client_secret?: string | undefined;
  scopes?: string[] | undefined;
  endpoints?: Record<string, string | undefined> | undefined;
  settings?: Record<string, unknown> | undefined;
  enabled?: boolean | undefined;
  request_allow?: { method: string; path_prefix: string }[] | undefined;
}

export function connectionRoutes(deps: { connections: ConnectionsDoor; registry: Registry }): Route[] {
  const { connections, registry } = deps;
  return [
    route({
      method: "get",
      path: "/connectors",
      scope: "read",
      handle: async () => ok({ data: registry.list().map(connectorBody) }),
    }),
    route({
      method: "get",
      path: "/connections",
      scope: "read",
      query: pageQuery,
      handle: async ({ query }) => {
        const page = pageOf(await connections.list(), (connection) => connection.name, query);
        return ok({ ...page, data: page.data.map(connectionBody) });
      },
    }),
    route({
      method: "post",
      path: "/connections",
      scope: "manage",
      body: connectionCreate,
      handle: async ({ actor, body }) => {
        refuseWithoutAdmin(actor, body);
        return created(connectionBody(await connections.create(actor, { name: body.name, connector: body.connector, ...change(body) })));
      },
    }),
    route({
      method: "get",
      path: "/connections/:name",
      scope: "read",
      handle: async ({ params }) => {
        const found = await connections.get(params["name"] ?? "");
        if (!found) throw new OutbandError("not_found");
        return ok(connectionBody(found));
      },
    }),
    route({
      method: "patch",
      path: "/connections/:name",
      scope: "manage",
      body: connectionUpdate,
      query: connectionUpdateQuery,
      handle: async ({ actor, params, body, query }) => {
        refuseWithoutAdmin(actor, body);
        return ok(connectionBody(await connections.update(actor, params["name"] ?? "", change(body), { reset: query.reset ?? false })));
      },
    }),
    route({
      method: "delete",
      path: "/connections/:name",
      scope: "manage",
      query: connectionDeleteQuery,
      handle: async ({ actor, params, query }) => {
        await connections.remove(actor, params["name"] ?? "", { disconnect: query.disconnect ?? false });
        return noContent;
      },
    }),
  ];
}

function refuseWithoutAdmin(actor: ApiKeyPrincipal, body: ChangeBody): void {
  if ((body.endpoints !== undefined || body.request_allow !== undefined) && !actor.scopes.has("admin")) {
    throw new OutbandError("insufficient_scope", { reason: "endpoints_need_admin" });
  }
}

function change(body: ChangeBody): Omit<ConnectionInput, "name" | "connector"> {
  const endpoints = body.endpoints && Object.fromEntries(Object.entries(body.endpoints).filter((entry): entry is [string, string] => entry[1] !== undefined));
  return {
    title: body.title,
    clientId: body.client_id,
    clientSecret: body.client_secret,
    scopes: body.scopes,
    endpoints,
    settings: body.settings,
    enabled: body.enabled,
    requestAllow: body.request_allow,
  };
}
