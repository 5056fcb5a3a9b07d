// Where the master key comes from, and the rules that refuse a start. Must never happen: a new key made while there is
// data (it would all be lost in silence), a write before the key was proved right, or a key's value in a message.
import { mkdir, open, readFile, rename, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Clock } from "../clock.js";
import type { Settings } from "../config/settings.js";
import type { PrismaClient } from "../db/generated/client.js";
import { createKeyRing, keyCheckOf, type KeyRing } from "./keyring.js";
import { readMasterKey } from "./keyText.js";
import { Secret } from "./secret.js";
import { sameText } from "./tokens.js";

/** The key does not fit. The message is for the operator: what to set, and the way out; never a value. */
export class MasterKeyRefusal extends Error {
  override readonly name = "MasterKeyRefusal";
}

export type MasterKeySettings = Pick<Settings, "databaseUrl" | "dataDir" | "masterKey" | "masterKeysPrevious">;

export interface MasterKeys {
  current: Secret;
  previous: Secret[];
  /** Sentences for the operator: a key was made, the file is open to others. */
  notes: string[];
}

const FILE_NAME = "master.key";
const KEY_CHECK = "key_check";
const WAY_OUT = "If the key is lost, `outband keys abandon` erases what is sealed with it; people then connect their accounts again.";

/** `hasData`: something was sealed before, so a missing key must not be replaced by a new one. */
export async function loadMasterKey(options: {
  settings: MasterKeySettings;
  hasData: boolean;
  clock: Pick<Clock, "randomBytes">;
}): Promise<MasterKeys> {
  const { settings, hasData, clock } = options;
  const previous = settings.masterKeysPrevious;
  if (settings.masterKey !== null) return { current: settings.masterKey, previous, notes: [] };
  if (settings.databaseUrl !== null)
    throw new MasterKeyRefusal(`MASTER_KEY is not set. With DATABASE_URL it is required.${hasData ? ` ${WAY_OUT}` : ""}`);
  const file = join(settings.dataDir, FILE_NAME);
  const found = await readKeyFile(file);
  if (found !== null) return { current: found, previous, notes: await exposureNotes(file) };
  if (hasData) {
    throw new MasterKeyRefusal(
      `MASTER_KEY is not set and DATA_DIR/${FILE_NAME} is gone, but DATA_DIR holds sealed data. Put the key back into one of the two. ${WAY_OUT}`,
    );
  }
  const made = new Secret(clock.randomBytes(32).toString("base64"));
  await writeKeyFile(file, made);
  return {
    current: made,
    previous,
    notes: [
      `Made a master key in DATA_DIR/${FILE_NAME}. Keep a copy apart from the data: without it the stored credentials cannot be opened.`,
    ],
  };
}

/** Reads what the database knows of its keys, loads the key, proves it, and records it at the first start. */
export async function openKeyRing(deps: {
  settings: MasterKeySettings;
  db: { prisma: Pick<PrismaClient, "installation" | "dataKey"> };
  clock: Pick<Clock, "randomBytes">;
  note?: (sentence: string) => void;
}): Promise<KeyRing> {
  const { prisma } = deps.db;
  const sealedUnder = (await prisma.dataKey.findMany({ distinct: ["kid"], select: { kid: true } })).map((row) => row.kid);
  const recorded = await readKeyCheck(prisma);
  const keys = await loadMasterKey({ settings: deps.settings, hasData: recorded !== null || sealedUnder.length > 0, clock: deps.clock });
  const ring = await createKeyRing(keys);
  if (recorded !== null) proveKey(ring, recorded);
  const unknown = sealedUnder.filter((kid) => !ring.kids.includes(kid));
  if (unknown.length > 0) {
    throw new MasterKeyRefusal(
      `Stored credentials are sealed under a master key that is neither in MASTER_KEY nor in MASTER_KEY_PREVIOUS (${unknown.join(", ")}). Add it to MASTER_KEY_PREVIOUS. ${WAY_OUT}`,
    );
  }
  if (recorded === null) {
    await prisma.installation.createMany({
      data: [{ name: KEY_CHECK, value: keyCheckOf(ring, ring.currentKid) ?? "" }],
      skipDuplicates: true,
    });
    // Of two instances that start at once with two keys, the second must stop here.
    proveKey(ring, (await readKeyCheck(prisma)) ?? "");
  }
  for (const note of keys.notes) deps.note?.(note);
  return ring;
}

async function readKeyCheck(prisma: Pick<PrismaClient, "installation">): Promise<string | null> {
  const row = await prisma.installation.findUnique({ where: { name: KEY_CHECK }, select: { value: true } });
  return row?.value ?? null;
}

/** Written when the data keys are all wrapped under the current key: from then on the previous one may go. */
export async function recordKeyCheck(prisma: Pick<PrismaClient, "installation">, ring: KeyRing): Promise<void> {
  const value = keyCheckOf(ring, ring.currentKid) ?? "";
  await prisma.installation.upsert({ where: { name: KEY_CHECK }, create: { name: KEY_CHECK, value }, update: { value } });
}

/** The recorded key may be any of the ring: during a rotation it is a previous one until the data keys are re-wrapped. */
function proveKey(ring: KeyRing, recorded: string): void {
  const fits = ring.kids.some((kid) => sameText(keyCheckOf(ring, kid) ?? "", recorded));
  if (fits) return;
  throw new MasterKeyRefusal(
    `MASTER_KEY (or DATA_DIR/${FILE_NAME}) is not the key that this data is sealed with. Put the former key back, or add it to MASTER_KEY_PREVIOUS. ${WAY_OUT}`,
  );
}

async function readKeyFile(file: string): Promise<Secret | null> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "unknown";
    if (code === "ENOENT") return null;
    throw new MasterKeyRefusal(`DATA_DIR/${FILE_NAME} cannot be read (${code}). Make it readable for this user, or set MASTER_KEY.`);
  }
  if (readMasterKey(text) === null) {
    throw new MasterKeyRefusal(
      `DATA_DIR/${FILE_NAME} does not hold 32 bytes in base64. Put the former file back, or set MASTER_KEY. ${WAY_OUT}`,
    );
  }
  return new Secret(text.trim());
}

async function exposureNotes(file: string): Promise<string[]> {
  const { mode } = await stat(file);
  return (mode & 0o077) === 0 ? [] : [`Other users of this machine may read DATA_DIR/${FILE_NAME}. Run chmod 600 on it.`];
}

/** Whole or not at all, and on the disk before anything is sealed with it. One process owns DATA_DIR (the database's lock). */
async function writeKeyFile(file: string, key: Secret): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.new`;
  const handle = await open(draft, "w", 0o600);
  try {
    // A draft left by a crash keeps its old mode.
    await handle.chmod(0o600);
    await handle.writeFile(`${key.reveal()}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(draft, file);
  const folder = await open(dirname(file), "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
