import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { generateKeyPair, importJWK, SignJWT } from "jose";
import { createSealer } from "../../src/crypto/dataKeys.js";
import { createKeyRing } from "../../src/crypto/keyring.js";
import type { Sealer } from "../../src/crypto/seal.js";
import { secret } from "../../src/crypto/secret.js";
import { hashToken } from "../../src/crypto/tokens.js";
import type { Database } from "../../src/db/client.js";
import { OutbandError } from "../../src/errors.js";
import { createApiKeys, type ApiKeys } from "../../src/identity/apiKeys.js";
import { createSessionTokens, type SessionTokens } from "../../src/identity/sessionTokens.js";
import { createSigningKeys, type SigningKeys } from "../../src/identity/signingKeys.js";
import { createTokenVerifier, type TokenVerifier } from "../../src/identity/tokenVerifier.js";
import { createUsers, type User, type Users } from "../../src/identity/users.js";
import { eachDatabase } from "../support/database.js";
import { createShiftedClock, type ShiftedClock } from "../support/shiftedClock.js";
import { QUICK_PASSWORDS } from "../support/passwordCost.js";

const PUBLIC_URL = "https://outband.test";
const ISSUER = `${PUBLIC_URL}/oauth`;
const AUDIENCE = `${PUBLIC_URL}/mcp`;
const GRANT = "grant-of-ann";

