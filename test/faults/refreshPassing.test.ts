// Answers of a token endpoint that decide nothing, over real HTTP: the account stays as it is, the caller is told when to come
// back, the provider is left alone until then. And answers that were lost. Issue: "Refresh". Faults of the field: F02, F17.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { systemClock } from "../../src/clock.js";
import { type Fault, LIES } from "../support/awkwardProvider.js";
import { type GrantedAccount, type GrantOptions, grantedAccount } from "../support/grants.js";
import { KINDS } from "../support/journey.js";
import { type MovableClock, movableClock } from "../support/movableClock.js";
import { type Outband, startOutband } from "../support/outband.js";

const TOKEN = { gmail: "POST /google/token", slack: /oauth\.v2\.access/ } as const;
/** What the events say before the first call: put in, ACTIVE. */
const PUT = ["created", "status_updated ACTIVE/null"];

type Answer = Omit<Fault, "match">;
const json = (status: number, body: unknown, headers: Record<string, string> = {}): Answer => ({ status, body, headers });
const HTML = { headers: { "content-type": "text/html" }, body: "<!doctype html><title>Sorry</title>" };

/** Nothing is known to be wrong with the grant. `retryAfterS`: what the caller is told at least. */
const PASSING: [who: string, "gmail" | "slack", Answer, retryAfterS: number][] = [
  ["HTML with 200 (a sign-in wall)", "gmail", LIES.html, 1],
  ["HTML with 502", "gmail", { status: 502, ...HTML }, 1],
  ["503 with Retry-After", "gmail", { status: 503, headers: { "retry-after": "17" }, body: "down" }, 17],
  ["500 that says invalid_grant", "gmail", json(500, { error: "invalid_grant" }), 1],
  ["429 with Retry-After", "gmail", json(429, { error: "rate_limited" }, { "retry-after": "30" }), 30],
  ["403 with HTML", "gmail", { status: 403, ...HTML }, 1],
  ["200 without access_token", "gmail", LIES.noToken, 1],
  ["200 with an empty object", "gmail", LIES.emptyObject, 1],
  ["200 with broken JSON", "gmail", LIES.notJson, 1],
  ["an unknown error code", "gmail", json(400, { error: "try_harder" }), 1],
  ["one invalid_request", "gmail", json(400, { error: "invalid_request" }), 1],
  ["a redirect", "gmail", { status: 302, headers: { location: "https://login.example/" }, body: "" }, 1],
  ["a cut before the request was served", "gmail", { drop: "before" }, 1],
  ["Slack: 200 ratelimited", "slack", json(200, { ok: false, error: "ratelimited" }, { "retry-after": "5" }), 5],
  ["Slack: 200 with a code nobody knows", "slack", json(200, { ok: false, error: "so_it_goes" }), 1],
  ["Slack: 200 without a token", "slack", json(200, { ok: true }), 1],
];

/** The answer was lost, and the provider had rotated: the next try cannot know. */
const LOST: [who: string, Answer][] = [
  ["a cut in place of the answer", { drop: "after" }],
  ["504 after the work", { status: 504, commit: true, ...HTML }],
  ["200 with broken JSON after the work", { ...LIES.notJson, commit: true }],
];

for (const kind of KINDS) {
  describe(`passing troubles of a token endpoint (${kind})`, () => {
    let outband: Outband;
    let clock: MovableClock;
    before(async () => {
      clock = movableClock();
      outband = await startOutband({ kind, clock });
      outband.provider.setPolicy("slack", { accessTtlS: 43_200, rotatesRefreshTokens: true });
    });

    let made = 0;
    async function account(options: GrantOptions = {}): Promise<GrantedAccount> {
      const granted = await grantedAccount({ provider: outband.provider, clock, api: (method, path, body) => outband.api(method, path, body) }, `passing-${++made}`, options);
      outband.provider.resetCounts();
      return granted;
    }
    const requests = (of: GrantedAccount) => outband.provider.count(TOKEN[of.connection]);

    for (const [who, connection, answer, retryAfterS] of PASSING) {
      test(`${who}: ACTIVE, no status event, told with Retry-After, not asked again before; then it works by itself`, async () => {
        const one = await account({ connection });
        outband.provider.fault({ match: TOKEN[connection], ...answer });
        let waitS = 0;
        for (const call of [await one.call(), await one.call(), ...(await Promise.all([one.call(), one.call()])), await one.refresh()]) {
          assert.deepEqual([call.status, call.body.code], [503, "provider_unavailable"], JSON.stringify(call.body));
          waitS = Number(call.headers.get("retry-after"));
          assert.ok(waitS >= Math.max(1, retryAfterS - 5) && waitS <= retryAfterS, `Retry-After: ${waitS}`);
        }
        assert.equal(requests(one), 1);
        assert.deepEqual([(await one.read()).status, (await one.read()).status_reason], ["ACTIVE", null]);
        assert.deepEqual(await one.events(), [...PUT, "token_refresh_failed"]);
        if (retryAfterS > 1) return;
        await systemClock.sleep(waitS * 1000);
        assert.equal((await one.call()).status, 200);
        assert.deepEqual([requests(one), await one.events()], [2, [...PUT, "token_refresh_failed", "token_refreshed"]]);
      });
    }

    for (const [who, answer] of LOST) {
      test(`${who}: tried once more after the back-off, then EXPIRED/refresh_outcome_unknown, told by one event`, async () => {
        const one = await account();
        outband.provider.fault({ match: TOKEN.gmail, ...answer });
        const first = await one.call();
        assert.deepEqual([first.status, first.body.code], [503, "provider_unavailable"], JSON.stringify(first.body));
        await systemClock.sleep(Number(first.headers.get("retry-after")) * 1000);
        for (let n = 0; n < 3; n += 1) {
          const call = await one.call();
          assert.deepEqual([call.status, call.body.code, call.body.reason], [409, "reauth_needed", "refresh_outcome_unknown"], JSON.stringify(call.body));
        }
        assert.equal(requests(one), 2);
        assert.deepEqual(await one.events(), [...PUT, "token_refresh_failed", "status_updated EXPIRED/refresh_outcome_unknown"]);
      });
    }

    test("F02: invalid_request twice in a row: ERROR/misconfigured, and no third request", async () => {
      const one = await account();
      outband.provider.fault({ match: TOKEN.gmail, times: 2, ...json(400, { error: "invalid_request" }) });
      const first = await one.call();
      assert.equal(first.status, 503);
      await systemClock.sleep(Number(first.headers.get("retry-after")) * 1000);
      for (let n = 0; n < 3; n += 1) assert.deepEqual([(await one.call()).body.reason, requests(one)], ["misconfigured", 2]);
      assert.deepEqual(await one.events(), [...PUT, "token_refresh_failed", "status_updated ERROR/misconfigured"]);
    });

    test("F02: a renewal that fails while the token still works lets the call go on, and is not tried at each call", async () => {
      const one = await account({ expiresInMs: 3600_000 });
      clock.forward(3600_000 - 40_000);
      outband.provider.fault({ match: TOKEN.gmail, ...json(503, {}, { "retry-after": "20" }) });
      for (let n = 0; n < 5; n += 1) assert.equal((await one.call()).status, 200);
      assert.equal(requests(one), 1);
    });
  });
}
