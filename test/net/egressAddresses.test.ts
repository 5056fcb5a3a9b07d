import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { egressOf, failureOf, shape, site } from "./support.js";

describe("addresses", () => {
  test("a literal private address is refused before anything is opened", async () => {
    const there = await site((_, response) => response.end());
    for (const host of ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::ffff:127.0.0.1]", "localhost", "a.localhost"]) {
      const failure = await failureOf(egressOf([]), { method: "GET", url: `http://${host}:${there.port}/` });
      assert.deepEqual(shape(failure), { kind: "refused_address", maybeSent: false }, host);
    }
    assert.equal(there.connections(), 0);
  });

  test("a name that resolves to a private address is refused inside connect, whatever else it resolves to", async () => {
    const there = await site((_, response) => response.end());
    const answers: Record<string, string[]> = {
      "inner.example": ["127.0.0.1"],
      "many.example": ["10.0.0.1", "127.0.0.1", "169.254.169.254"],
      "six.example": ["::ffff:127.0.0.1", "fd00::1", "64:ff9b::7f00:1"],
      "none.example": [],
    };
    const asked: string[] = [];
    const egress = egressOf([], (host, done) => {
      asked.push(host);
      done(
        null,
        (answers[host] ?? []).map((address) => ({ address, family: address.includes(":") ? 6 : 4 })),
      );
    });
    for (const host of Object.keys(answers)) {
      assert.deepEqual(
        shape(await failureOf(egress, { method: "GET", url: `https://${host}:${there.port}/` })),
        { kind: "refused_address", maybeSent: false },
        host,
      );
    }
    assert.deepEqual(asked, Object.keys(answers));
    assert.equal(there.connections(), 0);
  });

  test("of several addresses only the permitted ones are connected to", async () => {
    const there = await site((_, response) => response.end("here"));
    const egress = egressOf(["127.0.0.1"], (_, done) =>
      done(null, [
        { address: "169.254.169.254", family: 4 },
        { address: "10.9.9.9", family: 4 },
        { address: "127.0.0.1", family: 4 },
      ]),
    );
    assert.equal((await egress.send({ method: "GET", url: `http://mixed.localhost:${there.port}/` })).body.toString(), "here");
  });

  test("a name that changes its address between calls is checked again at each connection", async () => {
    const there = await site((_, response) => response.writeHead(200, { connection: "close" }).end());
    const turns = ["127.0.0.1", "10.0.0.1"];
    const egress = egressOf(["127.0.0.1"], (_, done) => done(null, [{ address: turns.shift() ?? "10.0.0.1", family: 4 }]));
    const url = `http://turning.localhost:${there.port}/`;
    assert.equal((await egress.send({ method: "GET", url })).status, 200);
    assert.equal((await failureOf(egress, { method: "GET", url })).kind, "refused_address");
  });

  test("link-local and metadata addresses stay refused with everything allowed, by name and for an exempt origin", async () => {
    const egress = egressOf(true, (_, done) => done(null, [{ address: "169.254.169.254", family: 4 }]));
    for (const url of [
      "https://169.254.169.254/latest/meta-data",
      "https://[fd00:ec2::254]/",
      "https://metadata.example/",
      "https://168.63.129.16/",
    ]) {
      assert.deepEqual(shape(await failureOf(egress, { method: "GET", url })), { kind: "refused_address", maybeSent: false }, url);
      assert.deepEqual(
        shape(await failureOf(egress, { method: "GET", url, exemptOrigin: new URL(url).origin })),
        { kind: "refused_address", maybeSent: false },
        url,
      );
    }
  });

  test("an exempt origin is reached for its own purpose only: not its neighbour's port, and not over its open socket", async () => {
    const there = await site((_, response) => response.end("sandbox"));
    const neighbour = await site((_, response) => response.end("database"));
    const egress = egressOf([]);
    const exemptOrigin = there.origin;
    assert.equal(
      (await egress.send({ method: "GET", url: `${there.origin}/x`, exemptOrigin: `${exemptOrigin}/any/path` })).body.toString(),
      "sandbox",
    );
    assert.equal((await failureOf(egress, { method: "GET", url: `${neighbour.origin}/x`, exemptOrigin })).kind, "refused_address");
    assert.equal((await failureOf(egress, { method: "GET", url: `${there.origin}/y` })).kind, "refused_address");
    assert.equal(neighbour.connections(), 0);
    assert.deepEqual(
      there.requests.map((request) => request.url),
      ["/x"],
    );
  });

  test("`refuses` says in a sentence what is wrong with a URL, and never repeats it", () => {
    const egress = egressOf(["10.0.0.0/8", "localhost"]);
    const table: [string, RegExp | null][] = [
      ["https://api.example.com/path?x=1", null],
      ["https://8.8.8.8/", null],
      ["https://10.1.2.3/", null],
      ["http://localhost:4000/", null],
      ["http://127.0.0.1:4000/", /private address/],
      ["https://127.0.0.1/", /private address/],
      ["https://192.168.0.1/", /private address/],
      ["https://[::1]/", /private address/],
      ["https://0x7f.1/", /private address/],
      ["https://169.254.169.254/", /link-local or metadata/],
      ["https://0.0.0.0/", /link-local or metadata/],
      ["http://api.example.com/", /must begin with https:\/\//],
      ["http://10.1.2.3/", /must begin with https:\/\//],
      ["ftp://api.example.com/", /must begin with https:\/\//],
      ["javascript:alert(1)", /must begin with https:\/\//],
      ["https://user:pa55@api.example.com/", /user name or a password/],
      ["https://user@api.example.com/", /user name or a password/],
      ["api.example.com", /not valid/],
      ["https://", /not valid/],
      ["", /not valid/],
    ];
    for (const [url, expected] of table) {
      const sentence = egress.refuses(url);
      if (expected === null) assert.equal(sentence, null, url);
      else assert.match(sentence ?? "", expected, url);
      assert.ok(!sentence?.includes("pa55"));
    }
    assert.equal(egress.refuses("http://127.0.0.1:4000/token", "http://127.0.0.1:4000"), null);
    assert.match(egress.refuses("http://127.0.0.1:4001/token", "http://127.0.0.1:4000") ?? "", /private/);
    assert.match(egress.refuses("http://127.0.0.1:4000@evil.example/", "http://127.0.0.1:4000") ?? "", /user name/);
    assert.match(egress.refuses("https://169.254.169.254/", "https://169.254.169.254") ?? "", /link-local/);
    assert.equal(egressOf(true).refuses("https://192.168.0.1/"), null);
  });

  test("a URL that is refused as a setting is refused as a call", async () => {
    for (const url of ["ftp://api.example.com/", "http://api.example.com/", "https://u:p@api.example.com/", "nothing"]) {
      assert.deepEqual(shape(await failureOf(egressOf(true), { method: "GET", url })), { kind: "refused_address", maybeSent: false });
    }
  });
});
