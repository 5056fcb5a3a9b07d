// What a call of the vault API is: a row of method, path, scope, schemas and handler. routes.ts lists them; the OpenAPI
// document is to be made from the same rows. Must never happen: a handler that sees an unchecked body or an unasked scope.
import type { z } from "zod";
import type { ApiKeyPrincipal, ApiScope } from "../identity/principal.js";

export interface CallContext<Body, Query> {
  actor: ApiKeyPrincipal;
  params: Record<string, string>;
  body: Body;
  query: Query;
  requestId: string;
  traceId: string | undefined;
  /** Aborts when the caller leaves. */
  signal: AbortSignal;
}

export interface Answer {
  status: number;
  body: unknown;
}

export interface Route {
  method: "get" | "post" | "patch" | "put" | "delete";
  /** Express path below /api/v1. */
  path: string;
  scope: ApiScope;
  body: z.ZodType | null;
  query: z.ZodType | null;
  handle(context: CallContext<unknown, unknown>): Promise<Answer>;
}

/** Ties a handler to its own schemas; a row holds it untyped. */
export function route<Body extends z.ZodType = z.ZodNever, Query extends z.ZodType = z.ZodNever>(row: {
  method: Route["method"];
  path: string;
  scope: ApiScope;
  body?: Body;
  query?: Query;
  handle(context: CallContext<z.output<Body>, z.output<Query>>): Promise<Answer>;
}): Route {
  return {
    method: row.method,
    path: row.path,
    scope: row.scope,
    body: row.body ?? null,
    query: row.query ?? null,
    handle: (context) => row.handle(context as CallContext<z.output<Body>, z.output<Query>>),
  };
}

export const ok = (body: unknown): Answer => ({ status: 200, body });
export const created = (body: unknown): Answer => ({ status: 201, body });
export const noContent: Answer = { status: 204, body: null };
