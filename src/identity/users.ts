// The people of this installation: the built-in sign-in, roles, the first administrator, invitations. Must never happen:
// telling by words, status or time whether an e-mail is known; a password in clear; the last administrator locked out.
import { recordAudit, type AuditRow } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import { secret, type Secret } from "../crypto/secret.js";
import type { Database, Tx } from "../db/client.js";
import { isUniqueViolation } from "../db/errors.js";
import { cursorOf, readCursor } from "../db/timeCursor.js";
import { OutbandError } from "../errors.js";
import { newId, type Identifier } from "../ids.js";
import { endEverything, endSessions } from "./ending.js";
import { recordIssuer } from "./external/record.js";
import { createOneTimeLinks } from "./oneTimeLinks.js";
import { createPasswords, type ScryptCost } from "./passwords.js";
import { BUILT_IN, emailKey, externalEmailKey, requireSound, userOf, USER_COLUMNS, type FieldProblem, type Role, type User, type UserRow } from "./person.js";
import type { Principal } from "./principal.js";
import { createSignInLimits } from "./signInLimits.js";

export type { Role, User } from "./person.js";

export interface NewUser {
  /** Default: a new `usr_…`. */
  sub?: string | undefined;
  email: string;
  /** Absent: the person sets one through an invitation. */
  password?: string | undefined;
  name?: string | null | undefined;
  role: Role;
}

export interface Where {
  /** The network address that tries. */
  address?: string | undefined;
  requestId?: string | undefined;
}

export interface Users {
  find(sub: string): Promise<User | null>;
  /** The person, if they may sign in here: not disabled, and of the issuer that people sign in at. */
  findActive(sub: string): Promise<User | null>;
  /** Newest first. Throws invalid_request for a cursor that was not made here. */
  list(options?: { limit?: number | undefined; cursor?: string | undefined }): Promise<{ data: User[]; nextCursor: string | null }>;
  /** Throws invalid_request, already_exists. */
  create(input: NewUser, actor?: Principal): Promise<User>;
  /** Null: not this password, or nobody. Throws rate_limited. */
  verifyPassword(email: string, password: string, where?: Where): Promise<User | null>;
  /** The person's own password, asked again. Throws rate_limited. */
  checkPassword(sub: string, password: string, where?: Where): Promise<boolean>;
  /** Throws not_found, invalid_request. */
  setPassword(sub: string, password: string, actor?: Principal): Promise<void>;
  /** Throws not_found, invalid_request, already_exists, forbidden (the last administrator). */
  update(sub: string, change: { email?: string; name?: string | null; role?: Role }, actor?: Principal): Promise<User>;
  /** Ends sessions and grants too. What the person connected is the vault's to disconnect first. Throws not_found, forbidden. */
  remove(sub: string, actor?: Principal): Promise<void>;
  anyAdmin(): Promise<boolean>;
  /** One hour; void as soon as an administrator exists. */
  makeSetupLink(): Promise<Secret>;
  /** For a person without a password; 72 hours. */
  makeInvitation(sub: string): Promise<Secret>;
  /** What a set-up or invitation link is good for; changes nothing. Null: nothing. */
  readLink(token: string): Promise<{ purpose: "setup" } | { purpose: "invitation"; email: string; name: string | null } | null>;
  /** Makes the first administrator, who is signed in by it. Null: the link is used, expired or no longer needed. Throws invalid_request, already_exists. */
  claimSetup(token: string, person: { email: string; password: string; name?: string | null }): Promise<User | null>;
  /** Sets the invited person's password, and they are signed in by it. Null: as above. */
  claimInvitation(token: string, person: { password: string; name?: string | null }): Promise<User | null>;
  /** ADMIN_EMAIL and ADMIN_PASSWORD: makes the first administrator, once, over all instances. */
  ensureFirstAdmin(person: { email: string; password: Secret }): Promise<"made" | "exists">;
  /** A sign-in that failed elsewhere than at a password. */
  countFailedSignIn(): void;
  /** For the worker, every minute. */
  flushFailedSignIns(): Promise<void>;
}

const SYSTEM: Principal = { kind: "system" };
const LIST_DEFAULT = 50;
const LIST_MAX = 200;

