// What a person reads when connecting did not work: one row for each way it can fail, with what to do next.
// The sentences are ours alone: nothing that a provider, a client or the person typed is in them.
import type { LinkFailure } from "../vault/front.js";

export interface FailureWords {
  status: number;
  tone: "calm" | "warn" | "bad";
  /** `title` is the connection's, as the operator named it. */
  heading(title: string): string;
  sentence(title: string): string;
  advice: string | null;
  /** `retry`: a fresh link for the same account. `connections`: the list. `reload`: this page again. `none`: nothing this person can do here. */
  next: "retry" | "connections" | "reload" | "none";
  /** The link must not be shown: it may be somebody else's, or nobody's. */
  hidesLink?: true;
}

export const FAILURES: Record<LinkFailure, FailureWords> = {
  denied: {
    status: 200,
    tone: "calm",
    // Also true of an account that is connected already, and stays so.
    heading: (title) => `You said no to ${title}`,
    sentence: () => "So nothing was connected just now, and nothing was changed.",
    advice: "If that was a slip, you can try again.",
    next: "retry",
  },
  scope_missing: {
    status: 409,
    tone: "warn",
    heading: (title) => `${title} needs one more permission`,
    sentence: () => "A permission that is needed here was left out. Nothing was stored, and what you granted just now was given back.",
    advice: "Try again, and leave it ticked.",
    next: "retry",
  },
  expired: {
    status: 410,
    tone: "warn",
    heading: () => "This link has run out",
    sentence: () => "Links work for a few minutes only, so that an old one is of no use to anybody. Nothing was changed.",
    advice: "Ask your assistant again, or start afresh from here.",
    next: "retry",
  },
  already_used: {
    status: 410,
    tone: "warn",
    heading: () => "This link was already used",
    sentence: () => "Each link works once. Nothing was changed just now.",
    advice: "Your connections page shows how things stand.",
    next: "connections",
  },
  under_way: {
    status: 202,
    tone: "calm",
    heading: (title) => `${title} is still being connected`,
    sentence: (title) => `${title} takes its time to answer, and your permission is not lost.`,
    advice: "Look again in a moment.",
    next: "reload",
  },
  wrong_person: {
    status: 403,
    tone: "bad",
    heading: () => "This was started by another sign-in",
    sentence: () => "You are signed in here as somebody else than the person who started this. Nothing was connected.",
    advice: "Sign in as the person who started it, and open the link again.",
    next: "connections",
    hidesLink: true,
  },
  wrong_browser: {
    status: 403,
    tone: "bad",
    heading: () => "This was started in another browser",
    sentence: () => "To keep others from finishing what you began, it has to end in the browser where it began. Nothing was connected.",
    advice: "Open the link again in the browser where you want to finish.",
    next: "connections",
    hidesLink: true,
  },
  unknown_state: {
    status: 400,
    tone: "warn",
    heading: () => "We cannot place this answer",
    sentence: () => "It does not belong to anything that is waiting here; most often it is simply too old. Nothing was changed.",
    advice: "Start again from your connections page, or ask your assistant for a new link.",
    next: "connections",
    hidesLink: true,
  },
  wrong_identity: {
    status: 409,
    tone: "warn",
    heading: (title) => `That is another ${title} account`,
    sentence: () => "A different account is connected in this place, and it was left as it is. What you granted just now was given back.",
    advice: "Use the same account as before; or disconnect it first; or add this one as another account, with its own label.",
    next: "connections",
  },
  not_stored: {
    status: 503,
    tone: "bad",
    heading: (title) => `${title} could not be connected`,
    sentence: () => "You gave permission, but we could not keep it safely, so it was given back. Nothing was connected.",
    advice: "This is not your doing. Try again in a few minutes.",
    next: "retry",
  },
  not_verified: {
    status: 409,
    tone: "warn",
    heading: (title) => `${title} was not connected`,
    sentence: () => "The app that you came from did not confirm that it was you. What you granted just now was given back.",
    advice: "Go back to the app, sign in there, and connect from there again.",
    next: "connections",
  },
  disconnected: {
    status: 409,
    tone: "warn",
    heading: (title) => `${title} was disconnected meanwhile`,
    sentence: () => "Somebody took this account away while you were connecting it, and that counts. What you granted just now was given back.",
    advice: "To connect it all the same, start again.",
    next: "retry",
  },
  provider_error: {
    status: 502,
    tone: "bad",
    heading: (title) => `${title} answered with an error`,
    sentence: (title) => `${title} did not finish the sign-in. Nothing was connected.`,
    advice: "Try again. If it happens twice, tell the people who run this installation.",
    next: "retry",
  },
  provider_unavailable: {
    status: 503,
    tone: "warn",
    heading: (title) => `${title} cannot be reached now`,
    sentence: () => "No usable answer came in time. Nothing was changed.",
    advice: "Try again in a few minutes.",
    next: "retry",
  },
  client_rejected: {
    status: 502,
    tone: "bad",
    heading: (title) => `${title} does not accept this installation`,
    sentence: () => "The way it is registered there is wrong, so nobody can connect at the moment. Nothing was changed.",
    advice: "There is nothing for you to do: the people who run this installation have to mend it.",
    next: "none",
  },
  key_refused: {
    status: 422,
    tone: "warn",
    heading: (title) => `${title} did not accept this key`,
    sentence: () => "It was tried once and refused, and was not kept.",
    advice: "Check that you copied the whole key and that it is still valid.",
    next: "retry",
  },
  key_malformed: {
    status: 422,
    tone: "warn",
    heading: () => "This does not look like a key",
    sentence: () => "It was not sent anywhere and was not kept.",
    advice: "Copy the key again, without anything around it.",
    next: "retry",
  },
  connection_disabled: {
    status: 403,
    tone: "warn",
    heading: (title) => `${title} is switched off here`,
    sentence: () => "The people who run this installation have switched this connection off. Nothing was changed.",
    advice: null,
    next: "none",
  },
};
