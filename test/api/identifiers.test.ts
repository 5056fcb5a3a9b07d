// Identifiers are compared byte for byte (contract section 1): what folds, trims, decodes or composes elsewhere stays apart here,
// on the way in, in every filter and address, and on the way out.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import pg from "pg";
import { systemClock } from "../../src/clock.js";
import { openDatabase } from "../../src/db/client.js";
import { KINDS } from "../support/journey.js";
import { callTool } from "../support/mcpCall.js";
import { type Outband, startOutband } from "../support/outband.js";
import { silentLog } from "../support/silentLog.js";

const IDENTIFIERS = [
  "plain",
  "Plain",
  "plain ",
  " plain",
  "pla in",
  "pla+in",
  "pla%20in",
  "pla%2Bin",
  "pla/in",
  "pla%2Fin",
  "plain/..",
  "../plain",
  "plain?x=1&y",
  "plain\"'<b>",
  "plain\u00e9",
  "plaine\u0301",
  "\u00c5",
  "A\u030a",
  "\u212b",
  "\ufb01",
  "fi",
  "\u0130",
  "i\u0307",
  "\u200bplain",
  "plain\ufeff",
  "\ud83e\udd8a",
  "null",
  "__proto__",
  "x".repeat(255),
];

for (const kind of KINDS) {
  describe(`identifiers (${kind})`, () => {
    let outband: Outband;

    before(async () => {
      outband = await startOutband({ kind });
      await outband.app().close();
      await addPeople(outband);
      await outband.start();
    });

    test("each is its own person, byte for byte, on the way in and on the way out", async () => {
      const accounts = new Map<string, string>();
      for (const identifier of IDENTIFIERS) {
        const link = await outband.api("POST", "/authorization-links", { connection_name: "gmail", identifier });
        assert.equal(link.status, 201, `${JSON.stringify(identifier)}: ${JSON.stringify(link.body)}`);
        accounts.set(identifier, link.body.account_id);
      }
      assert.equal(new Set(accounts.values()).size, IDENTIFIERS.length);
      for (const [identifier, id] of accounts) {
        assert.equal((await outband.api("GET", `/accounts/${id}`)).body.identifier, identifier);
        const found = (await outband.api("GET", `/accounts?identifier=${encodeURIComponent(identifier)}`)).body.data;
        assert.deepEqual(found.map((account: { id: string }) => account.id), [id], JSON.stringify(identifier));
      }
    });

    test("a session token for each is that person's and nobody else's", async () => {
      for (const identifier of IDENTIFIERS) {
        const label = `of ${IDENTIFIERS.indexOf(identifier)}`;
        const put = await outband.api("POST", "/accounts", { connection_name: "slack", identifier, label, credential: { type: "oauth", access_token: "xoxp-unknown" } });
        assert.equal(put.status, 201, JSON.stringify(put.body));
      }
      for (const identifier of IDENTIFIERS) {
        const { token } = (await outband.api("POST", "/session-tokens", { identifier, ttl_s: 600 })).body;
        const listed = JSON.stringify((await callTool(outband.url, token, "list_my_connections")).body);
        assert.deepEqual(listed.match(/"of \d+"/g)?.filter((one, index, all) => all.indexOf(one) === index), [`"of ${IDENTIFIERS.indexOf(identifier)}"`], JSON.stringify(identifier));
      }
    });

    test("each can be changed and removed under its own address", async () => {
      for (const identifier of IDENTIFIERS) {
        const path = `/users/${encodeURIComponent(identifier)}`;
        const changed = await outband.api("PATCH", path, { name: `N${IDENTIFIERS.indexOf(identifier)}` });
        assert.deepEqual([changed.status, changed.body.sub], [200, identifier], JSON.stringify(changed.body));
      }
      const names = (await outband.api("GET", "/users?limit=200")).body.data.filter(({ name }: { name: string | null }) => /^N\d+$/.test(name ?? ""));
      assert.equal(new Set(names.map(({ sub }: { sub: string }) => sub)).size, IDENTIFIERS.length);
      assert.equal((await outband.api("DELETE", `/users/${encodeURIComponent("plain/..")}`)).status, 204);
      assert.equal((await outband.api("PATCH", "/users/plain", { name: "still here" })).status, 200);
      // A client resolves a dot segment before it asks: nobody could be reached under it.
      for (const sub of [".", ".."]) assert.equal((await outband.api("POST", "/users", { sub, email: "dots@people.example" })).status, 400);
    });
  });
}

/** Into the table: the built-in sign-in makes plain ones alone, other issuers need not. */
async function addPeople(outband: Outband): Promise<void> {
  const text = "INSERT INTO user_account (sub, email, email_key, updated_at) VALUES ($1, $2, $2, now())";
  if (outband.databaseUrl !== null) {
    const client = new pg.Client({ connectionString: outband.databaseUrl });
    await client.connect();
    for (const [index, sub] of IDENTIFIERS.entries()) await client.query(text, [sub, `p${index}@people.example`]);
    return client.end();
  }
  const database = await openDatabase({ databaseUrl: null, dataDir: outband.dataDir, log: silentLog, clock: systemClock });
  for (const [index, sub] of IDENTIFIERS.entries()) await database.query({ name: "add_person", text }, [sub, `p${index}@people.example`]);
  await database.close();
}
