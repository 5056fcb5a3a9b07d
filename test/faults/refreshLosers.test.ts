// A refresh in flight that loses to a person: the disconnect and the reconnect win, and what the refresh brings home is given
// back at the provider, unless another account lives on it. Over real HTTP, with the answer held. Issue: "Disconnect wins".
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { systemClock } from "../../src/clock.js";
import { grantedAccount, issue } from "../support/grants.js";
import { KINDS } from "../support/journey.js";
import { type MovableClock, movableClock } from "../support/movableClock.js";
import { type Outband, startOutband } from "../support/outband.js";

const TOKEN = "POST /google/token";
const REVOKE = "POST /google/revoke";
const SCOPES = ["https://www.googleapis.com/auth/gmail.readonly"];

for (const kind of KINDS) {
  describe(`refreshes that lose (${kind})`, () => {
    let outband: Outband;
    let clock: MovableClock;
    before(async () => {
      clock = movableClock();
      outband = await startOutband({ kind, clock, connections: ["gmail"] });
    });

    /** On a grant of nobody known: with an access token that has run out nobody can be asked whose it is. */
    async function account(name: string, known: boolean) {
      if (!known) outband.provider.setPolicy("google", { accessTtlS: 0 });
      const one = await grantedAccount({ provider: outband.provider, clock, api: (method, path, body) => outband.api(method, path, body) }, name);
      outband.provider.setPolicy("google", { accessTtlS: 3600 });
      outband.provider.resetCounts();
      return one;
    }

    async function until(what: () => boolean, title: string): Promise<void> {
      for (let n = 0; !what(); n += 1) {
        assert.ok(n < 400, `never: ${title}`);
        await systemClock.sleep(25);
      }
    }

    for (const at of ["before", "after"] as const) {
      test(`a disconnect while the token request is held ${at} the provider's work: REVOKED stays, no grant is left alive`, async () => {
        const one = await account(`leaver-${at}`, false);
        const held = outband.provider.hold(TOKEN, { at });
        const call = one.call();
        await held.arrived;
        const gone = await one.disconnect();
        assert.deepEqual([gone.status, gone.body.status, gone.body.status_reason], [200, "REVOKED", "disconnected_by_admin"]);
        held.release();
        assert.equal((await call).status, 409);
        // Ours at the disconnect, and the loser's where the provider still gave one.
        await until(() => outband.provider.grants.google.live().length === 0, "every grant ended");
        await until(() => outband.provider.count(REVOKE) >= (at === "after" ? 2 : 1), "given back");
        assert.deepEqual([(await one.read()).status, (await one.events()).at(-1)], ["REVOKED", "status_updated REVOKED/disconnected_by_admin"]);
        assert.equal((await one.call()).status, 409);
        assert.equal(outband.provider.count(TOKEN), 1);
      });
    }

    test("a new grant put in while the old one's refresh is held: the new one is kept and works, and is not ended with the old", async () => {
      const one = await account("changer", true);
      const held = outband.provider.hold(TOKEN, { at: "after" });
      const call = one.call();
      await held.arrived;
      const next = issue(outband.provider, "gmail");
      const put = await outband.api("POST", "/accounts", {
        connection_name: "gmail",
        identifier: one.identifier,
        credential: { type: "oauth", access_token: next.access, refresh_token: next.refresh, expires_at: new Date(clock.now() + 3600_000).toISOString(), scopes: SCOPES },
      });
      assert.equal(put.status, 201, JSON.stringify(put.body));
      held.release();
      // The caller who waited for the old grant's refresh goes on with the new one.
      assert.equal((await call).status, 200);
      assert.equal((await one.call()).status, 200);
      assert.deepEqual([outband.provider.count(TOKEN), outband.provider.count(REVOKE)], [1, 0]);
      assert.equal((await one.read()).status, "ACTIVE");
      await one.disconnect();
    });

    test("twenty calls, a disconnect in their midst: each one ends as a result or as reauth_needed, and the account stays REVOKED", async () => {
      const one = await account("crowd", false);
      const held = outband.provider.hold(TOKEN, { at: "after" });
      const calls = Array.from({ length: 20 }, () => one.call());
      await held.arrived;
      await one.disconnect();
      held.release();
      for (const call of await Promise.all(calls)) assert.equal(call.status, 409, JSON.stringify(call.body));
      assert.deepEqual([(await one.read()).status, outband.provider.count(TOKEN)], ["REVOKED", 1]);
    });
  });
}


