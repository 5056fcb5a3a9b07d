import assert from "node:assert/strict";
import { request as httpRequest } from "node:http";
import { createServer, type AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { AUTHORIZATIONS, REGISTRATIONS, TOKEN_REQUESTS } from "../../src/authorization/front.js";
import { systemClock } from "../../src/clock.js";
import { hashToken } from "../../src/crypto/tokens.js";
import type { Database } from "../../src/db/client.js";
import { addressKey } from "../../src/http/limiter.js";
import { createEgress } from "../../src/net/egress.js";
import { eachDatabase } from "../support/database.js";
import { openIdentitySite, type IdentitySite } from "../support/identitySite.js";
import { attempt, json, refresh, register, registered, token, tokensFor } from "../support/oauthClient.js";

const ALLOWED = "https://browser-client.example";

/** node:http, because fetch does not let a caller choose the Host. */
function raw(origin: string, path: string, headers: Record<string, string>): Promise<{ status: number; text: string; headers: Record<string, unknown> }> {
  return new Promise((resolve, reject) => {
    const call = httpRequest(origin + path, { headers, setHost: false }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on("data", (chunk: Buffer) => chunks.push(chunk));
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text: Buffer.concat(chunks).toString(), headers: answer.headers }));
    });
    call.on("error", reject);
    call.end();
  });
}

