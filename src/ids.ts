// Opaque prefixed ids, and the branded types that keep one kind from being passed for another.
import type { Clock } from "./clock.js";

declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

export type ConnectionId = Branded<"conn">;
export type AccountId = Branded<"ca">;
export type LinkId = Branded<"lnk">;
/** The `sub` of a person; compared byte for byte, never folded. */
export type Identifier = Branded<"identifier">;

export type IdPrefix = "conn" | "ca" | "lnk" | "evt" | "exe" | "whk" | "usr" | "key" | "dk" | "elc" | "req" | "fw";

const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZabcdefghjkmnpqrstvwxyz";
/** 54^22 is over 126 bits. */
const LENGTH = 22;

/** `ca_7Hq…`: the prefix and 22 characters of 126 bits in all. */
export function newId<Id extends string = string>(clock: Clock, prefix: IdPrefix): Id {
  let text = "";
  while (text.length < LENGTH) {
    for (const byte of clock.randomBytes(LENGTH)) {
      // Bytes past the last whole multiple are dropped, so that every character is equally likely.
      if (byte < 216 && text.length < LENGTH) text += ALPHABET[byte % ALPHABET.length];
    }
  }
  return `${prefix}_${text}` as Id;
}

export function asIdentifier(sub: string): Identifier {
  return sub as Identifier;
}
