// Which tools there are: one per connection and tool of its connector, in a fixed order (contract 6.3).
import type { Database } from "../db/client.js";
import type { OfferedTool } from "./front.js";
import type { Targets } from "./target.js";

/** Connections named as their connector come first, in this order; then all others by name. */
const FIRST = ["gmail", "slack"];

export function createOffer(deps: { db: Database; targets: Targets }): () => Promise<OfferedTool[]> {
  return async () => {
    const connections = await deps.db.prisma.connection.findMany({ orderBy: { name: "asc" } });
    const rank = (name: string) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);
    const ordered = [...connections].sort((a, b) => rank(a.name) - rank(b.name));
    return ordered.flatMap((connection) =>
      deps.targets.connectorOf(connection).tools.map((tool) => ({
        name: connection.name === connection.connector ? tool.name : `${connection.name}__${tool.name}`,
        connectionName: connection.name,
        connectionTitle: connection.title,
        sandbox: connection.origin === "sandbox",
        enabled: connection.enabled,
        tool,
      })),
    );
  };
}