eachDatabase("before the authorization server", (open) => {
  let db: Database;
  let site: IdentitySite;

  before(async () => {
    db = await open();
    site = await openIdentitySite({ db, allowedOrigins: [ALLOWED] });
  });
  after(() => site.close());

  test("a spoofed Host or forwarding header changes no URL", async () => {
    const spoofs = [{ host: "evil.test" }, { host: new URL(site.origin).host, "x-forwarded-host": "evil.test", "x-forwarded-proto": "https", forwarded: "host=evil.test;proto=https" }] as Record<string, string>[];
    for (const headers of spoofs) {
      for (const path of ["/.well-known/oauth-authorization-server/oauth", "/oauth/.well-known/openid-configuration"]) {
        const answer = await raw(site.origin, path, headers);
        assert.ok(!answer.text.includes("evil.test"), answer.text);
        assert.equal((JSON.parse(answer.text) as { token_endpoint: string }).token_endpoint, `${site.origin}/oauth/token`);
      }
    }
    const client = await registered(site.origin);
    const path = `/oauth/authorize?client_id=${client.id}&response_type=code&redirect_uri=${encodeURIComponent(client.redirectUri)}&code_challenge=${"x".repeat(43)}&code_challenge_method=S256`;
    const answer = await raw(site.origin, path, { host: "evil.test", "x-forwarded-host": "evil.test" });
    assert.equal(answer.status, 303);
    assert.match(String(answer.headers.location), /^\/oauth\/interaction\//);
    assert.ok(!JSON.stringify(answer.headers).includes("evil.test"));
  });

  test("CORS is for the setting's origins alone, on metadata, token, registration, revocation", async () => {
    for (const path of ["/.well-known/oauth-authorization-server/oauth", "/oauth/.well-known/openid-configuration", "/oauth/jwks"]) {
      assert.equal((await json(site.origin + path, { headers: { origin: ALLOWED } })).headers.get("access-control-allow-origin"), ALLOWED);
      for (const origin of ["https://evil.test", "null", `${ALLOWED}.evil.test`]) {
        assert.equal((await json(site.origin + path, { headers: { origin } })).headers.get("access-control-allow-origin"), null, origin);
      }
    }
    for (const path of ["/oauth/token", "/oauth/register", "/oauth/revoke"]) {
      const preflight = (origin: string) => fetch(site.origin + path, { method: "OPTIONS", headers: { origin, "access-control-request-method": "POST", "access-control-request-headers": "content-type" } });
      const allowed = await preflight(ALLOWED);
      assert.equal(allowed.status, 204);
      assert.equal(allowed.headers.get("access-control-allow-origin"), ALLOWED);
      assert.match(allowed.headers.get("access-control-allow-headers") ?? "", /Content-Type/);
      assert.equal((await preflight("https://evil.test")).headers.get("access-control-allow-origin"), null);
      const actual = await fetch(site.origin + path, { method: "POST", headers: { origin: "https://evil.test" }, body: new URLSearchParams({ grant_type: "x" }) });
      assert.equal(actual.headers.get("access-control-allow-origin"), null);
      assert.equal(actual.headers.get("access-control-allow-credentials"), null);
    }
  });

  test("registrations, token requests and authorizations are limited per address, with a time to come back", async () => {
    const fill = { name: "test_fill_limit", text: "INSERT INTO rate_limit SELECT $1, $2::int, $3::bigint ON CONFLICT (key) DO UPDATE SET points = $2::int" };
    // Which of the loopback addresses the client used is the machine's choice.
    for (const address of ["127.0.0.1", "::1", "::ffff:127.0.0.1"]) {
      const key = hashToken(addressKey(address));
      await db.query(fill, [`client_registration:${key}`, REGISTRATIONS.triesMax, Date.now() + 60_000]);
      await db.query(fill, [`token_request:${key}`, TOKEN_REQUESTS.triesMax, Date.now() + 60_000]);
      await db.query(fill, [`authorization:${key}`, AUTHORIZATIONS.triesMax, Date.now() + 60_000]);
    }
    for (const answer of [await register(site.origin), await token(site.origin, { grant_type: "refresh_token" })]) {
      assert.equal(answer.status, 429);
      assert.ok(Number(answer.headers.get("retry-after")) > 0);
      assert.equal(answer.body.error, "temporarily_unavailable");
    }
    const page = await site.browser().get("/oauth/authorize?client_id=x");
    assert.equal(page.status, 429);
    assert.ok(Number(page.headers.get("retry-after")) > 0);
    assert.equal((await json(`${site.origin}/.well-known/oauth-authorization-server/oauth`)).status, 200);
    await db.prisma.rateLimit.deleteMany();
  });

  test("an error of an endpoint is JSON for programs, also when a browser asks", async () => {
    const answer = await json(`${site.origin}/oauth/token`, { method: "POST", headers: { accept: "text/html" }, body: new URLSearchParams({ grant_type: "authorization_code" }) });
    assert.equal(answer.status, 400);
    assert.equal(typeof answer.body.error, "string");
    assert.equal((await json(`${site.origin}/oauth/nowhere`)).status, 404);
    for (const path of ["/oauth/me", "/oauth/request", "/oauth/token/introspection", "/oauth/device/auth", "/oauth/session/end"]) {
      assert.equal((await json(site.origin + path)).status, 404, path);
    }
  });
});

eachDatabase("the library", (open) => {
  test("says nothing on stdout or stderr, at its start or in a flow", async () => {
    const said: unknown[] = [];
    const before = { info: console.info, warn: console.warn, error: console.error, log: console.log };
    const listen = (...words: unknown[]): void => {
      said.push(words);
    };
    Object.assign(console, { info: listen, warn: listen, error: listen, log: listen });
    try {
      const site = await openIdentitySite({ db: await open() });
      const browser = await site.signedIn(await site.person("ann"));
      const client = await registered(site.origin);
      await refresh(site.origin, client, (await tokensFor(site.origin, browser, client)).refresh);
      await site.close();
    } finally {
      Object.assign(console, before);
    }
    assert.deepEqual(said, []);
  });

  test("AS-05: a client id that points into this machine or its network is not fetched", async () => {
    let connections = 0;
    const trap = createServer((socket) => {
      connections++;
      socket.destroy();
    });
    await new Promise<void>((resolve) => trap.listen(0, "::", resolve));
    const { port } = trap.address() as AddressInfo;
    const egress = createEgress({ allowPrivateNetwork: [], clock: systemClock });
    const site = await openIdentitySite({ db: await open(), egress });
    try {
      for (const host of ["localhost", "127.0.0.1", "[::1]", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "0.0.0.0"]) {
        const id = `https://${host}:${port}/client.json`;
        const page = await site.browser().get(attempt(site.origin, { id, redirectUri: "https://client.example/cb" }).url);
        assert.equal(page.status, 400, host);
      }
      const metadata = attempt(site.origin, { id: "https://169.254.169.254/latest/meta-data", redirectUri: "https://client.example/cb" });
      assert.equal((await site.browser().get(metadata.url)).status, 400);
      assert.equal(connections, 0);
    } finally {
      await site.close();
      await egress.close();
      trap.close();
    }
  });

  test("behind https its cookies are Secure, and the session's has the __Host- name", async () => {
    const publicUrl = "https://outband.test";
    const site = await openIdentitySite({ db: await open(), publicUrl });
    try {
      const client = await registered(site.origin);
      const browser = site.browser();
      const page = await browser.get(`/oauth/authorize?client_id=${client.id}&response_type=code&redirect_uri=${encodeURIComponent(client.redirectUri)}&code_challenge=${"x".repeat(43)}&code_challenge_method=S256`);
      assert.equal(page.status, 303);
      const cookies = page.headers.getSetCookie();
      assert.ok(cookies.length >= 4);
      for (const cookie of cookies) assert.match(cookie, /; secure/i, cookie);
      const signedIn = await site.signedIn(await site.person("ann"));
      const next = await signedIn.follow(await signedIn.get(page.url.replace(publicUrl, site.origin)));
      assert.ok(next.status < 500);
    } finally {
      await site.close();
    }
  });
});
