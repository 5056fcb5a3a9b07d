// The scopes that the practice Google knows: what the consent page says, and which calls of Gmail each one opens.

export interface GoogleScope {
  name: string;
  title: string;
  detail: string;
  /** Sign-in scopes cannot be unticked. */
  signIn: boolean;
}

const AUTH = "https://www.googleapis.com/auth";

export const GMAIL = {
  full: "https://mail.google.com/",
  modify: `${AUTH}/gmail.modify`,
  readonly: `${AUTH}/gmail.readonly`,
  metadata: `${AUTH}/gmail.metadata`,
  labels: `${AUTH}/gmail.labels`,
  compose: `${AUTH}/gmail.compose`,
  send: `${AUTH}/gmail.send`,
} as const;

export const GOOGLE_SCOPES: readonly GoogleScope[] = [
  { name: "openid", title: "Know which practice person you are", detail: "A stable number, without a name", signIn: true },
  { name: "email", title: "See your e-mail address", detail: "", signIn: true },
  { name: `${AUTH}/userinfo.email`, title: "See your e-mail address", detail: "", signIn: true },
  { name: "profile", title: "See your name", detail: "", signIn: true },
  { name: `${AUTH}/userinfo.profile`, title: "See your name", detail: "", signIn: true },
  {
    name: GMAIL.full,
    title: "Read, send and permanently delete all your mail",
    detail: "Everything that you can do in Gmail",
    signIn: false,
  },
  {
    name: GMAIL.modify,
    title: "Read, write and sort your mail",
    detail: "Includes sending and labels, not permanent deletion",
    signIn: false,
  },
  { name: GMAIL.readonly, title: "Read your mail and settings", detail: "Every message and attachment; changes nothing", signIn: false },
  { name: GMAIL.metadata, title: "See the envelopes of your mail", detail: "Sender, subject and labels, not the text", signIn: false },
  { name: GMAIL.labels, title: "See and edit your labels", detail: "", signIn: false },
  { name: GMAIL.compose, title: "Write drafts and send mail", detail: "In your name, to anybody", signIn: false },
  { name: GMAIL.send, title: "Send mail", detail: "In your name, to anybody", signIn: false },
];

export function googleScope(name: string): GoogleScope | undefined {
  return GOOGLE_SCOPES.find((scope) => scope.name === name);
}

/** Google answers with the long names of the two short ones. */
const LONG_NAMES: Record<string, string> = { email: `${AUTH}/userinfo.email`, profile: `${AUTH}/userinfo.profile` };

export function asGranted(scopes: readonly string[]): string[] {
  return [...new Set(scopes.map((scope) => LONG_NAMES[scope] ?? scope))];
}

const READS = [GMAIL.full, GMAIL.modify, GMAIL.readonly];

/** Which scopes open which call; any one of them is enough. */
export const CALL_SCOPES = {
  GetProfile: [...READS, GMAIL.compose, GMAIL.metadata],
  ListMessages: [...READS, GMAIL.metadata],
  GetMessage: [...READS, GMAIL.metadata],
  GetThread: [...READS, GMAIL.metadata],
  GetAttachment: READS,
  ListLabels: [...READS, GMAIL.labels, GMAIL.metadata],
  GetLabel: [...READS, GMAIL.labels, GMAIL.metadata],
  SendMessage: [GMAIL.full, GMAIL.modify, GMAIL.compose, GMAIL.send],
  CreateDraft: [GMAIL.full, GMAIL.modify, GMAIL.compose],
  ModifyMessage: [GMAIL.full, GMAIL.modify],
} as const satisfies Record<string, readonly string[]>;

export type GmailCall = keyof typeof CALL_SCOPES;
