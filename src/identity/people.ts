// Who stands behind a `sub` or the id of an API key, for lists that name many at once. Reads only.
import type { Database } from "../db/client.js";
import { BUILT_IN, emailKey } from "./person.js";

export interface PersonName {
  email: string;
  name: string | null;
}

export interface People {
  /** Those of them who sign in here, by `sub`. */
  named(subs: readonly (string | null)[]): Promise<Map<string, PersonName>>;
  /** The names of API keys, by id; those of the settings have none. */
  keyNames(ids: readonly (string | null)[]): Promise<Map<string, string>>;
  /** The `sub` of the person with this e-mail address; null: nobody's, or not one person's alone. */
  subOf(email: string): Promise<string | null>;
}

export function createPeople(deps: { db: Pick<Database, "prisma"> }): People {
  const { user, apiKey } = deps.db.prisma;
  return {
    async named(subs) {
      const wanted = distinct(subs);
      if (wanted.length === 0) return new Map();
      const rows = await user.findMany({ where: { sub: { in: wanted } }, select: { sub: true, email: true, name: true } });
      return new Map(rows.map(({ sub, email, name }) => [sub, { email, name }]));
    },
    async keyNames(ids) {
      const wanted = distinct(ids);
      if (wanted.length === 0) return new Map();
      const rows = await apiKey.findMany({ where: { id: { in: wanted } }, select: { id: true, name: true } });
      return new Map(rows.map(({ id, name }) => [id, name]));
    },
    async subOf(email) {
      const row = await user.findUnique({ where: { emailKey: emailKey(email) }, select: { sub: true } });
      if (row !== null) return row.sub;
      // People of an external issuer: their address is what the issuer says, and no key to them.
      const shown = await user.findMany({ where: { email: email.trim(), issuer: { not: BUILT_IN } }, select: { sub: true }, take: 2 });
      return shown.length === 1 ? (shown[0]?.sub ?? null) : null;
    },
  };
}

function distinct(ids: readonly (string | null)[]): string[] {
  return [...new Set(ids)].filter((id) => id !== null);
}
