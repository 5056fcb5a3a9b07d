import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { generateKeyPair, SignJWT } from "jose";
import { createSealer } from "../../src/crypto/dataKeys.js";
import { createKeyRing } from "../../src/crypto/keyring.js";
import { secret } from "../../src/crypto/secret.js";
import { hashToken } from "../../src/crypto/tokens.js";
import type { Database } from "../../src/db/client.js";
import { OutbandError } from "../../src/errors.js";
import { createExternalTokens } from "../../src/identity/external/accessTokens.js";
import { createExternalSignIn } from "../../src/identity/external/external.js";
import { createSigningKeys, type SigningKeys } from "../../src/identity/signingKeys.js";
import { createTokenVerifier, type TokenVerifier } from "../../src/identity/tokenVerifier.js";
import { createUsers, type Users } from "../../src/identity/users.js";
import { createEgress } from "../../src/net/egress.js";
import { eachDatabase, silentLog } from "../support/database.js";
import { type Claims, type Issuer, type Signer, startIssuer } from "../support/issuer.js";
import { createShiftedClock, type ShiftedClock } from "../support/shiftedClock.js";
import { QUICK_PASSWORDS } from "../support/passwordCost.js";

const PUBLIC_URL = "https://outband.test";
const AUDIENCE = `${PUBLIC_URL}/mcp`;
const OURS = `${PUBLIC_URL}/oauth`;
const MINUTE_MS = 60_000;

