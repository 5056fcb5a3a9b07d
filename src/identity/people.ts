// Who stands behind a `sub`, for lists that name many people at once. Reads only.
import type { Database } from "../db/client.js";
import { emailKey } from "./person.js";

export interface PersonName {
  email: string;
  name: string | null;
}

export interface People {
  /** Those of them who sign in here, by `sub`. */
  named(subs: readonly (string | null)[]): Promise<Map<string, PersonName>>;
  /** The `sub` of the person with this e-mail address; null: nobody's. */
  subOf(email: string): Promise<string | null>;
}

export function createPeople(deps: { db: Pick<Database, "prisma"> }): People {
  const { user } = deps.db.prisma;
  return {
    async named(subs) {
      const wanted = [...new Set(subs)].filter((sub) => sub !== null);
      if (wanted.length === 0) return new Map();
      const rows = await user.findMany({ where: { sub: { in: wanted } }, select: { sub: true, email: true, name: true } });
      return new Map(rows.map(({ sub, email, name }) => [sub, { email, name }]));
    },
    async subOf(email) {
      const row = await user.findUnique({ where: { emailKey: emailKey(email) }, select: { sub: true } });
      return row?.sub ?? null;
    },
  };
}
