// What a posted form holds, as plain text, and what was wrong with it, by field. Pure.
import type { Request } from "express";
import { OutbandError } from "../errors.js";

/** A sentence by field. */
export type Problems = Partial<Record<string, string>>;

/** By field, what sentences of a check belong to. */
export function sentencesOf(found: readonly { path: string; message: string }[]): Problems {
  return Object.fromEntries(found.map(({ path, message }) => [path, message]));
}

/** An empty second one was left out, by a program or by a password manager that fills one field alone. */
export function passwordsDiffer(password: string, again: string): Problems {
  return again !== "" && again !== password ? { password_again: "The two passwords differ." } : {};
}

/** The named fields; what is missing, or came twice, is empty. */
export function fieldsOf<Name extends string>(req: Request, names: readonly Name[]): Record<Name, string> {
  const body = (req.body ?? {}) as Partial<Record<string, unknown>>;
  const entries = names.map((name) => {
    const value = body[name];
    return [name, typeof value === "string" ? value : ""] as const;
  });
  return Object.fromEntries(entries) as Record<Name, string>;
}

/** The problems that an error tells of; a name that is taken goes to `takenField`. Anything else is thrown on. */
export function problemsOf(error: unknown, takenField: string): Problems {
  if (!(error instanceof OutbandError)) throw error;
  if (error.code === "already_exists") return { [takenField]: error.message };
  if (error.code !== "invalid_request" || !error.problems) throw error;
  return sentencesOf(error.problems);
}
