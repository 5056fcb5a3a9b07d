// Tools over the API: listed, and executed for one person. The vault's outcomes become statuses here (contract 7).
import { z } from "zod";
import { type ErrorCode, OutbandError } from "../errors.js";
import { asIdentifier } from "../ids.js";
import type { OfferedTool, ToolsDoor } from "../vault/front.js";
import { OPERATOR_REASONS, type Outcome, type ToolCallOutcome } from "../vault/types.js";
import { pageQuery, toolExecute } from "./contract.js";
import { pageOf } from "./page.js";
import { ok, type Route, route } from "./route.js";

export function toolRoutes(deps: { tools: ToolsDoor }): Route[] {
  const { tools } = deps;
  return [
    route({
      method: "get",
      path: "/tools",
      scope: "read",
      query: pageQuery,
      handle: async ({ query }) => {
        const offers = (await tools.offered()).filter((offer) => offer.enabled);
        const page = pageOf(offers, (offer) => offer.name, query);
        return ok({ ...page, data: page.data.map(toolBody) });
      },
    }),
    route({
      method: "post",
      path: "/tools/:tool_name/execute",
      scope: "execute",
      body: toolExecute,
      handle: async ({ actor, params, body, signal, requestId, traceId }) => {
        const name = params["tool_name"] ?? "";
        if (!(await tools.offered()).some((offer) => offer.name === name)) throw new OutbandError("not_found");
        const outcome = await tools.execute(actor, asIdentifier(body.identifier), {
          tool: name,
          args: body.arguments,
          account: body.account,
          idempotencyKey: body.idempotency_key,
          answers: {},
          signal,
          requestId,
          traceId,
        });
        return ok(executed(outcome));
      },
    }),
  ];
}

function toolBody(offer: OfferedTool): Record<string, unknown> {
  return {
    tool_name: offer.name,
    connection_name: offer.connectionName,
    title: offer.tool.title,
    description: offer.tool.description,
    input_schema: z.toJSONSchema(offer.tool.input, { io: "input" }),
    output_schema: z.toJSONSchema(offer.tool.output),
    writes: offer.tool.effect === "write",
  };
}

function executed(outcome: ToolCallOutcome): { execution_id: string; data: unknown } {
  switch (outcome.kind) {
    case "done":
      return { execution_id: outcome.executionId, data: outcome.result.structured };
    case "needs_account":
      // A link would not help: contract section 2.
      if (OPERATOR_REASONS.some((reason) => reason === outcome.reason)) {
        throw new OutbandError("provider_error", { reason: outcome.reason, message: "The provider does not accept this connection; an operator must mend it." });
      }
      throw new OutbandError(outcome.reason === "scope_missing" ? "scope_missing" : outcome.readiness === "needs_reauth" ? "reauth_needed" : "not_connected", {
        reason: outcome.reason,
      });
    case "needs_answer":
      throw new OutbandError(outcome.question.otherwise.outcome === "not_allowed" ? "forbidden" : "invalid_request", {
        message: outcome.question.otherwise.text,
        reason: outcome.question.key,
      });
    case "failed":
      throw new OutbandError(CODES[outcome.outcome], {
        ...(outcome.reason === null ? {} : { reason: outcome.reason }),
        ...(outcome.reason === "idempotency_key_reused" ? {} : { message: outcome.text }),
        ...(outcome.retryAfterS === undefined ? {} : { retryAfterS: outcome.retryAfterS }),
      });
    default:
      return outcome satisfies never;
  }
}

const CODES: Record<Outcome, ErrorCode> = {
  not_connected: "not_connected",
  reauth_needed: "reauth_needed",
  declined: "forbidden",
  ambiguous_account: "ambiguous_account",
  scope_missing: "scope_missing",
  rate_limited: "rate_limited",
  provider_error: "provider_error",
  provider_unavailable: "provider_unavailable",
  outcome_unknown: "outcome_unknown",
  invalid_arguments: "invalid_request",
  cancelled: "forbidden",
  not_allowed: "forbidden",
};
