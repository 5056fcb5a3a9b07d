// The main job over real HTTP, on both databases: asked, connected in a browser, answered; and each way it can end otherwise.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { authorizeAs, type PersonAnswers } from "../support/awkwardPerson.js";
import type { Browser, Page } from "../support/browser.js";
import { callTool, linkOf, outcomeOf } from "../support/mcpCall.js";
import { type Outband, type Person, startOutband } from "../support/outband.js";

const KINDS = ["embedded", ...(process.env.TEST_DATABASE_URL ? (["postgresql"] as const) : [])] as const;

/** From the link to the end of the callback, as the person does it. */
async function connect(link: string, browser: Browser, answers: PersonAnswers = {}): Promise<Page> {
  const page = await browser.get(link);
  assert.equal(page.status, 200, page.text);
  const started = await browser.post(link, {}, { from: page });
  assert.equal(started.status, 303, started.text);
  const back = await authorizeAs(started.location ?? "", answers);
  return browser.get(back.href);
}

for (const kind of KINDS) {
  describe(`connecting (${kind})`, () => {
    test("a tool that needs Gmail asks once, the person connects, the waiting retry answers, and the next call needs nobody", async () => {
      const outband = await startOutband({ kind });
      const alice = await outband.person("alice");
      const asked = await callTool(outband.url, alice.token, "summarize_inbox");
      assert.ok(asked.body.result, JSON.stringify([asked.status, asked.body, outband.logs.slice(-4)]));
      assert.equal(asked.body.result.resultType, "input_required", JSON.stringify(asked.body));
      assert.equal(linkOf(asked).startsWith(`${outband.url}/connect/`), true);
      const waiting = callTool(outband.url, alice.token, "summarize_inbox", {}, retryOf(asked, "accept"));
      const browser = await alice.signIn();
      const done = await connect(linkOf(asked), browser);
      assert.equal(done.status, 200, done.text);
      assert.match(done.text, /mara\.lindqvist@harbourlight\.example/);
      const answered = await waiting;
      assert.equal(answered.body.result.resultType, "complete", JSON.stringify(answered.body));
      assert.notEqual(answered.body.result.isError, true, JSON.stringify(answered.body));
      const again = await callTool(outband.url, alice.token, "summarize_inbox");
      assert.equal(again.body.result.resultType, "complete");
      assert.equal(outband.provider.count("POST /google/token"), 1);
      await outband.close();
    });
  });
}

export function retryOf(asked: { body: { result: { requestState: string } } }, action: string, key = "connect_gmail") {
  return { retry: { inputResponses: { [key]: { action } }, requestState: asked.body.result.requestState } };
}

void ({} as Outband | Person);
void outcomeOf;
