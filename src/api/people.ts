// People, API keys and session tokens over the API. Nothing mints more than it has.
import { OutbandError } from "../errors.js";
import { asIdentifier } from "../ids.js";
import { API_SCOPES, type ApiKeys, type ApiKeyView } from "../identity/apiKeys.js";
import { BUILT_IN, requireSound } from "../identity/person.js";
import type { Principal } from "../identity/principal.js";
import type { SessionTokens } from "../identity/sessionTokens.js";
import type { User, Users } from "../identity/users.js";
import type { AccountsDoor, LinksDoor } from "../vault/front.js";
import { apiKeyCreate, pageQuery, sessionTokenCreate, userCreate, userUpdate } from "./contract.js";
import { pageOf } from "./page.js";
import { returnToOf } from "./returnTo.js";
import { created, noContent, ok, type Route, route } from "./route.js";

export interface PeopleDeps {
  users: Users;
  apiKeys: ApiKeys;
  sessionTokens: SessionTokens;
  accounts: AccountsDoor;
  links: Pick<LinksDoor, "endOf">;
  publicUrl: string;
  /** Paths of the MCP endpoints there are. */
  endpoints: readonly string[];
  /** Ends the person's browser sessions and grants. */
  endEverythingOf(sub: string): Promise<void>;
}

export function peopleRoutes(deps: PeopleDeps): Route[] {
  const { users, apiKeys, sessionTokens, accounts } = deps;

  async function shutOut(actor: Principal, sub: string): Promise<void> {
    await deps.endEverythingOf(sub);
    await deps.links.endOf(actor, asIdentifier(sub));
  }

  /** Side by side: a provider that does not answer is waited for once, not once for each account. */
  async function disconnectAll(actor: Principal, sub: string): Promise<void> {
    const theirs = await accounts.ofPerson(asIdentifier(sub));
    await Promise.all(theirs.map(({ id }) => accounts.disconnect(actor, id, { purge: true })));
  }

  return [
    route({
      method: "get",
      path: "/users",
      scope: "admin",
      query: pageQuery,
      handle: async ({ query }) => {
        const page = await users.list({ limit: query.limit, cursor: query.cursor });
        return ok({ data: page.data.map(userBody), next_cursor: page.nextCursor });
      },
    }),
    route({
      method: "post",
      path: "/users",
      scope: "admin",
      body: userCreate,
      handle: async ({ actor, body }) => {
        const user = await users.create(body, actor);
        // An invitation sets a password; people of an external issuer have none here.
        if (body.password !== undefined || user.issuer !== BUILT_IN) return created(userBody(user));
        const invitation = await users.makeInvitation(user.sub);
        return created({ ...userBody(user), invitation_url: `${deps.publicUrl}/setup/${invitation.reveal()}` });
      },
    }),
    route({
      method: "patch",
      path: "/users/:sub",
      scope: "admin",
      body: userUpdate,
      handle: async ({ actor, params, body }) => {
        const sub = params["sub"] ?? "";
        const known = await users.find(sub);
        if (!known) throw new OutbandError("not_found");
        // All of it is looked at before a part of it is done; the password comes last, as the rest may still be taken or forbidden.
        requireSound({ ...body, email: body.email ?? known.email });
        const { password, ...change } = body;
        const user = await users.update(sub, definedOf(change), actor);
        if (password !== undefined) await users.setPassword(sub, password, actor);
        if (user.role === "disabled") await shutOut(actor, sub);
        else if (password !== undefined) await deps.endEverythingOf(sub);
        return ok(userBody(user));
      },
    }),
    route({
      method: "delete",
      path: "/users/:sub",
      scope: "admin",
      handle: async ({ actor, params }) => {
        const sub = params["sub"] ?? "";
        if (!(await users.find(sub))) throw new OutbandError("not_found");
        // Shut out first: nothing new can begin while the accounts are given back.
        await users.update(sub, { role: "disabled" }, actor);
        await shutOut(actor, sub);
        await disconnectAll(actor, sub);
        await users.remove(sub, actor);
        // What was under way at the first look.
        await disconnectAll(actor, sub);
        return noContent;
      },
    }),
    route({
      method: "get",
      path: "/api-keys",
      scope: "admin",
      query: pageQuery,
      handle: async ({ query }) => {
        const page = pageOf(await apiKeys.list(), (key) => key.id, query);
        return ok({ ...page, data: page.data.map(apiKeyBody) });
      },
    }),
    route({
      method: "post",
      path: "/api-keys",
      scope: "admin",
      body: apiKeyCreate,
      handle: async ({ actor, body }) => {
        const made = await apiKeys.create(
          {
            name: body.name,
            scopes: body.scopes,
            returnToOrigins: body.return_to_origins,
            expiresAt: body.expires_at === undefined ? null : new Date(body.expires_at),
          },
          actor,
        );
        return created({ id: made.id, key: made.key.reveal() });
      },
    }),
    route({
      method: "delete",
      path: "/api-keys/:id",
      scope: "admin",
      handle: async ({ actor, params }) => {
        await apiKeys.remove(params["id"] ?? "", actor);
        return noContent;
      },
    }),
    route({
      method: "post",
      path: "/session-tokens",
      scope: "execute",
      body: sessionTokenCreate,
      handle: async ({ actor, body }) => {
        const endpoint = body.endpoint ?? "/mcp";
        if (!deps.endpoints.includes(endpoint)) throw new OutbandError("invalid_request", { problems: [{ path: "endpoint", message: "There is no such MCP endpoint." }] });
        const returnTo = returnToOf(actor, body);
        const verification = body.verification ?? "sign_in";
        const user = await users.find(body.identifier);
        const isFor = user ? user.role !== "disabled" : verification === "app";
        if (!isFor) throw new OutbandError("unknown_identifier");
        const minted = await sessionTokens.mint({
          sub: user?.sub ?? body.identifier,
          personSince: user?.createdAt ?? null,
          links: { verification, returnTo },
          ttlS: body.ttl_s,
          endpoint,
          scopes: body.scopes ?? ["mcp:read", "mcp:write"],
          apiKeyId: actor.keyId,
        });
        return created({ token: minted.token.reveal(), expires_at: minted.expiresAt.toISOString(), endpoint });
      },
    }),
  ];
}

function userBody(user: User): Record<string, unknown> {
  return {
    sub: user.sub,
    email: user.email,
    name: user.name,
    role: user.role,
    issuer: user.issuer,
    created_at: user.createdAt.toISOString(),
    last_sign_in_at: user.lastSignInAt?.toISOString() ?? null,
  };
}

function apiKeyBody(key: ApiKeyView): Record<string, unknown> {
  return {
    id: key.id,
    name: key.name,
    hint: key.hint,
    scopes: API_SCOPES.filter((scope) => key.scopes.includes(scope)),
    return_to_origins: key.returnToOrigins,
    created_at: key.createdAt.toISOString(),
    expires_at: key.expiresAt?.toISOString() ?? null,
    last_used_at: key.lastUsedAt?.toISOString() ?? null,
  };
}

function definedOf<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, item]) => item !== undefined)) as { [K in keyof T]?: Exclude<T[K], undefined> };
}
