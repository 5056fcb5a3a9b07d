// The shipped connectors against the practice Google and Slack, over real HTTP: consent, exchange, whose account, every tool,
// refresh, and giving the grant back.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { systemClock } from "../../src/clock.js";
import { type ApiAnswer, type ApiRequest, type Connector, NeedsAnswer, type ToolContext } from "../../src/connectors/connector.js";
import { listAt, pick } from "../../src/connectors/json.js";
import { createOAuthClient, type OAuthTarget, type TokenAnswer } from "../../src/connectors/methods/oauth.js";
import { createRegistry } from "../../src/connectors/registry.js";
import { Secret } from "../../src/crypto/secret.js";
import { createEgress, type Egress } from "../../src/net/egress.js";
import { type Sandbox, startSandbox } from "../../src/sandbox/sandbox.js";
import { authorizeAs } from "../support/awkwardPerson.js";
import { silentLog } from "../support/silentLog.js";
import { runTool } from "./support.js";

const PUBLIC_URL = "http://localhost:3999";

interface Stage {
  sandbox: Sandbox;
  egress: Egress;
  oauth: ReturnType<typeof createOAuthClient>;
  target: OAuthTarget;
  connector: Connector;
}

async function stage(t: TestContext, name: "gmail" | "slack"): Promise<Stage> {
  const sandbox = await startSandbox({ port: 0, publicUrl: PUBLIC_URL, file: null, clock: systemClock, log: silentLog });
  const egress = createEgress({ allowPrivateNetwork: [], clock: systemClock });
  t.after(async () => {
    await egress.close();
    await sandbox.close();
  });
  const provider = name === "gmail" ? sandbox.google : sandbox.slack;
  const connection = { connector: name, endpoints: provider.endpoints as Record<string, string>, settings: {}, scopes: [] };
  const connector = createRegistry().forConnection(connection) ?? assert.fail();
  const target = {
    connector,
    endpoints: connector.endpoints,
    clientId: provider.clientId,
    clientSecret: provider.clientSecret,
    exemptOrigin: sandbox.origin,
  };
  return { sandbox, egress, oauth: createOAuthClient({ egress, clock: systemClock }), target, connector };
}

async function connect({ oauth, target, connector }: Stage, untick: string[] = []): Promise<TokenAnswer> {
  const redirectUri = `${PUBLIC_URL}/connect/callback/${connector.name}`;
  const flow = { state: new Secret("state-of-this-try"), nonce: new Secret("nonce-of-this-try"), verifier: new Secret("v".repeat(43)) };
  const authorization = await oauth.authorizationUrl(target, { redirectUri, ...flow, scopes: connector.scopes.map((scope) => scope.name) });
  const url = await authorizeAs(authorization, { untick });
  return oauth.exchange(target, { url, redirectUri, ...flow });
}

function contextFor(
  { egress, target, connector }: Stage,
  answer: TokenAnswer,
  answers: Record<string, Record<string, string>> = {},
): ToolContext {
  return {
    api: {
      async request(request: ApiRequest): Promise<ApiAnswer> {
        const url = new URL(`${connector.endpoints.api}${request.path}`);
        for (const [name, value] of Object.entries(request.query ?? {})) {
          for (const one of Array.isArray(value) ? value : value === undefined ? [] : [value]) url.searchParams.append(name, String(one));
        }
        const raw = await egress.send({
          method: request.method,
          url: url.href,
          headers: { authorization: `Bearer ${answer.access.reveal()}`, ...(request.json ? { "content-type": "application/json" } : {}) },
          ...(request.json ? { body: JSON.stringify(request.json) } : {}),
          ...(target.exemptOrigin ? { exemptOrigin: target.exemptOrigin } : {}),
        });
        const text = raw.body.toString("utf8");
        return {
          status: raw.status,
          headers: raw.headers,
          text,
          json: (raw.headers["content-type"] ?? "").includes("json") ? (JSON.parse(text) as unknown) : null,
        };
      },
    },
    account: { id: "ca_1", connectionName: connector.name, label: "", external: null, scopes: answer.scopes ?? [], settings: {} },
    clock: systemClock,
    signal: new AbortController().signal,
    onceToken: "practice-once-1",
    ask(question) {
      const given = answers[question.key];
      if (!given) throw new NeedsAnswer(question);
      return given;
    },
  };
}

const tool = (connector: Connector, name: string) => connector.tools.find((one) => one.name === name) ?? assert.fail(name);

