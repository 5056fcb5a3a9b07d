// The Slack tools against a workspace that misbehaves: every error code, every page, every question, posted once (F11, F13).
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type ApiRequest, CallEnded, NeedsAnswer, ProviderFailure, type Tool } from "../../../src/connectors/connector.js";
import { listAt, pick } from "../../../src/connectors/json.js";
import { slack } from "../../../src/connectors/slack/connector.js";
import { readsAuthFailure, SLACK_ERRORS } from "../../../src/connectors/slack/errors.js";
import { escapeText } from "../../../src/connectors/slack/text.js";
import { harness, type Respond, runTool } from "../support.js";

function tool(name: string): Tool {
  return slack.tools.find((one) => one.name === name) ?? assert.fail(name);
}
const post = tool("slack_post_message");
const list = tool("slack_list_channels");

type Chan = Record<string, unknown>;
const chan = (id: string, name: string, more: Chan = {}): Chan => ({
  id,
  name,
  is_member: true,
  num_members: 5,
  topic: { value: "" },
  purpose: { value: "" },
  ...more,
});

const CHANNELS = [
  chan("C1GEN", "general", { is_general: true }),
  chan("C2DEV", "dev"),
  chan("C3EXT", "partners", { is_ext_shared: true }),
  chan("C4OUT", "lobby", { is_member: false, num_members: 90 }),
];

/** A workspace of one page; `odd` may take a request over. */
function workspace(
  channels: Chan[] = CHANNELS,
  odd: (request: ApiRequest, count: number) => ReturnType<Respond> | null = () => null,
): Respond {
  return (request, count) => {
    const taken = odd(request, count);
    if (taken) return taken;
    switch (request.path) {
      case "/conversations.list":
        return { json: { ok: true, channels, response_metadata: { next_cursor: "" } } };
      case "/conversations.info": {
        const found = channels.find((one) => one["id"] === request.query?.["channel"]);
        return { json: found ? { ok: true, channel: found } : { ok: false, error: "channel_not_found" } };
      }
      case "/chat.postMessage":
        return { json: { ok: true, channel: (request.json as Chan)["channel"], ts: "1712345678.000100" } };
      default:
        return { json: { ok: false, error: "unknown_method" } };
    }
  };
}

const refusal = (error: string, more: Chan = {}): Respond =>
  workspace(CHANNELS, (request) => (request.path === "/chat.postMessage" ? { json: { ok: false, error, ...more } } : null));

test("a message goes out once, as a write, with its mark, by the id behind the name", async () => {
  for (const channel of ["dev", "#dev", "DEV", "C2DEV"]) {
    const h = harness(workspace(), { onceToken: "once-9" });
    const result = await runTool(post, h.context, { channel, text: "hello" });
    const sent = h.sent("/chat.postMessage");
    assert.equal(sent.length, 1);
    assert.deepEqual([sent[0]?.method, sent[0]?.write], ["POST", true]);
    assert.deepEqual(sent[0]?.json, {
      channel: "C2DEV",
      text: "hello",
      parse: "none",
      link_names: false,
      metadata: { event_type: "outband_message", event_payload: { once: "once-9" } },
    });
    assert.deepEqual(result.structured, {
      channel: "C2DEV",
      channel_name: "dev",
      ts: "1712345678.000100",
      thread_ts: null,
      confirmed_by: "answer",
    });
    assert.equal(h.asked.length, 0);
  }
});

test("F13: & < > are escaped, so that no mention and no <!channel> survives", async () => {
  const h = harness(workspace());
  await runTool(post, h.context, { channel: "dev", text: "a < b && <!channel> <@U1> <https://x.test|y>" });
  assert.equal(
    pick(h.sent("/chat.postMessage")[0]?.json, "text"),
    "a &lt; b &amp;&amp; &lt;!channel&gt; &lt;@U1&gt; &lt;https://x.test|y&gt;",
  );
  fc.assert(
    fc.property(
      fc.string({ unit: "binary" }),
      (text) =>
        !/[<>]/.test(escapeText(text)) && escapeText(text).replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&") === text,
    ),
  );
});

