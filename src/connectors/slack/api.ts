// Calls of Slack's Web API. Must never happen: an answer with `ok: false` taken for a success; a write sent again.
import { type ApiRequest, ProviderFailure, type ToolContext } from "../connector.js";
import { isObject } from "../json.js";
import { slackFailure } from "./errors.js";

export interface SlackRequest {
  /** `conversations.list`. */
  method: string;
  query?: ApiRequest["query"];
  /** A body makes it a POST. */
  json?: Record<string, unknown>;
  write?: boolean;
  scopes: readonly string[];
  bytesMax?: number;
}

export async function slackCall(context: ToolContext, request: SlackRequest): Promise<Record<string, unknown>> {
  const write = request.write === true;
  const answer = await context.api.request({
    method: request.json ? "POST" : "GET",
    path: `/${request.method}`,
    ...(request.query ? { query: request.query } : {}),
    ...(request.json ? { json: request.json } : {}),
    ...(write ? { write } : {}),
    ...(request.bytesMax === undefined ? {} : { bytesMax: request.bytesMax }),
  });
  const body = answer.json;
  // Slack always answers an object with `ok`; anything else is not Slack speaking, and after a write nobody knows.
  if (!isObject(body) || typeof body["ok"] !== "boolean")
    throw new ProviderFailure(write ? "outcome_unknown" : "unavailable", "not_slack_json");
  if (body["ok"] === true) return body;
  const seconds = Number(answer.headers["retry-after"]);
  return slackFailure(body, {
    write,
    scopes: request.scopes,
    retryAfterS: Number.isFinite(seconds) && seconds > 0 ? Math.min(Math.ceil(seconds), 86_400) : undefined,
  });
}
