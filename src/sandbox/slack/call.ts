// What a method of the practice Slack gets to work with, and how it says no.
import type { History } from "./history.js";

export interface SlackCall {
  /** Slack user id of the person, or of the app for a bot token. */
  user: string;
  bot: boolean;
  scopes: readonly string[];
  history: History;
  /** An argument as text, from query, form or JSON; null when absent. */
  text(name: string): string | null;
  flag(name: string): boolean;
  /** An argument that may be JSON within a form; the text itself when it is none. */
  object(name: string): unknown;
  /** Throws missing_scope unless one of these was granted. */
  need(...scopes: string[]): void;
  revokeSelf(): void;
}

export interface SlackMethod {
  name: string;
  writes?: true;
  run(call: SlackCall): Record<string, unknown>;
}

/** `ok:false` with an error code, thrown by methods. */
export class SlackRefusal extends Error {
  readonly fields: Record<string, unknown>;
  constructor(error: string, fields: Record<string, unknown> = {}) {
    super(error);
    this.fields = { ok: false, error, ...fields };
  }
}