test("F13: 45,000 characters are refused by validation with the limit named; so are 40,000 that grow by escaping", async () => {
  const h = harness(workspace());
  await assert.rejects(post.run(h.context, { channel: "dev", text: "x".repeat(45_000) }), /at most 40000 characters/);
  await assert.rejects(
    runTool(post, h.context, { channel: "dev", text: "<".repeat(39_000) }),
    (thrown) => thrown instanceof CallEnded && thrown.outcome === "invalid_arguments" && thrown.message.includes("156000 of at most 40000"),
  );
  for (const bad of [{ text: "" }, { text: "x", channel: "" }, { text: "x", thread_ts: "now" }, { text: "x", as_user: true }])
    await assert.rejects(post.run(h.context, bad), { name: "ZodError" });
  assert.equal(h.sent("/chat.postMessage").length, 0);
});

test("every error code of the table ends the call by its row, after one post, whatever the HTTP status", async () => {
  for (const [code, row] of Object.entries(SLACK_ERRORS)) {
    for (const status of [200, 400]) {
      const h = harness(
        workspace(CHANNELS, (request) =>
          request.path === "/chat.postMessage"
            ? { status, json: { ok: false, error: code } }
            : request.path === "/conversations.history"
              ? { json: { ok: true, messages: [] } }
              : null,
        ),
      );
      const thrown = await runTool(post, h.context, { channel: "C2DEV", text: "x" }).catch((error: unknown) => error);
      if (row.kind === "unavailable" && code !== "team_added_to_org")
        assert.equal((thrown as ProviderFailure).kind, "outcome_unknown", `${code}: after a write nobody knows`);
      else if (row.text !== undefined) assert.deepEqual([thrown instanceof CallEnded, (thrown as CallEnded).reason], [true, code]);
      else assert.deepEqual([(thrown as ProviderFailure).kind, (thrown as ProviderFailure).reason], [row.kind, code]);
      assert.equal(h.sent("/chat.postMessage").length, 1, code);
    }
  }
});

test("F13: not_in_channel and is_archived are refusals by their code; an unknown code and a text in its place too", async () => {
  for (const [error, reason] of [
    ["not_in_channel", "not_in_channel"],
    ["is_archived", "is_archived"],
    ["brand_new", "brand_new"],
    ["Some canary text!", "unknown_error"],
  ] as const) {
    await assert.rejects(runTool(post, harness(refusal(error)).context, { channel: "dev", text: "x" }), {
      name: "ProviderFailure",
      kind: "rejected",
      reason,
    });
  }
  const h = harness(workspace([chan("C9OLD", "old", { is_archived: true })]));
  await assert.rejects(runTool(post, h.context, { channel: "C9OLD", text: "x" }), { kind: "rejected", reason: "is_archived" });
  assert.equal(h.sent("/chat.postMessage").length, 0);
});

test("missing_scope names what Slack says is needed, else the call's own scopes", async () => {
  await assert.rejects(
    runTool(post, harness(refusal("missing_scope", { needed: "chat:write,chat:write.customize", provided: "x" })).context, {
      channel: "dev",
      text: "x",
    }),
    {
      kind: "scope_missing",
      scopes: ["chat:write", "chat:write.customize"],
    },
  );
  await assert.rejects(runTool(post, harness(refusal("missing_scope", { needed: "<script>" })).context, { channel: "dev", text: "x" }), {
    kind: "scope_missing",
    scopes: ["chat:write"],
  });
});

