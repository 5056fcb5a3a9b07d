// One field of a form that a server asks for (MCP elicitation, form mode), as pure functions: how it is shown, and what
// a typed line means for it. Must never happen: a value sent that the field's own schema forbids.
import type { PrimitiveSchemaDefinition } from "@modelcontextprotocol/client";
import { plainLine } from "./plain.js";

export type FieldValue = string | number | boolean | string[];

export interface Choice {
  value: string;
  title: string;
}

export interface Field {
  name: string;
  title: string;
  description: string | null;
  required: boolean;
  initial: FieldValue | undefined;
  kind:
    | { type: "text"; format: string | undefined; lengthMin: number; lengthMax: number }
    | { type: "number"; whole: boolean; min: number; max: number }
    | { type: "yesNo" }
    | { type: "one"; choices: Choice[] }
    | { type: "several"; choices: Choice[]; countMin: number; countMax: number };
}

export type Parsed = { ok: true; value: FieldValue } | { ok: false; problem: string };

export function readField(name: string, schema: PrimitiveSchemaDefinition, required: boolean): Field {
  const title = schema.title === undefined || schema.title === "" ? name : schema.title;
  const field = { name, title: plainLine(title), description: schema.description === undefined ? null : schema.description, required };
  return { ...field, initial: schema.default, kind: readKind(schema) };
}

function readKind(schema: PrimitiveSchemaDefinition): Field["kind"] {
  if (schema.type === "boolean") return { type: "yesNo" };
  if (schema.type === "array") {
    const choices = "anyOf" in schema.items ? schema.items.anyOf.map(titled) : schema.items.enum.map(untitled);
    return { type: "several", choices, countMin: schema.minItems ?? 0, countMax: schema.maxItems ?? choices.length };
  }
  if (schema.type !== "string") {
    const { minimum: min = Number.NEGATIVE_INFINITY, maximum: max = Number.POSITIVE_INFINITY } = schema;
    return { type: "number", whole: schema.type === "integer", min, max };
  }
  if ("oneOf" in schema) return { type: "one", choices: schema.oneOf.map(titled) };
  if ("enum" in schema) {
    const names = "enumNames" in schema ? schema.enumNames : undefined;
    return { type: "one", choices: schema.enum.map((value, at) => ({ value, title: names?.[at] ?? value })) };
  }
  return { type: "text", format: schema.format, lengthMin: schema.minLength ?? 0, lengthMax: schema.maxLength ?? Number.POSITIVE_INFINITY };
}

function titled(choice: { const: string; title: string }): Choice {
  return { value: choice.const, title: choice.title };
}

function untitled(value: string): Choice {
  return { value, title: value };
}

/** What the person sees above the question. */
export function describeField(field: Field): string {
  const lines = [`${field.title}${field.required ? "" : " (optional)"}`];
  if (field.description !== null) lines.push(`  ${plainLine(field.description, 400)}`);
  if (field.kind.type === "one" || field.kind.type === "several") {
    lines.push(...field.kind.choices.map((choice, at) => `  ${at + 1}) ${plainLine(choice.title)}`));
  }
  return lines.join("\n");
}

/** The question itself, in a few words. */
export function fieldPrompt(field: Field): string {
  const hint = promptHint(field);
  const initial = field.initial === undefined ? "" : `, Enter for ${showValue(field, field.initial)}`;
  return `  ${hint}${initial}: `;
}

function promptHint(field: Field): string {
  switch (field.kind.type) {
    case "yesNo":
      return "y or n";
    case "one":
      return `number, 1 to ${field.kind.choices.length}`;
    case "several":
      return "numbers, such as 1,3";
    case "number":
      return `${field.kind.whole ? "whole number" : "number"}${range(field.kind.min, field.kind.max)}`;
    case "text":
      return (
        {
          email: "e-mail address",
          uri: "web address",
          date: "date, YYYY-MM-DD",
          "date-time": "date and time, such as 2026-01-31T09:30:00Z",
        }[field.kind.format ?? ""] ?? "text"
      );
  }
}

function range(min: number, max: number): string {
  if (Number.isFinite(min) && Number.isFinite(max)) return `, ${min} to ${max}`;
  if (Number.isFinite(min)) return `, at least ${min}`;
  return Number.isFinite(max) ? `, at most ${max}` : "";
}

/** A value as the person knows it: by its title, not by its machine word. */
export function showValue(field: Field, value: FieldValue): string {
  if (field.kind.type === "one") return plainLine(titleOf(field.kind.choices, String(value)));
  if (field.kind.type === "several" && Array.isArray(value)) {
    const { choices } = field.kind;
    return value.length === 0 ? "none" : value.map((each) => plainLine(titleOf(choices, each))).join(", ");
  }
  if (typeof value === "boolean") return value ? "yes" : "no";
  return plainLine(String(value), 400);
}

