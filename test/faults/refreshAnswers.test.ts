// Answers of a token endpoint that decide, over real HTTP: what the caller is told, what the account becomes, which events
// tell of it, and that nobody is asked again. Issue: "Refresh", a test per row. Faults of the field: F02, F04.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { Fault } from "../support/awkwardProvider.js";
import { type GrantedAccount, type GrantOptions, grantedAccount, issue } from "../support/grants.js";
import { KINDS } from "../support/journey.js";
import { type MovableClock, movableClock } from "../support/movableClock.js";
import { type Outband, startOutband } from "../support/outband.js";

const TOKEN = { gmail: "POST /google/token", slack: /oauth\.v2\.access/ } as const;
const API = { gmail: /GET .*gmail\/v1/, slack: /conversations\.list/ } as const;
/** What the events say before the first call: put in, ACTIVE. */
const PUT = ["created", "status_updated ACTIVE/null"];

type Answer = Omit<Fault, "match">;
const json = (status: number, body: unknown, headers: Record<string, string> = {}): Answer => ({ status, body, headers });

/** The provider says that the grant is gone. */
const ENDS: [who: string, "gmail" | "slack", Answer][] = [
  ["Google: 400 invalid_grant", "gmail", json(400, { error: "invalid_grant", error_description: "Token has been expired or revoked." })],
  ["401 invalid_grant", "gmail", json(401, { error: "invalid_grant" })],
  ["words after the code", "gmail", json(400, { error: "invalid_grant: Token is expired or invalid." })],
  ["GitHub: 200 bad_refresh_token", "gmail", json(200, { error: "bad_refresh_token", error_uri: "https://docs.example/" })],
  ["Slack: 200 invalid_refresh_token", "slack", json(200, { ok: false, error: "invalid_refresh_token" })],
  ["Slack: 200 token_revoked", "slack", json(200, { ok: false, error: "token_revoked" })],
  ["Slack: 400 account_inactive", "slack", json(400, { ok: false, error: "account_inactive" })],
];

/** Our client is refused: an operator must act. */
const OPERATOR: [who: string, "gmail" | "slack", Answer, reason: string][] = [
  ["Google: 401 invalid_client", "gmail", json(401, { error: "invalid_client" }, { "www-authenticate": 'Basic realm="x"' }), "client_rejected"],
  ["Google: 400 deleted_client", "gmail", json(400, { error: "deleted_client" }), "client_rejected"],
  ["GitHub: 200 incorrect_client_credentials", "gmail", json(200, { error: "incorrect_client_credentials" }), "client_rejected"],
  ["400 unsupported_grant_type", "gmail", json(400, { error: "unsupported_grant_type" }), "misconfigured"],
  ["Slack: 200 bad_client_secret", "slack", json(200, { ok: false, error: "bad_client_secret" }), "client_rejected"],
  ["Slack: 400 invalid_client_id", "slack", json(400, { ok: false, error: "invalid_client_id" }), "client_rejected"],
];

const EXPIRES_IN: [unknown, seconds: number | null][] = [
  [30, 30],
  [3600, 3600],
  ["3600", 3600],
  [undefined, null],
  [null, null],
  [0, null],
  [-5, null],
  ["soon", null],
  [1e300, 10 * 365 * 24 * 3600],
];