eachDatabase("access tokens of an external issuer", (open) => {
  let db: Database;
  let issuer: Issuer;
  let clock: ShiftedClock;
  let users: Users;
  let keys: SigningKeys;
  let verifier: TokenVerifier;

  before(async () => {
    issuer = await startIssuer();
  });
  after(() => issuer.close());
  beforeEach(async () => {
    db = await open();
    issuer.honest();
    clock = createShiftedClock();
    const ring = await createKeyRing({ current: secret(Buffer.alloc(32, "token test").toString("base64")), previous: [] });
    keys = await createSigningKeys({ db, sealer: createSealer({ ring, db, clock }), clock });
    users = createUsers({ db, clock, passwordCost: QUICK_PASSWORDS, issuer: issuer.url });
    await users.create({ sub: "ann", email: "ann@people.test", role: "user" });
    verifier = verifierWith(true);
  });

  function verifierWith(accept: boolean): TokenVerifier {
    const egress = createEgress({ allowPrivateNetwork: [], clock });
    const settings = { issuer: issuer.url, clientId: "outband", clientSecret: null, userClaim: null, adminClaim: null };
    const external = createExternalSignIn({ db, egress, clock, log: silentLog, publicUrl: PUBLIC_URL, settings });
    return createTokenVerifier({
      keys,
      issuer: OURS,
      db,
      clock,
      isFixedKey: () => false,
      signInIssuer: issuer.url,
      external: accept ? createExternalTokens({ issuer: issuer.url, keys: external.keys, clock }) : null,
    });
  }

  async function refused(token: string, audience = AUDIENCE): Promise<string> {
    try {
      await verifier.verify(token, audience);
      return "accepted";
    } catch (thrown) {
      assert.ok(thrown instanceof OutbandError && ["unauthorized", "unavailable"].includes(thrown.code), String(thrown));
      return thrown.code === "unavailable" ? "unavailable" : (thrown.reason ?? "");
    }
  }

  const token = (claims: Claims = {}, how: { header?: Claims; signer?: Signer } = {}) => issuer.accessToken({ sub: "ann", aud: AUDIENCE, ...claims }, how);

  test("a sound token is its person's: client marked as the issuer's, scopes by name, no grant of ours", async () => {
    const principal = await verifier.verify(await token({ scope: "openid mcp:write other" }), AUDIENCE);
    assert.deepEqual(
      { ...principal, scopes: [...principal.scopes].sort(), expiresAtMs: 0 },
      { kind: "person", sub: "ann", clientId: "oidc:agent", clientName: null, scopes: ["mcp:read", "mcp:write"], grantId: null, apiKeyId: null, expiresAtMs: 0 },
    );
  });

  test("scopes come from scope or scp, as text or as a list, and no other name counts", async () => {
    const scopesOf = async (claims: Claims) => [...(await verifier.verify(await token(claims), AUDIENCE)).scopes].sort().join(" ");
    assert.equal(await scopesOf({ scope: "mcp:read" }), "mcp:read");
    assert.equal(await scopesOf({ scope: null, scp: "mcp:read" }), "mcp:read");
    assert.equal(await scopesOf({ scope: null, scp: ["mcp:write", 7, "admin"] }), "mcp:read mcp:write");
    assert.equal(await scopesOf({ scope: "mcp MCP:READ mcp:reads mcp:* openid" }), "");
    assert.equal(await scopesOf({ scope: null }), "");
    assert.equal(await scopesOf({ scope: { "mcp:read": true } }), "");
  });

  test("the audience is one of the token's, to the byte; the client is named; the type is an access token's", async () => {
    for (const claims of [{ aud: [AUDIENCE] }, { aud: [AUDIENCE, "account"] }, { client_id: null, azp: "agent" }]) assert.equal(await refused(await token(claims)), "accepted", JSON.stringify(claims));
    for (const typ of ["at+jwt", "application/at+jwt", "JWT", "AT+JWT"]) assert.equal(await refused(await token({}, { header: { typ } })), "accepted", typ);
    const bent: Record<string, [Claims, { header?: Claims; signer?: Signer }?]> = {
      "another endpoint": [{ aud: `${PUBLIC_URL}/mcp/meta` }],
      "a slash more": [{ aud: `${AUDIENCE}/` }],
      "the origin": [{ aud: PUBLIC_URL }],
      "in capitals": [{ aud: AUDIENCE.toUpperCase() }],
      "no audience": [{ aud: null }],
      "an id_token's audience": [{ aud: "outband" }],
      "no end": [{ exp: null }],
      "ended": [{ exp: Math.floor(Date.now() / 1000) - 31 }],
      "not begun": [{ nbf: Math.floor(Date.now() / 1000) + 120 }],
      "no client": [{ client_id: null }],
      "a client of two lines": [{ client_id: "a\nb" }],
      "no person": [{ sub: null }],
      "somebody who was never here": [{ sub: "bob" }],
      "the person in capitals": [{ sub: "ANN" }],
      "bound to a key": [{ cnf: { jkt: "x" } }],
      "no type": [{}, { header: { typ: undefined } }],
      "a logout token": [{}, { header: { typ: "logout+jwt" } }],
      "our session token's type": [{}, { header: { typ: "outband-session+jwt" } }],
      "signed by nobody": [{}, { signer: "none" }],
      "signed with the public key": [{}, { signer: "public_as_secret" }],
      "signed by another key": [{}, { signer: "foreign" }],
      "an unknown key": [{}, { signer: "foreign", header: { kid: "unknown" } }],
      "no key named, and the wrong one": [{}, { signer: "foreign", header: { kid: undefined } }],
      "an extension": [{}, { header: { crit: ["x"], x: 1 } }],
    };
    for (const [name, [claims, how]] of Object.entries(bent)) {
      const reason = await refused(await token(claims, how));
      assert.ok(reason !== "accepted" && reason !== "unavailable", `${name}: ${reason}`);
    }
  });

  test("each issuer's tokens are read with its own keys alone", async () => {
    const { kid, privateKey } = keys.current();
    const claims = { sub: "ann", aud: AUDIENCE, client_id: "agent", scope: "mcp:read", iss: issuer.url };
    const sign = (key: CryptoKey, header: Claims, more: Claims) =>
      new SignJWT({ ...claims, ...more }).setProtectedHeader({ alg: "ES256", ...header }).setIssuedAt().setExpirationTime("5m").sign(key);
    assert.notEqual(await refused(await sign(privateKey, { kid, typ: "at+jwt" }, {})), "accepted", "the issuer's name, our key");
    await db.prisma.oAuthRecord.create({ data: { type: "Grant", idHash: hashToken("grant"), sub: "ann", payload: new Uint8Array(1) } });
    assert.equal(await refused(await sign(privateKey, { kid, typ: "at+jwt" }, { iss: OURS, gid: "grant" })), "accepted");
    assert.notEqual(await refused(await token({ iss: OURS, gid: "grant" })), "accepted", "our name, the issuer's key");
    const stranger = await generateKeyPair("ES256");
    assert.notEqual(await refused(await sign(stranger.privateKey, { kid: "x", typ: "at+jwt" }, { iss: "https://other.test" })), "accepted");
  });

  test("without OIDC_ACCEPT_TOKENS no token of the issuer's is taken, and its keys are not asked for", async () => {
    verifier = verifierWith(false);
    const before = issuer.count("jwks");
    assert.notEqual(await refused(await token()), "accepted");
    assert.equal(issuer.count("jwks"), before);
  });

  test("disabled, deleted or of another sign-in: refused at the very next call", async () => {
    const alive = await token();
    assert.equal(await refused(alive), "accepted");
    await users.update("ann", { role: "disabled" });
    assert.equal(await refused(alive), "person");
    await users.update("ann", { role: "user" });
    assert.equal(await refused(alive), "accepted");
    await db.prisma.user.update({ where: { sub: "ann" }, data: { issuer: "builtin" } });
    assert.equal(await refused(alive), "sign_in");
    await users.remove("ann");
    assert.equal(await refused(alive), "person");
  });

  test("keys rotate without a gap; a key that was taken away is honoured for ten minutes at most; an outage is no refusal", async () => {
    const old = issuer.currentKey();
    const byOld = await token({ exp: Math.floor(Date.now() / 1000) + 7_200 });
    assert.equal(await refused(byOld), "accepted");
    await issuer.rotate();
    assert.equal(await refused(byOld), "accepted", "kept");
    assert.equal(await refused(await token()), "accepted", "fetched");
    assert.notEqual(await refused(byOld), "accepted", "gone with the fetch");

    const fresh = await token({ exp: Math.floor(Date.now() / 1000) + 7_200 });
    issuer.lies = { status: { jwks: 500 } };
    clock.advance(11 * MINUTE_MS);
    assert.equal(await refused(fresh), "accepted", "the issuer is out of reach");
    clock.advance(50 * MINUTE_MS);
    assert.equal(await refused(fresh), "unavailable", "but not for ever");
    issuer.honest();
    await issuer.rotate();
    assert.notEqual(await refused(fresh), "accepted");
    assert.notEqual(old, issuer.currentKey());
  });

  test("while the keys were never had, the answer is a passing trouble, not a refusal", async () => {
    issuer.lies = { status: { discovery: 500 } };
    assert.equal(await refused(await token()), "unavailable");
    issuer.lies = { status: { jwks: 500 } };
    assert.equal(await refused(await token()), "unavailable");
    issuer.honest();
    assert.equal(await refused(await token()), "accepted");
  });

  test("a flood of invented key ids asks the issuer a few times a minute, and real tokens go on", async () => {
    assert.equal(await refused(await token()), "accepted");
    const before = issuer.count("jwks");
    for (let round = 0; round < 30; round++) await refused(await token({}, { signer: "foreign", header: { kid: `k${round}` } }));
    assert.ok(issuer.count("jwks") - before <= 6, `${issuer.count("jwks") - before}`);
    assert.equal(await refused(await token()), "accepted");
  });

  test("what is no token, or far too long, is refused unread", async () => {
    for (const text of ["", "x", "a.b.c", "....", `${"a".repeat(20_000)}.b.c`, await token({ pad: "x".repeat(13_000) })]) assert.notEqual(await refused(text), "accepted");
  });
});
