// How often somebody may try to sign in: per e-mail and per network address, whoever the e-mail belongs to or does not.
// Failures are counted for the audit, one row a minute (contract, section 9), never one row each.
import { recordAudit } from "../audit/audit.js";
import type { Database } from "../db/client.js";
import { OutbandError } from "../errors.js";
import { addressKey, createLimiter, type Limit } from "../http/limiter.js";
import { emailKey } from "./person.js";

/** Ten guesses a quarter of an hour are 960 a day: nothing against ten random characters, enough for a tired person. */
export const TRIES_PER_EMAIL: Limit = { triesMax: 10, windowS: 900 };
/** An office behind one address has more than one tired person. */
export const TRIES_PER_ADDRESS: Limit = { triesMax: 100, windowS: 900 };

/** At an external issuer nothing is guessed here, and a whole company may come in through one address in the morning. */
export const EXTERNAL_TRIES_PER_ADDRESS: Limit = { triesMax: 1_000, windowS: 900 };

export interface SignInLimits {
  /** Counts a try before the password is looked at. Throws rate_limited. */
  count(email: string, address: string | undefined): Promise<void>;
  succeeded(email: string): Promise<void>;
  failed(): void;
  /** Writes the failures since the last call into the audit. */
  flush(): Promise<void>;
}

export function createSignInLimits(deps: { db: Pick<Database, "prisma" | "query"> }): SignInLimits {
  const byEmail = createLimiter(deps, "sign_in_email", TRIES_PER_EMAIL);
  const byAddress = createLimiter(deps, "sign_in_address", TRIES_PER_ADDRESS);
  let failures = 0;

  return {
    count: async (email, address) => {
      // The address first: somebody who is over that limit must not use up other people's tries.
      const retryAfterS = (await byAddress.count(addressKey(address))) || (await byEmail.count(emailKey(email)));
      if (retryAfterS > 0) throw new OutbandError("rate_limited", { reason: "sign_in", retryAfterS });
    },
    succeeded: (email) => byEmail.forget(emailKey(email)),
    failed: () => {
      failures++;
    },
    flush: async () => {
      const count = failures;
      if (count === 0) return;
      const detail = { count };
      await recordAudit(deps.db.prisma, { category: "administration", action: "sign_in.failed", actor: { kind: "system" }, outcome: "failed", detail });
      failures -= count;
    },
  };
}
