// slack_post_message: posts once. A lost answer is looked up by the mark that each post carries, never answered by a second
// post. Must never happen: a message posted twice; a post to a general or shared channel that the person did not confirm.
import { z } from "zod";
import { CallEnded, defineTool, ProviderFailure, type ToolContext } from "../connector.js";
import { listAt, textAt } from "../json.js";
import { slackCall } from "./api.js";
import { type Channel, findChannel } from "./channels.js";
import { confirmChannel, pickChannel } from "./form.js";
import { CHANNELS_HISTORY, CHANNELS_READ, CHAT_WRITE } from "./scopes.js";
import { escapeText, TEXT_CHARS_MAX } from "./text.js";

const EVENT_TYPE = "outband_message";
const LOOK_UP_PAUSES_MS = [0, 1_500];
/** Clocks differ a little; the mark tells our message from others. */
const LOOK_BACK_S = 120;
const LOOKED_THROUGH_MAX = 100;

export const postMessage = defineTool({
  name: "slack_post_message",
  title: "Post a Slack message",
  description:
    "Posts a message in the person's own name to a Slack channel, at once. Without `channel` the person is asked to pick one; " +
    "for a channel that everybody or people outside can read, the person is asked to confirm. " +
    "Slack's *bold*, _italic_ and `code` work in `text`; mentions do not. If the outcome is outcome_unknown, look into the channel before anything else; do not post again.",
  input: z.strictObject({
    channel: z
      .string()
      .min(1)
      .max(100)
      .optional()
      .describe("Channel id (C0123ABC) or name (general). Leave it out to let the person pick."),
    text: z
      .string()
      .min(1)
      .max(TEXT_CHARS_MAX, `must be at most ${TEXT_CHARS_MAX} characters, the most that Slack takes`)
      .describe("The message, at most 40,000 characters; under 4,000 reads best."),
    thread_ts: z
      .string()
      .max(32)
      .regex(/^\d{1,12}\.\d{1,9}$/, "must be a message's ts, such as 1712345678.000100")
      .optional()
      .describe("`ts` of the message to answer in its thread."),
  }),
  output: z.strictObject({
    channel: z.string().describe("Id of the channel."),
    channel_name: z.string().describe("Untrusted: written by members."),
    ts: z.string().describe("The message's id within the channel."),
    thread_ts: z.string().nullable(),
    confirmed_by: z.enum(["answer", "look_up"]).describe("look_up: Slack's answer was lost, and the message was found in the channel."),
  }),
  scopes: [CHANNELS_READ, CHAT_WRITE],
  effect: "write",
  async run(context, args) {
    const text = escapeText(args.text);
    if (text.length > TEXT_CHARS_MAX) {
      throw new CallEnded(
        "invalid_arguments",
        "msg_too_long",
        `The text is too long for Slack once &, < and > are escaped: ${text.length} of at most ${TEXT_CHARS_MAX} characters.`,
      );
    }
    const channel = args.channel === undefined ? await pickChannel(context) : await findChannel(context, args.channel);
    if (channel.isArchived) throw new ProviderFailure("rejected", "is_archived");
    confirmChannel(context, channel);
    const posted = await post(context, channel, text, args.thread_ts);
    const how = posted.confirmed_by === "look_up" ? " Slack's answer was lost; the message was found in the channel." : "";
    return {
      text: `Posted to channel ${channel.id}${args.thread_ts === undefined ? "" : ", in the thread"}.${how}`,
      structured: {
        channel: channel.id,
        channel_name: channel.name,
        ts: posted.ts,
        thread_ts: args.thread_ts ?? null,
        confirmed_by: posted.confirmed_by,
      },
    };
  },
});

async function post(
  context: ToolContext,
  channel: Channel,
  text: string,
  threadTs: string | undefined,
): Promise<{ ts: string; confirmed_by: "answer" | "look_up" }> {
  const beganS = Math.floor(context.clock.now() / 1000);
  try {
    const body = await slackCall(context, {
      method: "chat.postMessage",
      json: {
        channel: channel.id,
        text,
        ...(threadTs === undefined ? {} : { thread_ts: threadTs }),
        // Names and @channel in the text stay letters.
        parse: "none",
        link_names: false,
        metadata: { event_type: EVENT_TYPE, event_payload: { once: context.onceToken } },
      },
      write: true,
      scopes: [CHAT_WRITE],
    });
    const ts = textAt(body, "ts");
    if (!ts) throw new ProviderFailure("outcome_unknown", "odd_answer");
    return { ts, confirmed_by: "answer" };
  } catch (thrown) {
    if (!(thrown instanceof ProviderFailure) || thrown.kind !== "outcome_unknown") throw thrown;
    const ts = await lookUp(context, channel, threadTs, beganS - LOOK_BACK_S);
    if (ts !== null) return { ts, confirmed_by: "look_up" };
    // Not found proves nothing: it may be on its way, or the grant may not read the channel.
    throw new ProviderFailure("outcome_unknown", thrown.reason, { reference: `${channel.id} ${context.onceToken}` });
  }
}

async function lookUp(context: ToolContext, channel: Channel, threadTs: string | undefined, sinceS: number): Promise<string | null> {
  for (const pauseMs of LOOK_UP_PAUSES_MS) {
    try {
      if (pauseMs > 0) await context.clock.sleep(pauseMs, context.signal);
      const body = await slackCall(context, {
        method: threadTs === undefined ? "conversations.history" : "conversations.replies",
        query: { channel: channel.id, ts: threadTs, oldest: String(sinceS), limit: LOOKED_THROUGH_MAX, include_all_metadata: true },
        scopes: [CHANNELS_HISTORY],
      });
      const mine = listAt(body, "messages").find((message) => textAt(message, "metadata.event_payload.once") === context.onceToken);
      const ts = textAt(mine, "ts");
      if (ts) return ts;
    } catch {
      // What the look-up comes to must not replace what is known: the outcome is unknown.
      if (context.signal.aborted) return null;
    }
  }
  return null;
}