function titleOf(choices: Choice[], value: string): string {
  return choices.find((choice) => choice.value === value)?.title ?? value;
}

/** A typed line that is not empty. */
export function parseField(field: Field, line: string): Parsed {
  const { kind } = field;
  switch (kind.type) {
    case "yesNo":
      if (/^(y|yes|true)$/i.test(line)) return { ok: true, value: true };
      return /^(n|no|false)$/i.test(line) ? { ok: true, value: false } : { ok: false, problem: "Please answer y or n." };
    case "number":
      return parseNumber(kind, line);
    case "one": {
      const choice = findChoice(kind.choices, line);
      return choice === null
        ? { ok: false, problem: `Please type a number from 1 to ${kind.choices.length}.` }
        : { ok: true, value: choice.value };
    }
    case "several":
      return parseSeveral(kind, line);
    case "text":
      return parseText(kind, line);
  }
}

function parseNumber(kind: Extract<Field["kind"], { type: "number" }>, line: string): Parsed {
  const value = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(line) ? Number(line) : Number.NaN;
  if (!Number.isFinite(value)) return { ok: false, problem: "That is not a number." };
  if (kind.whole && !Number.isInteger(value)) return { ok: false, problem: "Please type a whole number." };
  if (value < kind.min || value > kind.max)
    return { ok: false, problem: `Please type a number${range(kind.min, kind.max).replace(",", "")}.` };
  return { ok: true, value };
}

/** By its number, else by its title or its value as it is written. A choice that is itself called "2" is found by number. */
function findChoice(choices: Choice[], text: string): Choice | null {
  if (/^\d{1,6}$/.test(text)) {
    const byNumber = choices[Number(text) - 1];
    if (byNumber !== undefined) return byNumber;
  }
  return choices.find((choice) => choice.title === text || choice.value === text) ?? null;
}

function parseSeveral(kind: Extract<Field["kind"], { type: "several" }>, line: string): Parsed {
  const found = line.split(",").map((part) => findChoice(kind.choices, part.trim()));
  const values = [...new Set(found.flatMap((choice) => (choice === null ? [] : [choice.value])))];
  if (found.includes(null))
    return { ok: false, problem: `Please type numbers from 1 to ${kind.choices.length}, with commas between them.` };
  if (values.length < kind.countMin) return { ok: false, problem: `Please choose at least ${kind.countMin}.` };
  if (values.length > kind.countMax) return { ok: false, problem: `Please choose at most ${kind.countMax}.` };
  return { ok: true, value: values };
}

const FORMATS: Record<string, { fits: (line: string) => boolean; problem: string }> = {
  email: { fits: (line) => /^[^\s@]+@[^\s@]+$/.test(line), problem: "That is not an e-mail address." },
  uri: { fits: (line) => URL.canParse(line), problem: "That is not a web address." },
  date: { fits: (line) => /^\d{4}-\d{2}-\d{2}$/.test(line) && isDate(line), problem: "Please type a date as YYYY-MM-DD." },
  "date-time": {
    fits: (line) => /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$/i.test(line) && isDate(line),
    problem: "Please type a date and time such as 2026-01-31T09:30:00Z.",
  },
};

/** 2026-02-31 parses in some engines as a day in March. */
function isDate(line: string): boolean {
  const date = new Date(`${line.slice(0, 10)}T00:00:00Z`);
  return !Number.isNaN(Date.parse(line)) && !Number.isNaN(date.getTime()) && date.toISOString().startsWith(line.slice(0, 10));
}

function parseText(kind: Extract<Field["kind"], { type: "text" }>, line: string): Parsed {
  // JSON Schema counts characters, not UTF-16 units.
  const length = Array.from(line).length;
  if (length < kind.lengthMin) return { ok: false, problem: `Please type at least ${kind.lengthMin} characters.` };
  if (length > kind.lengthMax) return { ok: false, problem: `Please type at most ${kind.lengthMax} characters.` };
  const format = FORMATS[kind.format ?? ""];
  return format === undefined || format.fits(line) ? { ok: true, value: line } : { ok: false, problem: format.problem };
}

/** A default that its own schema forbids is no default. */
export function fits(field: Field, value: FieldValue): boolean {
  const { kind } = field;
  switch (kind.type) {
    case "yesNo":
      return typeof value === "boolean";
    case "number":
      return typeof value === "number" && parseNumber(kind, String(value)).ok;
    case "one":
      return kind.choices.some((choice) => choice.value === value);
    case "several":
      return (
        Array.isArray(value) &&
        value.length >= kind.countMin &&
        value.length <= kind.countMax &&
        value.every((each) => kind.choices.some((choice) => choice.value === each))
      );
    case "text":
      return typeof value === "string" && parseText(kind, value).ok;
  }
}
