// The process may end between any two steps: links, states, waits and grants live in the database.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { consent, finish, KINDS, retryOf } from "../support/journey.js";
import { callTool, linkOf } from "../support/mcpCall.js";
import { startOutband } from "../support/outband.js";

for (const kind of KINDS) {
  describe(`restarts (${kind})`, () => {
    test("between link and page, between page and callback, and between callback and retry: the journey ends well, with one exchange", async () => {
      const outband = await startOutband({ kind });
      const person = await outband.person("patient");
      const asked = await callTool(outband.url, person.token, "summarize_inbox");
      await outband.restart();
      const browser = await person.signIn();
      const callback = await consent(linkOf(asked), browser);
      await outband.restart();
      const page = await browser.get(callback);
      assert.equal(page.status, 200, page.text);
      await outband.restart();
      const answer = await callTool(outband.url, person.token, "summarize_inbox", {}, retryOf(asked, "accept"));
      assert.equal(answer.body.result.resultType, "complete", JSON.stringify(answer.body));
      assert.notEqual(answer.body.result.isError, true, JSON.stringify(answer.body));
      assert.equal(outband.provider.count("POST /google/token"), 1);
      await outband.close();
    });

    test("told to stop while a call waits for a person: the call gets its state back at once and goes on at the next start", async () => {
      const outband = await startOutband({ kind });
      const person = await outband.person("interrupted");
      const asked = await callTool(outband.url, person.token, "summarize_inbox");
      const waiting = callTool(outband.url, person.token, "summarize_inbox", {}, retryOf(asked, "accept"));
      // The wait has begun once the answer is recorded.
      while ((await outband.api("GET", `/events?type=elicitation.answered`)).body.data.length === 0) await callTool(outband.url, person.token, "list_my_connections");
      const stoppedAt = Date.now();
      const restarted = outband.restart();
      const leg = await waiting;
      assert.ok(Date.now() - stoppedAt < 8_000, `${Date.now() - stoppedAt} ms`);
      assert.deepEqual([leg.body.result.resultType, leg.body.result.inputRequests ?? {}], ["input_required", {}], JSON.stringify(leg.body));
      await restarted;
      const browser = await person.signIn();
      const goOn = finish(callTool(outband.url, person.token, "summarize_inbox", {}, { retry: { requestState: leg.body.result.requestState } }), (options) => callTool(outband.url, person.token, "summarize_inbox", {}, options));
      const page = await browser.get(await consent(linkOf(asked), browser));
      assert.equal(page.status, 200, page.text);
      const { answer } = await goOn;
      assert.notEqual(answer.body.result.isError, true, JSON.stringify(answer.body));
      await outband.close();
    });
  });
}
