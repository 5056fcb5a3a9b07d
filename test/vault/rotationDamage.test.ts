// Damaged and misplaced ciphertexts on the whole program: what does not open harms its own account alone, is never taken for
// another's, and there is a way back.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { connect, KINDS } from "../support/journey.js";
import { callTool, linkOf } from "../support/mcpCall.js";
import { damaged, flipped, flippedText, putGmail } from "../support/damage.js";
import { type Outband, startOutband } from "../support/outband.js";

const ACCOUNTS = 50;
/** Long enough for the clocks of two instances to differ. */
const OVERDUE = { lastRefreshedAt: new Date(Date.now() - 7_200_000), tokenExpiresAt: new Date(Date.now() - 3_600_000) };
const isDone = (answer: { body: { result?: { resultType?: string; isError?: boolean } } }) => answer.body.result?.resultType === "complete" && answer.body.result.isError !== true;
const accountsOf = async (outband: Outband, query: string) => (await outband.api("GET", `/accounts?limit=200&${query}`)).body.data as { id: string; identifier: string; label: string; status: string; status_reason: string | null }[];
const statusesOf = async (outband: Outband, query: string) => (await accountsOf(outband, query)).map(({ status, status_reason }) => [status, status_reason]);
const execute = (outband: Outband, identifier: string, account: string) => outband.api("POST", "/tools/gmail_list_messages/execute", { identifier, account, arguments: {} });

