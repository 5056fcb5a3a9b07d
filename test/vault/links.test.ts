// Links over the API: for whom they may be made, where they lead back, and how their end is waited for.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { connect, consent, KINDS } from "../support/journey.js";
import { movableClock } from "../support/movableClock.js";
import { ADMIN_KEY, type Answer, type Outband, startOutband } from "../support/outband.js";

const MINUTE_MS = 60_000;

for (const kind of KINDS) {
  describe(`links (${kind})`, () => {
    let outband: Outband;
    /** Deadlines that begin from now on end after this at the latest. */
    let patienceMs = Number.POSITIVE_INFINITY;
    const movable = movableClock();
    const clock = { ...movable, deadline: (ms: number) => movable.deadline(Math.min(ms, patienceMs)) };

    before(async () => {
      outband = await startOutband({ kind, clock });
    });

    const newLink = (body: Record<string, unknown>, key?: string): Promise<Answer> => outband.api("POST", "/authorization-links", { connection_name: "gmail", ...body }, key);

    async function linkFor(name: string, more: Record<string, unknown> = {}) {
      const person = await outband.person(name);
      const answer = await newLink({ identifier: person.sub, ...more });
      assert.equal(answer.status, 201, JSON.stringify(answer.body));
      return { person, link: answer.body as { id: string; url: string; account_id: string; expires_at: string } };
    }

    test("for nobody that signs in here: 422, and no account is left behind", async () => {
      const person = await outband.person("known");
      await outband.person("out");
      await outband.api("PATCH", "/users/person-out", { role: "disabled" });
      for (const identifier of ["nobody", person.sub.toUpperCase(), `${person.sub} `, person.email, "person-out"]) {
        const answer = await newLink({ identifier });
        assert.deepEqual([answer.status, answer.body.code], [422, "unknown_identifier"], identifier);
        assert.deepEqual((await outband.api("GET", `/accounts?identifier=${encodeURIComponent(identifier)}`)).body.data, []);
      }
    });

    test("for an unknown connection 404, for one that is switched off 403; it works again when it is on", async () => {
      const person = await outband.person("off");
      assert.equal((await newLink({ connection_name: "nowhere", identifier: person.sub })).status, 404);
      await outband.api("PATCH", "/connections/slack", { enabled: false });
      const refused = await newLink({ connection_name: "slack", identifier: person.sub });
      assert.deepEqual([refused.status, refused.body.code, refused.body.reason], [403, "forbidden", "connection_disabled"]);
      await outband.api("PATCH", "/connections/slack", { enabled: true });
      assert.equal((await newLink({ connection_name: "slack", identifier: person.sub })).status, 201);
    });

    test("two links for one account are two links, and the account is one; another label is another account", async () => {
      const { person, link } = await linkFor("twice");
      const again = (await newLink({ identifier: person.sub })).body;
      const work = (await newLink({ identifier: person.sub, label: "work" })).body;
      assert.equal(again.account_id, link.account_id);
      assert.equal(new Set([link.id, again.id, work.id]).size + new Set([link.url, again.url, work.url]).size, 6);
      assert.notEqual(work.account_id, link.account_id);
    });

    test("labels: 1 to 64 printable characters of any script, or none", async () => {
      const person = await outband.person("labelled");
      for (const label of ["", "a", "Büro 2", "काम", "งาน", "e\u0301", "\u00e9", "仕事", "🦊", "🦊".repeat(64), "x".repeat(64), "a/b?c=d", "Default"]) {
        const made = await newLink({ identifier: person.sub, label });
        assert.equal(made.status, 201, `${label}: ${JSON.stringify(made.body)}`);
        assert.equal((await outband.api("GET", `/accounts/${made.body.account_id}`)).body.label, label);
      }
      for (const label of [" ", "a ", " a", "a\tb", "a\nb", "\u0000", "\u202eabc", "a\u200bb", "\ufeff", "\u0301a", "x".repeat(65), "🦊".repeat(65), "default", "\u00a0"]) {
        const refused = await newLink({ identifier: person.sub, label });
        assert.deepEqual([refused.status, refused.body.code], [400, "invalid_request"], JSON.stringify(label));
      }
    });

    test("return_to: only to an origin of that key, however the address is dressed up", async () => {
      const person = await outband.person("returning");
      const origins = ["https://app.example", "http://localhost:5555"];
      const { key } = (await outband.api("POST", "/api-keys", { name: "app", scopes: ["execute", "read"], return_to_origins: origins })).body;
      const ask = async (return_to: string, by = key) => newLink({ identifier: person.sub, return_to }, by);
      for (const good of ["https://app.example", "https://app.example/", "https://app.example/done?a=1#b", "http://localhost:5555/x", "https://APP.example:443/x"]) {
        assert.equal((await ask(good)).status, 201, good);
      }
      for (const bad of [
        "https://app.example.evil.example/",
        "https://app.exampleevil/",
        "https://evil.example/https://app.example",
        "https://evil.example?https://app.example/",
        "https://evil.example#https://app.example/",
        "https://app.example@evil.example/",
        "https://app.example:x@evil.example/",
        "https://user:pass@app.example/",
        "https://user@app.example/",
        "https://sub.app.example/",
        "https://app.example:8443/",
        "https://app.example:80/",
        "http://app.example/",
        "http://localhost/",
        "http://localhost:55555/",
        "http://127.0.0.1:5555/",
        "https://xn--pp-wia.example/",
        "https://аpp.example/",
        "javascript:alert(1)",
        "javascript://app.example/%0aalert(1)",
        "data:text/html,x",
        "blob:https://app.example/x",
        "file:///etc/passwd",
        "//app.example/",
        "/done",
        "app.example",
        "",
        "https://",
        "https:///app.example.evil.example",
        "https:app.example.evil.example",
        "https:\\\\evil.example\\@app.example",
        `https://app.example/${"x".repeat(2_100)}`,
      ]) {
        const refused = await ask(bad);
        assert.deepEqual([refused.status, refused.body.errors?.[0]?.path], [400, "return_to"], `${bad}: ${JSON.stringify(refused.body)}`);
        assert.ok(!JSON.stringify(refused.body).includes("evil"));
        const token = await outband.api("POST", "/session-tokens", { identifier: person.sub, ttl_s: 60, return_to: bad }, key);
        assert.deepEqual([token.status, token.body.errors?.[0]?.path], [400, "return_to"], bad);
      }
      const another = (await outband.api("POST", "/api-keys", { name: "none", scopes: ["execute"] })).body;
      for (const by of [another.key, ADMIN_KEY]) assert.equal((await ask("https://app.example/", by)).status, 400);

      const link = await newLink({ identifier: person.sub, return_to: "https://app.example/done?a=1", state: "s &=/+ é" }, key);
      const back = new URL((await connect(link.body.url, await person.signIn())).location ?? "");
      assert.equal(back.origin + back.pathname, "https://app.example/done");
      assert.deepEqual(Object.fromEntries(back.searchParams), { a: "1", link_id: link.body.id, state: "s &=/+ é" });
    });

    test("what may be an origin of a key: a whole one, https or this machine", async () => {
      for (const origin of ["https://app.example/path", "http://app.example", "https://user@app.example", "javascript:alert(1)", "*", "https://*", "null", "https://app.example?x", "app.example"]) {
        const refused = await outband.api("POST", "/api-keys", { name: "odd", scopes: ["read"], return_to_origins: [origin] });
        assert.deepEqual([refused.status, refused.body.errors?.[0]?.path], [400, "return_to_origins"], origin);
      }
    });

    test("wait_s ends at once when the person is done, and when the person says no", async () => {
      for (const [name, decision, status, reason] of [["done", "allow", "completed", undefined], ["no", "deny", "denied", "consent_denied"]] as const) {
        const { person, link } = await linkFor(`wait-${name}`);
        const callback = await consent(link.url, await person.signIn(person.browser), { decision });
        const waits = [0, 1].map(() => outband.api("GET", `/authorization-links/${link.id}?wait_s=25`));
        const began = performance.now();
        await person.browser.get(callback);
        for (const waited of await Promise.all(waits)) {
          assert.deepEqual([waited.status, waited.body.status, waited.body.reason], [200, status, reason], JSON.stringify(waited.body));
        }
        assert.ok(performance.now() - began < 10_000, "far less than 25 s");
        const settled = performance.now();
        assert.equal((await outband.api("GET", `/authorization-links/${link.id}?wait_s=25`)).body.status, status);
        assert.ok(performance.now() - settled < 5_000);
      }
    });

    test("wait_s: 0 to 25 whole seconds; nobody came: the link as it is", async () => {
      const { link } = await linkFor("unhurried");
      for (const wait of ["-1", "26", "1.5", "soon", "1e9"]) assert.equal((await outband.api("GET", `/authorization-links/${link.id}?wait_s=${wait}`)).status, 400, wait);
      const began = performance.now();
      assert.equal((await outband.api("GET", `/authorization-links/${link.id}?wait_s=1`)).body.status, "open");
      assert.ok(performance.now() - began >= 950);
    });

    test("a doubled callback whose first still waits for the provider is told so, and the same address shows the outcome later", async () => {
      const { person, link } = await linkFor("patient");
      const callback = await consent(link.url, await person.signIn(person.browser));
      const held = outband.provider.hold("POST /google/token");
      const first = person.browser.get(callback);
      await held.arrived;
      patienceMs = 300;
      const second = await person.browser.get(callback).finally(() => {
        patienceMs = Number.POSITIVE_INFINITY;
      });
      assert.equal(second.status, 202, second.text);
      assert.match(second.text, /still being connected/);
      assert.match(second.text, /<a class="button primary" href="">Look again<\/a>/);
      held.release();
      assert.equal((await first).status, 200);
      assert.equal((await person.browser.get(callback)).status, 200);
    });

    test("told to stop while somebody waits, the program answers at once", async () => {
      const { link } = await linkFor("stopped");
      const began = performance.now();
      const waiting = outband.api("GET", `/authorization-links/${link.id}?wait_s=25`);
      await outband.api("GET", "/connections");
      const stopped = outband.restart();
      assert.deepEqual([(await waiting).status, (await waiting).body.status], [200, "open"]);
      assert.ok(performance.now() - began < 9_000);
      await stopped;
    });

    test("a link that nobody opened runs out, and says so; its account is told why", async () => {
      const { person, link } = await linkFor("late");
      assert.ok(Math.abs(Date.parse(link.expires_at) - clock.now() - 10 * MINUTE_MS) < MINUTE_MS, link.expires_at);
      clock.forward(11 * MINUTE_MS);
      const { body } = await outband.api("GET", `/authorization-links/${link.id}`);
      assert.deepEqual([body.status, body.reason], ["expired", "link_expired"]);
      const page = await (await person.signIn()).get(link.url);
      assert.equal(page.status, 410, page.text);
    });
  });
}
