// Slack's channels: listed page by page past empty ones, found by id or name. Must never happen: a search that stops at the
// first page; a listing without end.
import { CallEnded, type ToolContext } from "../connector.js";
import { idAt, listAt, numberAt, pick, textAt } from "../json.js";
import { cleanLine } from "../untrusted.js";
import { slackCall } from "./api.js";
import { CHANNELS_READ, GROUPS_READ } from "./scopes.js";

export interface Channel {
  id: string;
  name: string;
  isPrivate: boolean;
  isMember: boolean;
  isGeneral: boolean;
  /** Shared with another workspace or organization. */
  isExternal: boolean;
  isArchived: boolean;
  members: number | null;
  topic: string;
  purpose: string;
}

/** The most that Slack gives; a page may hold fewer, or none, and still be followed by others. */
export const PAGE_SIZE_MAX = 1_000;
const PAGE_BYTES_MAX = 8 * 1024 * 1024;
/** 10,000 channels, about 10 s. */
export const PAGES_MAX = 10;
const NAME_CHARS_MAX = 80;

export function isChannelId(value: string): boolean {
  return /^[CG][A-Z0-9]{2,30}$/.test(value);
}

export async function channelPage(
  context: ToolContext,
  options: { limit: number; cursor?: string | undefined },
): Promise<{ channels: Channel[]; next: string | null }> {
  const body = await slackCall(context, {
    method: "conversations.list",
    query: { types: readableTypes(context), exclude_archived: true, limit: options.limit, cursor: options.cursor },
    scopes: [CHANNELS_READ],
    bytesMax: PAGE_BYTES_MAX,
  });
  const channels = listAt(body, "channels").flatMap((one) => readChannel(one) ?? []);
  return { channels: channels.filter((channel) => !channel.isArchived), next: textAt(body, "response_metadata.next_cursor") || null };
}

/** Follows pages until `enough`, the end, or the cap. `cut`: there are more pages. */
export async function followPages(
  context: ToolContext,
  options: { limit: number; cursor?: string | undefined; pagesMax?: number; enough: (found: readonly Channel[]) => boolean },
): Promise<{ channels: Channel[]; next: string | null; cut: boolean }> {
  const channels: Channel[] = [];
  let next: string | null = options.cursor ?? null;
  for (let page = 0; page < (options.pagesMax ?? PAGES_MAX); page += 1) {
    const read = await channelPage(context, { limit: options.limit, cursor: next ?? undefined });
    channels.push(...read.channels);
    // A cursor that does not move would be followed for ever.
    const stuck = read.next !== null && read.next === next;
    next = stuck ? null : read.next;
    if (next === null || options.enough(channels)) return { channels, next, cut: next !== null };
  }
  return { channels, next, cut: true };
}

/** Private channels only with the scope for them: asking without it fails the whole call. */
function readableTypes(context: ToolContext): string {
  return context.account.scopes.includes(GROUPS_READ) ? "public_channel,private_channel" : "public_channel";
}

/** By id (`C0123ABC`) or by name, with or without `#`. */
export async function findChannel(context: ToolContext, wanted: string): Promise<Channel> {
  const text = wanted.trim();
  if (isChannelId(text)) return channelById(context, text);
  const name = text.replace(/^#/, "").toLowerCase();
  const isIt = (channel: Channel) => channel.name.toLowerCase() === name;
  const { channels, cut } = await followPages(context, { limit: PAGE_SIZE_MAX, enough: (found) => found.some(isIt) });
  const matches = channels.filter(isIt);
  const found = matches.find((channel) => channel.isMember) ?? matches[0];
  if (found) return found;
  const where = cut
    ? ` It is not among the first ${channels.length} channels; give its id instead (C…).`
    : " slack_list_channels lists those that can be used.";
  throw new CallEnded("invalid_arguments", "channel_not_found", `There is no channel of that name here.${where}`);
}

async function channelById(context: ToolContext, id: string): Promise<Channel> {
  const body = await slackCall(context, {
    method: "conversations.info",
    query: { channel: id, include_num_members: true },
    scopes: [CHANNELS_READ],
  });
  const channel = readChannel(pick(body, "channel"));
  if (!channel || channel.id !== id) throw new CallEnded("invalid_arguments", "channel_not_found", "Slack has no channel of that id.");
  return channel;
}

function readChannel(value: unknown): Channel | null {
  const id = idAt(value, "id");
  if (id === undefined) return null;
  const is = (flag: string) => pick(value, flag) === true;
  const members = numberAt(value, "num_members");
  return {
    id: cleanLine(id, 40),
    name: cleanLine(textAt(value, "name") ?? "", NAME_CHARS_MAX),
    isPrivate: is("is_private"),
    isMember: is("is_member"),
    isGeneral: is("is_general"),
    isExternal: is("is_ext_shared") || is("is_shared") || is("is_org_shared") || is("is_pending_ext_shared"),
    isArchived: is("is_archived"),
    members: members !== undefined && Number.isSafeInteger(members) ? members : null,
    topic: cleanLine(textAt(value, "topic.value") ?? "", 200),
    purpose: cleanLine(textAt(value, "purpose.value") ?? "", 200),
  };
}
