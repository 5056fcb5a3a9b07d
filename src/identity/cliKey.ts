// DATA_DIR/cli.key: the key with which the command line of this machine reaches a locally started program. Whoever can
// read DATA_DIR holds the database and the master key anyway. Must never happen: a key file that others can read.
import { chmod, open, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../clock.js";
import { secret, type Secret } from "../crypto/secret.js";
import { newToken } from "../crypto/tokens.js";

export const CLI_KEY_FILE = "cli.key";

/** Reads the key, or makes the file with one. DATA_DIR is there already. */
export async function ensureCliKey(dataDir: string, clock: Clock): Promise<Secret> {
  const file = join(dataDir, CLI_KEY_FILE);
  const made = `obk_${newToken(clock).reveal()}`;
  try {
    const handle = await open(file, "wx", 0o600);
    try {
      await handle.writeFile(`${made}\n`);
      await handle.sync();
    } finally {
      await handle.close();
    }
    return secret(made);
  } catch (error) {
    if ((error as { code?: unknown }).code !== "EEXIST") throw error;
  }
  await chmod(file, 0o600);
  const kept = (await readFile(file, "utf8")).trim();
  if (/^obk_[\w-]{43}$/.test(kept)) return secret(kept);
  // A start that was killed between making and writing the file left it empty or short.
  const handle = await open(file, "w", 0o600);
  try {
    await handle.writeFile(`${made}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  return secret(made);
}
