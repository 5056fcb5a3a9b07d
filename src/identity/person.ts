// What a person's fields may hold, and how two spellings of an e-mail address become one key. Pure.
import { OutbandError } from "../errors.js";
import type { Identifier } from "../ids.js";
import { PASSWORD_CHARACTERS_MAX, passwordProblem } from "./passwords.js";

export type Role = "user" | "viewer" | "admin" | "disabled";

/** A person as the rest of the program sees one: never the hash. */
export interface User {
  sub: Identifier;
  /** Empty: the issuer gave none that may be shown as theirs. */
  email: string;
  name: string | null;
  role: Role;
  /** BUILT_IN, or the URL of the external issuer. */
  issuer: string;
  hasPassword: boolean;
  createdAt: Date;
  updatedAt: Date;
  lastSignInAt: Date | null;
}

export interface FieldProblem {
  path: string;
  message: string;
}

/** The issuer of people with a password of ours. */
export const BUILT_IN = "builtin";
const EMAIL_CHARACTERS_MAX = 254;
export const NAME_CHARACTERS_MAX = 100;
const SUB_CHARACTERS_MAX = 255;

/** What sign-in looks up: trimmed, lower case. The address itself is kept as it was given. */
export function emailKey(email: string): string {
  return email.trim().toLowerCase();
}

/**
 * The same column for people of an external issuer, whose address is only shown: two of them may have the same one. Nobody
 * can type this as an address, because of the blank.
 */
export function externalEmailKey(sub: string): string {
  return `sub ${sub}`;
}

export interface PersonInput {
  sub?: string | undefined;
  email?: string | undefined;
  name?: string | null | undefined;
  password?: string | undefined;
}

/** Everything that is wrong, at once. Messages never repeat a value. */
export function personProblems(input: PersonInput): FieldProblem[] {
  const problems: FieldProblem[] = [];
  const add = (path: string, message: string | null): void => {
    if (message !== null) problems.push({ path, message });
  };
  if (input.sub !== undefined) add("sub", subProblem(input.sub));
  if (input.email !== undefined) add("email", emailProblem(input.email.trim()));
  if (input.name !== undefined && input.name !== null) add("name", nameProblem(input.name));
  if (input.password !== undefined) {
    // Characters first: the checks behind it need not read a megabyte.
    add("password", input.password.length > PASSWORD_CHARACTERS_MAX * 4 ? "The password is too long." : passwordProblem(input.password, input.email ?? ""));
  }
  return problems;
}

export function requireSound(input: PersonInput): void {
  const problems = personProblems(input);
  if (problems.length > 0) throw new OutbandError("invalid_request", { problems });
}

function subProblem(sub: string): string | null {
  const sound = /^[\x21-\x7e]+$/.test(sub) && sub.length <= SUB_CHARACTERS_MAX;
  return sound ? null : `The sub must have 1 to ${SUB_CHARACTERS_MAX} printable ASCII characters without spaces.`;
}

/** No grammar of addresses: only mail proves one. */
export function emailProblem(email: string): string | null {
  const sound = /^[^\s@\p{Cc}\p{Cf}\p{Cs}]+@[^\s@\p{Cc}\p{Cf}\p{Cs}]+$/u.test(email) && email.length <= EMAIL_CHARACTERS_MAX;
  return sound ? null : "This is not an e-mail address.";
}

function nameProblem(name: string): string | null {
  const sound = !/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(name) && [...name].length <= NAME_CHARACTERS_MAX;
  return sound ? null : `The name must have at most ${NAME_CHARACTERS_MAX} printable characters.`;
}

/** The row's columns that make a User. */
export const USER_COLUMNS = {
  sub: true,
  email: true,
  name: true,
  role: true,
  issuer: true,
  passwordHash: true,
  createdAt: true,
  updatedAt: true,
  lastSignInAt: true,
} as const;

export interface UserRow {
  sub: string;
  email: string;
  name: string | null;
  role: Role;
  issuer: string;
  passwordHash: string | null;
  createdAt: Date;
  updatedAt: Date;
  lastSignInAt: Date | null;
}

export function userOf(row: UserRow): User {
  const { passwordHash, ...rest } = row;
  return { ...rest, sub: row.sub as Identifier, hasPassword: passwordHash !== null };
}
