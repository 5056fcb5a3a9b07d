// Where the master keys come from, and the rules that refuse a start. Must never happen: a new key made while there is
// data (it would all be lost in silence), a write before the key was proved right, or a key's value in a message.
import type { Clock } from "../clock.js";
import type { Settings } from "../config/settings.js";
import type { PrismaClient } from "../db/generated/client.js";
import { kidsInUse } from "./dataKeys.js";
import { FORMER_FILE, KEY_FILE, keyFilesIn } from "./keyFiles.js";
import { createKeyRing, createLiveKeyRing, keyCheckOf, kidOfMasterKey, type KeyRing, type LiveKeyRing } from "./keyring.js";
import { MasterKeyRefusal, WAY_OUT } from "./refusal.js";
import { Secret } from "./secret.js";
import { sameText } from "./tokens.js";

export { MasterKeyRefusal } from "./refusal.js";

export type MasterKeySettings = Pick<Settings, "databaseUrl" | "dataDir" | "masterKey" | "masterKeysPrevious">;

/** Where an operator finds a key: a setting, or a file in DATA_DIR. */
export type KeySource = "MASTER_KEY" | "MASTER_KEY_PREVIOUS" | typeof KEY_FILE | typeof FORMER_FILE;

export interface MasterKey {
  secret: Secret;
  source: KeySource;
}

export interface MasterKeys {
  current: MasterKey;
  /** Newest first. */
  previous: MasterKey[];
  /** Sentences for the operator: a key was made, a file is open to others. */
  notes: string[];
}

/** The keys of a running program. */
export interface OpenedKeys {
  ring: LiveKeyRing;
  /** Null: no key of the ring. */
  sourceOf(kid: string): KeySource | null;
  /** Reads settings and files again, and takes them only when everything opens that opened before. Throws MasterKeyRefusal. */
  reload(): Promise<void>;
}

export type KeyTables = Pick<PrismaClient, "installation" | "dataKey">;

const KEY_CHECK = "key_check";

/** The key is one that the program made: it lies in DATA_DIR and may be replaced there. */
export function isGenerated(settings: MasterKeySettings): boolean {
  return settings.masterKey === null && settings.databaseUrl === null;
}

/** `hasData`: something was sealed before, so a missing key must not be replaced by a new one. */
export async function loadMasterKey(options: {
  settings: MasterKeySettings;
  hasData: boolean;
  clock: Pick<Clock, "randomBytes">;
}): Promise<MasterKeys> {
  const { settings, hasData, clock } = options;
  const fromSettings = settings.masterKeysPrevious.map((secret): MasterKey => ({ secret, source: "MASTER_KEY_PREVIOUS" }));
  if (settings.masterKey !== null) return { current: { secret: settings.masterKey, source: "MASTER_KEY" }, previous: fromSettings, notes: [] };
  if (settings.databaseUrl !== null)
    throw new MasterKeyRefusal(`MASTER_KEY is not set. With DATABASE_URL it is required.${hasData ? ` ${WAY_OUT}` : ""}`);
  const files = keyFilesIn(settings.dataDir);
  const found = await files.readCurrent(hasData);
  if (found !== null) {
    const former = await files.readFormer();
    const fromFile = former.keys.map((secret): MasterKey => ({ secret, source: FORMER_FILE }));
    return {
      current: { secret: found, source: KEY_FILE },
      previous: [...fromFile, ...fromSettings],
      notes: [...former.notes, ...(await files.exposureNotes())],
    };
  }
  if (hasData) {
    throw new MasterKeyRefusal(
      `MASTER_KEY is not set and DATA_DIR/${KEY_FILE} is gone, but DATA_DIR holds sealed data. Put the key back into one of the two. ${WAY_OUT}`,
    );
  }
  const made = newMasterKey(clock);
  await files.writeCurrent(made);
  return {
    current: { secret: made, source: KEY_FILE },
    previous: fromSettings,
    notes: [`Made a master key in DATA_DIR/${KEY_FILE}. Keep a copy apart from the data: without it the stored credentials cannot be opened.`],
  };
}

export function newMasterKey(clock: Pick<Clock, "randomBytes">): Secret {
  return new Secret(clock.randomBytes(32).toString("base64"));
}

export interface OpenKeysDeps {
  settings: MasterKeySettings;
  db: { prisma: KeyTables };
  clock: Pick<Clock, "randomBytes">;
}

/** Reads what the database knows of its keys, loads the keys, proves them, and records the current one at the first start. */
export async function openKeyRing(deps: OpenKeysDeps & { note?: (sentence: string) => void }): Promise<OpenedKeys> {
  const { prisma } = deps.db;
  const known = await knownKeys(prisma);
  const keys = await loadMasterKey({ settings: deps.settings, hasData: known.hasData, clock: deps.clock });
  const ring = await provedRing(keys, known, deps.settings);
  if (known.recorded === null) {
    await prisma.installation.createMany({
      data: [{ name: KEY_CHECK, value: keyCheckOf(ring, ring.currentKid) ?? "" }],
      skipDuplicates: true,
    });
    // Of two instances that start at once with two keys, the second must stop here.
    await proveKey(ring, (await readKeyCheck(prisma))?.value ?? "", deps.settings);
  }
  for (const note of keys.notes) deps.note?.(note);
  return opened(deps, keys, ring);
}

