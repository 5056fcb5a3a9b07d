// What was said in the practice workspace: the messages that ship and those of the state, oldest first, with their reactions.
import type { Clock } from "../../clock.js";
import type { KeptPost, Store } from "../state.js";
import { SHIPPED_POSTS } from "./workspace.js";

export interface History {
  /** Oldest first, answers in threads included. */
  of(channel: string): KeptPost[];
  find(channel: string, ts: string): KeptPost | null;
  post(post: Omit<KeptPost, "ts">): KeptPost;
  reactions(channel: string, ts: string): { name: string; users: string[]; count: number }[];
  /** False when this person has given it before. */
  react(channel: string, ts: string, name: string, user: string): boolean;
}

/** Bounds the state file; the oldest go. */
const POSTS_MAX = 1000;
const REACTIONS_MAX = 2000;

/** `1712345678.000100`: seconds, and microseconds that tell apart what was said in the same one. */
function tsOf(atMs: number, part: number): string {
  return `${Math.floor(atMs / 1000)}.${String(part).padStart(6, "0")}`;
}

export function createHistory(deps: { store: Store; clock: Clock }): History {
  const { store, clock } = deps;
  const { posts, reactions } = store.state.slack;
  const shippedTs = SHIPPED_POSTS.map((post, at) => tsOf(store.state.startedAtMs - post.minutesBefore * 60_000, 100 + at));
  const shipped: KeptPost[] = SHIPPED_POSTS.map((post, at) => ({
    channel: post.channel,
    ts: shippedTs[at] ?? "",
    user: post.user,
    text: post.text,
    ...(post.answers !== undefined && { threadTs: shippedTs[post.answers] ?? "" }),
  }));

  function of(channel: string): KeptPost[] {
    return [...shipped, ...posts].filter((post) => post.channel === channel).sort((a, b) => (a.ts < b.ts ? -1 : a.ts > b.ts ? 1 : 0));
  }

  /** Unique and growing within the workspace, whatever the clock does. */
  function nextTs(): string {
    const last = posts.at(-1)?.ts ?? "";
    const now = tsOf(clock.now(), 0);
    const [seconds = "0", part = "0"] = last.split(".");
    return now > last ? now : tsOf(Number(seconds) * 1000, Number(part) + 1);
  }

  return {
    of,
    find: (channel, ts) => of(channel).find((post) => post.ts === ts) ?? null,
    post(post) {
      const made = { ...post, ts: nextTs() };
      posts.push(made);
      posts.splice(0, posts.length - POSTS_MAX);
      return made;
    },
    reactions(channel, ts) {
      const byName = new Map<string, string[]>();
      const at = shippedTs.indexOf(ts);
      const first = at < 0 ? [] : (SHIPPED_POSTS[at]?.reactions ?? []);
      for (const { name, users } of first) byName.set(name, [...users]);
      for (const one of reactions) {
        if (one.channel === channel && one.ts === ts) byName.set(one.name, [...(byName.get(one.name) ?? []), one.user]);
      }
      return [...byName].map(([name, users]) => ({ name, users, count: users.length }));
    },
    react(channel, ts, name, user) {
      if (this.reactions(channel, ts).some((one) => one.name === name && one.users.includes(user))) return false;
      reactions.push({ channel, ts, name, user });
      reactions.splice(0, reactions.length - REACTIONS_MAX);
      return true;
    },
  };
}
