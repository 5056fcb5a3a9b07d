// The two practice people: the same persons at the practice Google and the practice Slack. Invented, on reserved names (RFC 2606).

export interface PracticePerson {
  /** Google's `sub`: 21 digits. */
  sub: string;
  /** Slack's user id. */
  slackId: string;
  email: string;
  givenName: string;
  familyName: string;
  name: string;
  /** What they do, shown where one of them is chosen. */
  role: string;
}

export const MARA: PracticePerson = {
  sub: "104417725539301846207",
  slackId: "U07MARA4QXN",
  email: "mara.lindqvist@harbourlight.example",
  givenName: "Mara",
  familyName: "Lindqvist",
  name: "Mara Lindqvist",
  role: "Head of operations",
};

export const TOMAS: PracticePerson = {
  sub: "117902266418850379153",
  slackId: "U07TOMASK2R",
  email: "tomas.okafor@harbourlight.example",
  givenName: "Tomás",
  familyName: "Okafor",
  name: "Tomás Okafor",
  role: "Firmware engineer",
};

export const PEOPLE: readonly PracticePerson[] = [MARA, TOMAS];

export function personBySub(sub: string): PracticePerson | undefined {
  return PEOPLE.find((person) => person.sub === sub);
}

export function personBySlackId(id: string): PracticePerson | undefined {
  return PEOPLE.find((person) => person.slackId === id);
}

/** By address or `sub`, as `login_hint` names them. */
export function personByHint(hint: string): PracticePerson | undefined {
  return PEOPLE.find((person) => person.sub === hint || person.email === hint.toLowerCase());
}

export function initialsOf(person: PracticePerson): string {
  return `${person.givenName.charAt(0)}${person.familyName.charAt(0)}`;
}