test("Gmail: from consent to digest, every message read, a reply sent into its thread, and the grant taken back", async (t) => {
  const on = await stage(t, "gmail");
  const answer = await connect(on);
  assert.ok(answer.refresh);
  for (const scope of on.connector.scopes) assert.ok(answer.scopes?.includes(scope.name), scope.name);
  const person = await on.oauth.identify(on.target, answer.access, answer);
  assert.match(person?.email ?? "", /@/);

  const context = { ...contextFor(on, answer) };
  context.account = { ...context.account, external: person };
  const digest = await runTool(tool(on.connector, "summarize_inbox"), context, {});
  assert.match(digest.text, /^The newest \d+ messages of the inbox/);
  assert.ok(Buffer.byteLength([digest.text, ...(digest.untrusted ?? [])].join("\n")) <= 4_096);
  t.diagnostic(`${digest.text}\n${(digest.untrusted ?? []).join("\n")}`);

  const all = await runTool(tool(on.connector, "gmail_list_messages"), context, { max_results: 50 });
  const ids = listAt(all.structured, "messages").map((message) => String(pick(message, "id")));
  assert.ok(ids.length > 5);
  for (const id of ids) {
    const message = await runTool(tool(on.connector, "gmail_get_message"), context, { id });
    const text = String(message.structured["body_text"]);
    assert.notEqual(text, "", id);
    assert.doesNotMatch(text + message.structured["subject"], /\ufffd|=\?|Ã|\u001b|<\/?(?:p|div|html)\b/, id);
  }

  const original = ids[0] ?? assert.fail();
  const sent = await runTool(tool(on.connector, "gmail_send_message"), context, {
    to: ["Doe, John <j@x.test>"],
    subject: "Ré: 晨报",
    body: "Danke\nsehr",
    reply_to_message_id: original,
  });
  assert.equal(sent.structured["confirmed_by"], "answer");
  assert.equal(sent.structured["thread_id"], pick(all.structured, "messages.0.thread_id"));
  const back = await runTool(tool(on.connector, "gmail_get_message"), context, { id: String(sent.structured["id"]) });
  assert.deepEqual(
    [back.structured["subject"], back.structured["body_text"], pick(back.structured, "to.0")],
    ["Ré: 晨报", "Danke\nsehr", { name: "Doe, John", email: "j@x.test" }],
  );
  const found = await runTool(tool(on.connector, "gmail_list_messages"), context, { query: "rfc822msgid:practice-once-1@outband.invalid" });
  assert.equal(pick(found.structured, "messages.0.id"), sent.structured["id"], "what the look-up after a lost answer asks for");

  const fresh = await on.oauth.refresh(on.target, answer.refresh);
  assert.notEqual(fresh.access.reveal(), answer.access.reveal());
  assert.equal(await on.oauth.revoke(on.target, { access: fresh.access, refresh: answer.refresh }), "done");
  assert.equal(await on.oauth.revoke(on.target, { access: fresh.access, refresh: answer.refresh }), "done", "a grant that is gone is gone");
  await assert.rejects(on.oauth.refresh(on.target, answer.refresh), { kind: "invalid_grant" });
});

test("Gmail: an unticked permission is seen in the grant, and sending without it is a missing scope", async (t) => {
  const on = await stage(t, "gmail");
  const send = on.connector.scopes.find((scope) => !scope.required)?.name ?? assert.fail();
  const answer = await connect(on, [send]);
  assert.equal(answer.scopes?.includes(send), false);
  await assert.rejects(
    runTool(tool(on.connector, "gmail_send_message"), contextFor(on, answer), { to: ["j@x.test"], subject: "s", body: "b" }),
    { kind: "scope_missing", scopes: [send] },
  );
});

test("Slack: from consent to a post as the person, picked, confirmed, found again, and the grant taken back", async (t) => {
  const on = await stage(t, "slack");
  const answer = await connect(on);
  assert.deepEqual([answer.refresh, answer.expiresInS], [null, null]);
  const person = await on.oauth.identify(on.target, answer.access, answer);
  assert.match(person?.id ?? "", /^T\w+:U\w+$/);

  const channels = await runTool(tool(on.connector, "slack_list_channels"), contextFor(on, answer), {});
  assert.ok(listAt(channels.structured, "channels").length > 2);
  const asked = await runTool(tool(on.connector, "slack_post_message"), contextFor(on, answer), { text: "hi" }).catch(
    (thrown: unknown) => thrown,
  );
  assert.ok(asked instanceof NeedsAnswer);
  const choices = asked.question.fields[0]?.choices ?? [];
  t.diagnostic(choices.map((choice) => choice.title).join(" · "));

  const general = listAt(channels.structured, "channels").find((channel) => pick(channel, "is_general") === true) ?? assert.fail();
  const picked = { pick_channel: { channel: String(pick(general, "id")) } };
  await assert.rejects(
    runTool(tool(on.connector, "slack_post_message"), contextFor(on, answer, picked), { text: "hi" }),
    (thrown) => thrown instanceof NeedsAnswer && thrown.question.key === "confirm_channel",
  );
  const confirmed = { ...picked, confirm_channel: { channel_name: String(pick(general, "name")) } };
  const posted = await runTool(tool(on.connector, "slack_post_message"), contextFor(on, answer, confirmed), { text: "a < b <!channel>" });
  const history = await contextFor(on, answer).api.request({
    method: "GET",
    path: "/conversations.history",
    query: { channel: String(pick(general, "id")), include_all_metadata: true },
  });
  const mine = listAt(history.json, "messages").find((message) => pick(message, "metadata.event_payload.once") === "practice-once-1");
  assert.deepEqual([pick(mine, "ts"), pick(mine, "text")], [posted.structured["ts"], "a &lt; b &lt;!channel&gt;"]);
  await assert.rejects(runTool(tool(on.connector, "slack_post_message"), contextFor(on, answer), { channel: "nowhere", text: "x" }), {
    name: "CallEnded",
    reason: "channel_not_found",
  });

  assert.equal(await on.oauth.revoke(on.target, { access: answer.access, refresh: null }), "done");
  await assert.rejects(runTool(tool(on.connector, "slack_list_channels"), contextFor(on, answer), {}), {
    kind: "unauthorized",
    reason: "token_revoked",
  });
});
