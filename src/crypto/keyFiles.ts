// The key files in DATA_DIR: master.key, and master.key.previous (the former keys, newest first, one a line). Each is written
// whole or not at all, mode 0600, and is on the disk before anything is sealed with it. One process owns DATA_DIR (the
// database's lock). Must never happen: a key gone from the disk while something is sealed under it; a value in a message.
import { mkdir, open, readFile, rename, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { readMasterKey } from "./keyText.js";
import { MasterKeyRefusal, WAY_OUT } from "./refusal.js";
import { Secret } from "./secret.js";

export const KEY_FILE = "master.key";
export const FORMER_FILE = "master.key.previous";

export interface KeyFiles {
  /** Null: there is no file. Throws MasterKeyRefusal when it is there and is no key. `isNeeded`: something is sealed with it. */
  readCurrent(isNeeded?: boolean): Promise<Secret | null>;
  readFormer(): Promise<{ keys: Secret[]; notes: string[] }>;
  writeCurrent(key: Secret): Promise<void>;
  writeFormer(keys: readonly Secret[]): Promise<void>;
  /** Sentences about files that other users of the machine can read. */
  exposureNotes(): Promise<string[]>;
}

export function keyFilesIn(dataDir: string): KeyFiles {
  const current = join(dataDir, KEY_FILE);
  const former = join(dataDir, FORMER_FILE);
  return {
    async readCurrent(isNeeded = true) {
      const text = await textOf(current, KEY_FILE);
      if (text === null) return null;
      if (readMasterKey(text) !== null) return new Secret(text.trim());
      const remedy = isNeeded ? `Put the former file back, or set MASTER_KEY. ${WAY_OUT}` : "Nothing is sealed with it: delete it, or set MASTER_KEY.";
      throw new MasterKeyRefusal(`DATA_DIR/${KEY_FILE} does not hold 32 bytes in base64. ${remedy}`);
    },

    async readFormer() {
      const lines = ((await textOf(former, FORMER_FILE)) ?? "").split("\n").map((line) => line.trim());
      const keys = lines.filter((line) => readMasterKey(line) !== null);
      // Nothing may need it any more; if something does, the check of the keys in use refuses the start and says so.
      const isOdd = lines.some((line) => line !== "" && readMasterKey(line) === null);
      const notes = isOdd ? [`DATA_DIR/${FORMER_FILE} holds a line that is no key (32 bytes in base64). The line is not used.`] : [];
      return { keys: keys.map((line) => new Secret(line)), notes };
    },

    writeCurrent: (key) => write(current, [key]),
    writeFormer: (keys) => write(former, keys),

    async exposureNotes() {
      const modes = await Promise.all([current, former].map((file) => stat(file).then(({ mode }) => mode & 0o077, () => 0)));
      return [KEY_FILE, FORMER_FILE].filter((_name, index) => modes[index] !== 0).map((name) => `Other users of this machine may read DATA_DIR/${name}. Run chmod 600 on it.`);
    },
  };
}

async function textOf(file: string, name: string): Promise<string | null> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "unknown";
    if (code === "ENOENT") return null;
    throw new MasterKeyRefusal(`DATA_DIR/${name} cannot be read (${code}). Make it readable for this user, or set MASTER_KEY.`);
  }
}

/** Draft, fsync, rename, fsync of the folder: after a crash there is the old file or the new one, never half of one. */
async function write(file: string, keys: readonly Secret[]): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.new`;
  const handle = await open(draft, "w", 0o600);
  try {
    // A draft left by a crash keeps its old mode.
    await handle.chmod(0o600);
    await handle.writeFile(keys.map((key) => `${key.reveal()}\n`).join(""));
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
