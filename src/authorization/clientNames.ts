// What registered clients call themselves, for lists that name many at once: one query, however many they are. Reads only.
import type { Sealer } from "../crypto/seal.js";
import { hashToken } from "../crypto/tokens.js";
import type { Database } from "../db/client.js";
import { outsideText } from "../http/words.js";
import { openPayload } from "./adapter.js";
import type { ClientWords } from "./clients.js";

/** By client id, those that are known. A metadata document is not fetched for it: its host is in the id. */
export async function clientNames(deps: { db: Pick<Database, "prisma">; sealer: Sealer }, ids: readonly (string | null)[]): Promise<Map<string, ClientWords>> {
  const wanted = [...new Set(ids)].filter((id) => id !== null);
  const named = new Map<string, ClientWords>();
  const registered = new Map<string, string>();
  for (const id of wanted) {
    const url = URL.parse(id);
    if (url?.protocol === "https:") named.set(id, { name: null, provedHost: url.host });
    else registered.set(hashToken(id), id);
  }
  if (registered.size === 0) return named;
  const rows = await deps.db.prisma.oAuthRecord.findMany({ where: { type: "Client", idHash: { in: [...registered.keys()] } }, select: { type: true, idHash: true, payload: true } });
  for (const row of rows) {
    const id = registered.get(row.idHash);
    const payload = await openPayload(deps.sealer, row);
    const name: unknown = payload?.["client_name"];
    const shown = typeof name === "string" ? outsideText(name) : "";
    if (id !== undefined && shown !== "") named.set(id, { name: shown, provedHost: null });
  }
  return named;
}