test("F13: ok:false ratelimited is told with its Retry-After, after one request", async () => {
  const h = harness(
    workspace(CHANNELS, (request) =>
      request.path === "/chat.postMessage" ? { headers: { "retry-after": "600" }, json: { ok: false, error: "ratelimited" } } : null,
    ),
  );
  await assert.rejects(runTool(post, h.context, { channel: "dev", text: "x" }), {
    kind: "rate_limited",
    reason: "ratelimited",
    retryAfterS: 600,
  });
  assert.deepEqual([h.sent("/chat.postMessage").length, h.clock.slept], [1, []]);
});

test("F13: a refused token with status 200 is seen: run out or invalid asks for a refresh, taken away is taken away", () => {
  const read = (error: string) => readsAuthFailure(200, { ok: false, error });
  assert.deepEqual(["token_expired", "invalid_auth", "not_authed"].map(read), ["token_rejected", "token_rejected", "token_rejected"]);
  assert.deepEqual(["token_revoked", "account_inactive"].map(read), ["revoked_at_provider", "revoked_at_provider"]);
  assert.deepEqual(
    [read("not_in_channel"), readsAuthFailure(200, { ok: true, error: "token_revoked" }), readsAuthFailure(200, null)],
    [null, null, null],
  );
});

test("an answer that is not Slack's is unavailable on a read and unknown after a post", async () => {
  for (const json of [null, [], {}, { ok: "yes" }]) {
    await assert.rejects(runTool(list, harness(() => ({ json })).context, {}), { kind: "unavailable", reason: "not_slack_json" });
    const h = harness(
      workspace(CHANNELS, (request) =>
        request.path === "/chat.postMessage"
          ? { json }
          : request.path === "/conversations.history"
            ? { json: { ok: true, messages: [] } }
            : null,
      ),
    );
    await assert.rejects(runTool(post, h.context, { channel: "dev", text: "x" }), { kind: "outcome_unknown" });
    assert.equal(h.sent("/chat.postMessage").length, 1);
  }
});

function lost(messages: unknown[]): Respond {
  return workspace(CHANNELS, (request) => {
    if (request.path === "/chat.postMessage") throw new ProviderFailure("outcome_unknown", "timeout");
    return /\/conversations\.(history|replies)$/.test(request.path) ? { json: { ok: true, messages } } : null;
  });
}

test("F11: a post whose answer is lost is looked up by its mark and found: a success, posted once", async () => {
  const mine = { ts: "1712.5", metadata: { event_type: "outband_message", event_payload: { once: "once-9" } } };
  const other = { ts: "1713.0", metadata: { event_type: "outband_message", event_payload: { once: "another" } } };
  const h = harness(lost([other, { ts: "1" }, mine]), { onceToken: "once-9" });
  const result = await runTool(post, h.context, { channel: "dev", text: "x" });
  assert.deepEqual([result.structured["ts"], result.structured["confirmed_by"]], ["1712.5", "look_up"]);
  assert.equal(h.sent("/chat.postMessage").length, 1);
  assert.deepEqual(
    [h.sent("/conversations.history")[0]?.query?.["include_all_metadata"], h.sent("/conversations.history")[0]?.query?.["channel"]],
    [true, "C2DEV"],
  );
  const thread = harness(lost([mine]), { onceToken: "once-9" });
  await runTool(post, thread.context, { channel: "dev", text: "x", thread_ts: "1711.1" });
  assert.equal(thread.sent("/conversations.replies")[0]?.query?.["ts"], "1711.1");
});

test("F11: not found, or history not readable, stays outcome_unknown with a reference; never a second post", async () => {
  for (const respond of [
    lost([]),
    workspace(CHANNELS, (request) => {
      if (request.path === "/chat.postMessage") throw new ProviderFailure("outcome_unknown", "timeout");
      return null;
    }),
  ]) {
    const h = harness(respond, { onceToken: "once-9" });
    await assert.rejects(runTool(post, h.context, { channel: "dev", text: "x" }), {
      kind: "outcome_unknown",
      reason: "timeout",
      reference: "C2DEV once-9",
    });
    assert.equal(h.sent("/chat.postMessage").length, 1);
  }
});

