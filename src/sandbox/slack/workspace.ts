// The practice workspace: people, channels and what was said before the sandbox started. Data only; what is said since is in the state.
import { MARA, TOMAS } from "../people.js";

export const APP_ID = "A07OUTBAND1";
export const TEAM = { id: "T07HARBOUR", name: "Harbourlight", domain: "harbourlight" } as const;
export const BOT = { userId: "U07OUTBOT", botId: "B07OUTBOT" } as const;

export interface Member {
  id: string;
  name: string;
  realName: string;
  title: string;
  email: string | null;
  kind: "person" | "bot" | "deleted" | "stranger";
}

const INGRID = "U07INGRID5S";
const PRIYA = "U07PRIYAR8D";
const NOOR = "U06NOORBW1H";

export const MEMBERS: readonly Member[] = [
  { id: MARA.slackId, name: "mara", realName: MARA.name, title: MARA.role, email: MARA.email, kind: "person" },
  { id: TOMAS.slackId, name: "tomas", realName: TOMAS.name, title: TOMAS.role, email: TOMAS.email, kind: "person" },
  {
    id: INGRID,
    name: "ingrid",
    realName: "Ingrid Sørensen",
    title: "Calibration",
    email: "ingrid.sorensen@harbourlight.example",
    kind: "person",
  },
  { id: PRIYA, name: "priya.raman", realName: "Priya Raman", title: "Finance", email: "priya.raman@harbourlight.example", kind: "person" },
  { id: "U07DELETED0", name: "old.hand", realName: "Olof Hand", title: "", email: null, kind: "deleted" },
  { id: "U07LAMPBOT0", name: "build-lamp", realName: "Build lamp", title: "", email: null, kind: "bot" },
  { id: BOT.userId, name: "outband", realName: "Outband", title: "", email: null, kind: "bot" },
  // Of the company at the other end of the shared channel.
  { id: NOOR, name: "noor", realName: "Noor Haddad", title: "Logistics, Brightwater Offshore", email: null, kind: "stranger" },
];

export interface Channel {
  id: string;
  name: string;
  topic: string;
  members: readonly string[];
  isGeneral?: true;
  isPrivate?: true;
  isArchived?: true;
  /** The other workspace of a channel shared through Slack Connect. */
  sharedWith?: string;
}

const EVERYBODY = [MARA.slackId, TOMAS.slackId, INGRID, PRIYA];

export const CHANNELS: readonly Channel[] = [
  {
    id: "C07GENERAL1",
    name: "general",
    topic: "For everybody, about everything that concerns everybody",
    members: EVERYBODY,
    isGeneral: true,
  },
  { id: "C07RANDOM02", name: "random", topic: "Sea shanties welcome", members: EVERYBODY },
  { id: "C07FIRMWAR3", name: "firmware", topic: "Releases, benches, bugs", members: [TOMAS.slackId, INGRID, MARA.slackId] },
  { id: "C07TRIALS04", name: "sea-trials", topic: "Next trial: buoys 11 to 22", members: [MARA.slackId, TOMAS.slackId, INGRID] },
  { id: "C07SUPPORT5", name: "customer-support", topic: "Answer within a working day", members: [PRIYA] },
  {
    id: "C06CONNECT6",
    name: "brightwater-harbourlight",
    topic: "With Brightwater Offshore: delivery of the twelve",
    members: [MARA.slackId, NOOR],
    sharedWith: "T06BRIGHTW",
  },
  { id: "G07LEADERS7", name: "leadership", topic: "Numbers that are not public yet", members: [MARA.slackId, PRIYA], isPrivate: true },
  { id: "C05LAUNCH08", name: "launch-2024", topic: "Done", members: EVERYBODY, isArchived: true },
];

export interface ShippedPost {
  channel: string;
  user: string;
  text: string;
  minutesBefore: number;
  /** Index in SHIPPED_POSTS of the message it answers. */
  answers?: number;
  reactions?: readonly { name: string; users: readonly string[] }[];
}

export const SHIPPED_POSTS: readonly ShippedPost[] = [
  { channel: "C07GENERAL1", user: PRIYA, text: "Reminder: expenses for September are due on Friday :pray:", minutesBefore: 3000 },
  {
    channel: "C07GENERAL1",
    user: MARA.slackId,
    text: "The sea trial is on the 14th. Boots, not trainers.",
    minutesBefore: 1500,
    reactions: [{ name: "boot", users: [TOMAS.slackId, INGRID] }],
  },
  {
    channel: "C07GENERAL1",
    user: INGRID,
    text: "Cake in the lab from three &lt;3",
    minutesBefore: 200,
    reactions: [{ name: "cake", users: EVERYBODY }],
  },
  { channel: "C07RANDOM02", user: TOMAS.slackId, text: "Which of you named a bench buoy *Kevin*?", minutesBefore: 900 },
  { channel: "C07FIRMWAR3", user: "U07LAMPBOT0", text: "2.8.2-rc1 on bench-03: 213 passed, 1 failed", minutesBefore: 60 },
  {
    channel: "C07FIRMWAR3",
    user: TOMAS.slackId,
    text: "On it. The serial number check is off by one table.",
    minutesBefore: 52,
    answers: 4,
  },
  { channel: "C07FIRMWAR3", user: INGRID, text: "Bench buoy is free until six, <@U07TOMASK2R>", minutesBefore: 48, answers: 4 },
  { channel: "C07FIRMWAR3", user: INGRID, text: "Drift on 14 and 22 is the old thermistor, see mail.", minutesBefore: 1700 },
  {
    channel: "C07TRIALS04",
    user: MARA.slackId,
    text: "Two slots at the port: Tuesday 07:00 or Wednesday 13:00. Crane only on Tuesday.",
    minutesBefore: 90,
  },
  { channel: "C07TRIALS04", user: INGRID, text: "Tuesday, please. I would rather be early than wet.", minutesBefore: 80 },
  { channel: "C07SUPPORT5", user: PRIYA, text: "Ticket 311: customer asks for an invoice in English", minutesBefore: 400 },
  { channel: "C06CONNECT6", user: NOOR, text: "Hi Harbourlight, can you confirm the slot by Thursday?", minutesBefore: 94 },
  { channel: "G07LEADERS7", user: PRIYA, text: "Draft numbers for Q3 are in the usual place. Please do not forward.", minutesBefore: 2000 },
  { channel: "C05LAUNCH08", user: MARA.slackId, text: "We are live. Thank you all.", minutesBefore: 500_000 },
];
