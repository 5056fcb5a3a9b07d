// Connections: where they may point, what changing one does to its accounts, and that a secret never comes out again.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { connect, consent, KINDS } from "../support/journey.js";
import { startKeyedApi } from "../support/keyedApi.js";
import { callTool, linkOf, outcomeOf } from "../support/mcpCall.js";
import { type MovableClock, movableClock } from "../support/movableClock.js";
import { type Answer, type Outband, startOutband } from "../support/outband.js";

const TOKEN = "POST /google/token";
const HOUR_MS = 3600_000;
const SECRET = "a-client-secret-that-nobody-may-read-again";

for (const kind of KINDS) {
  describe(`connections (${kind})`, () => {
    let outband: Outband;
    let clock: MovableClock;
    const api: Outband["api"] = (...given) => outband.api(...given);

    before(async () => {
      clock = movableClock();
      outband = await startOutband({ kind, clock });
    });

    /** A connection of its own to the practice Google, and a person connected to it. */
    async function connectedTo(name: string) {
      const { google } = outband.provider;
      const made = await api("POST", "/connections", { name, connector: "gmail", client_id: google.clientId, client_secret: google.clientSecret.reveal(), endpoints: google.endpoints });
      assert.equal(made.status, 201, JSON.stringify(made.body));
      const person = await outband.person(`of-${name}`);
      const link = (await api("POST", "/authorization-links", { connection_name: name, identifier: person.sub })).body;
      const page = await connect(link.url, await person.signIn(person.browser));
      assert.equal(page.status, 200, page.text);
      outband.provider.resetCounts();
      const account = async () => (await api("GET", `/accounts/${link.account_id}`)).body;
      const list = (by = "gmail_list_messages") => api("POST", `/tools/${name}__${by}/execute`, { identifier: person.sub, arguments: {} });
      return { person, id: link.account_id as string, account, list };
    }

    const statusOf = ({ status, status_reason }: { status: string; status_reason: string | null }) => [status, status_reason];
    const errorOf = (answer: Answer) => [answer.status, answer.body?.code];

    test("the client secret goes in and comes out of nothing: no answer, event or refusal", async () => {
      const answers: Answer[] = [];
      const ask = async (...given: Parameters<typeof api>) => answers.push(await api(...given));
      const body = { name: "secretive", connector: "generic-oauth", client_id: "c", client_secret: SECRET, endpoints: { issuer: "https://issuer.example" } };
      await ask("POST", "/connections", body);
      await ask("POST", "/connections", body);
      await ask("POST", "/connections", { ...body, name: "Not A Name" });
      await ask("POST", "/connections", { ...body, client_secret: [SECRET] });
      await ask("PATCH", "/connections/secretive", { client_secret: SECRET });
      await ask("PATCH", "/connections/secretive", { client_secret: SECRET, nope: SECRET });
      await ask("GET", "/connections/secretive");
      await ask("GET", "/connections");
      await ask("GET", "/events?limit=200");
      await ask("DELETE", "/connections/secretive");
      assert.deepEqual(answers.map(({ status }) => status), [201, 409, 400, 400, 200, 400, 200, 200, 200, 204]);
      assert.ok(!JSON.stringify(answers).includes(SECRET.slice(2, 20)));
      assert.deepEqual([answers[0]?.body.client_secret_set, "client_secret" in (answers[0]?.body ?? {})], [true, false]);
      assert.ok(!outband.logs.join("\n").includes(SECRET.slice(2, 20)));
    });

    test("one name, one connection: taken is 409, also when two come at once", async () => {
      const make = () => api("POST", "/connections", { name: "same", connector: "generic-oauth", endpoints: { issuer: "https://issuer.example" } });
      const both = await Promise.all([make(), make(), make()]);
      assert.deepEqual(both.map(({ status }) => status).sort(), [201, 409, 409]);
      assert.equal((await make()).body.code, "already_exists");
      for (const name of ["", "Same", "1a", "-a", "a b", "a/b", "a.b", "a".repeat(33), "é", "a\n"]) {
        const refused = await api("POST", "/connections", { name, connector: "generic-oauth", endpoints: { issuer: "https://issuer.example" } });
        assert.deepEqual([refused.status, refused.body.errors?.[0]?.path], [400, "name"], name);
      }
      assert.equal((await api("PATCH", "/connections/same", { name: "other" })).status, 400);
      assert.equal((await api("PATCH", "/connections/same", { connector: "gmail" })).status, 400);
    });

    test("what is wrong with endpoints, settings and scopes is told by its place, all at once", async () => {
      const refused = await api("POST", "/connections", {
        name: "wrong",
        connector: "generic-api-key",
        endpoints: { issuer: "nonsense", authorization: "ftp://a.example", token: "https://u:p@a.example", revocation: "https://a.example/#x", userinfo: "http://a.example", jwks: "http://169.254.169.254/latest", api: "https://a.example?x=1" },
        settings: { api_key: { in: "cookie" }, nope: 1 },
      });
      assert.equal(refused.status, 400);
      const paths = refused.body.errors.map(({ path }: { path: string }) => path);
      for (const name of ["issuer", "authorization", "token", "revocation", "userinfo", "jwks", "api"]) assert.ok(paths.includes(`endpoints.${name}`), JSON.stringify(paths));
      assert.ok(paths.some((path: string) => path.startsWith("settings")), JSON.stringify(paths));
    });

    test("a change of client_id or endpoints with a grant on it is 409; the same values again are no change", async () => {
      const { account } = await connectedTo("rebound");
      const { endpoints, client_id } = (await api("GET", "/connections/rebound")).body;
      for (const change of [{ client_id: "another" }, { endpoints: { ...endpoints, token: "https://elsewhere.example/token" } }, { endpoints: {} }]) {
        assert.deepEqual(errorOf(await api("PATCH", "/connections/rebound", change)), [409, "connection_in_use"], JSON.stringify(change));
        assert.deepEqual(errorOf(await api("PATCH", "/connections/rebound?reset=false", change)), [409, "connection_in_use"]);
      }
      assert.equal((await api("PATCH", "/connections/rebound", { client_id, endpoints, title: "Again", scopes: [] })).status, 200);
      assert.deepEqual(statusOf(await account()), ["ACTIVE", null]);
      assert.equal((await api("GET", "/connections/rebound")).body.client_id, client_id);
    });

    test("?reset=true erases every credential, says why, and asks the provider for nothing", async () => {
      const { account, list, id } = await connectedTo("reset");
      assert.equal((await list()).status, 200);
      outband.provider.resetCounts();
      const changed = await api("PATCH", "/connections/reset?reset=true", { client_id: "another" });
      assert.deepEqual([changed.status, changed.body.client_id], [200, "another"]);
      assert.deepEqual([statusOf(await account()), (await account()).token_expires_at], [["EXPIRED", "connection_changed"], null]);
      const refused = await list();
      assert.deepEqual([refused.status, refused.body.code, refused.body.reason], [409, "reauth_needed", "connection_changed"]);
      assert.equal(outband.provider.count(/./), 0);
      const events = (await api("GET", `/events?account_id=${id}&type=connected_account.status_updated`)).body.data;
      assert.deepEqual([events.at(-1).data.old_status, events.at(-1).data.status_reason], ["ACTIVE", "connection_changed"]);
    });

    test("a person who is at the provider while the client changes begins again from the same link; the old code goes nowhere", async () => {
      const { google } = outband.provider;
      await connectedTo("midway");
      const person = await outband.person("midway");
      const link = (await api("POST", "/authorization-links", { connection_name: "midway", identifier: person.sub })).body;
      const browser = await person.signIn();
      const callback = await consent(link.url, browser);
      const moved = { ...google.endpoints, userinfo: `${google.endpoints.userinfo}?moved` };
      assert.equal((await api("PATCH", "/connections/midway?reset=true", { endpoints: moved })).status, 200);
      const before = outband.provider.count(TOKEN);
      assert.equal((await browser.get(callback)).status, 400);
      assert.equal(outband.provider.count(TOKEN), before);
      assert.equal((await api("GET", `/authorization-links/${link.id}`)).body.status, "open");
      assert.equal((await api("PATCH", "/connections/midway?reset=true", { endpoints: google.endpoints })).status, 200);
      assert.equal((await connect(link.url, browser)).status, 200);
    });

    test("DELETE with accounts on it is 409; with ?disconnect=true they are given back, told as deleted, and gone", async () => {
      const { account, id } = await connectedTo("leaving");
      assert.deepEqual(errorOf(await api("DELETE", "/connections/leaving")), [409, "connection_in_use"]);
      assert.deepEqual(errorOf(await api("DELETE", "/connections/leaving?disconnect=false")), [409, "connection_in_use"]);
      assert.deepEqual(statusOf(await account()), ["ACTIVE", null]);
      assert.equal((await api("DELETE", "/connections/leaving?disconnect=true")).status, 204);
      assert.equal(outband.provider.count("POST /google/revoke"), 1);
      assert.deepEqual(errorOf(await api("GET", `/accounts/${id}`)), [404, "not_found"]);
      assert.deepEqual(errorOf(await api("GET", "/connections/leaving")), [404, "not_found"]);
      const told = (await api("GET", `/events?account_id=${id}`)).body.data.map(({ type }: { type: string }) => type.replace("connected_account.", ""));
      assert.deepEqual(told.slice(-2), ["status_updated", "deleted"]);
    });

    test("a wrong client secret: ERROR at the next refresh, no link, no consent; the right one is enough to go on", async () => {
      const { person, account, list, id } = await connectedTo("mistyped");
      const token = async () => (await api("POST", "/session-tokens", { identifier: person.sub, ttl_s: 86_400 })).body.token;
      assert.equal((await api("PATCH", "/connections/mistyped", { client_secret: "not the secret" })).status, 200);
      assert.equal((await list()).status, 200, "the access token still lives");
      clock.forward(2 * HOUR_MS);
      const refused = await list();
      assert.deepEqual([refused.status, refused.body.code, refused.body.reason], [502, "provider_error", "client_rejected"], JSON.stringify(refused.body));
      assert.deepEqual([...statusOf(await account()), (await account()).readiness], ["ERROR", "client_rejected", "needs_reauth"]);
      assert.equal(outband.provider.count(TOKEN), 1);

      const asked = await callTool(outband.url, await token(), "mistyped__gmail_list_messages");
      assert.deepEqual([linkOf(asked, "connect_mistyped"), outcomeOf(asked).outcome, outcomeOf(asked).reason], [undefined, "provider_error", "client_rejected"]);
      assert.deepEqual(errorOf(await api("POST", "/authorization-links", { connection_name: "mistyped", identifier: person.sub })), [502, "provider_error"]);
      assert.deepEqual(errorOf(await api("POST", `/accounts/${id}/refresh`)), [409, "reauth_needed"]);
      assert.equal((await api("PATCH", "/connections/mistyped", { title: "Still wrong" })).status, 200);
      assert.equal((await account()).status, "ERROR");
      assert.equal(outband.provider.count(TOKEN), 1, "nothing is tried again and again");

      assert.equal((await api("PATCH", "/connections/mistyped", { client_secret: outband.provider.google.clientSecret.reveal() })).status, 200);
      assert.deepEqual(statusOf(await account()), ["ACTIVE", null]);
      assert.equal((await list()).status, 200);
      assert.deepEqual([outband.provider.count(TOKEN), outband.provider.count(/authorize/)], [2, 0]);
    });

    test("switched off: no tool, no link, no call to the provider; what is connected can still be seen and taken away", async () => {
      const { person, account, list, id } = await connectedTo("paused");
      const names = async () => (await api("GET", "/tools?limit=200")).body.data.map(({ tool_name }: { tool_name: string }) => tool_name);
      assert.ok((await names()).includes("paused__summarize_inbox"));
      assert.equal((await api("PATCH", "/connections/paused", { enabled: false })).status, 200);
      assert.ok(!(await names()).some((name: string) => name.startsWith("paused__")));
      const refused = await list();
      assert.deepEqual([refused.status, refused.body.code, refused.body.reason], [403, "forbidden", "connection_disabled"]);
      assert.deepEqual(errorOf(await api("POST", "/authorization-links", { connection_name: "paused", identifier: person.sub })), [403, "forbidden"]);
      assert.equal(outband.provider.count(/./), 0);
      assert.equal((await account()).status, "ACTIVE");
      assert.equal((await api("PATCH", "/connections/paused", { enabled: true })).status, 200);
      assert.equal((await list()).status, 200);
      await api("PATCH", "/connections/paused", { enabled: false });
      assert.equal((await api("DELETE", `/accounts/${id}`)).body.status, "REVOKED");
      assert.equal(outband.provider.count("POST /google/revoke"), 1);
    });
  });
}

