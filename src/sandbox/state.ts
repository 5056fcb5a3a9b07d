// What the sandbox remembers over a restart: clients, grants, sent mail and messages. Tokens are digests; the client secrets are
// in clear, in a file of mode 0600. Must never happen: a half-written file, or a damaged one overwritten without a copy.
import { chmod, readFile, rename, writeFile } from "node:fs/promises";
import type { JWK } from "jose";
import { z } from "zod";
import type { Clock } from "../clock.js";
import type { Log } from "../log.js";
import { randomText } from "./digest.js";
import type { GrantRecord } from "./grants.js";

export interface PracticeClient {
  clientId: string;
  clientSecret: string;
}

/** A message that was not there from the start: sent, drafted or delivered. */
export interface KeptMail {
  owner: string;
  id: string;
  threadId: string;
  labelIds: string[];
  atMs: number;
  /** base64 of the whole message. */
  raw: string;
}

export interface KeptPost {
  channel: string;
  ts: string;
  user: string;
  text: string;
  threadTs?: string;
  metadata?: { event_type: string; event_payload: unknown };
}

export interface KeptReaction {
  channel: string;
  ts: string;
  name: string;
  user: string;
}

export interface SandboxState {
  version: 1;
  /** Dates of the practice mail and messages count from here. */
  startedAtMs: number;
  google: { client: PracticeClient; grants: GrantRecord[]; signingKey: JWK | null; mail: KeptMail[]; labels: Record<string, string[]> };
  slack: { client: PracticeClient; grants: GrantRecord[]; posts: KeptPost[]; reactions: KeptReaction[] };
}

export interface Store {
  readonly state: SandboxState;
  /** Resolves when everything changed so far is on the disk. */
  save(): Promise<void>;
}

/** Enough to tell a file of ours from anything else; we alone write it. */
const StateFile = z.looseObject({
  version: z.literal(1),
  startedAtMs: z.number(),
  google: z.looseObject({ client: z.looseObject({}), grants: z.array(z.unknown()), mail: z.array(z.unknown()), labels: z.looseObject({}) }),
  slack: z.looseObject({
    client: z.looseObject({}),
    grants: z.array(z.unknown()),
    posts: z.array(z.unknown()),
    reactions: z.array(z.unknown()),
  }),
});

function firstState(clock: Clock): SandboxState {
  const client = (name: string): PracticeClient => ({
    clientId: randomText(clock, `sandbox-${name}-`, 9),
    clientSecret: randomText(clock, `sandbox-${name}-secret-`, 24),
  });
  return {
    version: 1,
    startedAtMs: clock.now(),
    google: { client: client("google"), grants: [], signingKey: null, mail: [], labels: {} },
    slack: { client: client("slack"), grants: [], posts: [], reactions: [] },
  };
}

async function readState(file: string): Promise<SandboxState | "absent" | "damaged"> {
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (text === null) return "absent";
  try {
    return StateFile.parse(JSON.parse(text)) as unknown as SandboxState;
  } catch {
    return "damaged";
  }
}

/** Writes beside the file and renames, so that a reader or a crash sees the old state or the new one. */
async function writeState(file: string, state: SandboxState): Promise<void> {
  const beside = `${file}.writing`;
  await writeFile(beside, JSON.stringify(state), { mode: 0o600 });
  await chmod(beside, 0o600);
  await rename(beside, file);
}

export async function openStore(options: { file: string | null; clock: Clock; log: Log }): Promise<Store> {
  const { file, clock, log } = options;
  if (file === null) return { state: firstState(clock), save: async () => {} };

  const found = await readState(file);
  if (found === "damaged") {
    await rename(file, `${file}.damaged`);
    log.warn("The sandbox's state could not be read: kept aside as .damaged, starting anew.");
  }
  const state = typeof found === "string" ? firstState(clock) : found;

  let writing: Promise<void> = Promise.resolve();
  let waiting: Promise<void> | null = null;
  const save = (): Promise<void> => {
    // Whoever comes while a write runs shares the next one, which holds their change too.
    waiting ??= writing
      .catch(() => {})
      .then(() => {
        waiting = null;
        writing = writeState(file, state);
        return writing;
      });
    return waiting;
  };
  if (typeof found === "string") await save();
  return { state, save };
}