for (const kind of KINDS) {
  describe(`damage (${kind})`, () => {
    test(`one corrupt row among ${ACCOUNTS}: that account alone is ERROR/unreadable_credential, its person is offered a link, and connecting again mends it`, async () => {
      const outband = await startOutband({ kind });
      const people = [await outband.person("first"), await outband.person("second")] as const;
      for (let n = 0; n < ACCOUNTS; n += 1) await putGmail(outband, people[n % 2]?.sub ?? "", n < 2 ? "" : `nr ${n}`);
      const [victim] = (await accountsOf(outband, `identifier=${people[0].sub}`)).filter(({ label }) => label === "");
      await damaged(outband, async (db) => {
        const row = await db.prisma.connectedAccount.findUniqueOrThrow({ where: { id: victim?.id ?? "" } });
        await db.prisma.connectedAccount.update({ where: { id: row.id }, data: { accessSealed: flipped(row.accessSealed) } });
      });
      for (const { identifier, label, id } of await accountsOf(outband, "connection_name=gmail")) {
        const answer = await execute(outband, identifier, label || "default");
        if (id === victim?.id) assert.deepEqual([answer.status, answer.body.code], [409, "reauth_needed"]);
        else assert.equal(answer.status, 200, JSON.stringify(answer.body));
      }
      const broken = (await accountsOf(outband, "connection_name=gmail")).filter(({ status }) => status !== "ACTIVE");
      assert.deepEqual(broken.map(({ id, status, status_reason }) => [id, status, status_reason]), [[victim?.id, "ERROR", "unreadable_credential"]]);
      const events = (await outband.api("GET", `/events?account_id=${victim?.id}&type=connected_account.status_updated`)).body.data;
      assert.deepEqual([events.at(-1).data.old_status, events.at(-1).data.status_reason], ["ACTIVE", "unreadable_credential"]);
      assert.equal(outband.provider.count("POST /google/token"), 0);

      const token = (await outband.api("POST", "/session-tokens", { identifier: people[0].sub, ttl_s: 600 })).body.token as string;
      const asked = await callTool(outband.url, token, "gmail_list_messages", { account: "default" });
      const page = await connect(linkOf(asked), await people[0].signIn());
      assert.equal(page.status, 200, page.text);
      assert.ok(isDone(await callTool(outband.url, token, "gmail_list_messages", { account: "default" })));
      assert.ok((await statusesOf(outband, "connection_name=gmail")).every(([status]) => status === "ACTIVE"));
      await outband.close();
    });

    test("a refresh token that does not open is noticed when it is due, and an account in that state can be disconnected", async () => {
      const outband = await startOutband({ kind });
      const person = await outband.person("due");
      const id = await putGmail(outband, person.sub);
      await damaged(outband, async (db) => {
        const row = await db.prisma.connectedAccount.findUniqueOrThrow({ where: { id } });
        await db.prisma.connectedAccount.update({ where: { id }, data: { refreshSealed: flipped(row.refreshSealed), ...OVERDUE } });
      });
      assert.equal((await execute(outband, person.sub, "default")).status, 409);
      assert.deepEqual(await statusesOf(outband, `identifier=${person.sub}`), [["ERROR", "unreadable_credential"]]);
      assert.equal(outband.provider.count("POST /google/token"), 0);
      const gone = await outband.api("DELETE", `/accounts/${id}`);
      assert.ok(gone.status < 300, JSON.stringify(gone.body));
      assert.deepEqual(await statusesOf(outband, `identifier=${person.sub}`), [["REVOKED", "disconnected_by_admin"]]);
      await outband.close();
    });

    test("a damaged data key: the accounts of its connection alone; the client secret entered again, people connect again, and everything else never stopped", async () => {
      const outband = await startOutband({ kind });
      const [person, other] = [await outband.person("one"), await outband.person("two")];
      for (const one of [person, other]) await putGmail(outband, one.sub);
      const slack = await callTool(outband.url, person.token, "slack_list_channels");
      await connect(linkOf(slack, "connect_slack"), await person.signIn());
      await damaged(outband, async (db) => {
        const { id } = await db.prisma.connection.findUniqueOrThrow({ where: { name: "gmail" } });
        const row = await db.prisma.dataKey.findUniqueOrThrow({ where: { scope: id } });
        await db.prisma.dataKey.update({ where: { scope: id }, data: { wrapped: flippedText(row.wrapped) } });
      });
      const seen = (await outband.api("GET", "/keys")).body;
      assert.deepEqual([seen.remaining, seen.damaged], [0, [{ connection_name: "gmail", kid: seen.current }]]);
      assert.ok(isDone(await callTool(outband.url, person.token, "slack_list_channels")));
      for (const one of [person, other]) assert.equal((await execute(outband, one.sub, "default")).body.code, "reauth_needed");
      assert.deepEqual(await statusesOf(outband, "connection_name=gmail"), [["ERROR", "unreadable_credential"], ["ERROR", "unreadable_credential"]]);
      assert.deepEqual(await statusesOf(outband, "connection_name=slack"), [["ACTIVE", null]]);

      // A link is offered; behind it stands the client secret, which was lost too: said as what it is, and no person can mend it.
      const asked = await callTool(outband.url, person.token, "gmail_list_messages");
      const browser = await person.signIn();
      const page = await browser.get(linkOf(asked));
      const stopped = await browser.post(linkOf(asked), {}, { from: page });
      assert.equal(stopped.status, 502);
      assert.match(stopped.text, /There is nothing for you to do: the people who run this installation have to mend it/);
      assert.equal((await outband.api("PATCH", "/connections/gmail", { client_secret: outband.provider.google.clientSecret.reveal() })).status, 200);
      for (const one of [person, other]) {
        const again = await callTool(outband.url, one.token, "gmail_list_messages");
        assert.equal((await connect(linkOf(again), await one.signIn())).status, 200);
        assert.ok(isDone(await callTool(outband.url, one.token, "gmail_list_messages")));
      }
      assert.deepEqual((await outband.api("GET", "/keys")).body.damaged, []);
      assert.ok(outband.logs.some((line) => line.includes("a data key does not open and was put aside")));
      assert.deepEqual((await outband.api("POST", "/keys/rotate", {})).body, { rewrapped: 0, remaining: 0 });
      await outband.close();
    });

    test("a client secret that does not open is the operator's matter: no account is called unreadable, and entering it again needs no new consent", async () => {
      const outband = await startOutband({ kind });
      const person = await outband.person("patient");
      const id = await putGmail(outband, person.sub);
      await damaged(outband, async (db) => {
        const row = await db.prisma.connection.findUniqueOrThrow({ where: { name: "gmail" } });
        await db.prisma.connection.update({ where: { id: row.id }, data: { clientSecretSealed: flipped(row.clientSecretSealed) } });
        await db.prisma.connectedAccount.update({ where: { id }, data: { ...OVERDUE } });
      });
      await execute(outband, person.sub, "default");
      assert.deepEqual(await statusesOf(outband, `identifier=${person.sub}`), [["ERROR", "misconfigured"]]);
      await outband.api("PATCH", "/connections/gmail", { client_secret: outband.provider.google.clientSecret.reveal() });
      const answer = await execute(outband, person.sub, "default");
      assert.equal(answer.status, 200, JSON.stringify(answer.body));
      assert.deepEqual(await statusesOf(outband, `identifier=${person.sub}`), [["ACTIVE", null]]);
      await outband.close();
    });

    test("a connection of the environment whose secret or data key does not open does not keep the program from starting: it is sealed anew", async () => {
      const google = { GOOGLE_CLIENT_ID: "client-of-the-environment", GOOGLE_CLIENT_SECRET: "secret-of-the-environment" };
      const outband = await startOutband({ kind, connections: [], settings: google });
      for (const part of ["secret", "data key"]) {
        await damaged(outband, async (db) => {
          const row = await db.prisma.connection.findUniqueOrThrow({ where: { name: "gmail" } });
          const key = await db.prisma.dataKey.findUniqueOrThrow({ where: { scope: row.id } });
          if (part === "secret") await db.prisma.connection.update({ where: { id: row.id }, data: { clientSecretSealed: flipped(row.clientSecretSealed) } });
          else await db.prisma.dataKey.update({ where: { id: key.id }, data: { wrapped: flippedText(key.wrapped) } });
        });
        assert.deepEqual((await outband.api("GET", "/keys")).body.damaged, []);
        assert.equal((await outband.api("GET", "/connections/gmail")).body.client_id, google.GOOGLE_CLIENT_ID);
      }
      await outband.close();
    });

    test("the data key of sign-ins is damaged: the program starts, people sign in again, their accounts are untouched", async () => {
      const outband = await startOutband({ kind });
      const person = await outband.person("signed");
      await putGmail(outband, person.sub);
      const browser = await person.signIn();
      await damaged(outband, async (db) => {
        const row = await db.prisma.dataKey.findUniqueOrThrow({ where: { scope: "installation" } });
        await db.prisma.dataKey.update({ where: { id: row.id }, data: { wrapped: flippedText(row.wrapped) } });
      });
      assert.match(outband.app().notes.join("\n"), /The key that signs tokens did not open\. A new one was made: everybody signs in again/);
      assert.equal((await browser.get("/connections")).location, `${outband.url}/login`);
      assert.equal((await callTool(outband.url, person.token, "gmail_list_messages")).status, 401);
      assert.equal((await execute(outband, person.sub, "default")).status, 200);
      assert.equal((await (await person.signIn()).get("/connections")).status, 200);
      await outband.restart();
      assert.deepEqual(outband.app().notes.filter((note) => note.includes("signs tokens")), []);
      await outband.close();
    });

    test("a ciphertext moved to another person's row, field, generation, connection or table opens nothing, and nothing of it reaches a provider", async () => {
      const outband = await startOutband({ kind });
      const made = await outband.api("POST", "/connections", {
        name: "work_mail",
        connector: "gmail",
        client_id: outband.provider.google.clientId,
        client_secret: outband.provider.google.clientSecret.reveal(),
        endpoints: outband.provider.google.endpoints,
      });
      assert.equal(made.status, 201, JSON.stringify(made.body));
      const [owner, thief] = [await outband.person("owner"), await outband.person("thief")];
      const source = await putGmail(outband, owner.sub);
      const ids: Record<string, string> = {};
      const moves = ["row", "field", "generation", "table", "secret", "connection"];
      for (const move of moves) ids[move] = await putGmail(outband, thief.sub, move);
      const link = await outband.api("POST", "/authorization-links", { connection_name: "gmail", identifier: owner.sub, label: "open" });
      assert.equal(link.status, 201);
      await damaged(outband, async (db) => {
        const from = await db.prisma.connectedAccount.findUniqueOrThrow({ where: { id: source } });
        const { clientSecretSealed } = await db.prisma.connection.findUniqueOrThrow({ where: { name: "gmail" } });
        const { tokenSealed } = await db.prisma.authorizationLink.findUniqueOrThrow({ where: { id: link.body.id } });
        const own = await db.prisma.connectedAccount.findUniqueOrThrow({ where: { id: ids["generation"] ?? "" } });
        const put = (move: string, data: { accessSealed?: Uint8Array<ArrayBuffer> | null; generation?: number }) => db.prisma.connectedAccount.update({ where: { id: ids[move] ?? "" }, data });
        await put("row", { accessSealed: from.accessSealed });
        await put("field", { accessSealed: (await db.prisma.connectedAccount.findUniqueOrThrow({ where: { id: ids["field"] ?? "" } })).refreshSealed });
        await put("generation", { generation: own.generation + 1 });
        await put("table", { accessSealed: tokenSealed });
        await put("secret", { accessSealed: clientSecretSealed });
        // The row goes over whole: the connection alone differs, and with it the data key and the associated data.
        await db.prisma.connectedAccount.update({ where: { id: ids["connection"] ?? "" }, data: { connectionId: made.body.id } });
      });
      outband.provider.resetCounts();
      for (const move of moves) {
        const tool = move === "connection" ? "work_mail__gmail_list_messages" : "gmail_list_messages";
        const answer = await outband.api("POST", `/tools/${tool}/execute`, { identifier: thief.sub, account: move, arguments: {} });
        assert.deepEqual([move, answer.status, answer.body.code], [move, 409, "reauth_needed"]);
      }
      assert.deepEqual(outband.provider.counts(), Object.fromEntries(Object.keys(outband.provider.counts()).map((name) => [name, 0])), "no provider was asked");
      assert.ok((await accountsOf(outband, `identifier=${thief.sub}`)).every(({ status, status_reason }) => status === "ERROR" && status_reason === "unreadable_credential"));
      assert.equal((await execute(outband, owner.sub, "default")).status, 200, "the row that it was taken from is whole");
      await outband.close();
    });
  });
}