eachDatabase("tokens", (open) => {
  let db: Database;
  let clock: ShiftedClock;
  let sealer: Sealer;
  let users: Users;
  let apiKeys: ApiKeys;
  let keys: SigningKeys;
  let sessionTokens: SessionTokens;
  let verifier: TokenVerifier;
  let ann: User;

  beforeEach(async () => {
    db = await open();
    clock = createShiftedClock();
    const ring = await createKeyRing({ current: secret(Buffer.alloc(32, "token test").toString("base64")), previous: [] });
    sealer = createSealer({ ring, db, clock });
    users = createUsers({ db, clock, passwordCost: QUICK_PASSWORDS });
    apiKeys = createApiKeys({ db, clock, adminKey: secret("the-environment's-key-of-32-characters"), cliKey: null });
    keys = await createSigningKeys({ db, sealer, clock });
    sessionTokens = createSessionTokens({ keys, issuer: ISSUER, publicUrl: PUBLIC_URL, clock });
    verifier = createTokenVerifier({ keys, issuer: ISSUER, db, clock, isFixedKey: apiKeys.isFixed });
    ann = await users.create({ email: "ann@people.test", role: "user" });
    await db.prisma.oAuthRecord.create({
      data: { type: "Grant", idHash: hashToken(GRANT), sub: ann.sub, payload: new Uint8Array(1), expiresAt: new Date(clock.now() + 3_600_000) },
    });
  });

  interface Bent {
    header?: Record<string, unknown>;
    claims?: Record<string, unknown>;
    without?: string[];
    key?: CryptoKey | Uint8Array;
  }

  /** An access token as the authorization server makes them, bent where a test says so. */
  async function accessToken({ header = {}, claims = {}, without = [], key }: Bent = {}): Promise<string> {
    const now = Math.floor(clock.now() / 1000);
    const whole: Record<string, unknown> = {
      iss: ISSUER,
      aud: AUDIENCE,
      sub: ann.sub,
      client_id: "client-1",
      client_name: "Test Client",
      scope: "mcp:write",
      gid: GRANT,
      iat: now,
      exp: now + 600,
      ...claims,
    };
    for (const name of without) delete whole[name];
    const { kid, privateKey } = keys.current();
    return new SignJWT(whole).setProtectedHeader({ alg: "ES256", typ: "at+jwt", kid, ...header }).sign(key ?? privateKey);
  }

  async function refused(token: string, audience = AUDIENCE): Promise<string | undefined> {
    try {
      await verifier.verify(token, audience);
      return "accepted";
    } catch (thrown) {
      assert.ok(thrown instanceof OutbandError && thrown.code === "unauthorized", String(thrown));
      return thrown.reason;
    }
  }

  test("a sound token gives its person, client and scopes; writing includes reading", async () => {
    const principal = await verifier.verify(await accessToken(), AUDIENCE);
    assert.equal(principal.sub, ann.sub);
    assert.equal(principal.clientId, "client-1");
    assert.equal(principal.clientName, "Test Client");
    assert.deepEqual([...principal.scopes].sort(), ["mcp:read", "mcp:write"]);
    assert.equal(principal.grantId, GRANT);
    assert.equal(principal.apiKeyId, null);
  });

  test("another audience, issuer, type, key, algorithm or time is refused", async () => {
    const foreign = await generateKeyPair("ES256");
    const publicJwk = keys.current().publicJwk;
    const bent: Record<string, Bent> = {
      "other endpoint": { claims: { aud: `${PUBLIC_URL}/mcp/meta` } },
      "two audiences": { claims: { aud: [AUDIENCE, "https://elsewhere.test"] } },
      "longer audience": { claims: { aud: `${AUDIENCE}/` } },
      "other issuer": { claims: { iss: `${PUBLIC_URL}/oauth/` } },
      "id token": { header: { typ: "JWT" } },
      "no type": { header: { typ: undefined } },
      "foreign key": { key: foreign.privateKey },
      "unknown kid": { header: { kid: "nobody" } },
      "no kid": { header: { kid: undefined } },
      "public key as a secret": { header: { alg: "HS256" }, key: new TextEncoder().encode(JSON.stringify(publicJwk)) },
      "expired": { claims: { exp: Math.floor(clock.now() / 1000) - 1 } },
      "no expiry": { without: ["exp"] },
      "no person": { without: ["sub"] },
      "no grant": { without: ["gid"] },
      "no client": { without: ["client_id"] },
      "another person's grant": { claims: { sub: "usr_bo" } },
    };
    await users.create({ sub: "usr_bo", email: "bo@people.test", role: "user" });
    for (const [name, change] of Object.entries(bent)) assert.notEqual(await refused(await accessToken(change)), "accepted", name);
    const sound = await accessToken();
    const [header, payload, signature] = sound.split(".");
    for (const broken of ["", "x", `${header}.${payload}.`, `${header}.${payload}`, `${sound}x`, sound.padEnd(9_000, "x"), `${signature}.${payload}.${header}`]) {
      assert.notEqual(await refused(broken), "accepted", broken.slice(0, 40));
    }
    const none = `${Buffer.from(JSON.stringify({ alg: "none", typ: "at+jwt", kid: keys.current().kid })).toString("base64url")}.${payload}.`;
    assert.notEqual(await refused(none), "accepted");
    assert.equal(await refused(sound), "accepted");
  });

  test("a token is refused at the next call once its grant is revoked or over, or its person is disabled or gone", async () => {
    const token = await accessToken({ claims: { exp: Math.floor(clock.now() / 1000) + 100_000 } });
    assert.equal(await refused(token), "accepted");
    await users.update(ann.sub, { name: "Ann" });
    assert.equal(await refused(token), "accepted");
    const grant = await db.prisma.oAuthRecord.findFirstOrThrow();
    clock.advance(3_600_001);
    assert.equal(await refused(token), "grant");
    await db.prisma.oAuthRecord.updateMany({ data: { expiresAt: null } });
    assert.equal(await refused(token), "accepted");
    await db.prisma.oAuthRecord.deleteMany();
    assert.equal(await refused(token), "grant");
    await db.prisma.oAuthRecord.create({ data: { ...grant, expiresAt: null } });
    await db.prisma.user.update({ where: { sub: ann.sub }, data: { role: "disabled" } });
    assert.equal(await refused(token), "person");
    await db.prisma.user.delete({ where: { sub: ann.sub } });
    assert.equal(await refused(token), "person");
  });

  test("a session token is for one endpoint and dies with its key, its person, its time", async () => {
    const { id } = await apiKeys.create({ name: "backend", scopes: ["execute"] });
    const mint = async (apiKeyId: string) => sessionTokens.mint({ sub: ann.sub, personSince: ann.createdAt, ttlS: 60, endpoint: "/mcp", scopes: ["mcp:read"], apiKeyId });
    const { token, expiresAt } = await mint(id);
    assert.ok(expiresAt.getTime() <= clock.now() + 60_000);
    const principal = await verifier.verify(token.reveal(), AUDIENCE);
    assert.equal(principal.clientId, `outband:key:${id}`);
    assert.deepEqual([...principal.scopes], ["mcp:read"]);
    assert.equal(principal.grantId, null);
    assert.equal(principal.apiKeyId, id);
    assert.notEqual(await refused(token.reveal(), `${PUBLIC_URL}/mcp/meta`), "accepted");
    await apiKeys.remove(id);
    assert.equal(await refused(token.reveal()), "api_key");

    const fixed = await apiKeys.authenticate("the-environment's-key-of-32-characters");
    const second = (await mint(fixed?.keyId ?? "")).token.reveal();
    assert.equal(await refused(second), "accepted");
    clock.advance(61_000);
    assert.notEqual(await refused(second), "accepted");
    const third = (await mint(fixed?.keyId ?? "")).token.reveal();
    await users.update(ann.sub, { role: "disabled" });
    assert.equal(await refused(third), "person");
  });

  test("an access token does not pass as a session token, nor the other way round", async () => {
    const { id } = await apiKeys.create({ name: "backend", scopes: ["execute"] });
    assert.notEqual(await refused(await accessToken({ header: { typ: "outband-session+jwt" } })), "accepted");
    assert.notEqual(await refused(await accessToken({ claims: { key_id: id }, without: ["gid"] })), "accepted");
    assert.notEqual(await refused(await accessToken({ header: { typ: "outband-session+jwt" }, claims: { key_id: "key_nobody" } })), "accepted");
    await assert.rejects(sessionTokens.mint({ sub: ann.sub, personSince: ann.createdAt, ttlS: 86_401, endpoint: "/mcp", scopes: [], apiKeyId: id }), RangeError);
    await assert.rejects(sessionTokens.mint({ sub: ann.sub, personSince: ann.createdAt, ttlS: 59, endpoint: "/mcp", scopes: [], apiKeyId: id }), RangeError);
  });

  test("instances that start at once on an empty database sign with one key, whose private half is sealed", async () => {
    await db.prisma.signingKey.deleteMany();
    const started = await Promise.all([1, 2, 3, 4].map(() => createSigningKeys({ db, sealer, clock })));
    assert.equal(new Set(started.map((instance) => instance.current().kid)).size, 1);
    const row = await db.prisma.signingKey.findFirstOrThrow();
    assert.equal(await db.prisma.signingKey.count(), 1);
    const [first] = started;
    assert.ok(first && first.current().kid !== keys.current().kid);
    const d = String(first.current().privateJwk.d);
    assert.equal(d.length, 43);
    assert.ok(!Buffer.from(row.privateSealed).toString("latin1").includes(d));
    assert.ok(!JSON.stringify(row.publicJwk).includes(d));
    await importJWK(row.publicJwk as never, "ES256");
  });
});
