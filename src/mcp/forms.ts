// Form questions: the flat schema that goes out, and the check of what comes back (requirements FORM-01, FORM-02).
// Must never happen: a field that asks for a secret or holds a URL; an answer used that does not fit what was asked.
import { createHash } from "node:crypto";
import type { FormField, FormQuestion } from "../connectors/connector.js";
import { cleanLine } from "../connectors/untrusted.js";
import type { PendingForm } from "./requestState.js";

/** A longer list is of no use in a client's form. */
const CHOICES_MAX = 250;
const ANSWER_CHARS_MAX = 320;
const TITLE_CHARS_MAX = 120;
const MESSAGE_CHARS_MAX = 2_000;
/** 36 bits each: an answer is compared with digests because 250 values do not fit into a requestState. */
const CHOICE_DIGEST_CHARS = 6;

type StringField = { type: "string"; title: string; description?: string } & (
  | { oneOf: { const: string; title: string }[] }
  | { maxLength: number }
);

export interface FormRequest {
  mode: "form";
  message: string;
  requestedSchema: { type: "object"; properties: Record<string, StringField>; required: string[] };
}

export function formRequest(question: FormQuestion): FormRequest {
  return {
    mode: "form",
    message: cleanLine(question.message, MESSAGE_CHARS_MAX),
    requestedSchema: {
      type: "object",
      properties: Object.fromEntries(question.fields.map((field) => [field.name, fieldSchema(field)])),
      required: question.fields.filter((field) => field.required).map((field) => field.name),
    },
  };
}

/** What the sealed state keeps of a question, to judge the answer by. */
export function fieldsOf(question: FormQuestion): PendingForm["fields"] {
  return question.fields.map((field) => ({
    name: field.name,
    required: field.required,
    choices: field.choices
      ? field.choices
          .slice(0, CHOICES_MAX)
          .map((choice) => choiceDigest(choice.value))
          .join("")
      : null,
  }));
}

/** The answer by field, fields that were not asked dropped; null: it does not fit. */
export function fittingAnswer(fields: PendingForm["fields"], content: Record<string, unknown> | undefined): Record<string, string> | null {
  const answer: Record<string, string> = {};
  for (const field of fields) {
    const value = content && Object.hasOwn(content, field.name) ? content[field.name] : undefined;
    if (value === undefined || value === null || value === "") {
      if (field.required) return null;
      continue;
    }
    if (typeof value !== "string" || value.length > ANSWER_CHARS_MAX) return null;
    if (field.choices !== null && !isChoice(field.choices, value)) return null;
    answer[field.name] = value;
  }
  return answer;
}

function fieldSchema(field: FormField): StringField {
  const named = {
    type: "string" as const,
    title: cleanLine(field.title, TITLE_CHARS_MAX),
    ...(field.description === undefined ? {} : { description: cleanLine(field.description, MESSAGE_CHARS_MAX) }),
  };
  if (!field.choices) return { ...named, maxLength: ANSWER_CHARS_MAX };
  return {
    ...named,
    oneOf: field.choices.slice(0, CHOICES_MAX).map((choice) => ({ const: choice.value, title: cleanLine(choice.title, TITLE_CHARS_MAX) })),
  };
}

function isChoice(digests: string, value: string): boolean {
  const wanted = choiceDigest(value);
  for (let at = 0; at < digests.length; at += CHOICE_DIGEST_CHARS) {
    if (digests.startsWith(wanted, at)) return true;
  }
  return false;
}

function choiceDigest(value: string): string {
  return createHash("sha256").update(value).digest("base64url").slice(0, CHOICE_DIGEST_CHARS);
}