/** The same without a trace: nothing is made or recorded. Null: nothing was sealed yet. Throws MasterKeyRefusal, as a start would. */
export async function examineKeys(deps: OpenKeysDeps): Promise<{ keys: OpenedKeys; notes: string[] } | null> {
  const known = await knownKeys(deps.db.prisma);
  if (!known.hasData) return null;
  const keys = await loadMasterKey({ settings: deps.settings, hasData: true, clock: deps.clock });
  return { keys: opened(deps, keys, await provedRing(keys, known, deps.settings)), notes: keys.notes };
}

interface KnownKeys {
  recorded: string | null;
  sealedUnder: string[];
  /** Something was sealed before. */
  hasData: boolean;
}

async function knownKeys(prisma: KeyTables): Promise<KnownKeys> {
  const sealedUnder = await kidsInUse(prisma);
  const recorded = (await readKeyCheck(prisma))?.value ?? null;
  return { recorded, sealedUnder, hasData: recorded !== null || sealedUnder.length > 0 };
}

async function provedRing(keys: MasterKeys, known: KnownKeys, settings: MasterKeySettings): Promise<KeyRing> {
  const ring = await ringOf(keys);
  if (known.recorded !== null) await proveKey(ring, known.recorded, settings);
  requireAll(ring, known.sealedUnder, settings);
  return ring;
}

function opened({ settings, db, clock }: OpenKeysDeps, first: MasterKeys, firstRing: KeyRing): OpenedKeys {
  const ring = createLiveKeyRing(firstRing);
  let keys = first;
  return {
    ring,
    sourceOf: (kid) => [keys.current, ...keys.previous].find(({ secret }) => kidOfMasterKey(secret) === kid)?.source ?? null,
    reload: async () => {
      const loaded = await loadMasterKey({ settings, hasData: true, clock });
      const next = await ringOf(loaded);
      requireAll(next, [ring.currentKid, ...(await kidsInUse(db.prisma))], settings);
      keys = loaded;
      ring.replace(next);
    },
  };
}

function ringOf({ current, previous }: MasterKeys): Promise<KeyRing> {
  return createKeyRing({ current: current.secret, previous: previous.map(({ secret }) => secret) });
}

function readKeyCheck(prisma: Pick<PrismaClient, "installation">): Promise<{ value: string; updatedAt: Date } | null> {
  return prisma.installation.findUnique({ where: { name: KEY_CHECK }, select: { value: true, updatedAt: true } });
}

/** Since when everything that opens is under the current key. Null: a rotation to it was begun and has not come to its end. */
export async function currentSince(prisma: Pick<PrismaClient, "installation">, ring: KeyRing): Promise<Date | null> {
  const recorded = await readKeyCheck(prisma);
  return recorded !== null && sameText(recorded.value, keyCheckOf(ring, ring.currentKid) ?? "") ? recorded.updatedAt : null;
}

/** Written when every data key that opens is wrapped under the current key. */
export async function recordKeyCheck(prisma: Pick<PrismaClient, "installation">, ring: KeyRing): Promise<void> {
  // A second run that finds nothing to do must not make the change look younger.
  if ((await currentSince(prisma, ring)) !== null) return;
  const value = keyCheckOf(ring, ring.currentKid) ?? "";
  await prisma.installation.upsert({ where: { name: KEY_CHECK }, create: { name: KEY_CHECK, value }, update: { value } });
}

/** The recorded key may be any of the ring: during a rotation it is a previous one until the data keys are re-wrapped. */
async function proveKey(ring: KeyRing, recorded: string, settings: MasterKeySettings): Promise<void> {
  if (fits(ring, recorded)) return;
  const what = isGenerated(settings) ? `DATA_DIR/${KEY_FILE}` : "MASTER_KEY";
  const file = isGenerated(settings) || settings.databaseUrl !== null ? null : await keyFilesIn(settings.dataDir).readCurrent().catch(() => null);
  const isInFile = file !== null && fits(await createKeyRing({ current: file, previous: [] }), recorded);
  const remedy = isInFile
    ? `The key in DATA_DIR/${KEY_FILE} is: unset MASTER_KEY, or add what that file holds to MASTER_KEY_PREVIOUS.`
    : `Put the former key back, or add it to MASTER_KEY_PREVIOUS. ${WAY_OUT}`;
  throw new MasterKeyRefusal(`${what} is not the key that this data is sealed with. ${remedy}`);
}

function fits(ring: KeyRing, recorded: string): boolean {
  return ring.kids.some((kid) => sameText(keyCheckOf(ring, kid) ?? "", recorded));
}

function requireAll(ring: KeyRing, kids: readonly string[], settings: MasterKeySettings): void {
  const unknown = [...new Set(kids)].filter((kid) => !ring.kids.includes(kid));
  if (unknown.length === 0) return;
  const places = isGenerated(settings) ? `DATA_DIR/${KEY_FILE}, nor in DATA_DIR/${FORMER_FILE}, nor in MASTER_KEY_PREVIOUS` : "MASTER_KEY nor in MASTER_KEY_PREVIOUS";
  throw new MasterKeyRefusal(
    `Stored credentials are sealed under a master key that is neither in ${places} (${unknown.join(", ")}). Add it to MASTER_KEY_PREVIOUS. ${WAY_OUT}`,
  );
}
