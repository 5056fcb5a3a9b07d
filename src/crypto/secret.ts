// A value that cannot be printed by accident. Must never happen: a credential in a log, an error or an answer.
import { inspect } from "node:util";

const MASK = "[secret]";

/** Holds a credential. Every ordinary way of showing it (String, JSON, inspect, template) gives `[secret]`. */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  /** The value itself: to be called only where it is sealed, hashed, or put on the wire to its owner. */
  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return MASK;
  }

  toJSON(): string {
    return MASK;
  }

  [inspect.custom](): string {
    return MASK;
  }
}

export function secret(value: string): Secret {
  return new Secret(value);
}
