// The row of a person who signs in at the external issuer: made at the first sign-in, kept up to date at each. Must never
// happen: two people in one row, or one found by an e-mail address; a disabled person let in; an administrator's rights that
// outlive the claim.
import { recordAudit } from "../../audit/audit.js";
import type { Clock } from "../../clock.js";
import type { Database, Tx } from "../../db/client.js";
import { isUniqueViolation } from "../../db/errors.js";
import { OutbandError } from "../../errors.js";
import { asIdentifier } from "../../ids.js";
import { endEverything } from "../ending.js";
import { externalEmailKey, type Role, type User, userOf, USER_COLUMNS } from "../person.js";
import { SignInFailure } from "./failure.js";
import { recordIssuer } from "./record.js";

/** Two first sign-ins at once, or a change of the role in between: read again, decide again. */
const CONFLICTS_MAX = 5;

export interface Arrival {
  sub: string;
  email: string;
  name: string | null;
  /** Null: no ADMIN_CLAIM is set, so the issuer says nothing about roles. */
  isAdmin: boolean | null;
}

export interface Admission {
  /** Throws SignInFailure: disabled, or a person of another sign-in. */
  admit(arrival: Arrival, where: { requestId: string }): Promise<User>;
  /** Ends what the person has open here. They may come again. */
  shutOut(sub: string): Promise<void>;
}

export function createAdmission(deps: { db: Database; clock: Clock; issuer: string }): Admission {
  const { db, clock, issuer } = deps;

  /** Null: somebody else was faster. */
  async function admitOnce(tx: Tx, arrival: Arrival, requestId: string): Promise<User | null> {
    const { sub, email, name } = arrival;
    const before = await tx.user.findUnique({ where: { sub }, select: USER_COLUMNS });
    if (before !== null && before.issuer !== issuer) throw new SignInFailure("not_allowed", "other_issuer");
    if (before?.role === "disabled") throw new SignInFailure("not_allowed", "disabled");
    const role = roleFor(before?.role ?? "user", arrival.isAdmin);
    const now = clock.date();
    const told = { email, name, role, lastSignInAt: now };
    if (before === null) {
      if (!(await recordIssuer(tx, issuer))) throw new SignInFailure("broken", "issuer_recorded");
      // Somebody of this sub was here and was deleted: nothing that was under way then is theirs now.
      await endEverything(tx, sub);
      await tx.user.create({ data: { sub, emailKey: externalEmailKey(sub), issuer, createdAt: now, ...told } });
    } else {
      // Only from what was just read: a role that an administrator changes in this moment is not written over.
      const written = await tx.user.updateMany({ where: { sub, issuer, role: before.role }, data: told });
      if (written.count !== 1) return null;
    }
    const actor = { kind: "browser", sub: asIdentifier(sub), role } as const;
    const act = { category: "administration", actor, identifier: sub, outcome: "ok", requestId } as const;
    if (before === null) await recordAudit(tx, { ...act, action: "person.created", detail: { role } });
    else if (before.role !== role) await recordAudit(tx, { ...act, action: "person.updated", detail: { changed: ["role"], role } });
    await recordAudit(tx, { ...act, action: "person.signed_in" });
    return userOf(await tx.user.findUniqueOrThrow({ where: { sub }, select: USER_COLUMNS }));
  }

  return {
    admit: async (arrival, { requestId }) => {
      for (let conflict = 0; conflict < CONFLICTS_MAX; conflict++) {
        const user = await db
          .transaction((tx) => admitOnce(tx, arrival, requestId))
          .catch((thrown: unknown) => {
            if (isUniqueViolation(thrown)) return null;
            throw thrown;
          });
        if (user !== null) return user;
      }
      throw new OutbandError("unavailable");
    },

    shutOut: async (sub) => {
      await db.transaction(async (tx) => {
        const known = await tx.user.count({ where: { sub, issuer } });
        if (known > 0) await endEverything(tx, sub);
      });
    },
  };
}

/** The claim makes an administrator and unmakes one; it says nothing about the other roles. */
function roleFor(before: Exclude<Role, "disabled">, isAdmin: boolean | null): Exclude<Role, "disabled"> {
  if (isAdmin === true) return "admin";
  return isAdmin === false && before === "admin" ? "user" : before;
}
