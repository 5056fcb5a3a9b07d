// What lies in the database before the matrix is run, put there while the program is stopped: people whose identifiers the built-in
// sign-in would not make (another issuer may), their accounts in every status, links in every state, and tokens that are bent.
import { createSealer } from "../../src/crypto/dataKeys.js";
import { createKeyRing } from "../../src/crypto/keyring.js";
import { secret } from "../../src/crypto/secret.js";
import { hashToken } from "../../src/crypto/tokens.js";
import { type Clock, systemClock } from "../../src/clock.js";
import { type Database, openDatabase } from "../../src/db/client.js";
import { newId } from "../../src/ids.js";
import { createSessionTokens } from "../../src/identity/sessionTokens.js";
import { createSigningKeys } from "../../src/identity/signingKeys.js";
import { ADMIN_KEY, MASTER_KEY, type Outband } from "../support/outband.js";
import { silentLog } from "../support/silentLog.js";
import { emailOf, HERE, HOLDERS, type Holder, nameOf, PEOPLE, type Person, PERSONS } from "./people.js";

export const STATUSES = ["PENDING", "ACTIVE", "EXPIRED", "REVOKED", "ERROR"] as const;
export type Status = (typeof STATUSES)[number];
const REASONS: Record<Status, string | null> = { PENDING: "awaiting_user", ACTIVE: null, EXPIRED: "refresh_rejected", REVOKED: "disconnected_by_user", ERROR: "unreadable_credential" };

/** `held` waits for the app's word, `app` opens without a sign-in. */
export const LINKS = ["open", "started", "completed", "denied", "failed", "expired", "key"] as const;
export type LinkState = (typeof LINKS)[number];
export const APP_LINKS = ["app", "held"] as const;
export type AppLinkState = (typeof APP_LINKS)[number];

const RESERVES = 40;

export interface Link {
  id: string;
  token: string;
}

export interface Seed {
  accounts: Record<Holder, Record<Status, string>>;
  links: Record<Holder, Record<LinkState | AppLinkState, Link>>;
  /** ACTIVE accounts and open links that a cell may use up. */
  spares: Record<string, { accounts: string[]; oauth: Link[]; key: Link[] }>;
  /** People whom a cell may remove. */
  leavers: string[];
  expiredKey: string;
  tokens: { expired: string; "other audience": string; "other resource": string; "nobody's key": string };
}

export async function seed(outband: Outband): Promise<Seed> {
  await outband.app().close();
  const db = await openDatabase({ databaseUrl: outband.databaseUrl === null ? null : secret(outband.databaseUrl), dataDir: outband.dataDir, log: silentLog, clock: systemClock });
  try {
    return await fill(db, outband.url);
  } finally {
    await db.close();
    await outband.start();
  }
}

