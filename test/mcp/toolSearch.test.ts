// What a query finds, and in which order: by the words that an agent would use, ready tools first.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Findable, searchTools } from "../../src/mcp/meta/toolSearch.js";

const tool = (name: string, title: string, description: string, readiness: Findable["readiness"] = "ready", connectionTitle = name.split("_")[0] ?? ""): Findable => ({ name, title, description, readiness, connectionTitle });
const TOOLS = [
  tool("summarize_inbox", "Summarize the inbox", "Reads the newest messages and gives a digest of them.", "ready", "Gmail"),
  tool("gmail_list_messages", "List messages", "Lists mail, newest first, by a search of Gmail's own."),
  tool("gmail_send_message", "Send a mail", "Sends one mail, or a reply to one."),
  tool("slack_list_channels", "List channels", "Lists the channels that the person is in.", "needs_connection"),
  tool("slack_post_message", "Post a message", "Posts a text into a channel, or as a reply in its thread.", "needs_connection"),
];
const found = (query: string, tools = TOOLS): string[] => searchTools(tools, query).map(({ name }) => name);

test("words of a task find the tool that does it", () => {
  for (const [query, first] of [
    ["send an email", "gmail_send_message"],
    ["what is in my inbox?", "summarize_inbox"],
    ["give me a digest of the newest messages", "summarize_inbox"],
    ["list mails", "gmail_list_messages"],
    ["GMAIL_SEND_MESSAGE", "gmail_send_message"],
    ["channels", "slack_list_channels"],
    ["sumarize", "summarize_inbox"],
    ["summar", "summarize_inbox"],
  ] as const) {
    assert.equal(found(query)[0], first, query);
  }
});

test("ready ones come first, whatever fits better", () => {
  const names = found("post a message to a channel");
  assert.ok(names.includes("slack_post_message"));
  const readiness = names.map((name) => TOOLS.find((one) => one.name === name)?.readiness);
  assert.deepEqual(readiness, [...readiness].sort((one, other) => Number(other === "ready") - Number(one === "ready")));
  const connected = TOOLS.map((one) => ({ ...one, readiness: "ready" as const }));
  assert.equal(found("post a message to a channel", connected)[0], "slack_post_message");
});

test("nothing fits, nothing is asked, and only words that say nothing", () => {
  assert.deepEqual(found("weather tomorrow"), []);
  for (const query of ["", "   ", "the of and", "?!"]) assert.deepEqual(found(query), TOOLS.map(({ name }) => name), query);
});

test("the same query gives the same order, however the tools are told apart", () => {
  const twins = ["b", "a", "c"].map((name) => tool(name, "Read", "Reads a thing."));
  for (let n = 0; n < 5; n += 1) assert.deepEqual(found("read", twins), ["b", "a", "c"]);
});

test("a query of any text is taken: other scripts, patterns, and long ones", () => {
  const tools = [...TOOLS, tool("kalender", "Termine anzeigen", "Zeigt die nächsten Termine."), tool("rili", "日程を表示", "予定を表示します。")];
  assert.equal(found("nächste Termine", tools)[0], "kalender");
  assert.equal(found("日程を表示", tools)[0], "rili");
  for (const query of [".*", "\\", "a".repeat(500), "__proto__ constructor", "\u0000"]) assert.ok(Array.isArray(found(query, tools)));
});
