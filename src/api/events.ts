// Events over the API: oldest first, after an event's id.
import type { Database } from "../db/client.js";
import { OutbandError } from "../errors.js";
import { listEvents } from "../events/events.js";
import { eventsQuery } from "./contract.js";
import { ok, type Route, route } from "./route.js";

export function eventRoutes(deps: { db: Pick<Database, "prisma"> }): Route[] {
  return [
    route({
      method: "get",
      path: "/events",
      scope: "read",
      query: eventsQuery,
      handle: async ({ query }) => {
        const page = await listEvents(deps.db.prisma, { after: query.after, type: query.type, accountId: query.account_id, limit: query.limit });
        if (!page) throw new OutbandError("invalid_request", { problems: [{ path: "after", message: "There is no such event." }] });
        return ok({ data: page.data, next_cursor: page.more ? (page.data.at(-1)?.id ?? null) : null });
      },
    }),
  ];
}