/** `issuer`: who vouches for the people of this installation; default: passwords of ours do. */
export function createUsers(deps: { db: Database; clock: Clock; issuer?: string; passwordCost?: ScryptCost | undefined }): Users {
  const { db, clock } = deps;
  const issuer = deps.issuer ?? BUILT_IN;
  const isExternal = issuer !== BUILT_IN;
  const passwords = createPasswords(clock, deps.passwordCost);
  const links = createOneTimeLinks(deps);
  const limits = createSignInLimits(deps);

  const find = async (sub: string): Promise<UserRow | null> => db.prisma.user.findUnique({ where: { sub }, select: USER_COLUMNS });

  async function insert(tx: Tx, input: NewUser, passwordHash: string | null, actor: Principal, isSignedIn = false): Promise<User> {
    const sub = input.sub ?? newId(clock, "usr");
    const email = input.email.trim();
    const createdAt = clock.date();
    const key = isExternal ? externalEmailKey(sub) : emailKey(email);
    const data = { sub, email, emailKey: key, name: cleanName(input.name), role: input.role, passwordHash, issuer, createdAt, lastSignInAt: isSignedIn ? createdAt : null };
    if (isExternal && !(await recordIssuer(tx, issuer))) throw new OutbandError("unavailable", { reason: "issuer_recorded" });
    // Somebody of this sub was here and was removed: nothing that was under way then is theirs now.
    await endEverything(tx, sub);
    const row = await orTaken(tx.user.create({ data, select: USER_COLUMNS }));
    await recordAudit(tx, personAct("person.created", actor, sub, { role: input.role }));
    return userOf(row);
  }

  /** Held until the transaction ends: two instances, or two set-up links, take turns at what may be done only once. */
  async function lockAdmins(tx: Tx): Promise<void> {
    await tx.$executeRaw`SELECT pg_advisory_xact_lock(72707401)`;
  }

  /** One of before an external issuer cannot sign in: nobody depends on them, and they are in nobody's way. */
  const isOurAdmin = (row: Pick<UserRow, "role" | "issuer">): boolean => row.role === "admin" && row.issuer === issuer;

  async function requireOtherAdmin(tx: Tx, sub: string): Promise<void> {
    await lockAdmins(tx);
    const others = await tx.user.count({ where: { role: "admin", issuer, NOT: { sub } } });
    if (others === 0) throw new OutbandError("forbidden", { reason: "last_admin", message: "This is the last administrator. Make another one first." });
  }

  async function checkRow(row: UserRow | null, email: string, password: string, where: Where): Promise<boolean> {
    await limits.count(email, where.address);
    const right = await passwords.verify(secret(password), row?.passwordHash ?? null);
    if (row !== null && right && row.role !== "disabled") {
      await limits.succeeded(email);
      return true;
    }
    limits.failed();
    return false;
  }

  return {
    find: async (sub) => {
      const row = await find(sub);
      return row === null ? null : userOf(row);
    },

    findActive: async (sub) => {
      const row = await find(sub);
      return row === null || row.role === "disabled" || row.issuer !== issuer ? null : userOf(row);
    },

    list: async (options = {}) => {
      const take = Math.min(Math.max(options.limit ?? LIST_DEFAULT, 1), LIST_MAX);
      const last = options.cursor === undefined ? undefined : readCursor(options.cursor);
      if (last === null) throw new OutbandError("invalid_request", { problems: [{ path: "cursor", message: "This cursor was not made here." }] });
      const where = last && { OR: [{ createdAt: { lt: last.createdAt } }, { createdAt: last.createdAt, sub: { lt: last.id } }] };
      const rows = await db.prisma.user.findMany({ select: USER_COLUMNS, ...(where && { where }), orderBy: [{ createdAt: "desc" }, { sub: "desc" }], take: take + 1 });
      const page = rows.slice(0, take);
      const end = rows.length > take ? page.at(-1) : undefined;
      return { data: page.map(userOf), nextCursor: end ? cursorOf({ createdAt: end.createdAt, id: end.sub }) : null };
    },

    create: async (input, actor = SYSTEM) => {
      requireSound(input);
      if (isExternal) requireExternal(input);
      const passwordHash = input.password === undefined ? null : await passwords.hash(secret(input.password));
      return db.transaction((tx) => insert(tx, input, passwordHash, actor));
    },

    verifyPassword: async (email, password, where = {}) => {
      const row = await db.prisma.user.findUnique({ where: { emailKey: emailKey(email) }, select: USER_COLUMNS });
      if (!(await checkRow(row, email, password, where)) || row === null) return null;
      const rehashed = row.passwordHash !== null && passwords.isOutdated(row.passwordHash) ? { passwordHash: await passwords.hash(secret(password)) } : {};
      return db.transaction(async (tx) => {
        const data = { lastSignInAt: clock.date(), ...rehashed };
        const signedIn = await tx.user.update({ where: { sub: row.sub }, data, select: USER_COLUMNS });
        const actor = { kind: "browser", sub: row.sub as Identifier, role: roleOf(row) } as const;
        await recordAudit(tx, { ...personAct("person.signed_in", actor, row.sub), requestId: where.requestId });
        return userOf(signedIn);
      });
    },

    checkPassword: async (sub, password, where = {}) => {
      const row = await find(sub);
      return row !== null && checkRow(row, row.email, password, where);
    },

    setPassword: async (sub, password, actor = SYSTEM) => {
      const row = await find(sub);
      if (row === null) throw new OutbandError("not_found");
      if (isExternal) throw refused("password", NO_PASSWORDS);
      requireSound({ email: row.email, password });
      const passwordHash = await passwords.hash(secret(password));
      await db.transaction(async (tx) => {
        await orMissing(tx.user.update({ where: { sub }, data: { passwordHash }, select: { sub: true } }));
        // With the change, not after it: a crash in between would leave whoever the old password let in. An administrator's
        // change ends what apps were let in to as well.
        const isOwn = actor.kind === "browser" && actor.sub === sub;
        await (isOwn ? endSessions : endEverything)(tx, sub);
        await recordAudit(tx, personAct("person.password_changed", actor, sub));
      });
    },

    update: async (sub, change, actor = SYSTEM) => {
      requireSound(change);
      return db.transaction(async (tx) => {
        const before = await tx.user.findUnique({ where: { sub }, select: USER_COLUMNS });
        if (before === null) throw new OutbandError("not_found");
        if (before.issuer !== BUILT_IN) requireOwn(change);
        if (isOurAdmin(before) && change.role !== undefined && change.role !== "admin") await requireOtherAdmin(tx, sub);
        const email = change.email?.trim();
        const data = {
          ...(email === undefined ? {} : { email, emailKey: emailKey(email) }),
          ...(change.name === undefined ? {} : { name: cleanName(change.name) }),
          ...(change.role === undefined ? {} : { role: change.role }),
        };
        const row = await orTaken(orMissing(tx.user.update({ where: { sub }, data, select: USER_COLUMNS })));
        if (row.role === "disabled") await endEverything(tx, sub);
        await recordAudit(tx, personAct("person.updated", actor, sub, { changed: Object.keys(data), role: row.role }));
        return userOf(row);
      });
    },

    remove: async (sub, actor = SYSTEM) => {
      await db.transaction(async (tx) => {
        const row = await tx.user.findUnique({ where: { sub }, select: { role: true, issuer: true } });
        if (row === null) throw new OutbandError("not_found");
        if (isOurAdmin(row)) await requireOtherAdmin(tx, sub);
        await endEverything(tx, sub);
        await tx.oneTimeLink.deleteMany({ where: { sub } });
        await tx.user.deleteMany({ where: { sub } });
        await recordAudit(tx, personAct("person.removed", actor, sub));
      });
    },

    anyAdmin: () => hasAdmin(db.prisma, issuer),
    makeSetupLink: () => links.make("setup", null),
    makeInvitation: (sub) => links.make("invitation", sub),

    readLink: async (token) => {
      if (isExternal) return null;
      const link = await links.read(token);
      if (link === null) return null;
      if (link.purpose === "setup") return (await hasAdmin(db.prisma, issuer)) ? null : { purpose: "setup" };
      const row = link.sub === null ? null : await find(link.sub);
      return row === null || row.role === "disabled" ? null : { purpose: "invitation", email: row.email, name: row.name };
    },

    claimSetup: async (token, person) => {
      requireSound(person);
      if ((await links.read(token))?.purpose !== "setup") return null;
      // Before the transaction: a hash takes a fifth of a second, and the embedded database does one thing at a time.
      const passwordHash = await passwords.hash(secret(person.password));
      return db.transaction(async (tx) => {
        await lockAdmins(tx);
        if ((await hasAdmin(tx, issuer)) || !(await links.claim(tx, token, "setup"))) return null;
        return insert(tx, { ...person, role: "admin" }, passwordHash, SYSTEM, true);
      });
    },

    claimInvitation: async (token, person) => {
      const link = await links.read(token);
      const row = link?.purpose === "invitation" && link.sub !== null ? await find(link.sub) : null;
      if (row === null || row.role === "disabled") return null;
      requireSound({ ...person, email: row.email });
      const passwordHash = await passwords.hash(secret(person.password));
      return db.transaction(async (tx) => {
        if (!(await links.claim(tx, token, "invitation"))) return null;
        const name = person.name === undefined ? {} : { name: cleanName(person.name) };
        const invited = await orMissing(tx.user.update({ where: { sub: row.sub }, data: { passwordHash, lastSignInAt: clock.date(), ...name }, select: USER_COLUMNS }));
        const actor = { kind: "browser", sub: row.sub as Identifier, role: roleOf(row) } as const;
        await recordAudit(tx, personAct("person.invitation_accepted", actor, row.sub));
        return userOf(invited);
      });
    },

    ensureFirstAdmin: async (person) => {
      if (await hasAdmin(db.prisma, issuer)) return "exists";
      const input = { email: person.email, password: person.password.reveal() };
      requireSound(input);
      const passwordHash = await passwords.hash(person.password);
      return db.transaction(async (tx) => {
        await lockAdmins(tx);
        if (await hasAdmin(tx, issuer)) return "exists";
        // Somebody of that address is there already (made over the API): the operator's word makes them the administrator.
        const known = await tx.user.updateMany({ where: { emailKey: emailKey(person.email) }, data: { role: "admin", passwordHash } });
        if (known.count === 0) await insert(tx, { ...input, role: "admin" }, passwordHash, SYSTEM);
        return "made";
      });
    },

    countFailedSignIn: () => limits.failed(),
    flushFailedSignIns: () => limits.flush(),
  };
}

