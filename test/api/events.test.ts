// Events over the API: every change of an account in order, numbered without a gap (contract section 8).
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { systemClock } from "../../src/clock.js";
import { connect, KINDS } from "../support/journey.js";
import { type Outband, startOutband } from "../support/outband.js";
import { assertBody, assertProblem, idOf, TIME } from "./pin.js";

interface Envelope {
  id: string;
  type: string;
  account_sequence: number;
  data: Record<string, unknown>;
}

const TOKEN = "POST /google/token";

for (const kind of KINDS) {
  describe(`events of the vault API (${kind})`, () => {
    let outband: Outband;

    before(async () => {
      outband = await startOutband({ kind });
    });

    const events = async (query: string): Promise<Envelope[]> => (await outband.api("GET", `/events?limit=200&${query}`)).body.data;
    /** The back-off after a failed refresh goes by the database's clock. */
    async function waitOut(ask: () => Promise<{ status: number }>): Promise<void> {
      while ((await ask()).status === 503) await systemClock.sleep(200);
    }
    const newLink = async (identifier: string, label = "") => (await outband.api("POST", "/authorization-links", { connection_name: "gmail", identifier, label })).body;

    test("a whole life: each change is one event, with the account as it then was, numbered from 1 without a gap", async () => {
      const person = await outband.person("whole-life");
      const browser = await person.signIn();
      const link = await newLink(person.sub);
      const id = link.account_id;
      const act = async (method: string, path: string, body?: unknown, status = 200) => assert.equal((await outband.api(method, `/accounts/${id}${path}`, body)).status, status);

      await connect(link.url, browser);
      await act("PATCH", "", { label: "work" });
      await act("POST", "/refresh");
      outband.provider.fault({ match: TOKEN, status: 429 });
      await act("POST", "/refresh", undefined, 503);
      outband.provider.revokeAll();
      await waitOut(() => outband.api("POST", `/accounts/${id}/refresh`));
      await connect((await newLink(person.sub, "work")).url, browser);
      await act("DELETE", "");
      await act("DELETE", "");
      await act("DELETE", "?purge=true");

      const all = await events(`account_id=${id}`);
      const told = all.map(({ type, data }) => [type.replace("connected_account.", ""), data["status"], data["status_reason"], data["old_status"] ?? null]);
      assert.deepEqual(told, [
        ["created", "PENDING", "awaiting_user", null],
        ["authorization_link_created", "PENDING", "awaiting_user", null],
        ["status_updated", "ACTIVE", null, "PENDING"],
        ["updated", "ACTIVE", null, null],
        ["token_refreshed", "ACTIVE", null, null],
        ["token_refresh_failed", "ACTIVE", null, null],
        ["status_updated", "EXPIRED", "refresh_rejected", "ACTIVE"],
        ["authorization_link_created", "EXPIRED", "refresh_rejected", null],
        ["status_updated", "ACTIVE", null, "EXPIRED"],
        ["status_updated", "REVOKED", "disconnected_by_admin", "ACTIVE"],
        ["deleted", "REVOKED", "disconnected_by_admin", null],
      ]);
      assert.deepEqual(all.map((event) => event.account_sequence), all.map((_event, index) => index + 1));
      assert.equal(new Set(all.map((event) => event.id)).size, all.length);
      assert.deepEqual(all.map(({ data }) => data["label"]), ["", "", "", ...Array(8).fill("work")]);
    });

    test("the envelope, and in it the account as the API shows it", async () => {
      const person = await outband.person("enveloped");
      const link = await newLink(person.sub);
      await connect(link.url, await person.signIn());
      const all = await events(`account_id=${link.account_id}`);
      for (const event of all) {
        const { data, ...envelope } = event;
        assertBody(envelope, { spec_version: "1", id: idOf("evt"), type: /^connected_account\.[a-z_]+$/, occurred_at: TIME, account_sequence: event.account_sequence, object: "connected_account" });
        assert.equal(data["id"], link.account_id);
      }
      const { body: account } = await outband.api("GET", `/accounts/${link.account_id}`);
      assert.deepEqual({ ...all.at(-1)?.data, updated_at: "" }, { ...account, old_status: "PENDING", updated_at: "" });
      assert.equal(all[1]?.data["link_id"], link.id);
    });

    test("oldest first; `after` goes on behind an event, by type and by account, while more come in", async () => {
      const [one, two] = [await outband.person("first"), await outband.person("second")];
      const start = (await events("")).at(-1)?.id ?? "";
      const [a, b] = [await newLink(one.sub), await newLink(two.sub)];
      const page = async (after: string, query = "") => (await outband.api("GET", `/events?limit=2&after=${after}${query}`)).body;
      const first = await page(start);
      assert.deepEqual(first.data.map((event: Envelope) => [event.data["identifier"], event.type]), [[one.sub, "connected_account.created"], [one.sub, "connected_account.authorization_link_created"]]);
      assert.equal(first.next_cursor, first.data[1].id);
      await newLink(one.sub, "later");
      const second = await page(first.next_cursor);
      assert.deepEqual(second.data.map((event: Envelope) => event.data["identifier"]), [two.sub, two.sub]);
      const third = await page(second.next_cursor);
      assert.deepEqual([third.data.map((event: Envelope) => event.data["label"]), third.next_cursor], [["later", "later"], null]);
      const last = third.data[1].id;
      assert.deepEqual(await page(last), { data: [], next_cursor: null });

      assert.deepEqual((await page(start, "&type=connected_account.created")).data.map((event: Envelope) => event.data["id"]), [a.account_id, b.account_id]);
      assert.deepEqual((await page(start, `&account_id=${b.account_id}`)).data.map((event: Envelope) => event.account_sequence), [1, 2]);
      assert.deepEqual((await page(first.data[1].id, `&account_id=${a.account_id}`)).data, []);
      assert.deepEqual((await page(start, "&type=no.such_type")).data, []);
      assert.deepEqual((await page(start, "&account_id=ca_unknown")).data, []);
      assertProblem(await outband.api("GET", "/events?after=evt_unknown"), 400, "invalid_request", { paths: ["after"] });
    });

    test("changes at the same time take numbers of their own", async () => {
      const person = await outband.person("busy");
      const { account_id: id } = await newLink(person.sub);
      const renames = await Promise.all(Array.from({ length: 10 }, (_, index) => outband.api("PATCH", `/accounts/${id}`, { label: `label ${index}` })));
      assert.deepEqual(renames.map(({ status }) => status), Array(10).fill(200));
      const all = await events(`account_id=${id}`);
      assert.deepEqual(all.map((event) => event.account_sequence), Array.from({ length: 12 }, (_, index) => index + 1));
      assert.equal(all.at(-1)?.data["label"], (await outband.api("GET", `/accounts/${id}`)).body.label);
    });

    test("a person who is removed: every account of theirs is told as disconnected and deleted", async () => {
      const person = await outband.person("leaver");
      const link = await newLink(person.sub);
      await connect(link.url, await person.signIn());
      await newLink(person.sub, "never used");
      const start = (await events("")).at(-1)?.id;
      assert.equal((await outband.api("DELETE", `/users/${person.sub}`)).status, 204);
      const told = (await events(`after=${start}`)).map(({ type, data }) => `${type.replace("connected_account.", "")} ${data["label"]}`).sort();
      assert.deepEqual(told, ["deleted ", "deleted never used", "status_updated ", "status_updated never used"]);
    });
  });
}
