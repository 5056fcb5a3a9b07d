// A lost master key: the start is refused in words, nothing is written, and the way out erases what cannot be opened.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { systemClock } from "../../src/clock.js";
import { secret } from "../../src/crypto/secret.js";
import { openDatabase } from "../../src/db/client.js";
import { abandonKeys } from "../../src/vault/abandon.js";
import { silentLog } from "../support/database.js";
import { connect, KINDS } from "../support/journey.js";
import { callTool, linkOf } from "../support/mcpCall.js";
import { startOutband } from "../support/outband.js";

const OTHER_KEY = Buffer.from("another-key-of-exactly-32-bytes!").toString("base64");

for (const kind of KINDS) {
  describe(`a lost master key (${kind})`, () => {
    test("refused without a value in the words; after abandoning, accounts are EXPIRED/key_lost and connect anew", async () => {
      const outband = await startOutband({ kind });
      const person = await outband.person("loser");
      const asked = await callTool(outband.url, person.token, "summarize_inbox");
      await connect(linkOf(asked), await person.signIn());
      await assert.rejects(outband.restart({ MASTER_KEY: OTHER_KEY }), (error: Error) => {
        assert.equal(error.name, "MasterKeyRefusal");
        assert.match(error.message, /MASTER_KEY/);
        assert.match(error.message, /outband keys abandon/);
        assert.equal(error.message.includes(OTHER_KEY), false);
        return true;
      });

      const db = await openDatabase({ databaseUrl: outband.databaseUrl === null ? null : secret(outband.databaseUrl), dataDir: outband.dataDir, log: silentLog, clock: systemClock });
      assert.equal(await db.prisma.connectedAccount.count({ where: { status: "ACTIVE" } }), 1, "the refused start wrote nothing");
      assert.deepEqual(await abandonKeys({ db, clock: systemClock }), { accounts: 1, connections: 2 });
      assert.deepEqual(await abandonKeys({ db, clock: systemClock }), { accounts: 0, connections: 0 });
      await db.close();

      await outband.start({ MASTER_KEY: OTHER_KEY });
      const [account] = (await outband.api("GET", `/accounts?identifier=${person.sub}`)).body.data;
      assert.deepEqual([account.status, account.status_reason], ["EXPIRED", "key_lost"]);
      await outband.api("PATCH", "/connections/gmail", { client_secret: outband.provider.google.clientSecret.reveal() });
      const token = (await outband.api("POST", "/session-tokens", { identifier: person.sub, ttl_s: 600 })).body.token;
      const again = await callTool(outband.url, token, "summarize_inbox");
      const page = await connect(linkOf(again), await person.signIn());
      assert.equal(page.status, 200, page.text);
      await outband.close();
    });
  });
}