async function hasAdmin(target: Pick<Tx, "user">, issuer: string): Promise<boolean> {
  return (await target.user.findFirst({ where: { role: "admin", issuer }, select: { sub: true } })) !== null;
}

const NO_PASSWORDS = "People sign in at OIDC_ISSUER; no passwords are kept here.";
const KEPT_THERE = "OIDC_ISSUER tells this of its people, at each sign-in.";

/** Whom the issuer knows can be made ahead of their first sign-in, under the name that it knows them by. */
function requireExternal(input: NewUser): void {
  const problems: FieldProblem[] = [];
  if (input.sub === undefined) problems.push({ path: "sub", message: "The sub by which OIDC_ISSUER knows the person is needed." });
  if (input.password !== undefined) problems.push({ path: "password", message: NO_PASSWORDS });
  if (problems.length > 0) throw new OutbandError("invalid_request", { problems });
}

/** What the next sign-in would write over is not taken. */
function requireOwn(change: { email?: string; name?: string | null }): void {
  const paths = (["email", "name"] as const).filter((path) => change[path] !== undefined);
  if (paths.length > 0) throw new OutbandError("invalid_request", { problems: paths.map((path) => ({ path, message: KEPT_THERE })) });
}

function refused(path: string, message: string): OutbandError {
  return new OutbandError("invalid_request", { problems: [{ path, message }] });
}

function personAct(action: string, actor: Principal, sub: string, detail?: AuditRow["detail"]): AuditRow {
  return { category: "administration", action, actor, identifier: sub, outcome: "ok", ...(detail ? { detail } : {}) };
}

function cleanName(name: string | null | undefined): string | null {
  return name?.trim() || null;
}

function roleOf(row: UserRow): "user" | "viewer" | "admin" {
  return row.role === "disabled" ? "user" : row.role;
}

async function orTaken<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (error) {
    if (isUniqueViolation(error)) throw new OutbandError("already_exists", { message: "Somebody of this e-mail address or sub is here already." });
    throw error;
  }
}

async function orMissing<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (error) {
    // Prisma P2025: the row went away in between.
    if ((error as { code?: unknown }).code === "P2025") throw new OutbandError("not_found");
    throw error;
  }
}
