// The letters that ship with the sandbox, in no order: each person's box sorts them by date.
import { HOSTILE_LETTERS } from "./hostile.js";
import type { Letter } from "./letter.js";
import { WORK_LETTERS } from "./work.js";
import { WORLD_LETTERS } from "./world.js";

export type { Letter } from "./letter.js";

export const LETTERS: readonly Letter[] = [...WORK_LETTERS, ...WORLD_LETTERS, ...HOSTILE_LETTERS];
