// Why a program does not go on with the master keys that it has.

/** The key does not fit. The message is for the operator: what to set, and the way out; never a value. */
export class MasterKeyRefusal extends Error {
  override readonly name = "MasterKeyRefusal";
}

export const WAY_OUT = "If the key is lost, `outband keys abandon` erases what is sealed with it; people then connect their accounts again.";