async function fill(db: Database, url: string): Promise<Seed> {
  const { prisma } = db;
  const known = await prisma.user.findUniqueOrThrow({ where: { sub: PEOPLE.other.sub }, select: { passwordHash: true } });
  const [gmail, keyed] = await Promise.all(["gmail", "keyed"].map((name) => prisma.connection.findUniqueOrThrow({ where: { name }, select: { id: true } })));
  if (!gmail || !keyed) throw new Error("no connections");
  const leavers = Array.from({ length: RESERVES / 2 }, (_, at) => `leaver+${at}/%2F..`);
  const strangers = PERSONS.filter((person) => person !== "other");
  await prisma.user.createMany({
    data: [
      ...strangers.map((person) => ({ sub: PEOPLE[person].sub, email: emailOf(person), emailKey: emailOf(person), name: nameOf(person), role: roleOf(person), ...known })),
      ...leavers.map((sub, at) => ({ sub, email: `leaver${at}@people.example`, emailKey: `leaver${at}@people.example`, name: null })),
    ],
  });

  const accountOf = async (person: Person, connectionId: string, label: string, status: Status): Promise<string> => {
    const id = newId(systemClock, "ca");
    const external = { externalId: `up-${label}`, externalEmail: `${label}@upstream.example`, externalName: `Up ${label} there` };
    await prisma.connectedAccount.create({ data: { id, connectionId, identifier: PEOPLE[person].sub, label, status, statusReason: REASONS[status], ...external } });
    return id;
  };
  const linkOf = async (person: Person, connectionId: string, accountId: string, more: Record<string, unknown> = {}): Promise<Link> => {
    const link = { id: newId(systemClock, "lnk"), token: systemClock.randomBytes(32).toString("base64url") };
    const base = { id: link.id, tokenHash: hashToken(link.token), accountId, connectionId, identifier: PEOPLE[person].sub, askedBy: "api", clientName: "Some app", expiresAt: inS(3_600) };
    await prisma.authorizationLink.create({ data: { ...base, ...more } });
    return link;
  };

  const accounts = {} as Seed["accounts"];
  const links = {} as Seed["links"];
  for (const holder of HOLDERS) {
    const { slug } = PEOPLE[holder];
    const one = {} as Record<Status, string>;
    for (const status of STATUSES) one[status] = await accountOf(holder, gmail.id, `${slug}-${status.toLowerCase()}`, status);
    accounts[holder] = one;
    const two = {} as Record<LinkState | AppLinkState, Link>;
    for (const [state, more] of Object.entries(linkRows())) two[state as LinkState] = await linkOf(holder, gmail.id, one.PENDING, more);
    two.key = await linkOf(holder, keyed.id, await accountOf(holder, keyed.id, `${slug}-keyed`, "PENDING"));
    links[holder] = two;
  }
  const spares: Seed["spares"] = {};
  for (const person of HERE) {
    const { slug } = PEOPLE[person];
    const pile = { accounts: [] as string[], oauth: [] as Link[], key: [] as Link[] };
    const pending = await accountOf(person, gmail.id, `${slug}-spare`, "PENDING");
    for (let at = 0; at < (person === "owner" ? RESERVES : 8); at += 1) {
      const account = await accountOf(person, keyed.id, `${slug}-spare-${at}`, "ACTIVE");
      pile.accounts.push(account);
      if (at >= 4) continue;
      pile.oauth.push(await linkOf(person, gmail.id, pending));
      pile.key.push(await linkOf(person, keyed.id, account));
    }
    spares[person] = pile;
  }
  const expiredKey = `obk_${systemClock.randomBytes(32).toString("base64url")}`;
  await prisma.apiKey.create({ data: { id: newId(systemClock, "key"), name: "expired", keyHash: hashToken(expiredKey), hint: "obk_", scopes: ["admin"], returnToOrigins: [], expiresAt: inS(-60) } });
  return { accounts, links, spares, leavers, expiredKey, tokens: await bentTokens(db, url) };
}

function roleOf(person: Person): "user" | "viewer" | "admin" {
  return person === "viewer" || person === "admin" ? person : "user";
}

function inS(seconds: number): Date {
  return new Date(Date.now() + seconds * 1000);
}

function linkRows(): Record<Exclude<LinkState, "key"> | AppLinkState, Record<string, unknown>> {
  const app = { verification: "app", returnTo: "https://app.example/back" };
  const settled = { settledAt: inS(-60), exchangedAt: inS(-60) };
  return {
    open: {},
    started: { status: "started", startedAt: inS(-60), stateHash: hashToken(systemClock.randomBytes(32).toString("hex")), browserHash: hashToken("another browser") },
    completed: { status: "completed", ...settled },
    denied: { status: "denied", reason: "consent_denied", ...settled },
    failed: { status: "failed", reason: "provider_error", ...settled },
    expired: { status: "expired", settledAt: inS(-60), expiresAt: inS(-60) },
    app,
    held: { ...app, status: "started", reason: "awaiting_verification", exchangedAt: inS(-60), grantSealed: new Uint8Array(64), grantDueAt: inS(3_000), codeHash: hashToken("a code") },
  };
}

/** Session tokens of the owner, signed by the program's own key, each with one thing that is not as it must be. */
async function bentTokens(db: Database, url: string): Promise<Seed["tokens"]> {
  const ring = await createKeyRing({ current: secret(MASTER_KEY), previous: [] });
  const keys = await createSigningKeys({ db, sealer: createSealer({ ring, db, clock: systemClock }), clock: systemClock });
  const { createdAt } = await db.prisma.user.findUniqueOrThrow({ where: { sub: PEOPLE.owner.sub } });
  const fixed = `key_fixed_${hashToken(ADMIN_KEY).slice(0, 16)}`;
  const mint = async (change: { endpoint?: string; publicUrl?: string; clock?: Clock; apiKeyId?: string }): Promise<string> => {
    const { publicUrl = url, clock = systemClock, endpoint = "/mcp", apiKeyId = fixed } = change;
    const tokens = createSessionTokens({ keys, issuer: `${url}/oauth`, publicUrl, clock });
    const { token } = await tokens.mint({ sub: PEOPLE.owner.sub, personSince: createdAt, ttlS: 600, endpoint, scopes: ["mcp:read", "mcp:write"], apiKeyId });
    return token.reveal();
  };
  return {
    expired: await mint({ clock: { ...systemClock, now: () => Date.now() - 3_600_000 } }),
    "other audience": await mint({ publicUrl: "https://elsewhere.example" }),
    "other resource": await mint({ endpoint: "/mcp/servers/another" }),
    "nobody's key": await mint({ apiKeyId: "key_none" }),
  };
}
