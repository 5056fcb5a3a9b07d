// Lists by pages: bounds, and cursors that rows coming and going in between do not shift.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { KINDS } from "../support/journey.js";
import { type Outband, startOutband } from "../support/outband.js";
import { assertProblem } from "./pin.js";

type Row = Record<string, string>;

for (const kind of KINDS) {
  describe(`lists of the vault API (${kind})`, () => {
    let outband: Outband;

    before(async () => {
      outband = await startOutband({ kind });
    });

    async function made(path: string, body: unknown): Promise<Row> {
      const answer = await outband.api("POST", path, body);
      assert.equal(answer.status, 201, JSON.stringify(answer.body));
      return answer.body;
    }

    const pending = (identifier: string, label: string) => made("/authorization-links", { connection_name: "gmail", identifier, label });

    /** All of a list, two rows at a time; `between` is called after each page with its last row. */
    async function walk(path: string, between: (last: Row, page: number) => Promise<unknown> = async () => undefined): Promise<Row[]> {
      const rows: Row[] = [];
      let cursor = "";
      for (let page = 1; ; page += 1) {
        assert.ok(page < 50, "the list never ends");
        const answer = await outband.api("GET", `${path}${path.includes("?") ? "&" : "?"}limit=2${cursor}`);
        assert.equal(answer.status, 200, JSON.stringify(answer.body));
        assert.ok(answer.body.data.length <= 2);
        rows.push(...answer.body.data);
        if (answer.body.next_cursor === null) return rows;
        assert.equal(answer.body.data.length, 2, "a page that is not the last is full");
        await between(answer.body.data.at(-1), page);
        cursor = `&cursor=${encodeURIComponent(answer.body.next_cursor)}`;
      }
    }

    test("limit: 1 to 200, 50 when it is not given", async () => {
      const { sub } = await outband.person("many");
      for (let index = 0; index < 51; index += 1) await pending(sub, `label ${index}`);
      const page = async (query: string) => (await outband.api("GET", `/accounts?identifier=${sub}${query}`)).body;
      assert.equal((await page("")).data.length, 50);
      assert.notEqual((await page("")).next_cursor, null);
      assert.equal((await page("&limit=1")).data.length, 1);
      assert.deepEqual([(await page("&limit=200")).data.length, (await page("&limit=200")).next_cursor], [51, null]);
      assert.deepEqual([(await page("&limit=51")).data.length, (await page("&limit=51")).next_cursor], [51, null]);
      for (const path of ["/accounts", "/users", "/events", "/connections", "/api-keys", "/tools"]) {
        for (const limit of ["0", "201", "-1", "1.5", "", "many", "1e3", "999999999999999999999"]) assertProblem(await outband.api("GET", `${path}?limit=${limit}`), 400, "invalid_request", { paths: ["limit"] });
        for (const limit of [1, 200]) assert.ok((await outband.api("GET", `${path}?limit=${limit}`)).body.data.length <= limit);
      }
    });

    test("accounts: each once and newest first, whatever is made or purged between the pages", async () => {
      const { sub } = await outband.person("paged");
      const other = await outband.person("beside");
      const labels = ["a", "b", "c", "d", "e", "f", "g"];
      for (const label of labels) await pending(sub, label);
      const rows = await walk(`/accounts?identifier=${sub}`, async (last, page) => {
        await pending(sub, `new ${page}`);
        await pending(other.sub, `new ${page}`);
        assert.equal((await outband.api("DELETE", `/accounts/${last["id"]}?purge=true`)).status, 200);
      });
      assert.deepEqual(rows.map((row) => row["label"]), [...labels].reverse());
      assert.ok(rows.every((row) => row["identifier"] === sub));
    });

    test("accounts by connection, person and status, also together", async () => {
      const { sub } = await outband.person("filtered");
      await pending(sub, "");
      await made("/authorization-links", { connection_name: "slack", identifier: sub });
      await made("/accounts", { connection_name: "slack", identifier: sub, label: "bot", credential: { type: "oauth", access_token: "xoxp-unknown" } });
      const found = async (query: string) => (await outband.api("GET", `/accounts?identifier=${sub}${query}`)).body.data.map((row: Row) => [row["connection_name"], row["label"], row["status"]]);
      assert.deepEqual(await found(""), [["slack", "bot", "ACTIVE"], ["slack", "", "PENDING"], ["gmail", "", "PENDING"]]);
      assert.deepEqual(await found("&connection_name=slack"), [["slack", "bot", "ACTIVE"], ["slack", "", "PENDING"]]);
      assert.deepEqual(await found("&status=ACTIVE"), [["slack", "bot", "ACTIVE"]]);
      assert.deepEqual(await found("&connection_name=gmail&status=ACTIVE"), []);
      assert.deepEqual(await found("&connection_name=nowhere"), []);
      for (const query of ["status=active", "status=OTHER", "connection_name=Gmail", "connection_name=", "identifier="]) {
        assertProblem(await outband.api("GET", `/accounts?${query}`), 400, "invalid_request", { paths: [query.split("=")[0] ?? ""] });
      }
    });

    test("users: each once, whoever is made or removed between the pages", async () => {
      for (const name of ["u1", "u2", "u3", "u4", "u5"]) await made("/users", { sub: name, email: `${name}@people.example` });
      const rows = await walk("/users", async (last, page) => {
        await made("/users", { sub: `late-${page}`, email: `late-${page}@people.example` });
        assert.equal((await outband.api("DELETE", `/users/${last["sub"]}`)).status, 204);
      });
      const subs = rows.map((row) => row["sub"]);
      assert.equal(new Set(subs).size, subs.length);
      assert.deepEqual(subs.filter((sub) => /^u\d$/.test(sub ?? "")), ["u5", "u4", "u3", "u2", "u1"]);
    });

    test("connections, keys and tools: each once, whatever is made between the pages; a cursor whose row is gone says so", async () => {
      const make = (name: string) => made("/connections", { name, connector: "generic-oauth", endpoints: { issuer: "https://issuer.example" } });
      for (const name of ["c1", "c2", "c3"]) await make(name);
      const connections = await walk("/connections", async (_last, page) => make(`a${page}`));
      assert.deepEqual(connections.map((row) => row["name"]), ["c1", "c2", "c3", "gmail", "slack"]);

      for (const name of ["k1", "k2", "k3"]) await made("/api-keys", { name, scopes: ["read"] });
      const keys = await walk("/api-keys", async (_last, page) => made("/api-keys", { name: `late ${page}`, scopes: ["read"] }));
      assert.deepEqual(keys.map((row) => row["name"]), ["k3", "k2", "k1"]);
      assert.equal((await walk("/tools")).length, 6);

      const { next_cursor } = (await outband.api("GET", "/connections?limit=1")).body;
      assert.equal((await outband.api("DELETE", `/connections/${next_cursor}`)).status, 204);
      assertProblem(await outband.api("GET", `/connections?limit=1&cursor=${next_cursor}`), 400, "invalid_request", { paths: ["cursor"] });
    });
  });
}
