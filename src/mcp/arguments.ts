// A call's arguments: their digest, which binds a requestState to them, and what is wrong with them in words for the
// model. Must never happen: a value or a name that the caller sent, repeated in an answer.
import { createHash } from "node:crypto";
import type { z } from "zod";

export interface Problem {
  path: string;
  message: string;
}

const PROBLEMS_TOLD_MAX = 10;

/** SHA-256 over JSON with sorted keys: the same arguments give the same digest in whatever order they were written. */
export function argumentsDigest(args: Record<string, unknown>): string {
  return createHash("sha256").update(canonicalJson(args)).digest("hex");
}

/** For JSON values whose depth was checked (body.ts). */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const entries = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
    return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonicalJson(item)}`).join(",")}}`;
  }
  return JSON.stringify(value) ?? "null";
}

/** zod's own messages repeat unknown keys, so every sentence is made here; `custom` ones are the connector's fixed words. */
export function problemsOf(issues: readonly z.core.$ZodIssue[], args: Record<string, unknown>): Problem[] {
  return issues.slice(0, PROBLEMS_TOLD_MAX).map((issue) => ({ path: pathOf(issue.path), message: messageOf(issue, args) }));
}

export function problemsText(problems: readonly Problem[]): string {
  return `These arguments do not fit: ${problems.map(({ path, message }) => `${path} ${message}`).join("; ")}.`;
}

function pathOf(path: readonly PropertyKey[]): string {
  if (path.length === 0) return "the arguments";
  const text = path.reduce<string>(
    (told, key) => (typeof key === "number" ? `${told}[${key}]` : told === "" ? String(key) : `${told}.${String(key)}`),
    "",
  );
  // Keys below a record come from the caller: a name of ours is a plain word.
  return /^[\w.[\]-]{1,120}$/.test(text) ? text : "an argument";
}

function messageOf(issue: z.core.$ZodIssue, args: Record<string, unknown>): string {
  switch (issue.code) {
    case "invalid_type":
      return isMissing(issue.path, args) ? "is required" : `must be ${article(issue.expected)}`;
    case "too_big":
      return limit("at most", issue.maximum, issue.origin);
    case "too_small":
      return limit("at least", issue.minimum, issue.origin);
    case "invalid_format":
      return `is not a valid ${/^[\w-]{1,40}$/.test(issue.format) ? issue.format : "value"}`;
    case "not_multiple_of":
      return `must be a multiple of ${String(issue.divisor)}`;
    case "invalid_value":
      return `must be one of ${issue.values.map((value) => JSON.stringify(String(value))).join(", ")}`;
    case "unrecognized_keys":
      return "must not hold fields that this tool does not know";
    case "custom":
      return issue.message;
    default:
      return "is not valid";
  }
}

function isMissing(path: readonly PropertyKey[], args: Record<string, unknown>): boolean {
  let value: unknown = args;
  for (const key of path) {
    if (value === null || typeof value !== "object") return false;
    value = (value as Record<PropertyKey, unknown>)[key];
  }
  return value === undefined;
}

function article(expected: string): string {
  return /^[aeio]/.test(expected) ? `an ${expected}` : `a ${expected}`;
}

function limit(bound: "at most" | "at least", count: number | bigint, origin: string): string {
  const unit = origin === "string" ? "character" : origin === "array" || origin === "set" ? "item" : null;
  return unit === null ? `must be ${bound} ${count}` : `must have ${bound} ${count} ${unit}${Number(count) === 1 ? "" : "s"}`;
}
