// The practice Slack, put together: its page, oauth.v2.access, its Web API.
import type { Clock } from "../../clock.js";
import type { Endpoint } from "../endpoint.js";
import type { Grants, TokenPolicy } from "../grants.js";
import { createShelf } from "../shelf.js";
import type { PracticeClient, Store } from "../state.js";
import { slackAccessEndpoints } from "./access.js";
import { type SlackCode, type SlackRequest, slackAuthorizeEndpoints } from "./authorize.js";
import { slackMethodEndpoints } from "./methods.js";

export interface SlackDeps {
  publicUrl: () => string;
  client: PracticeClient;
  grants: Grants;
  /** Rotating is the app setting "token rotation": refresh tokens, and tokens that expire. */
  policy: TokenPolicy;
  store: Store;
  clock: Clock;
}

const REQUEST_TTL_MS = 30 * 60_000;
/** As documented. */
const CODE_TTL_MS = 10 * 60_000;
const SHELF_MAX = 500;

export function slackEndpoints(deps: SlackDeps): Endpoint[] {
  const { clock } = deps;
  const requests = createShelf<SlackRequest>({ clock, prefix: "", ttlMs: REQUEST_TTL_MS, itemsMax: SHELF_MAX });
  const codes = createShelf<SlackCode>({ clock, prefix: "sandbox.", ttlMs: CODE_TTL_MS, itemsMax: SHELF_MAX });
  return [
    ...slackAuthorizeEndpoints({ ...deps, requests, codes }),
    ...slackAccessEndpoints({ ...deps, codes }),
    ...slackMethodEndpoints(deps),
  ];
}
