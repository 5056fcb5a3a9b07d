// Who asks, in the matrix. The owner's identifier holds everything that is folded, composed, decoded or trimmed elsewhere, and each
// twin is what one such fold would make of it: where any of them was done, a twin would be the owner.
export const STANDINGS = ["user", "viewer", "admin", "nobody"] as const;
export type Standing = (typeof STANDINGS)[number];

export interface Somebody {
  sub: string;
  /** What the pages are to take them for. */
  standing: Standing;
  /** A word for their e-mail address, labels and names: they can be looked for in an answer. */
  slug: string;
}

export const PEOPLE = {
  owner: { sub: "Zo\u00e9+a/b%2F..", standing: "user", slug: "owner" },
  other: { sub: "bea-somebody-else", standing: "user", slug: "other" },
  "twin by case": { sub: "zo\u00e9+a/b%2F..", standing: "user", slug: "bycase" },
  "twin by composition": { sub: "Zoe\u0301+a/b%2F..", standing: "user", slug: "bycomposition" },
  "twin by decoding": { sub: "Zo\u00e9+a/b/..", standing: "user", slug: "bydecoding" },
  "twin by plus": { sub: "Zo\u00e9 a/b%2F..", standing: "user", slug: "byplus" },
  viewer: { sub: "vera-who-looks-on", standing: "viewer", slug: "viewer" },
  admin: { sub: "ada-who-runs-it", standing: "admin", slug: "admin" },
  // Their cookies and tokens are from before.
  disabled: { sub: "dan-who-was-shut-out", standing: "nobody", slug: "disabled" },
  deleted: { sub: "del-who-was-removed", standing: "nobody", slug: "deleted" },
} as const satisfies Record<string, Somebody>;

export type Person = keyof typeof PEOPLE;
/** `signed out`: the other person's cookie of a session that they ended. */
export type Actor = Person | "signed out" | "nobody";

export const PERSONS = Object.keys(PEOPLE) as Person[];
export const ACTORS: readonly Actor[] = [...PERSONS, "signed out", "nobody"];
/** Those who can sign in, each with accounts of their own. */
export const HERE = PERSONS.filter((person) => PEOPLE[person].standing !== "nobody");
/** Whose things the others reach for. */
export const HOLDERS = ["owner", "other"] as const satisfies readonly Person[];
export type Holder = (typeof HOLDERS)[number];

export function standingOf(actor: Actor): Standing {
  return actor in PEOPLE ? PEOPLE[actor as Person].standing : "nobody";
}

export function subOf(actor: Actor): string | null {
  return actor in PEOPLE ? PEOPLE[actor as Person].sub : null;
}

export const emailOf = (person: Person): string => `${PEOPLE[person].slug}@people.example`;
export const nameOf = (person: Person): string => `Called ${PEOPLE[person].slug} here`;
