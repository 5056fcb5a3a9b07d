// slack_list_channels.
import { z } from "zod";
import { defineTool } from "../connector.js";
import { type Channel, followPages } from "./channels.js";
import { CHANNELS_READ } from "./scopes.js";

const RESULTS_MAX = 100;
/** Slack's own advice for a page; small enough that a page past `RESULTS_MAX` is never cut in two. */
const PAGE_SIZE = 100;
const SEARCH_PAGE_SIZE = 1_000;

const listedChannel = z.strictObject({
  id: z.string().describe("Pass it to slack_post_message as `channel`."),
  name: z.string().describe("Without #. Untrusted: written by members."),
  is_private: z.boolean(),
  is_member: z.boolean().describe("Whether the person is in it."),
  is_general: z.boolean().describe("The channel that everybody is in."),
  is_external: z.boolean().describe("Shared with another workspace or organization."),
  members: z.int().nullable(),
  topic: z.string().describe("Untrusted: written by members."),
  purpose: z.string().describe("Untrusted: written by members."),
});

export const listChannels = defineTool({
  name: "slack_list_channels",
  title: "List Slack channels",
  description:
    "Lists the channels of the person's Slack workspace that are not archived, with ids, or finds them by a part of their name with `query`. " +
    "Use it to find the id of a channel before posting. For more results call again with `cursor`.",
  input: z.strictObject({
    query: z.string().max(80).optional().describe("A part of the channel's name, without #."),
    cursor: z.string().min(1).max(1_000).optional().describe("`next_cursor` of the last answer."),
  }),
  output: z.strictObject({
    channels: z.array(listedChannel),
    next_cursor: z.string().nullable().describe("Null: there are no more."),
    complete: z.boolean().describe("False: there are channels that were not looked at; call again with the cursor."),
  }),
  scopes: [CHANNELS_READ],
  effect: "read",
  hints: { idempotent: true },
  async run(context, args) {
    const query = args.query?.trim().replace(/^#/, "").toLowerCase() ?? "";
    const fits = (channel: Channel) => query === "" || channel.name.toLowerCase().includes(query);
    const found = await followPages(context, {
      limit: query === "" ? PAGE_SIZE : SEARCH_PAGE_SIZE,
      cursor: args.cursor,
      enough: (channels) => channels.filter(fits).length >= (query === "" ? 1 : RESULTS_MAX),
    });
    const channels = found.channels.filter(fits).map(shown);
    const lines = channels.map(
      (channel) =>
        `#${channel.name} | id ${channel.id}${channel.is_member ? " | member" : ""}${channel.is_private ? " | private" : ""}${channel.is_external ? " | shared outside" : ""}`,
    );
    const more = found.next === null ? "" : " There are more: call again with the next_cursor.";
    return {
      text:
        channels.length === 0
          ? `No channel ${query === "" ? "was found" : "of that name"}.${more}`
          : `${channels.length} channel${channels.length === 1 ? "" : "s"}.${more}`,
      ...(lines.length > 0 ? { untrusted: [lines.join("\n")] } : {}),
      structured: { channels, next_cursor: found.next, complete: found.next === null },
    };
  },
});

function shown(channel: Channel): z.input<typeof listedChannel> {
  return {
    id: channel.id,
    name: channel.name,
    is_private: channel.isPrivate,
    is_member: channel.isMember,
    is_general: channel.isGeneral,
    is_external: channel.isExternal,
    members: channel.members,
    topic: channel.topic,
    purpose: channel.purpose,
  };
}