for (const kind of KINDS) {
  describe(`answers of a token endpoint (${kind})`, () => {
    let outband: Outband;
    let clock: MovableClock;
    before(async () => {
      clock = movableClock();
      outband = await startOutband({ kind, clock });
      outband.provider.setPolicy("slack", { accessTtlS: 43_200, rotatesRefreshTokens: true });
    });

    let made = 0;
    async function account(options: GrantOptions = {}): Promise<GrantedAccount> {
      const granted = await grantedAccount({ provider: outband.provider, clock, api: (method, path, body) => outband.api(method, path, body) }, `answers-${++made}`, options);
      outband.provider.resetCounts();
      return granted;
    }
    const requests = (of: GrantedAccount) => outband.provider.count(TOKEN[of.connection]);

    for (const [who, connection, answer] of ENDS) {
      test(`${who}: EXPIRED, one event, reauth_needed, one token request however often it is called`, async () => {
        const one = await account({ connection });
        outband.provider.fault({ match: TOKEN[connection], ...answer });
        for (let n = 0; n < 3; n += 1) {
          const call = await one.call();
          assert.deepEqual([call.status, call.body.code, call.body.reason], [409, "reauth_needed", "refresh_rejected"], JSON.stringify(call.body));
        }
        assert.equal(requests(one), 1);
        assert.deepEqual(await one.events(), [...PUT, "status_updated EXPIRED/refresh_rejected"]);
        assert.equal(outband.provider.count(API[connection]), 0);
      });
    }

    for (const [who, connection, answer, reason] of OPERATOR) {
      test(`${who}: ERROR/${reason}, one event, no link, one token request; a new client secret tries it again without a consent`, async () => {
        const one = await account({ connection });
        outband.provider.fault({ match: TOKEN[connection], ...answer });
        for (let n = 0; n < 3; n += 1) {
          const call = await one.call();
          assert.deepEqual([call.status, call.body.code, call.body.reason], [502, "provider_error", reason], JSON.stringify(call.body));
        }
        assert.equal(requests(one), 1);
        assert.deepEqual(await one.events(), [...PUT, `status_updated ERROR/${reason}`]);
        const secret = outband.provider[connection === "gmail" ? "google" : "slack"].clientSecret.reveal();
        assert.equal((await outband.api("PATCH", `/connections/${connection}`, { client_secret: secret })).status, 200);
        assert.equal((await one.call()).status, 200);
        assert.deepEqual((await one.read()).status, "ACTIVE");
      });
    }

    for (const [given, seconds] of EXPIRES_IN) {
      test(`expires_in ${JSON.stringify(given)}: ${seconds === null ? "no end is known" : `${seconds} s`}, and ten more calls ask for no token`, async () => {
        const one = await account();
        const next = issue(outband.provider, "gmail");
        outband.provider.fault({ match: TOKEN.gmail, ...json(200, { access_token: next.access, refresh_token: next.refresh, token_type: "Bearer", expires_in: given }) });
        for (let n = 0; n < 11; n += 1) assert.equal((await one.call()).status, 200);
        assert.equal(requests(one), 1);
        const end = (await one.read()).token_expires_at;
        if (seconds === null) assert.equal(end, null);
        else assert.ok(Math.abs(Date.parse(end ?? "") - clock.now() - seconds * 1000) < 20_000, end ?? "null");
      });
    }

    test("F04: a token refused before its time: one refresh, the call succeeds, also when the refresh token is the only one there is", async () => {
      const one = await account({ expiresInMs: null });
      outband.provider.fault({ match: API.gmail, ...json(401, { error: { code: 401, status: "UNAUTHENTICATED" } }) });
      assert.equal((await one.call()).status, 200);
      assert.deepEqual([requests(one), (await one.read()).status], [1, "ACTIVE"]);
    });

    test("F04: a token refused before and after one refresh: EXPIRED/token_rejected, one event, no more requests", async () => {
      const one = await account({ expiresInMs: 3600_000 });
      outband.provider.fault({ match: API.gmail, times: 2, ...json(401, { error: { code: 401, status: "UNAUTHENTICATED" } }) });
      for (let n = 0; n < 3; n += 1) {
        const call = await one.call();
        assert.deepEqual([call.status, call.body.reason], [409, "token_rejected"], JSON.stringify(call.body));
      }
      assert.deepEqual([requests(one), outband.provider.count(API.gmail)], [1, 2]);
      assert.deepEqual(await one.events(), [...PUT, "token_refreshed", "status_updated EXPIRED/token_rejected"]);
    });

    test("F02: no refresh token: used until the provider refuses it, then EXPIRED/no_refresh_token; never a token request", async () => {
      const one = await account({ withRefresh: false });
      // Run out by our clock, and still honoured: ours may be ahead.
      assert.equal((await one.call()).status, 200);
      outband.provider.fault({ match: API.gmail, ...json(401, { error: { code: 401, status: "UNAUTHENTICATED" } }) });
      for (let n = 0; n < 2; n += 1) assert.equal((await one.call()).body.reason, "no_refresh_token");
      assert.deepEqual([requests(one), outband.provider.count(API.gmail) > 0], [0, true]);
      assert.deepEqual(await one.events(), [...PUT, "status_updated EXPIRED/no_refresh_token"]);
    });

    test("F02: Slack without rotation: no end, no refresh token, never a token request; a refusal is EXPIRED", async () => {
      const one = await account({ connection: "slack", expiresInMs: null, withRefresh: false });
      assert.equal((await one.call()).status, 200);
      outband.provider.fault({ match: API.slack, ...json(200, { ok: false, error: "invalid_auth" }) });
      const call = await one.call();
      assert.deepEqual([call.status, call.body.code, requests(one)], [409, "reauth_needed", 0], JSON.stringify(call.body));
      assert.equal((await one.read()).status, "EXPIRED");
    });

    test("one dead account never disturbs another of the same connection", async () => {
      const [dead, alive] = [await account(), await account()];
      outband.provider.fault({ match: TOKEN.gmail, ...json(400, { error: "invalid_grant" }) });
      assert.equal((await dead.call()).status, 409);
      assert.equal((await alive.call()).status, 200);
      assert.deepEqual([(await dead.read()).status, (await alive.read()).status], ["EXPIRED", "ACTIVE"]);
    });
  });
}
