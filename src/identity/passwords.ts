// Password hashes: scrypt from node:crypto, the parameters in the stored string, so that they can rise with time.
// Must never happen: a shorter way through for people who do not exist; a hash without a bound on its input.
import { scrypt, timingSafeEqual } from "node:crypto";
import type { Clock } from "../clock.js";
import type { Secret } from "../crypto/secret.js";

/** OWASP's setting for scrypt with 32 MiB: N 2^15, r 8, p 3. Two thirds of a second of a slow core. */
const COST: ScryptCost = { N: 32_768, r: 8, p: 3 };
const SALT_BYTES = 16;
const HASH_BYTES = 32;
/** Parameters of a stored string above these are not ours. */
const MEMORY_BYTES_MAX = 128 * 1024 * 1024;
/** Each takes 32 MiB and a thread of the pool that file and name look-ups share. */
const AT_ONCE_MAX = 2;

/** NIST SP 800-63B, 3.1.1.2: length over rules. */
export const PASSWORD_CHARACTERS_MIN = 10;
export const PASSWORD_CHARACTERS_MAX = 256;

export interface Passwords {
  hash(password: Secret): Promise<string>;
  /** `stored` null (nobody, or no password): works as long as a real check, then says no. */
  verify(password: Secret, stored: string | null): Promise<boolean>;
  /** Whether the stored string was made with other parameters than today's. */
  isOutdated(stored: string): boolean;
}

/** A sentence, when the password may not be used; it never repeats the password. */
export function passwordProblem(password: string, email: string): string | null {
  const characters = [...password.normalize("NFKC")].length;
  if (characters < PASSWORD_CHARACTERS_MIN) return `The password must have at least ${PASSWORD_CHARACTERS_MIN} characters.`;
  if (characters > PASSWORD_CHARACTERS_MAX) return `The password must have at most ${PASSWORD_CHARACTERS_MAX} characters.`;
  if (password.trim().toLowerCase() === email.trim().toLowerCase()) return "The password must not be the e-mail address.";
  if (new Set(password).size < 4) return "The password needs more different characters.";
  return null;
}

export function createPasswords(clock: Clock, cost: ScryptCost = COST): Passwords {
  const gate = createGate(AT_ONCE_MAX);
  // Nobody's password: checked against when there is no one to check.
  const nobody = { ...cost, salt: clock.randomBytes(SALT_BYTES), hash: clock.randomBytes(HASH_BYTES) };

  return {
    hash: (password) =>
      gate(async () => {
        const salt = clock.randomBytes(SALT_BYTES);
        const hash = await derive(password.reveal(), salt, cost);
        return ["scrypt", cost.N, cost.r, cost.p, salt.toString("base64url"), hash.toString("base64url")].join("$");
      }),
    verify: (password, stored) =>
      gate(async () => {
        const known = stored === null ? null : parse(stored);
        const text = password.reveal();
        const { salt, hash, ...made } = known ?? nobody;
        const derived = await derive(text.length > PASSWORD_CHARACTERS_MAX * 4 ? "" : text, salt, made);
        return timingSafeEqual(derived, hash) && known !== null;
      }),
    isOutdated: (stored) => {
      const known = parse(stored);
      return known === null || known.N !== cost.N || known.r !== cost.r || known.p !== cost.p;
    },
  };
}

export interface ScryptCost {
  N: number;
  r: number;
  p: number;
}

function parse(stored: string): (ScryptCost & { salt: Buffer; hash: Buffer }) | null {
  const [scheme, N, r, p, salt, hash, ...rest] = stored.split("$");
  if (scheme !== "scrypt" || salt === undefined || hash === undefined || rest.length > 0) return null;
  const parsed = { N: Number(N), r: Number(r), p: Number(p), salt: Buffer.from(salt, "base64url"), hash: Buffer.from(hash, "base64url") };
  const sound = Number.isSafeInteger(parsed.N) && parsed.hash.length === HASH_BYTES && 128 * parsed.N * parsed.r <= MEMORY_BYTES_MAX;
  return sound ? parsed : null;
}

/** The same password typed on two keyboards may come composed or decomposed: NFKC first. */
function derive(password: string, salt: Buffer, { N, r, p }: ScryptCost): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(password.normalize("NFKC"), salt, HASH_BYTES, { N, r, p, maxmem: MEMORY_BYTES_MAX + 1024 * 1024 }, (error, key) => {
      if (error) reject(error);
      else resolve(key);
    });
  });
}

/** Runs at most `atOnceMax` at a time, in order. */
function createGate(atOnceMax: number): <Result>(run: () => Promise<Result>) => Promise<Result> {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (run) => {
    if (running >= atOnceMax) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    try {
      return await run();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running--;
    }
  };
}
