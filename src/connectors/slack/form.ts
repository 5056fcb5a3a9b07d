// The two questions of slack_post_message: which channel, and "type its name" before a message goes to many or to strangers.
// Must never happen: a post past a name that does not match; a channel's name in a question uncleaned.
import { CallEnded, type FormQuestion, type ToolContext } from "../connector.js";
import { cleanLine } from "../untrusted.js";
import { type Channel, followPages, PAGE_SIZE_MAX } from "./channels.js";

const CHOICES_MAX = 50;
/** 3,000 channels: enough to find those that the person is in, in two or three seconds. */
const PAGES_MAX = 3;

/** Asks the person to pick; returns the channel that was picked. */
export async function pickChannel(context: ToolContext): Promise<Channel> {
  const { channels } = await followPages(context, {
    limit: PAGE_SIZE_MAX,
    pagesMax: PAGES_MAX,
    enough: (found) => found.filter((channel) => channel.isMember).length >= CHOICES_MAX,
  });
  const offered = [...channels].sort(byUse).slice(0, CHOICES_MAX);
  if (offered.length === 0)
    throw new CallEnded("invalid_arguments", "no_channels", "The person can see no channel in this workspace. Name one by its id.");
  const answer = context.ask({
    key: "pick_channel",
    message: "Which Slack channel should the message go to?",
    fields: [
      {
        name: "channel",
        title: "Channel",
        choices: offered.map((channel) => ({ value: channel.id, title: choiceTitle(channel) })),
        required: true,
      },
    ],
    otherwise: {
      outcome: "invalid_arguments",
      text: "No channel was named. Call again with `channel` (an id or a name); slack_list_channels lists them.",
    },
  });
  const picked =
    offered.find((channel) => channel.id === answer["channel"]) ?? channels.find((channel) => channel.id === answer["channel"]);
  if (!picked) throw new CallEnded("cancelled", "channel_gone", "The channel that was picked is not there any more. Nothing was sent.");
  return picked;
}

/** The person's own channels first, then the larger ones. */
function byUse(a: Channel, b: Channel): number {
  return Number(b.isMember) - Number(a.isMember) || (b.members ?? 0) - (a.members ?? 0) || (a.name < b.name ? -1 : 1);
}

function choiceTitle(channel: Channel): string {
  const facts = [
    channel.isPrivate ? "private" : null,
    channel.isExternal ? "shared outside" : null,
    channel.isMember ? null : "you are not in it",
    channel.members === null ? null : `${channel.members} member${channel.members === 1 ? "" : "s"}`,
  ].filter((fact) => fact !== null);
  return cleanLine(`#${channel.name}${facts.length > 0 ? ` (${facts.join(", ")})` : ""}`, 120);
}

/** Into a general or shared channel, or wherever the connection's settings want it, the person types the channel's name. */
export function confirmChannel(context: ToolContext, channel: Channel): void {
  const why = reasonToConfirm(context, channel);
  if (why === null) return;
  const answer = context.ask(confirmQuestion(channel, why));
  if (sameName(answer["channel_name"] ?? "", channel.name)) return;
  throw new CallEnded("cancelled", "confirmation_mismatch", "The typed name is not the channel's name. Nothing was sent.");
}

function reasonToConfirm(context: ToolContext, channel: Channel): string | null {
  if (channel.isExternal) return "is shared with people outside this workspace";
  if (channel.isGeneral) return "reaches everybody in this workspace";
  const setting = context.account.settings["confirm_sends"];
  if (setting === undefined || setting === "off") return null;
  if (setting === "new_recipients") return channel.isMember ? null : "is one that you are not in";
  return "is about to get a message in your name";
}

function confirmQuestion(channel: Channel, why: string): FormQuestion {
  return {
    key: "confirm_channel",
    message: `The channel "#${channel.name}" ${why}. To post there, type the channel's name.`,
    fields: [{ name: "channel_name", title: "Channel name", description: "Type it as shown above.", required: true }],
    otherwise: {
      outcome: "not_allowed",
      text: "Posting to this channel needs the person's confirmation, and this client cannot show the form for it. Nothing was sent. The person can post there in Slack.",
    },
  };
}

function sameName(typed: string, name: string): boolean {
  const plain = (value: string) => value.normalize("NFC").trim().replace(/^#/, "").toLowerCase();
  return plain(typed) !== "" && plain(typed) === plain(name);
}
