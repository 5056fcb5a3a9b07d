// Accounts: credentials that servers put in, labels, refresh on demand, disconnecting, and whose account it may become.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { systemClock } from "../../src/clock.js";
import { MARA, TOMAS } from "../../src/sandbox/people.js";
import { authorizeAs } from "../support/awkwardPerson.js";
import { connect, consent, KINDS } from "../support/journey.js";
import { type KeyedApi, startKeyedApi } from "../support/keyedApi.js";
import { type Answer, type Browser, type Outband, type Page, startOutband } from "../support/outband.js";

const TOKEN = "POST /google/token";
const REVOKE = "POST /google/revoke";

for (const kind of KINDS) {
  describe(`accounts (${kind})`, () => {
    let outband: Outband;
    let keyed: KeyedApi;
    const api: Outband["api"] = (...given) => outband.api(...given);

    before(async () => {
      outband = await startOutband({ kind });
      keyed = await startKeyedApi();
      const settings = { probe: { method: "GET", path: "/me" } };
      assert.equal((await api("POST", "/connections", { name: "keyed", connector: "generic-api-key", endpoints: { api: keyed.origin }, settings })).status, 201);
    });

    const errorOf = (answer: Answer) => [answer.status, answer.body?.code];
    const read = async (id: string) => (await api("GET", `/accounts/${id}`)).body;
    const stateOf = async (id: string) => {
      const { status, status_reason, external_account } = await read(id);
      return [status, status_reason, external_account?.email ?? null];
    };
    const all = async (sub: string) => (await api("GET", `/accounts?identifier=${sub}`)).body.data;
    const putKey = (sub: string, api_key: unknown, more: Record<string, unknown> = {}) =>
      api("POST", "/accounts", { connection_name: "keyed", identifier: sub, credential: { type: "api_key", fields: { api_key } }, ...more });
    const newLink = async (sub: string, more: { label?: string; connection_name?: string } = {}) => (await api("POST", "/authorization-links", { connection_name: "gmail", identifier: sub, ...more })).body;

    /** A person connected as Mara, on a connection of their own: what is given back there is shared with nobody. */
    async function connected(name: string) {
      const { google } = outband.provider;
      const made = await api("POST", "/connections", { name, connector: "gmail", client_id: google.clientId, client_secret: google.clientSecret.reveal(), endpoints: google.endpoints });
      assert.equal(made.status, 201, JSON.stringify(made.body));
      const person = await outband.person(name);
      const browser = await person.signIn();
      const link = (label = "") => newLink(person.sub, { label, connection_name: name });
      const first = await link();
      assert.equal((await connect(first.url, browser)).status, 200);
      outband.provider.resetCounts();
      const works = async () => (await api("POST", `/tools/${name}__gmail_list_messages/execute`, { identifier: person.sub, arguments: { max_results: 1 } })).status;
      return { person, browser, id: first.account_id as string, link, works };
    }

    /** Grants in force at the practice Google. */
    const liveGrants = () => outband.provider.grants.google.live().length;

    describe("an API key", () => {
      test("is tried first and kept; what pasting adds is taken off", async () => {
        const { sub } = await outband.person("keyholder");
        const tries = keyed.seen.length;
        const made = await putKey(sub, `\ufeff  ${keyed.goodKey}\r\n`);
        assert.deepEqual([made.status, made.body.status], [201, "ACTIVE"], JSON.stringify(made.body));
        assert.deepEqual(keyed.seen.slice(tries), [`Bearer ${keyed.goodKey}`]);
        assert.ok(!JSON.stringify(made.body).includes(keyed.goodKey));
        const again = await putKey(sub, keyed.goodKey);
        assert.deepEqual([again.status, again.body.id], [201, made.body.id]);
      });

      test("that the provider refuses is 422 and leaves nothing behind, nor does one that cannot be a key, or a provider that is away", async () => {
        const { sub } = await outband.person("refused");
        assert.deepEqual(errorOf(await putKey(sub, "sk_live_wrong")), [422, "credential_refused"]);
        const tries = keyed.seen.length;
        for (const bad of ["", "  ", "a\nb", "a\u0007b", "schlüssel", "x".repeat(8_200), 7, null]) {
          const refused = await putKey(sub, bad);
          assert.deepEqual(errorOf(refused), [400, "invalid_request"], JSON.stringify(bad));
          assert.ok(refused.body.errors.every(({ path }: { path: string }) => path === "credential.fields.api_key"), JSON.stringify(refused.body));
        }
        const credential = { type: "api_key", fields: { api_key: keyed.goodKey, more: "x" } };
        assert.deepEqual(errorOf(await api("POST", "/accounts", { connection_name: "keyed", identifier: sub, credential })), [400, "invalid_request"]);
        assert.deepEqual(errorOf(await api("POST", "/accounts", { connection_name: "keyed", identifier: sub, credential: { type: "api_key", fields: {} } })), [400, "invalid_request"]);
        assert.equal(keyed.seen.length, tries, "nothing malformed is sent anywhere");
        await api("POST", "/connections", { name: "away", connector: "generic-api-key", endpoints: { api: "http://127.0.0.1:9" }, settings: { probe: { method: "GET", path: "/me" } } });
        const away = await putKey(sub, keyed.goodKey, { connection_name: "away" });
        assert.deepEqual(errorOf(away), [503, "provider_unavailable"]);
        assert.ok(Number(away.headers.get("retry-after")) >= 1);
        assert.deepEqual(await all(sub), []);
      });

      test("replaced: tried, then swapped; a refused new one leaves the old one in force", async () => {
        const { sub } = await outband.person("replacer");
        const { id } = (await putKey(sub, keyed.goodKey)).body;
        const before = await read(id);
        const replace = (api_key: string) => api("PUT", `/accounts/${id}/credential`, { credential: { type: "api_key", fields: { api_key } } });
        assert.deepEqual(errorOf(await replace("sk_live_wrong")), [422, "credential_refused"]);
        assert.deepEqual(await read(id), before);
        const swapped = await replace(keyed.goodKey);
        assert.deepEqual([swapped.status, swapped.body.id, swapped.body.status], [200, id, "ACTIVE"]);
        assert.deepEqual(errorOf(await api("PUT", "/accounts/ca_unknown/credential", { credential: { type: "api_key", fields: { api_key: "k" } } })), [404, "not_found"]);
      });

      test("for nobody that signs in here 422; for an unknown connection 404; of the wrong kind 400", async () => {
        const { sub } = await outband.person("mismatched");
        assert.deepEqual(errorOf(await putKey("nobody", keyed.goodKey)), [422, "unknown_identifier"]);
        assert.deepEqual(errorOf(await putKey(sub, keyed.goodKey, { connection_name: "nowhere" })), [404, "not_found"]);
        for (const [connection_name, credential] of [["gmail", { type: "api_key", fields: { api_key: "k" } }], ["keyed", { type: "oauth", access_token: "a" }]] as const) {
          const refused = await api("POST", "/accounts", { connection_name, identifier: sub, credential });
          assert.deepEqual([refused.status, refused.body.errors?.[0]?.path], [400, "credential.type"]);
        }
        assert.deepEqual(await all(sub), []);
      });

      test("has nothing to refresh: the account as it is", async () => {
        const { sub } = await outband.person("unrefreshed");
        const made = (await putKey(sub, keyed.goodKey)).body;
        assert.deepEqual([(await api("POST", `/accounts/${made.id}/refresh`)).status, await stateOf(made.id)], [200, ["ACTIVE", null, null]]);
      });
    });

    describe("an OAuth grant put in by a server", () => {
      /** As a server holds it that had the consent elsewhere. */
      const grantOf = (person: string) =>
        outband.provider.grants.google.issue({ person, kind: "google", scopes: ["openid", "https://www.googleapis.com/auth/userinfo.email", "https://www.googleapis.com/auth/gmail.readonly"], withRefresh: true });

      test("says whose it is, works, and can be refreshed", async () => {
        const { sub } = await outband.person("migrated");
        const grant = grantOf(MARA.sub);
        const credential = { type: "oauth", access_token: grant.access, refresh_token: grant.refresh, expires_at: "2098-01-01T02:00:00+02:00", scopes: grant.scopes };
        const put = await api("POST", "/accounts", { connection_name: "gmail", identifier: sub, label: "moved", credential });
        assert.deepEqual([put.status, put.body.status, put.body.label, put.body.external_account?.email, put.body.token_expires_at], [201, "ACTIVE", "moved", MARA.email, "2098-01-01T00:00:00.000Z"], JSON.stringify(put.body));
        assert.ok(![grant.access, grant.refresh ?? ""].some((token) => JSON.stringify(put.body).includes(token)));
        const run = await api("POST", "/tools/gmail_list_messages/execute", { identifier: sub, arguments: { max_results: 1 } });
        assert.equal(run.status, 200, JSON.stringify(run.body));
        assert.equal((await api("POST", `/accounts/${put.body.id}/refresh`)).status, 200);
      });

      test("of somebody else, or of nobody that can be named, is refused in the place of a known identity; the old grant still works", async () => {
        const { id, works, person } = await connected("guarded");
        const before = await read(id);
        const replace = (credential: Record<string, unknown>) => api("PUT", `/accounts/${id}/credential`, { credential: { type: "oauth", ...credential } });
        assert.deepEqual(errorOf(await replace({ access_token: grantOf(TOMAS.sub).access })), [409, "wrong_upstream_identity"]);
        assert.deepEqual(errorOf(await replace({ access_token: "ya29.nobody-knows" })), [422, "credential_refused"]);
        outband.provider.fault({ match: /userinfo/, status: 503 });
        assert.deepEqual(errorOf(await replace({ access_token: grantOf(TOMAS.sub).access })), [503, "provider_unavailable"]);
        assert.deepEqual(await read(id), before);
        assert.equal(await works(), 200);

        await api("DELETE", `/accounts/${id}`);
        const taken = await replace({ access_token: grantOf(TOMAS.sub).access });
        assert.deepEqual([taken.status, taken.body.status, taken.body.identifier], [200, "ACTIVE", person.sub]);
        assert.equal(taken.body.external_account.email, TOMAS.email);
      });

      test("with a token that cannot stand in a header, or a time that nobody can keep, is a 400", async () => {
        const { sub } = await outband.person("odd-tokens");
        for (const credential of [{ access_token: "a b" }, { access_token: "a\nb" }, { access_token: "ü" }, { access_token: "a", refresh_token: "" }, { access_token: "a", expires_at: "tomorrow" }, { access_token: "a", expires_at: 1_900_000_000 }, { access_token: "a", scopes: ["two words"] }, {}]) {
          assert.deepEqual(errorOf(await api("POST", "/accounts", { connection_name: "gmail", identifier: sub, credential: { type: "oauth", ...credential } })), [400, "invalid_request"], JSON.stringify(credential));
        }
        assert.deepEqual(await all(sub), []);
      });
    });

    describe("a label", () => {
      test("is changed, and may not be one that the person already has on that connection", async () => {
        const { sub } = await outband.person("labels");
        const [one, two] = [(await newLink(sub, { label: "one" })).account_id, (await newLink(sub, { label: "two" })).account_id];
        const rename = (id: string, label: unknown) => api("PATCH", `/accounts/${id}`, { label });
        assert.deepEqual(errorOf(await rename(two, "one")), [409, "already_exists"]);
        assert.equal((await read(two)).label, "two");
        for (const label of ["One", "one.", "o\u0301ne", "\u00f3ne", "", "two"]) assert.deepEqual([(await rename(two, label)).status, (await read(two)).label], [200, label]);
        assert.equal((await rename(one, "one")).status, 200);
        for (const label of ["default", " one", "one ", "a\u0000", "a\tb", "x".repeat(65), null, 7, ["a"]]) assert.deepEqual(errorOf(await rename(one, label)), [400, "invalid_request"], JSON.stringify(label));
        for (const body of [{}, { label: "x", status: "ACTIVE" }, { identifier: "other" }]) assert.equal((await api("PATCH", `/accounts/${one}`, body)).status, 400);
        const other = await outband.person("same-label");
        assert.equal((await rename((await newLink(other.sub)).account_id, "one")).status, 200, "another person's label is not taken");
        const both = await Promise.all([rename(one, "race"), rename(two, "race")]);
        assert.deepEqual(both.map(({ status }) => status).sort(), [200, 409]);
      });
    });

    describe("refresh", () => {
      test("200 with the account; 503 with Retry-After for a passing trouble; then the status it came to", async () => {
        const { id } = await connected("refreshed");
        const before = await read(id);
        const fresh = await api("POST", `/accounts/${id}/refresh`);
        assert.deepEqual([fresh.status, fresh.body.status, outband.provider.count(TOKEN)], [200, "ACTIVE", 1]);
        assert.ok(fresh.body.last_refreshed_at > before.last_refreshed_at);
        outband.provider.fault({ match: TOKEN, status: 429, headers: { "retry-after": "1" } });
        const busy = await api("POST", `/accounts/${id}/refresh`);
        assert.deepEqual(errorOf(busy), [503, "provider_unavailable"]);
        assert.ok(Number(busy.headers.get("retry-after")) >= 1);
        assert.equal((await read(id)).status, "ACTIVE");
        outband.provider.revokeAll();
        let last = await api("POST", `/accounts/${id}/refresh`);
        while (last.status === 503) {
          await systemClock.sleep(200);
          last = await api("POST", `/accounts/${id}/refresh`);
        }
        assert.deepEqual([last.status, last.body.status, last.body.status_reason], [200, "EXPIRED", "refresh_rejected"]);
        assert.deepEqual(errorOf(await api("POST", `/accounts/${id}/refresh`)), [409, "reauth_needed"]);
      });

      test("of an account that was never connected is 409 not_connected; of none 404", async () => {
        const { sub } = await outband.person("never");
        assert.deepEqual(errorOf(await api("POST", `/accounts/${(await newLink(sub)).account_id}/refresh`)), [409, "not_connected"]);
        assert.deepEqual(errorOf(await api("POST", "/accounts/ca_unknown/refresh")), [404, "not_found"]);
      });
    });

    describe("disconnecting", () => {
      test("is true before the provider is asked, is told upstream once, and stays as it is the second time", async () => {
        const { id, person, works } = await connected("leaver");
        const held = outband.provider.hold(REVOKE);
        const asked = api("DELETE", `/accounts/${id}`);
        await held.arrived;
        assert.deepEqual(await stateOf(id), ["REVOKED", "disconnected_by_admin", MARA.email]);
        assert.equal(await works(), 409);
        held.release();
        assert.deepEqual([(await asked).status, (await asked).body.status], [200, "REVOKED"]);
        const twice = await api("DELETE", `/accounts/${id}`);
        assert.deepEqual([twice.status, twice.body.status, outband.provider.count(REVOKE)], [200, "REVOKED", 1]);
        assert.equal((await all(person.sub)).length, 1);
      });

      test("a provider that is away does not keep an account alive", async () => {
        const { id, works } = await connected("stuck");
        outband.provider.fault({ match: REVOKE, status: 503 });
        assert.deepEqual([(await api("DELETE", `/accounts/${id}`)).status, await works()], [200, 409]);
      });

      test("purge removes the row; the same label is a new account; twice is a 404", async () => {
        const { id, person, link } = await connected("purged");
        assert.equal((await api("DELETE", `/accounts/${id}?purge=true`)).body.status, "REVOKED");
        assert.deepEqual(errorOf(await api("GET", `/accounts/${id}`)), [404, "not_found"]);
        assert.deepEqual(errorOf(await api("DELETE", `/accounts/${id}?purge=true`)), [404, "not_found"]);
        assert.deepEqual(await all(person.sub), []);
        assert.notEqual((await link()).account_id, id);
        assert.equal(outband.provider.count(REVOKE), 1);
        const many = await connected("purged-together");
        const ends = await Promise.all([1, 2, 3].map(() => api("DELETE", `/accounts/${many.id}?purge=true`)));
        assert.ok(ends.every(({ status }) => status === 200 || status === 404), JSON.stringify(ends.map(({ body }) => body)));
        assert.ok(ends.some(({ status }) => status === 200));
      });

      test("purge does not take a grant along that came while the old one was given back", async () => {
        const others = liveGrants();
        const { id, person, browser, link } = await connected("crossing");
        const callback = await consent((await link()).url, browser);
        const held = outband.provider.hold(REVOKE);
        const purge = api("DELETE", `/accounts/${id}?purge=true`);
        await held.arrived;
        await browser.get(callback);
        held.release();
        assert.equal((await purge).status, 200);
        assert.deepEqual([await all(person.sub), liveGrants()], [[], others], "nothing lives on at the provider that nobody holds here");
      });
    });

    describe("reconnecting as another upstream identity", () => {
      for (const from of ["ACTIVE", "EXPIRED"] as const) {
        test(`from ${from}: the link fails, the new grant is given back, the account is what it was`, async () => {
          const { id, browser, link: newLink, works } = await connected(`other-${from.toLowerCase()}`);
          if (from === "EXPIRED") {
            outband.provider.revokeAll();
            await api("POST", `/accounts/${id}/refresh`);
          }
          const before = await stateOf(id);
          assert.equal(before[0], from);
          const link = await newLink();
          const page = await connectAsTomas(link.url, browser);
          assert.ok(page.status >= 400, page.text);
          const { status, reason } = (await api("GET", `/authorization-links/${link.id}`)).body;
          assert.deepEqual([status, reason], ["failed", "wrong_identity"]);
          assert.deepEqual(await stateOf(id), before);
          assert.equal(outband.provider.count(REVOKE), 1);
          if (from === "ACTIVE") assert.equal(await works(), 200);
          assert.equal((await connect((await newLink()).url, browser)).status, 200);
          assert.deepEqual(await stateOf(id), ["ACTIVE", null, MARA.email]);
        });
      }

      test("while the provider cannot say who it is, nobody takes the place of a known identity", async () => {
        const person = await outband.person("unread");
        const browser = await person.signIn();
        const link = async () => newLink(person.sub, { connection_name: "slack" });
        const first = await link();
        assert.equal((await connect(first.url, browser)).status, 200);
        const second = await link();
        const before = await read(first.account_id);
        outband.provider.fault({ match: /auth\.test/, status: 503 });
        const page = await connect(second.url, browser, { person: "Okafor" });
        assert.equal(outband.provider.faultsLeft(), 0);
        assert.ok(page.status >= 400, page.text);
        assert.deepEqual(await read(first.account_id), before);
        const { status, reason } = (await api("GET", `/authorization-links/${second.id}`)).body;
        assert.deepEqual([status, reason], ["failed", "provider_unavailable"]);
        assert.equal((await api("POST", "/tools/slack_list_channels/execute", { identifier: person.sub, arguments: {} })).status, 200);
      });

      test("from REVOKED: accepted; under another label: always", async () => {
        const { id, browser, link } = await connected("other-revoked");
        const work = await link("work");
        assert.equal((await connectAsTomas(work.url, browser)).status, 200);
        assert.deepEqual(await stateOf(work.account_id), ["ACTIVE", null, TOMAS.email]);
        await api("DELETE", `/accounts/${id}`);
        assert.equal((await connectAsTomas((await link()).url, browser)).status, 200);
        assert.deepEqual(await stateOf(id), ["ACTIVE", null, TOMAS.email]);
      });
    });
  });
}

/** The person takes another account at the provider than the one that we hint at. */
async function connectAsTomas(link: string, browser: Browser): Promise<Page> {
  const page = await browser.get(link);
  const started = await browser.post(link, {}, { from: page });
  assert.equal(started.status, 303, started.text);
  const url = new URL(started.location ?? "");
  url.searchParams.delete("login_hint");
  return browser.get((await authorizeAs(url, { person: "Okafor" })).href);
}
