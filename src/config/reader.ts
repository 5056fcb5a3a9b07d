// Reads single values from an environment and collects what is wrong with them, so that every problem is told at once.
// Must never happen: a value in a problem. The operator knows what was typed; the log and the terminal's history must not.
import { Secret } from "../crypto/secret.js";

export type Environment = Record<string, string | undefined>;

export interface Reader {
  /** Trimmed; null where unset or empty. */
  text(name: string): string | null;
  secret(name: string): Secret | null;
  /** Only line ends are dropped: a person types a password with its spaces. */
  password(name: string): Secret | null;
  /** A whole number within its range; the default where unset, and where wrong. */
  whole(name: string, fallback: number, range: { min: number; max: number }): number;
  choice<Choice extends string>(name: string, fallback: Choice, choices: readonly Choice[]): Choice;
  flag(name: string): boolean;
  /** A comma list without its empty entries. */
  list(name: string): string[];
  problem(sentence: string): void;
}

export function createReader(env: Environment, problems: string[]): Reader {
  const problem = (sentence: string) => {
    problems.push(sentence);
  };
  // trim() also drops a byte order mark and the newline of a secret that was mounted as a file.
  const text = (name: string) => env[name]?.trim() || null;
  return {
    text,
    problem,
    secret: (name) => {
      const value = text(name);
      return value === null ? null : new Secret(value);
    },
    password: (name) => {
      const value = env[name]?.replace(/[\r\n]+$/, "") ?? "";
      return value === "" ? null : new Secret(value);
    },
    whole: (name, fallback, { min, max }) => {
      const value = text(name);
      if (value === null) return fallback;
      const number = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
      if (number >= min && number <= max) return number;
      problem(`${name} must be a whole number from ${min} to ${max}.`);
      return fallback;
    },
    choice: (name, fallback, choices) => {
      const value = text(name);
      if (value === null) return fallback;
      const found = choices.find((choice) => choice === value.toLowerCase());
      if (found === undefined) problem(`${name} must be one of: ${choices.join(", ")}.`);
      return found ?? fallback;
    },
    flag: (name) => {
      const value = text(name)?.toLowerCase() ?? "false";
      if (value !== "true" && value !== "false") problem(`${name} must be true or false.`);
      return value === "true";
    },
    list: (name) =>
      (text(name) ?? "")
        .split(",")
        .map((entry) => entry.trim())
        .filter((entry) => entry !== ""),
  };
}
