// conversations.*, chat.postMessage and reactions.add of the practice Slack.
import type { KeptPost } from "../state.js";
import { type SlackCall, type SlackMethod, SlackRefusal } from "./call.js";
import { limitOf, pageOf } from "./paging.js";
import { APP_ID, BOT, type Channel, CHANNELS, TEAM } from "./workspace.js";

/** Slack's limit for the text of one message. */
const TEXT_CHARS_MAX = 40_000;
const PURPOSES = { public_channel: "channels", private_channel: "groups", mpim: "mpim", im: "im" } as const;
type ChannelType = keyof typeof PURPOSES;

function familyOf(channel: Channel): "channels" | "groups" {
  return channel.isPrivate ? "groups" : "channels";
}

function isMember(channel: Channel, call: SlackCall): boolean {
  // The app is where it was never kept out of; a person is where the workspace has them.
  return call.bot ? channel.isPrivate !== true : channel.members.includes(call.user);
}

/** By id, else by name as chat.postMessage takes it. A private channel is not there for those outside. */
function channelOf(call: SlackCall): Channel {
  const asked = call.text("channel")?.replace(/^#/, "");
  const channel = CHANNELS.find((one) => one.id === asked || one.name === asked);
  if (!channel || (channel.isPrivate && !isMember(channel, call))) throw new SlackRefusal("channel_not_found");
  return channel;
}

function shownChannel(channel: Channel, call: SlackCall): Record<string, unknown> {
  return {
    id: channel.id,
    name: channel.name,
    name_normalized: channel.name,
    is_channel: channel.isPrivate !== true,
    is_group: channel.isPrivate === true,
    is_im: false,
    is_mpim: false,
    is_private: channel.isPrivate === true,
    is_archived: channel.isArchived === true,
    is_general: channel.isGeneral === true,
    is_member: isMember(channel, call),
    is_shared: channel.sharedWith !== undefined,
    is_ext_shared: channel.sharedWith !== undefined,
    is_org_shared: false,
    is_pending_ext_shared: false,
    context_team_id: TEAM.id,
    shared_team_ids: channel.sharedWith ? [TEAM.id, channel.sharedWith] : [TEAM.id],
    ...(channel.sharedWith && { connected_team_ids: [channel.sharedWith] }),
    topic: { value: channel.topic, creator: channel.members[0] ?? "", last_set: 0 },
    purpose: { value: "", creator: "", last_set: 0 },
    num_members: channel.members.length,
  };
}

function shownPost(post: KeptPost, call: SlackCall): Record<string, unknown> {
  const reactions = call.history.reactions(post.channel, post.ts);
  const replies = call.history.of(post.channel).filter((one) => one.threadTs === post.ts);
  const latest = replies.at(-1);
  return {
    type: "message",
    user: post.user,
    text: post.text,
    ts: post.ts,
    team: TEAM.id,
    ...(post.user === BOT.userId && { bot_id: BOT.botId, app_id: APP_ID }),
    ...(post.threadTs !== undefined && { thread_ts: post.threadTs }),
    ...(latest && {
      thread_ts: post.ts,
      reply_count: replies.length,
      reply_users: [...new Set(replies.map((one) => one.user))],
      latest_reply: latest.ts,
    }),
    ...(reactions.length > 0 && { reactions }),
    ...(post.metadata && call.flag("include_all_metadata") && { metadata: post.metadata }),
  };
}

function list(call: SlackCall): Record<string, unknown> {
  const types = (call.text("types") ?? "public_channel").split(",").map((type) => type.trim());
  if (types.some((type) => !Object.hasOwn(PURPOSES, type))) throw new SlackRefusal("invalid_types");
  for (const type of types) call.need(`${PURPOSES[type as ChannelType]}:read`);
  const channels = CHANNELS.filter((channel) => types.includes(channel.isPrivate ? "private_channel" : "public_channel"))
    .filter((channel) => !channel.isPrivate || isMember(channel, call))
    .filter((channel) => !(call.flag("exclude_archived") && channel.isArchived));
  const page = pageOf(channels, call);
  return { channels: page.items.map((channel) => shownChannel(channel, call)), response_metadata: { next_cursor: page.nextCursor } };
}

function readable(call: SlackCall): Channel {
  const channel = channelOf(call);
  call.need(`${familyOf(channel)}:history`);
  // A person may look into any public channel; the app only into those it is in.
  if (channel.isPrivate && !isMember(channel, call)) throw new SlackRefusal("not_in_channel");
  return channel;
}

/** The cursor of a history is the `ts` of the last message shown. */
function historyPage(posts: KeptPost[], call: SlackCall): Record<string, unknown> {
  const oldest = call.text("oldest") ?? "0";
  const latest = call.text("latest") ?? "9999999999.999999";
  const inclusive = call.flag("inclusive");
  const cursor = call.text("cursor");
  const before = cursor === null ? null : /^ts:(\d{1,12}\.\d{6})$/.exec(Buffer.from(cursor, "base64").toString())?.[1];
  if (before === undefined) throw new SlackRefusal("invalid_cursor");
  const wanted = posts
    .filter((post) => Number(post.ts) > Number(oldest) || (inclusive && post.ts === oldest))
    .filter((post) => Number(post.ts) < Number(latest) || (inclusive && post.ts === latest))
    .filter((post) => before === null || post.ts < before)
    .reverse();
  const page = wanted.slice(0, limitOf(call, 100));
  const last = page.at(-1);
  const more = wanted.length > page.length;
  return {
    messages: page.map((post) => shownPost(post, call)),
    has_more: more,
    pin_count: 0,
    ...(more && last && { response_metadata: { next_cursor: Buffer.from(`ts:${last.ts}`).toString("base64") } }),
  };
}

function replies(call: SlackCall): Record<string, unknown> {
  const channel = readable(call);
  const ts = call.text("ts");
  const posts = call.history.of(channel.id).filter((post) => post.ts === ts || post.threadTs === ts);
  if (posts.length === 0) throw new SlackRefusal("thread_not_found");
  return { messages: posts.map((post) => shownPost(post, call)), has_more: false };
}

function metadataOf(call: SlackCall): KeptPost["metadata"] {
  const value = call.object("metadata");
  if (value === undefined || value === null) return undefined;
  const { event_type, event_payload } = value as { event_type?: unknown; event_payload?: unknown };
  if (typeof event_type !== "string" || typeof event_payload !== "object" || event_payload === null)
    throw new SlackRefusal("invalid_metadata_format");
  return { event_type, event_payload };
}

function postMessage(call: SlackCall): Record<string, unknown> {
  call.need("chat:write");
  const channel = channelOf(call);
  const text = call.text("text") ?? "";
  const threadTs = call.text("thread_ts");
  const metadata = metadataOf(call);
  if (channel.isArchived) throw new SlackRefusal("is_archived");
  if (!isMember(channel, call)) throw new SlackRefusal("not_in_channel");
  if (text.trim() === "") throw new SlackRefusal("no_text");
  if (text.length > TEXT_CHARS_MAX) throw new SlackRefusal("msg_too_long");
  if (threadTs !== null && !call.history.find(channel.id, threadTs)) throw new SlackRefusal("thread_not_found");
  const post = call.history.post({
    channel: channel.id,
    user: call.user,
    text,
    ...(threadTs !== null && { threadTs }),
    ...(metadata && { metadata }),
  });
  return { channel: channel.id, ts: post.ts, message: { ...shownPost(post, call), ...(metadata && { metadata }) } };
}

function addReaction(call: SlackCall): Record<string, unknown> {
  call.need("reactions:write");
  const channel = channelOf(call);
  const name = call.text("name")?.replace(/^:|:$/g, "") ?? "";
  const ts = call.text("timestamp");
  if (ts === null) throw new SlackRefusal("no_item_specified");
  if (!call.history.find(channel.id, ts)) throw new SlackRefusal("message_not_found");
  if (!/^[a-z0-9_+'-]{1,100}$/.test(name)) throw new SlackRefusal("invalid_name");
  if (!call.history.react(channel.id, ts, name, call.user)) throw new SlackRefusal("already_reacted");
  return {};
}

export const CHANNEL_METHODS: readonly SlackMethod[] = [
  { name: "conversations.list", run: list },
  {
    name: "conversations.info",
    run(call) {
      const channel = channelOf(call);
      call.need(`${familyOf(channel)}:read`);
      return { channel: shownChannel(channel, call) };
    },
  },
  {
    name: "conversations.history",
    run: (call) =>
      historyPage(
        call.history.of(readable(call).id).filter((post) => post.threadTs === undefined),
        call,
      ),
  },
  { name: "conversations.replies", run: replies },
  { name: "chat.postMessage", writes: true, run: postMessage },
  { name: "reactions.add", writes: true, run: addReaction },
];
