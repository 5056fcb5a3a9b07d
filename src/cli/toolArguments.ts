// Reads `--arg name=value` by the tool's own input schema: `max_messages=5` becomes a number, `to=a --arg to=b` a list.
// Must never happen: a value guessed into another type where the schema says text ("007" stays "007"),
// a name that the tool does not know sent along and dropped there.
import { usageError } from "./exit.js";
import { plainLine } from "./plain.js";

export type JsonObject = Record<string, unknown>;

/** `--args-json` first; each `--arg` replaces what it names. */
export function readToolArguments(inputSchema: unknown, pairs: readonly string[], json: string | undefined): JsonObject {
  const values = new Map<string, unknown>(Object.entries(json === undefined ? {} : readJsonObject(json)));
  const texts = new Map<string, string[]>();
  for (const pair of pairs) {
    const at = pair.indexOf("=");
    if (at < 1) throw usageError(`--arg needs NAME=VALUE, not: ${plainLine(pair)}`);
    const name = pair.slice(0, at);
    texts.set(name, [...(texts.get(name) ?? []), pair.slice(at + 1)]);
  }
  requireKnown(inputSchema, [...values.keys(), ...texts.keys()]);
  const properties = isObject(inputSchema) && isObject(inputSchema.properties) ? inputSchema.properties : {};
  for (const [name, given] of texts)
    values.set(name, readValue(name, Object.hasOwn(properties, name) ? properties[name] : undefined, given));
  return Object.fromEntries(values);
}

/** A schema that says nothing about further names takes them in JSON's eyes; from a person at a terminal they are a slip. */
function requireKnown(inputSchema: unknown, names: readonly string[]): void {
  const schema = isObject(inputSchema) ? inputSchema : {};
  if (schema.additionalProperties === true || isObject(schema.additionalProperties) || isObject(schema.patternProperties)) return;
  const known = isObject(schema.properties) ? Object.keys(schema.properties) : [];
  const unknown = names.find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const takes = known.length === 0 ? "The tool takes no arguments." : `Its arguments: ${known.map((name) => plainLine(name, 80)).join(", ")}`;
  throw usageError(`The tool has no argument ${plainLine(unknown, 80)}.`, takes);
}

function readJsonObject(json: string): JsonObject {
  const value = parseJson(json);
  if (!isObject(value)) throw usageError("--args-json needs a JSON object, such as '{\"max_messages\": 5}'.");
  return value;
}

function readValue(name: string, schema: unknown, given: string[]): unknown {
  const type = schemaType(schema);
  if (type === "array") return readList(name, schema, given);
  const [text, ...more] = given;
  if (text === undefined || more.length > 0) throw usageError(`--arg ${plainLine(name)} is given more than once, and takes one value.`);
  return readOne(name, type, text);
}

function readList(name: string, schema: unknown, given: string[]): unknown[] {
  if (given.length === 1 && given[0]?.trim().startsWith("[")) {
    const list = parseJson(given[0]);
    if (Array.isArray(list)) return list;
  }
  const type = isObject(schema) ? schemaType(schema.items) : undefined;
  return given.map((text) => readOne(name, type, text));
}

function readOne(name: string, type: string | undefined, text: string): unknown {
  switch (type) {
    case "integer":
    case "number": {
      const value = text.trim() === "" ? Number.NaN : Number(text);
      if (!Number.isFinite(value)) throw usageError(`--arg ${plainLine(name)} needs a number.`);
      return value;
    }
    case "boolean":
      if (text === "true" || text === "false") return text === "true";
      throw usageError(`--arg ${plainLine(name)} needs true or false.`);
    case "object": {
      const value = parseJson(text);
      if (isObject(value)) return value;
      throw usageError(`--arg ${plainLine(name)} needs a JSON object.`);
    }
    default:
      return text;
  }
}

/** zod writes optional and nullable types as `anyOf` or a list of types; "null" is never meant by a typed text. */
function schemaType(schema: unknown): string | undefined {
  if (!isObject(schema)) return undefined;
  const { type } = schema;
  if (typeof type === "string") return type;
  if (Array.isArray(type)) return type.find((each): each is string => typeof each === "string" && each !== "null");
  const options = Array.isArray(schema.anyOf) ? schema.anyOf : Array.isArray(schema.oneOf) ? schema.oneOf : [];
  const types = options.map(schemaType).filter((each) => each !== undefined && each !== "null");
  return new Set(types).size === 1 ? types[0] : undefined;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
