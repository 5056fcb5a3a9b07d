// What a sealed field is: AES-256-GCM under a data key, bound to the place where it is stored. Pure: no key lookup here.
// Must never happen: a ciphertext that opens in another row, field, generation or scope; a tag shorter than 16 bytes;
// an iv used twice under one key.
import { createCipheriv, createDecipheriv } from "node:crypto";
import { Secret } from "./secret.js";

/** Where a sealed field lives. `row` is the row's id; `generation` rises at each change of the credential. */
export interface SealedPlace {
  table: string;
  row: string;
  field: string;
  generation: number;
}

/** Seals and opens fields. `scope` is `installation` or a connection's id: each scope has a data key of its own. */
export interface Sealer {
  seal(scope: string, place: SealedPlace, text: string): Promise<Uint8Array<ArrayBuffer>>;
  /** Throws UnreadableError: wrong place, changed bytes, or a data key that is lost; `unavailable` without its master key. */
  open(scope: string, place: SealedPlace, blob: Uint8Array): Promise<Secret>;
  /** Makes and loads the scope's data key. Call it before a transaction: inside one, the embedded database would wait for itself. */
  prepare(scope: string): Promise<void>;
  /** Drops the data key from memory, after its scope was deleted. */
  forget(scope: string): void;
}

/** A sealed field did not open. One sentence for every reason: which byte was wrong is an oracle. */
export class UnreadableError extends Error {
  constructor() {
    super("A stored secret cannot be opened.");
    this.name = "UnreadableError";
  }
}

/** blob = version | iv | tag | ciphertext. */
const VERSION = 1;
const IV_BYTES = 12;
const TAG_BYTES = 16;
const HEADER_BYTES = 1 + IV_BYTES + TAG_BYTES;
export const DATA_KEY_BYTES = 32;
/** The largest text: a recorded tool result, bounded by the egress cap of 4 MiB, with room for its JSON. */
export const SEALED_TEXT_BYTES_MAX = 8 * 1024 * 1024;

/** `iv` must be fresh random bytes: 2^32 fields per data key keep the chance of a repeat under 2^-32 (NIST SP 800-38D, 8.3). */
export function sealText(key: Uint8Array, iv: Uint8Array, scope: string, place: SealedPlace, text: string): Uint8Array<ArrayBuffer> {
  const clear = Buffer.from(text, "utf8");
  if (clear.length > SEALED_TEXT_BYTES_MAX) throw new RangeError("The text to seal is too long.");
  if (iv.length !== IV_BYTES) throw new RangeError("The iv must have 12 bytes.");
  const cipher = createCipheriv("aes-256-gcm", key, iv, { authTagLength: TAG_BYTES });
  cipher.setAAD(associatedData(scope, place));
  const blob = new Uint8Array(HEADER_BYTES + clear.length);
  blob.set(cipher.update(clear), HEADER_BYTES);
  cipher.final();
  blob[0] = VERSION;
  blob.set(iv, 1);
  blob.set(cipher.getAuthTag(), 1 + IV_BYTES);
  return blob;
}

export function openText(key: Uint8Array, scope: string, place: SealedPlace, blob: Uint8Array): Secret {
  if (blob.length < HEADER_BYTES || blob.length > HEADER_BYTES + SEALED_TEXT_BYTES_MAX || blob[0] !== VERSION) throw new UnreadableError();
  try {
    // Without authTagLength node:crypto takes a tag of 4 bytes.
    const decipher = createDecipheriv("aes-256-gcm", key, blob.subarray(1, 1 + IV_BYTES), { authTagLength: TAG_BYTES });
    decipher.setAAD(associatedData(scope, place));
    decipher.setAuthTag(blob.subarray(1 + IV_BYTES, HEADER_BYTES));
    const clear = decipher.update(blob.subarray(HEADER_BYTES));
    decipher.final();
    return new Secret(clear.toString("utf8"));
  } catch {
    throw new UnreadableError();
  }
}

/** Each part carries its length, so that no two places share their bytes (`ab`+`c` is not `a`+`bc`). */
function associatedData(scope: string, place: SealedPlace): Buffer {
  if (!Number.isSafeInteger(place.generation) || place.generation < 0) throw new RangeError("The generation must be a whole number.");
  const parts = ["outband.sealed.v1", scope, place.table, place.row, place.field, String(place.generation)];
  return Buffer.concat(
    parts.flatMap((part) => {
      const bytes = Buffer.from(part, "utf8");
      const length = Buffer.alloc(4);
      length.writeUInt32BE(bytes.length);
      return [length, bytes];
    }),
  );
}