test("F13: a channel on a later page, behind an empty one, is found; the search has an end", async () => {
  const pages = workspace([], (request) => {
    if (request.path !== "/conversations.list") return null;
    const cursor = request.query?.["cursor"];
    const page =
      cursor === undefined
        ? { channels: Array.from({ length: 1_000 }, (_one, index) => chan(`C${index}X`, `c${index}`)), next: "p2" }
        : cursor === "p2"
          ? { channels: [], next: "p3" }
          : { channels: [chan("C77Z", "far")], next: "" };
    return { json: { ok: true, channels: page.channels, response_metadata: { next_cursor: page.next } } };
  });
  const h = harness(pages);
  await runTool(post, h.context, { channel: "far", text: "x" });
  assert.deepEqual([h.sent("/conversations.list").length, pick(h.sent("/chat.postMessage")[0]?.json, "channel")], [3, "C77Z"]);

  const endless = harness(
    workspace([], (request, count) =>
      request.path === "/conversations.list" ? { json: { ok: true, channels: [], response_metadata: { next_cursor: `p${count}` } } } : null,
    ),
  );
  await assert.rejects(
    runTool(post, endless.context, { channel: "nowhere", text: "x" }),
    (thrown) => thrown instanceof CallEnded && thrown.reason === "channel_not_found" && thrown.message.includes("give its id"),
  );
  assert.equal(endless.requests.length, 10);
  const stuck = harness(
    workspace([], (request) =>
      request.path === "/conversations.list" ? { json: { ok: true, channels: [], response_metadata: { next_cursor: "same" } } } : null,
    ),
  );
  await assert.rejects(runTool(post, stuck.context, { channel: "nowhere", text: "x" }), {
    name: "CallEnded",
    outcome: "invalid_arguments",
  });
  assert.equal(stuck.requests.length, 2, "a cursor that does not move is not followed");
});

test("without a channel the person picks: own channels first, then the larger, at most 50, titles cleaned", async () => {
  const many = Array.from({ length: 120 }, (_one, index) =>
    chan(`C${index}X`, `c${index}`, { is_member: index >= 100, num_members: index }),
  );
  const h = harness(workspace([chan("C0EVIL", "x\u202ey\n", { is_private: true, is_member: false, num_members: 999 }), ...many]));
  await assert.rejects(runTool(post, h.context, { text: "x" }), NeedsAnswer);
  const question = h.asked[0];
  assert.deepEqual([question?.key, question?.otherwise.outcome], ["pick_channel", "invalid_arguments"]);
  const choices = question?.fields[0]?.choices ?? [];
  assert.equal(choices.length, 50);
  assert.deepEqual(choices.slice(0, 2), [
    { value: "C119X", title: "#c119 (119 members)" },
    { value: "C118X", title: "#c118 (118 members)" },
  ]);
  assert.deepEqual(choices[20], { value: "C0EVIL", title: "#xy (private, you are not in it, 999 members)" });
  assert.doesNotMatch(JSON.stringify(question), /https?:|password|token/i);
  assert.equal(h.sent("/chat.postMessage").length, 0);
});

test("connect, pick, confirm, done: the picked channel is posted to; a general one asks for its name first", async () => {
  const plain = harness(workspace(), { answers: { pick_channel: { channel: "C2DEV" } } });
  await runTool(post, plain.context, { text: "x" });
  assert.equal(pick(plain.sent("/chat.postMessage")[0]?.json, "channel"), "C2DEV");

  const general = harness(workspace(), { answers: { pick_channel: { channel: "C1GEN" } } });
  await assert.rejects(
    runTool(post, general.context, { text: "x" }),
    (thrown) => thrown instanceof NeedsAnswer && thrown.question.key === "confirm_channel",
  );
  assert.equal(general.sent("/chat.postMessage").length, 0);
  const done = harness(workspace(), { answers: { pick_channel: { channel: "C1GEN" }, confirm_channel: { channel_name: " #General " } } });
  await runTool(post, done.context, { text: "x" });
  assert.equal(pick(done.sent("/chat.postMessage")[0]?.json, "channel"), "C1GEN");

  const vanished = harness(workspace(), { answers: { pick_channel: { channel: "C404" } } });
  await assert.rejects(runTool(post, vanished.context, { text: "x" }), { name: "CallEnded", outcome: "cancelled", reason: "channel_gone" });
});