describe("connections and the private network", () => {
  const PRIVATE = ["http://127.0.0.1:9", "http://localhost:9", "http://[::1]:9", "https://10.0.0.1", "https://192.168.1.1", "https://172.16.0.1", "https://[fd00::1]", "https://[::ffff:10.0.0.1]", "https://0x0a000001", "https://167772161", "https://012.0.0.1", "https://100.64.0.1"];
  const NEVER = ["http://169.254.169.254", "https://169.254.169.254", "https://[fe80::1]", "https://[::ffff:169.254.169.254]", "https://2852039166", "https://0.0.0.0"];
  const keyed = (name: string, endpoint: string) => ({ name, connector: "generic-api-key", endpoints: { api: endpoint } });
  const refusal = (answer: Answer) => [answer.status, answer.body.errors?.map(({ path }: { path: string }) => path)];

  test("closed: private, loopback and link-local addresses are refused in every spelling, at POST and at PATCH", async () => {
    const outband = await startOutband({ settings: { ALLOW_PRIVATE_NETWORK: "" }, connections: [] });
    for (const endpoint of [...PRIVATE, ...NEVER]) {
      assert.deepEqual(refusal(await outband.api("POST", "/connections", keyed("inward", endpoint))), [400, ["endpoints.api"]], endpoint);
    }
    assert.equal((await outband.api("POST", "/connections", keyed("outward", "https://api.example"))).status, 201);
    for (const endpoint of [...PRIVATE, ...NEVER]) {
      assert.deepEqual(refusal(await outband.api("PATCH", "/connections/outward", { endpoints: { api: endpoint } })), [400, ["endpoints.api"]], endpoint);
    }
    await outband.close();
  });

  test("opened: everything but link-local; closed again: what is there can be renamed and switched off, and is not called", async () => {
    const outband = await startOutband({ connections: [] });
    const api = await startKeyedApi();
    for (const [index, endpoint] of PRIVATE.entries()) assert.equal((await outband.api("POST", "/connections", keyed(`p${index}`, endpoint))).status, 201, endpoint);
    for (const endpoint of NEVER) assert.equal((await outband.api("POST", "/connections", keyed("never", endpoint))).status, 400, endpoint);
    const settings = { probe: { method: "GET", path: "/me" } };
    assert.equal((await outband.api("POST", "/connections", { ...keyed("inner", api.origin), settings })).status, 201);
    await outband.restart({ ALLOW_PRIVATE_NETWORK: "10.0.0.0/8" });
    const person = await outband.person("inside");
    const put = await outband.api("POST", "/accounts", { connection_name: "inner", identifier: person.sub, credential: { type: "api_key", fields: { api_key: api.goodKey } } });
    assert.deepEqual([put.status, put.body.code], [503, "provider_unavailable"]);
    assert.deepEqual(api.seen, []);
    assert.equal((await outband.api("PATCH", "/connections/inner", { title: "Inner", enabled: false })).status, 200);
    assert.equal((await outband.api("PATCH", "/connections/inner", { endpoints: { api: api.origin } })).status, 200, "no change");
    assert.deepEqual(refusal(await outband.api("PATCH", "/connections/inner", { endpoints: { api: "http://127.0.0.1:9" } })), [400, ["endpoints.api"]]);
    assert.equal((await outband.api("PATCH", "/connections/inner", { endpoints: { api: "https://10.1.2.3" } })).status, 200);
    await outband.close();
  });
});
