// How a master key is written down. Apart from the key ring, so that the settings are checked without loading its library.

const MASTER_KEY_BYTES = 32;

/** 32 bytes from base64 (or base64url). White space around it is dropped: a key file often ends in a newline. Null: not a key. */
export function readMasterKey(text: string): Buffer | null {
  const trimmed = text.trim();
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(trimmed)) return null;
  const bytes = Buffer.from(trimmed, "base64");
  // One byte repeated is a placeholder that somebody left in, not a key.
  return bytes.length === MASTER_KEY_BYTES && new Set(bytes).size > 1 ? bytes : null;
}