test("a shared or general channel named in the call is confirmed too; a name that does not match ends as cancelled, with nothing sent", async () => {
  for (const flag of ["is_general", "is_ext_shared", "is_shared", "is_org_shared", "is_pending_ext_shared"]) {
    const channels = [chan("C5X", "wide", { [flag]: true })];
    const asked = harness(workspace(channels));
    await assert.rejects(
      runTool(post, asked.context, { channel: "C5X", text: "x" }),
      (thrown) => thrown instanceof NeedsAnswer && thrown.question.otherwise.outcome === "not_allowed",
      flag,
    );
    for (const typed of ["wid", "", "#", "narrow"]) {
      const wrong = harness(workspace(channels), { answers: { confirm_channel: { channel_name: typed } } });
      await assert.rejects(runTool(post, wrong.context, { channel: "wide", text: "x" }), {
        name: "CallEnded",
        outcome: "cancelled",
        reason: "confirmation_mismatch",
      });
      assert.equal(wrong.sent("/chat.postMessage").length, 0);
    }
  }
});

test("confirm_sends: always asks everywhere, new_recipients where the person is not a member", async () => {
  await assert.rejects(
    runTool(post, harness(workspace(), { settings: { confirm_sends: "always" } }).context, { channel: "dev", text: "x" }),
    NeedsAnswer,
  );
  const fresh = { settings: { confirm_sends: "new_recipients" } };
  await runTool(post, harness(workspace(), fresh).context, { channel: "dev", text: "x" });
  await assert.rejects(runTool(post, harness(workspace(), fresh).context, { channel: "lobby", text: "x" }), NeedsAnswer);
});

test("slack_list_channels: a page with its cursor, facts cleaned and capped, private ones only where the grant covers them", async () => {
  const h = harness(
    workspace([chan("C1A", "a", { topic: { value: `\u202e${"t".repeat(500)}` } })], (request) =>
      request.path === "/conversations.list"
        ? {
            json: {
              ok: true,
              channels: [chan("C1A", "a", { topic: { value: `\u202e${"t".repeat(500)}` } })],
              response_metadata: { next_cursor: "more" },
            },
          }
        : null,
    ),
  );
  const result = await runTool(list, h.context, {});
  assert.deepEqual(
    [h.requests[0]?.query?.["types"], h.requests[0]?.query?.["exclude_archived"], h.requests.length],
    ["public_channel", true, 1],
  );
  assert.equal(String(pick(result.structured, "channels.0.topic")).length, 200);
  assert.deepEqual([result.structured["next_cursor"], result.structured["complete"]], ["more", false]);
  assert.match(result.text, /^1 channel\. There are more/);
  const both = harness(workspace(), { scopes: ["channels:read", "groups:read"] });
  await runTool(list, both.context, {});
  assert.equal(both.requests[0]?.query?.["types"], "public_channel,private_channel");
});

test("slack_list_channels: query searches all pages and tells when it found nothing; archived ones stay out", async () => {
  const h = harness(workspace([...CHANNELS, chan("C8ARC", "dev-old", { is_archived: true })]));
  const result = await runTool(list, h.context, { query: "#DEV" });
  assert.deepEqual(
    listAt(result.structured, "channels").map((one) => pick(one, "id")),
    ["C2DEV"],
  );
  const none = await runTool(list, harness(workspace()).context, { query: "zzz" });
  assert.deepEqual([none.text, none.untrusted, none.structured["complete"]], ["No channel of that name.", undefined, true]);
});
