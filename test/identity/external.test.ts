import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import type { Database } from "../../src/db/client.js";
import { createExternalSignIn, type ExternalSettings, type ExternalSignIn, FLOW_LIFE_MS, requireSameIssuer, SignInFailure, type SignInFlow } from "../../src/identity/external/external.js";
import { EXTERNAL_TRIES_PER_ADDRESS } from "../../src/identity/signInLimits.js";
import { createUsers, type User } from "../../src/identity/users.js";
import { createLog } from "../../src/log.js";
import { createEgress, type Egress } from "../../src/net/egress.js";
import { secret } from "../../src/crypto/secret.js";
import { eachDatabase } from "../support/database.js";
import { type Issuer, type Lies, startIssuer } from "../support/issuer.js";
import { createShiftedClock, type ShiftedClock } from "../support/shiftedClock.js";
import { QUICK_PASSWORDS } from "../support/passwordCost.js";

const PUBLIC_URL = "https://outband.test";
const ANN = { sub: "ann|1", email: "ann@people.test", email_verified: true, name: "Ann Aaberg", groups: ["staff", "admins"] };
/** What the issuer says of itself in errors and descriptions. */
const CANARY = "canary-of-the-issuer";

eachDatabase("sign-in at an external issuer", (open) => {
  let db: Database;
  let issuer: Issuer;
  let egress: Egress;
  let clock: ShiftedClock;
  let lines: string[];

  before(async () => {
    issuer = await startIssuer();
  });
  after(() => issuer.close());
  beforeEach(async () => {
    db = await open();
    issuer.honest();
    issuer.thin = false;
    issuer.person = { ...ANN };
    clock = createShiftedClock();
    egress = createEgress({ allowPrivateNetwork: [], clock });
    lines = [];
  });

  function client(change: Partial<ExternalSettings> = {}): ExternalSignIn {
    const settings = { issuer: issuer.url, clientId: issuer.clientId, clientSecret: secret(issuer.clientSecret), userClaim: null, adminClaim: null, ...change };
    return createExternalSignIn({ db, egress, clock, log: createLog({ level: "debug", write: (line) => lines.push(line) }), publicUrl: PUBLIC_URL, settings });
  }

  /** The query of the issuer's answer to this browser. */
  async function answerTo(url: string): Promise<string> {
    const answer = await fetch(url, { redirect: "manual" });
    assert.equal(answer.status, 302, await answer.text());
    const back = new URL(answer.headers.get("location") ?? "");
    assert.equal(back.origin + back.pathname, `${PUBLIC_URL}/login/callback`);
    return back.search;
  }

  async function begin(external: ExternalSignIn, how: { again?: boolean; another?: boolean } = {}): Promise<{ url: string; flow: SignInFlow; search: string }> {
    const { url, flow } = await external.begin({ again: false, another: false, address: undefined, ...how });
    return { url, flow, search: await answerTo(url) };
  }

  async function signIn(external = client()): Promise<User> {
    const { flow, search } = await begin(external);
    return external.finish(search, flow, { requestId: "req_1" });
  }

  async function failure(work: Promise<unknown>): Promise<[string, string]> {
    const thrown: unknown = await work.then(
      () => "let in",
      (error: unknown) => error,
    );
    assert.ok(thrown instanceof SignInFailure, String(thrown));
    assert.ok(!(thrown.stack ?? "").includes(CANARY));
    assert.equal(thrown.cause, undefined);
    return [thrown.trouble, thrown.reason];
  }

  test("a first sign-in makes the person under the issuer's sub; a later one brings name and address up to date", async () => {
    const made = await signIn();
    assert.deepEqual([made.sub, made.email, made.name, made.role, made.issuer, made.hasPassword], [ANN.sub, ANN.email, ANN.name, "user", issuer.url, false]);
    issuer.person = { ...ANN, email: "ann@new.test", name: "Ann Berg" };
    const later = await signIn();
    assert.deepEqual([later.sub, later.email, later.name], [ANN.sub, "ann@new.test", "Ann Berg"]);
    assert.equal(await db.prisma.user.count(), 1);
    assert.ok(later.lastSignInAt !== null);
    const acts = await db.prisma.auditEntry.findMany({ orderBy: { id: "asc" } });
    assert.deepEqual(acts.map(({ action }) => action), ["person.created", "person.signed_in", "person.signed_in"]);
    assert.ok(acts.every(({ identifier, actorSub }) => identifier === ANN.sub && actorSub === ANN.sub));
  });

  test("the request has PKCE, a nonce and a state of its own each time, and asks for scopes that the issuer has", async () => {
    const external = client({ userClaim: ["groups", "staff"], adminClaim: ["department", "it"] });
    const asked = await Promise.all([begin(external), begin(external)]);
    const [one, two] = asked.map(({ url }) => new URL(url).searchParams);
    assert.ok(one && two);
    for (const name of ["state", "nonce", "code_challenge"]) {
      assert.ok((one.get(name) ?? "").length >= 43, name);
      assert.notEqual(one.get(name), two.get(name), name);
    }
    assert.equal(one.get("code_challenge_method"), "S256");
    assert.equal(one.get("redirect_uri"), `${PUBLIC_URL}/login/callback`);
    assert.equal(one.get("scope"), "openid email profile groups");
    assert.equal(one.get("prompt"), null);
    assert.equal(new URL((await begin(external, { again: true })).url).searchParams.get("prompt"), "login");
    assert.equal(new URL((await begin(external, { another: true })).url).searchParams.get("prompt"), "select_account");
  });

  test("an id_token that is not this issuer's, this client's, this sign-in's or of this time lets nobody in", async () => {
    const now = Math.floor(Date.now() / 1000);
    const lies: Record<string, Lies> = {
      "another issuer": { idToken: { iss: "https://login.evil.test" } },
      "the issuer with a slash": { idToken: { iss: `${issuer.url}/` } },
      "another client": { idToken: { aud: "another-client" } },
      "two clients, issued to the other": { idToken: { aud: [issuer.clientId, "another"], azp: "another" } },
      "two clients, issued to nobody": { idToken: { aud: [issuer.clientId, "another"] } },
      "another nonce": { idToken: { nonce: "another" } },
      "no nonce": { idToken: { nonce: null } },
      "expired": { idToken: { iat: now - 900, exp: now - 300 } },
      "no end": { idToken: { exp: null } },
      "from the future": { idToken: { iat: now + 900, exp: now + 1200, nbf: now + 900 } },
      "no person": { idToken: { sub: null } },
      "an empty person": { idToken: { sub: "" } },
      "a person with a line break": { idToken: { sub: "ann\nbob" } },
      "a person of a megabyte": { idToken: { sub: "a".repeat(300) } },
      "a person who is a list": { idToken: { sub: [ANN.sub] } },
      "signed by nobody": { signer: "none" },
      "signed with the public key as a secret": { signer: "public_as_secret", metadata: { id_token_signing_alg_values_supported: ["HS256", "ES256"] } },
      "signed by another key under this kid": { signer: "foreign" },
      "signed by a key that is not published": { signer: "foreign", header: { kid: "unknown" } },
      "with a key of its own": { signer: "foreign", header: { jwk: { kty: "EC" } } },
      "with an extension that nobody knows": { header: { crit: ["x-outband"], "x-outband": true } },
    };
    for (const [name, lie] of Object.entries(lies)) {
      issuer.lies = lie;
      const [trouble] = await failure(signIn(client()));
      assert.equal(trouble, "broken", name);
    }
    assert.equal(await db.prisma.user.count(), 0);
    assert.equal(await db.prisma.installation.count(), 0);
  });

  test("an answer is taken for its own state and issuer, once, within its time; an error in it is said in our words", async () => {
    const external = client();
    const other = await begin(external);
    const { flow, search } = await begin(external);
    const where = { requestId: "req_1" };
    const bent = (change: Record<string, string | null>): string => {
      const params = new URLSearchParams(search);
      for (const [name, value] of Object.entries(change)) value === null ? params.delete(name) : params.set(name, value);
      return `?${params}`;
    };
    const refused: [string, string, [string, string]][] = [
      ["another sign-in's answer", other.search, ["ended", "state"]],
      ["no state", bent({ state: null }), ["ended", "state"]],
      ["another issuer", bent({ iss: "https://login.evil.test" }), ["broken", "iss"]],
      ["no issuer, though promised", bent({ iss: null }), ["broken", "iss"]],
      ["two codes", `${search}&code=x`, ["broken", "doubled_parameter"]],
      ["two states", `${search}&state=x`, ["broken", "doubled_parameter"]],
      ["no code", bent({ code: null }), ["broken", "no_code"]],
      ["nothing", "", ["ended", "state"]],
      ["denied", bent({ code: null, error: "access_denied", error_description: CANARY }), ["denied", "access_denied"]],
      ["denied, with a code", bent({ error: "access_denied", error_description: CANARY }), ["denied", "access_denied"]],
      ["an issuer in trouble", bent({ code: null, error: "temporarily_unavailable" }), ["unavailable", "temporarily_unavailable"]],
      ["a scope that is refused", bent({ code: null, error: "invalid_scope", error_description: CANARY }), ["broken", "invalid_scope"]],
      ["an error of its own", bent({ code: null, error: CANARY, error_description: CANARY }), ["broken", "unknown_error"]],
    ];
    const before = issuer.count("token");
    for (const [name, query, expected] of refused) assert.deepEqual(await failure(external.finish(query, flow, where)), expected, name);
    assert.equal(issuer.count("token"), before, "no code was sent for any of them");

    assert.equal((await external.finish(search, flow, where)).sub, ANN.sub);
    assert.deepEqual(await failure(external.finish(search, flow, where)), ["ended", "invalid_grant"]);
    const late = await begin(external);
    clock.advance(FLOW_LIFE_MS + 1);
    assert.deepEqual(await failure(external.finish(late.search, late.flow, where)), ["ended", "too_late"]);
    assert.ok(!lines.join("\n").includes(CANARY), lines.join("\n"));
  });

  test("an issuer that is slow, broken or away is a passing trouble, and its words stay with it", async () => {
    const away: Record<string, Lies> = {
      "the token endpoint fails": { status: { token: 500 }, text: CANARY },
      "the keys fail": { status: { jwks: 503 }, text: CANARY },
    };
    for (const [name, lie] of Object.entries(away)) {
      issuer.lies = lie;
      assert.equal((await failure(signIn(client())))[0], "unavailable", name);
    }
    for (const status of [404, 500, 301]) {
      issuer.lies = { status: { discovery: status }, text: CANARY };
      const external = client();
      assert.equal((await failure(external.begin({ again: false, another: false, address: undefined })))[0], "unavailable", String(status));
      // Not remembered: the next try finds it well again.
      issuer.honest();
      assert.equal((await signIn(external)).sub, ANN.sub);
    }
    const wrong: [Lies, string][] = [
      [{ metadata: { issuer: `${issuer.url}/` } }, "issuer_spelling"],
      [{ metadata: { issuer: "https://login.evil.test" } }, "issuer_spelling"],
      [{ metadata: { authorization_endpoint: "javascript:alert(1)" } }, "metadata_incomplete"],
      [{ metadata: { jwks_uri: undefined } }, "metadata_incomplete"],
    ];
    for (const [lie, reason] of wrong) {
      issuer.lies = lie;
      assert.deepEqual(await failure(client().begin({ again: false, another: false, address: undefined })), ["broken", reason]);
    }
    assert.ok(!lines.join("\n").includes(CANARY), lines.join("\n"));
  });

  test("the wrong client secret is the operator's trouble, not the person's", async () => {
    assert.deepEqual(await failure(signIn(client({ clientSecret: secret("another secret") }))), ["broken", "invalid_client"]);
    assert.ok(!lines.join("\n").includes("another secret"));
  });

  test("hosts that the issuer's metadata names are no exception from the address check; its own host is", async () => {
    const internal = await startIssuer();
    issuer.lies = { metadata: { token_endpoint: `${internal.url}/token` } };
    assert.deepEqual(await failure(signIn(client())), ["unavailable", "refused_address"]);
    issuer.lies = { metadata: { jwks_uri: `${internal.url}/jwks` } };
    assert.equal((await failure(signIn(client())))[0], "unavailable");
    issuer.lies = { metadata: { token_endpoint: "http://169.254.169.254/token" } };
    assert.equal((await failure(signIn(client())))[0], "unavailable");
    assert.deepEqual([internal.count("token"), internal.count("jwks")], [0, 0]);
    await internal.close();
  });

  test("a key that was rotated is fetched at once, and invented key ids do not flood the issuer", async () => {
    const external = client();
    await signIn(external);
    const fetched = issuer.count("jwks");
    await signIn(external);
    assert.equal(issuer.count("jwks"), fetched, "kept");
    await issuer.rotate();
    assert.equal((await signIn(external)).sub, ANN.sub);
    assert.equal(issuer.count("jwks"), fetched + 1);
    issuer.lies = { signer: "foreign", header: { kid: "invented" } };
    for (let round = 0; round < 12; round++) await failure(signIn(external));
    assert.ok(issuer.count("jwks") <= fetched + 6, `${issuer.count("jwks") - fetched} fetches`);
  });

  test("OIDC_USER_CLAIM: without the value nobody gets in, and whoever was in is out", async () => {
    const external = client({ userClaim: ["groups", "staff"] });
    assert.equal((await signIn(external)).sub, ANN.sub);
    await db.prisma.browserSession.create({ data: { idHash: "a", sub: ANN.sub, data: new Uint8Array(1), expiresAt: new Date(Date.now() + 60_000) } });
    await db.prisma.oAuthRecord.create({ data: { type: "Grant", idHash: "g", sub: ANN.sub, payload: new Uint8Array(1) } });
    await db.prisma.oAuthRecord.create({ data: { type: "Grant", idHash: "h", sub: "bob", payload: new Uint8Array(1) } });
    for (const groups of [undefined, null, [], "", "staffers", ["Staff"], ["staff "], { staff: true }, [["staff"]]]) {
      issuer.person = { ...ANN, groups };
      assert.deepEqual(await failure(signIn(external)), ["not_allowed", "user_claim"], JSON.stringify(groups));
    }
    assert.equal(await db.prisma.browserSession.count(), 0);
    assert.deepEqual((await db.prisma.oAuthRecord.findMany()).map(({ sub }) => sub), ["bob"]);
    for (const groups of ["staff", ["x", "staff"], ["staff", 7]]) {
      issuer.person = { ...ANN, groups };
      assert.equal((await signIn(external)).sub, ANN.sub, JSON.stringify(groups));
    }
    issuer.person = { ...ANN, sub: "new", groups: [] };
    await failure(signIn(external));
    assert.equal(await db.prisma.user.count({ where: { sub: "new" } }), 0);
  });

  test("a claim of another kind than text: true and numbers count by how they are written", async () => {
    issuer.person = { ...ANN, is_staff: true, level: 3 };
    assert.equal((await signIn(client({ userClaim: ["is_staff", "true"], adminClaim: ["level", "3"] }))).role, "admin");
  });

  test("an e-mail that nobody proved decides nothing and is not shown", async () => {
    const byMail = client({ adminClaim: ["email", ANN.email] });
    assert.equal((await signIn(byMail)).role, "admin");
    for (const email_verified of [false, "false", undefined, null, "yes"]) {
      issuer.person = { ...ANN, sub: `mallory-${String(email_verified)}`, email_verified };
      const mallory = await signIn(byMail);
      assert.equal(mallory.role, "user", String(email_verified));
      assert.equal(mallory.email, email_verified === false || email_verified === "false" ? "" : ANN.email);
    }
    // Two people with one address are two people, also beside a built-in one of before.
    assert.equal(await db.prisma.user.count({ where: { email: ANN.email } }), 4);
  });

  test("ADMIN_CLAIM makes an administrator at sign-in and unmakes one; without it the issuer makes none and takes none away", async () => {
    const withClaim = client({ adminClaim: ["groups", "admins"] });
    assert.equal((await signIn(withClaim)).role, "admin");
    issuer.person = { ...ANN, groups: ["staff"] };
    assert.equal((await signIn(withClaim)).role, "user");
    await db.prisma.user.update({ where: { sub: ANN.sub }, data: { role: "viewer" } });
    assert.equal((await signIn(withClaim)).role, "viewer");
    issuer.person = { ...ANN };
    assert.equal((await signIn(withClaim)).role, "admin");
    issuer.person = { ...ANN, groups: undefined };
    assert.equal((await signIn(withClaim)).role, "user");

    issuer.person = { ...ANN };
    assert.equal((await signIn(client())).role, "user");
    await db.prisma.user.update({ where: { sub: ANN.sub }, data: { role: "admin" } });
    assert.equal((await signIn(client())).role, "admin");
    const roles = await db.prisma.auditEntry.findMany({ where: { action: "person.updated" }, orderBy: { id: "asc" } });
    assert.deepEqual(roles.map(({ detail }) => (detail as { role: string }).role), ["user", "admin", "user"]);
  });

  test("what a small id_token leaves out is asked at userinfo; about somebody else it is not taken", async () => {
    issuer.thin = true;
    const external = client({ userClaim: ["groups", "staff"], adminClaim: ["groups", "admins"] });
    const ann = await signIn(external);
    assert.deepEqual([ann.email, ann.name, ann.role], [ANN.email, ANN.name, "admin"]);
    issuer.lies = { userinfo: { sub: "bob" } };
    assert.equal((await failure(signIn(external)))[0], "broken");
    assert.equal((await failure(signIn(client())))[0], "broken");
    // What decides is not known: nobody is let in, and no administrator is unmade by an outage.
    issuer.lies = { status: { userinfo: 500 }, text: CANARY };
    assert.equal((await failure(signIn(external)))[0], "unavailable");
    assert.equal((await db.prisma.user.findUniqueOrThrow({ where: { sub: ANN.sub } })).role, "admin");
    // What is only shown may be missing.
    issuer.person = { sub: "bob" };
    assert.equal((await signIn(client())).name, "bob");
    // The signed token wins.
    issuer.lies = { idToken: { groups: ["none"] } };
    issuer.person = { ...ANN, sub: "cat" };
    assert.deepEqual(await failure(signIn(external)), ["not_allowed", "user_claim"]);
    assert.ok(!lines.join("\n").includes(CANARY));
  });

  test("text of the issuer is cleaned and capped before it is kept", async () => {
    issuer.person = { sub: "x", name: `An\u202en\u0000\n ${"n".repeat(300)}`, email: "no address", preferred_username: "ann" };
    const ann = await signIn();
    assert.ok(ann.name?.startsWith("Ann") && [...ann.name].length === 100 && !/[\p{C}]/u.test(ann.name));
    assert.equal(ann.email, "");
    issuer.person = { sub: "y", email: 7, name: ["a"], given_name: "Yve", family_name: "Young" };
    assert.equal((await signIn()).name, "Yve Young");
    issuer.person = { sub: "w", name: "W\ud800alt", email: "w\ud800@people.test" };
    assert.deepEqual([(await signIn()).name, (await signIn()).email], ["Walt", ""]);
    issuer.person = { sub: "z", preferred_username: "zed" };
    assert.equal((await signIn()).name, "zed");
  });

  test("a disabled person is not let in, nor brought back by signing in; neither is a built-in person of the same sub", async () => {
    await signIn();
    const users = createUsers({ db, clock, passwordCost: QUICK_PASSWORDS, issuer: issuer.url });
    await users.update(ANN.sub, { role: "disabled" });
    assert.deepEqual(await failure(signIn(client({ adminClaim: ["groups", "admins"] }))), ["not_allowed", "disabled"]);
    assert.equal((await users.find(ANN.sub))?.role, "disabled");
    const builtIn = createUsers({ db, clock, passwordCost: QUICK_PASSWORDS });
    await builtIn.create({ sub: "bob", email: "bob@people.test", role: "admin" });
    issuer.person = { sub: "bob" };
    assert.deepEqual(await failure(signIn()), ["not_allowed", "other_issuer"]);
    assert.equal((await builtIn.find("bob"))?.issuer, "builtin");
  });

  test("a person who is disabled while they sign in is not let in", async () => {
    await signIn();
    const external = client();
    const { flow, search } = await begin(external);
    issuer.lies = { delayMs: { token: 300 } };
    const before = issuer.count("token");
    const finishing = failure(external.finish(search, flow, { requestId: "req_1" }));
    while (issuer.count("token") === before) await new Promise((resolve) => setTimeout(resolve, 5));
    await createUsers({ db, clock, passwordCost: QUICK_PASSWORDS, issuer: issuer.url }).update(ANN.sub, { role: "disabled" });
    assert.deepEqual(await finishing, ["not_allowed", "disabled"]);
  });

  test("an administrator of before, who cannot sign in any more, counts for nothing and is in nobody's way", async () => {
    await createUsers({ db, clock, passwordCost: QUICK_PASSWORDS }).create({ sub: "old", email: "old@people.test", role: "admin" });
    await signIn(client({ adminClaim: ["groups", "admins"] }));
    const users = createUsers({ db, clock, passwordCost: QUICK_PASSWORDS, issuer: issuer.url });
    await assert.rejects(users.remove(ANN.sub), { code: "forbidden" });
    await assert.rejects(users.update(ANN.sub, { role: "user" }), { code: "forbidden" });
    await users.remove("old");
    assert.equal(await users.find("old"), null);
  });

  test("subs that differ in letter case or in any byte are different people", async () => {
    const subs = ["a+b/c%2F..", "A+b/c%2F..", "a b".replace(" ", "%20"), "..", "ann@people.test", "ANN@people.test"];
    for (const sub of subs) {
      issuer.person = { ...ANN, sub };
      assert.equal((await signIn()).sub, sub);
    }
    assert.equal(await db.prisma.user.count(), subs.length);
  });

  test("many first sign-ins of one person at once make one row", async () => {
    const external = client();
    const flows = await Promise.all([1, 2, 3, 4, 5].map(() => begin(external)));
    const done = await Promise.all(flows.map(({ search, flow }) => external.finish(search, flow, { requestId: "req_1" })));
    assert.deepEqual(new Set(done.map(({ sub }) => sub)), new Set([ANN.sub]));
    assert.equal(await db.prisma.auditEntry.count({ where: { action: "person.created" } }), 1);
  });

  test("the issuer is recorded with its first person: another one, or none, is refused while somebody of it is left", async () => {
    await requireSameIssuer(db, null);
    await requireSameIssuer(db, issuer.url);
    await signIn();
    await requireSameIssuer(db, issuer.url);
    await assert.rejects(requireSameIssuer(db, "https://other.test"), /^IssuerRefusal|OIDC_ISSUER names another issuer than .*: set it back/);
    await assert.rejects(requireSameIssuer(db, `${issuer.url}/`), /names another issuer/);
    await assert.rejects(requireSameIssuer(db, null), /^Error: OIDC_ISSUER is not set, but/);
    // An instance that was already running with other settings makes nobody either.
    const other = await startIssuer();
    other.person = { sub: "eve" };
    const settings = { issuer: other.url, clientId: other.clientId, clientSecret: secret(other.clientSecret), userClaim: null, adminClaim: null };
    const external = createExternalSignIn({ db, egress, clock, log: createLog({ level: "silent", write: () => {} }), publicUrl: PUBLIC_URL, settings });
    assert.deepEqual(await failure(signIn(external)), ["broken", "issuer_recorded"]);
    await createUsers({ db, clock, passwordCost: QUICK_PASSWORDS, issuer: issuer.url }).remove(ANN.sub);
    await requireSameIssuer(db, null);
    assert.equal((await signIn(external)).sub, "eve");
    await assert.rejects(requireSameIssuer(db, issuer.url), /names another issuer/);
    await other.close();
  });

  test("too many sign-ins begun from one address are held back before the issuer is asked", async () => {
    const external = client();
    const begin = (address: string) => external.begin({ again: false, another: false, address });
    await begin("198.51.100.7");
    await db.prisma.rateLimit.updateMany({ data: { points: EXTERNAL_TRIES_PER_ADDRESS.triesMax } });
    await assert.rejects(begin("198.51.100.7"), { code: "rate_limited" });
    await begin("198.51.100.8");
  });

  test("asked to sign in again, somebody who signed in before that is not taken", async () => {
    const external = client();
    const now = Math.floor(Date.now() / 1000);
    const again = async (authTime: number | null) => {
      issuer.lies = { idToken: { auth_time: authTime } };
      const { flow, search } = await begin(external, { again: true });
      return external.finish(search, flow, { requestId: "req_1" });
    };
    assert.deepEqual(await failure(again(now - 3600)), ["broken", "not_asked_again"]);
    assert.equal((await again(now)).sub, ANN.sub);
    assert.equal((await again(null)).sub, ANN.sub);
  });
});
