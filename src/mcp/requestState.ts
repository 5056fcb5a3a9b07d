// The codec of requestState: what a multi-round call remembers travels through the client, sealed (MRTR server rules 4, 5).
// AES-256-GCM, with person, client, endpoint, tool and arguments as associated data: a state of anybody or anything else
// simply does not open. Must never happen: a state read before its length was checked; a refusal that says why.
import { createCipheriv, createDecipheriv } from "node:crypto";
import { z } from "zod";
import type { Clock } from "../clock.js";
import type { KeyRing } from "../crypto/keyring.js";

/** Contract 6.1.6. Clients keep states in memory and send them back in a body: small is polite. */
export const STATE_BYTES_MADE_MAX = 4096;
/** Longer ones are refused unread. */
export const STATE_BYTES_READ_MAX = 16_384;
/** A state outlives its link by this, so that the answer to a link that ran out is a sentence and not a refusal. */
export const STATE_GRACE_MS = 5 * 60_000;

const PREFIX = "v1.";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** What a state belongs to: all of it from the verified token and the request itself. */
export interface Binding {
  person: string;
  client: string;
  endpoint: string;
  tool: string;
  argumentsDigest: string;
}

const pendingLink = z.strictObject({
  kind: z.literal("link"),
  key: z.string(),
  elicitation: z.string(),
  link: z.string(),
  account: z.string(),
  connection: z.string(),
  /** The client said `accept`: what follows are waiting legs. */
  accepted: z.boolean(),
});

const pendingForm = z.strictObject({
  kind: z.literal("form"),
  key: z.string(),
  elicitation: z.string(),
  /** What an answer must look like; `choices` are short digests of the allowed values. */
  fields: z.array(z.strictObject({ name: z.string(), required: z.boolean(), choices: z.string().nullable() })),
});

const roundState = z.strictObject({
  /** Names the call over all its rounds: whichever of its states comes back, a write runs once (contract 6.1.7). */
  chain: z.string(),
  /** How many answers of ours the call has had so far, waiting legs included. */
  round: z.int().min(0),
  /** Questions asked so far, by link and by form; waiting legs are none. */
  questions: z.int().min(0),
  /** The person was already asked to connect again because a grant was dead: not a second time in one call. */
  reasked: z.boolean(),
  /** How long this call has waited for the person. */
  waitedMs: z.int().min(0),
  /** Answers to forms so far, by question. Only the last round's answers arrive, so the earlier ones travel here. */
  answers: z.record(z.string(), z.record(z.string(), z.string())),
  pending: z.discriminatedUnion("kind", [pendingLink, pendingForm]).nullable(),
});

const sealedState = z.strictObject({ ...roundState.shape, exp: z.int() });

export type RoundState = z.output<typeof roundState>;
export type PendingLink = z.output<typeof pendingLink>;
export type PendingForm = z.output<typeof pendingForm>;

export const FIRST_ROUND: Omit<RoundState, "chain"> = { round: 0, questions: 0, reasked: false, waitedMs: 0, answers: {}, pending: null };

/** The state did not open. Carries no reason: a forger learns nothing from it. */
export class StateRefused extends Error {
  constructor() {
    super("The requestState was refused.");
    this.name = "StateRefused";
  }
}

/** More than 4 KB would have to travel: only long form answers can come to that. */
export class StateTooLarge extends Error {
  constructor() {
    super("The requestState would be too large.");
    this.name = "StateTooLarge";
  }
}

export interface StateCodec {
  /** Throws StateTooLarge. */
  mint(state: RoundState, binding: Binding): string;
  /** Throws StateRefused, whatever is wrong. */
  open(text: string, binding: Binding): RoundState;
}

export function createStateCodec(deps: { ring: Pick<KeyRing, "derive">; clock: Clock; linkTtlS: number }): StateCodec {
  // Asked for at each use: the master key may be exchanged while the program runs.
  const keys = (): Buffer[] => deps.ring.derive("request-state").map((one) => one.key);

  return {
    mint(state, binding) {
      const [current] = keys();
      if (current === undefined) throw new RangeError("A ring needs a key.");
      const exp = deps.clock.now() + deps.linkTtlS * 1000 + STATE_GRACE_MS;
      const nonce = deps.clock.randomBytes(NONCE_BYTES);
      const cipher = createCipheriv("aes-256-gcm", current, nonce, { authTagLength: TAG_BYTES });
      cipher.setAAD(associated(binding));
      const body = Buffer.concat([cipher.update(JSON.stringify({ ...state, exp }), "utf8"), cipher.final()]);
      const text = PREFIX + Buffer.concat([nonce, cipher.getAuthTag(), body]).toString("base64url");
      if (text.length > STATE_BYTES_MADE_MAX) throw new StateTooLarge();
      return text;
    },

    open(text, binding) {
      const blob = blobOf(text);
      const aad = associated(binding);
      for (const key of keys()) {
        const opened = unsealed(key, blob, aad);
        if (opened === null) continue;
        const { exp, ...state } = opened;
        if (exp <= deps.clock.now()) throw new StateRefused();
        return state;
      }
      throw new StateRefused();
    },
  };
}

function associated(binding: Binding): Buffer {
  const { person, client, endpoint, tool, argumentsDigest } = binding;
  return Buffer.from(JSON.stringify(["outband.request-state.v1", person, client, endpoint, tool, argumentsDigest]));
}

function blobOf(text: string): Buffer {
  if (text.length > STATE_BYTES_READ_MAX || !text.startsWith(PREFIX)) throw new StateRefused();
  const body = text.slice(PREFIX.length);
  const blob = Buffer.from(body, "base64url");
  // Node's decoder skips foreign characters and ignores spare bits: only the one spelling that we made is read.
  if (blob.length <= NONCE_BYTES + TAG_BYTES || blob.toString("base64url") !== body) throw new StateRefused();
  return blob;
}

function unsealed(key: Buffer, blob: Buffer, aad: Buffer): z.output<typeof sealedState> | null {
  const decipher = createDecipheriv("aes-256-gcm", key, blob.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(aad);
  decipher.setAuthTag(blob.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
  try {
    const text = Buffer.concat([decipher.update(blob.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]).toString("utf8");
    const parsed = sealedState.safeParse(JSON.parse(text));
    return parsed.success ? parsed.data : null;
  } catch {
    return null;
  }
}
