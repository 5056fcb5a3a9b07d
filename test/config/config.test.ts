import assert from "node:assert/strict";
import { resolve } from "node:path";
import { test } from "node:test";
import { inspect } from "node:util";
import { readSettings } from "../../src/config/config.js";
import type { Settings } from "../../src/config/settings.js";

const KEY = Buffer.from("0123456789abcdef0123456789abcdef").toString("base64");
const OTHER_KEY = Buffer.from("fedcba9876543210fedcba9876543210").toString("base64");
const PUBLIC = { PUBLIC_URL: "https://outband.example.com", ADMIN_EMAIL: "a@example.com", ADMIN_PASSWORD: "correct horse" };

type Env = Record<string, string | undefined>;

function settingsOf(env: Env): Settings {
  const outcome = readSettings(env, "linux");
  assert.ok(outcome.ok, outcome.ok ? "" : outcome.problems.join(" | "));
  return outcome.settings;
}

function problemsOf(env: Env): string[] {
  const outcome = readSettings(env, "linux");
  return outcome.ok ? [] : outcome.problems;
}

/** Exactly one problem, which names the setting and repeats no value. */
function oneProblem(env: Env, about: RegExp): void {
  const problems = problemsOf(env);
  assert.equal(problems.length, 1, `${JSON.stringify(env)}: ${JSON.stringify(problems)}`);
  assert.match(problems[0] ?? "", about);
}

test("with nothing set the defaults of the contract hold", () => {
  const settings = settingsOf({});
  assert.deepEqual(settings, {
    port: 3000,
    host: "127.0.0.1",
    publicUrl: "http://localhost:3000",
    databaseUrl: null,
    dataDir: resolve("./data"),
    masterKey: null,
    masterKeysPrevious: [],
    adminApiKey: null,
    adminEmail: null,
    adminPassword: null,
    oidc: null,
    google: null,
    slack: null,
    sandbox: "auto",
    allowPrivateNetwork: [],
    allowedOrigins: [],
    linkTtlS: 600,
    settleWaitMs: 120_000,
    settleLegMs: 25_000,
    maxRounds: 5,
    auditRetentionDays: 400,
    eventRetentionDays: 30,
    executionRetentionDays: 7,
    trustProxy: 0,
    logLevel: "info",
  } satisfies Settings);
});

test("every setting is read", () => {
  const settings = settingsOf({
    PORT: "8080",
    HOST: "0.0.0.0",
    PUBLIC_URL: "https://Outband.Example.com/",
    DATABASE_URL: "postgresql://u:p@db:5432/outband",
    DATA_DIR: "/var/lib/outband",
    MASTER_KEY: `${KEY}\n`,
    MASTER_KEY_PREVIOUS: `${OTHER_KEY}, `,
    ADMIN_API_KEY: "k".repeat(32),
    ADMIN_EMAIL: "admin@example.com",
    ADMIN_PASSWORD: " pass word \n",
    OIDC_ISSUER: "https://login.example.com/realms/a",
    OIDC_CLIENT_ID: "outband",
    OIDC_CLIENT_SECRET: "oidc-secret",
    OIDC_USER_CLAIM: "groups=people",
    ADMIN_CLAIM: "https://x/roles=admin=1",
    OIDC_ACCEPT_TOKENS: "true",
    GOOGLE_CLIENT_ID: "g",
    GOOGLE_CLIENT_SECRET: "gs",
    SLACK_CLIENT_ID: "s",
    SLACK_CLIENT_SECRET: "ss",
    SANDBOX: "OFF",
    ALLOW_PRIVATE_NETWORK: "api.internal, 10.0.0.0/8,fd12::/16",
    ALLOWED_ORIGINS: "https://a.example,http://localhost:6274/",
    LINK_TTL_S: "60",
    SETTLE_WAIT_MS: "0",
    SETTLE_LEG_MS: "1000",
    MAX_ROUNDS: "3",
    AUDIT_RETENTION_DAYS: "1",
    EVENT_RETENTION_DAYS: "2",
    EXECUTION_RETENTION_DAYS: "3",
    TRUST_PROXY: "1",
    LOG_LEVEL: "debug",
  });
  assert.equal(settings.port, 8080);
  assert.equal(settings.host, "0.0.0.0");
  assert.equal(settings.publicUrl, "https://outband.example.com");
  assert.equal(settings.databaseUrl?.reveal(), "postgresql://u:p@db:5432/outband");
  assert.equal(settings.dataDir, "/var/lib/outband");
  assert.equal(settings.masterKey?.reveal(), KEY);
  assert.deepEqual(
    settings.masterKeysPrevious.map((key) => key.reveal()),
    [OTHER_KEY],
  );
  assert.equal(settings.adminApiKey?.reveal(), "k".repeat(32));
  assert.equal(settings.adminEmail, "admin@example.com");
  assert.equal(settings.adminPassword?.reveal(), " pass word ");
  assert.equal(settings.oidc?.issuer, "https://login.example.com/realms/a");
  assert.equal(settings.oidc?.clientSecret?.reveal(), "oidc-secret");
  assert.deepEqual(settings.oidc?.userClaim, ["groups", "people"]);
  assert.deepEqual(settings.oidc?.adminClaim, ["https://x/roles", "admin=1"]);
  assert.equal(settings.oidc?.acceptTokens, true);
  assert.equal(settings.google?.clientSecret.reveal(), "gs");
  assert.equal(settings.slack?.clientId, "s");
  assert.equal(settings.sandbox, "off");
  assert.deepEqual(settings.allowPrivateNetwork, ["api.internal", "10.0.0.0/8", "fd12::/16"]);
  assert.deepEqual(settings.allowedOrigins, ["https://a.example", "http://localhost:6274"]);
  assert.deepEqual(
    [
      settings.linkTtlS,
      settings.settleWaitMs,
      settings.settleLegMs,
      settings.maxRounds,
      settings.auditRetentionDays,
      settings.eventRetentionDays,
    ],
    [60, 0, 1000, 3, 1, 2],
  );
  assert.equal(settings.executionRetentionDays, 3);
  assert.equal(settings.trustProxy, 1);
  assert.equal(settings.logLevel, "debug");
});

test("an empty value counts as unset", () => {
  assert.deepEqual(settingsOf({ PORT: "", MASTER_KEY: "  ", ADMIN_PASSWORD: "", SANDBOX: "", GOOGLE_CLIENT_ID: "" }), settingsOf({}));
});

test("the default PUBLIC_URL follows PORT", () => {
  assert.equal(settingsOf({ PORT: "4321" }).publicUrl, "http://localhost:4321");
});

const NUMBERS: [name: string, min: number, max: number][] = [
  ["PORT", 1, 65_535],
  ["LINK_TTL_S", 1, 86_400],
  ["MAX_ROUNDS", 1, 10],
  ["AUDIT_RETENTION_DAYS", 1, 3_650],
  ["EVENT_RETENTION_DAYS", 1, 3_650],
  ["EXECUTION_RETENTION_DAYS", 1, 3_650],
  ["TRUST_PROXY", 0, 10],
];

test("a number must be whole and within its range, both ends included", () => {
  for (const [name, min, max] of NUMBERS) {
    for (const good of [min, max]) assert.deepEqual(problemsOf({ [name]: String(good) }), [], `${name}=${good}`);
    for (const bad of [String(min - 1), String(max + 1), "1.5", "1e3", "0x10", "ten", "-1", "9".repeat(40), "१"]) {
      oneProblem({ [name]: bad }, new RegExp(`^${name} must be a whole number from ${min} to ${max}\\.$`));
    }
  }
  oneProblem({ SETTLE_LEG_MS: "99" }, /^SETTLE_LEG_MS must be/);
  oneProblem({ SETTLE_LEG_MS: "55001" }, /^SETTLE_LEG_MS must be/);
  oneProblem({ SETTLE_WAIT_MS: "-1" }, /^SETTLE_WAIT_MS must be/);
});

test("more than 7 legs of waiting is a problem, exactly 7 is not", () => {
  assert.deepEqual(problemsOf({ SETTLE_WAIT_MS: "175000" }), []);
  oneProblem({ SETTLE_WAIT_MS: "175001" }, /8 times SETTLE_LEG_MS; at most 7 legs/);
  assert.deepEqual(problemsOf({ SETTLE_WAIT_MS: "700", SETTLE_LEG_MS: "100" }), []);
  oneProblem({ SETTLE_WAIT_MS: "701", SETTLE_LEG_MS: "100" }, /at most 7 legs/);
  oneProblem({ SETTLE_LEG_MS: "10000" }, /12 times SETTLE_LEG_MS/);
});

test("a choice outside its list is a problem", () => {
  oneProblem({ LOG_LEVEL: "verbose" }, /^LOG_LEVEL must be one of: debug, info, warn, error, silent\.$/);
  oneProblem({ SANDBOX: "yes" }, /^SANDBOX must be one of: auto, on, off\.$/);
});

test("PUBLIC_URL is an origin: no path, query, fragment or user name, and http or https", () => {
  for (const bad of [
    "outband.example.com",
    "https://x.example/app",
    "https://x.example/?a=1",
    "https://x.example?",
    "https://x.example/#a",
    "https://u:p@x.example",
    "https://@x.example",
    "ftp://x.example",
    "javascript:alert(1)",
    "https://",
    "https://x.example:99999",
    "https:\\\\x.example",
  ]) {
    const problems = problemsOf({ ...PUBLIC, PUBLIC_URL: bad });
    assert.equal(problems.length, 1, bad);
    assert.match(problems[0] ?? "", /^PUBLIC_URL must be an origin/);
  }
  assert.equal(settingsOf({ ...PUBLIC, PUBLIC_URL: "https://x.example:8443/" }).publicUrl, "https://x.example:8443");
  assert.equal(settingsOf({ ...PUBLIC, PUBLIC_URL: "https://x.example:443" }).publicUrl, "https://x.example");
});

test("PUBLIC_URL is https unless its host is a loopback name", () => {
  for (const loopback of [
    "http://localhost:3000",
    "http://127.0.0.1:1",
    "http://127.9.9.9",
    "http://[::1]:3000",
    "http://outband.localhost",
  ]) {
    assert.equal(settingsOf({ PUBLIC_URL: loopback }).publicUrl, loopback);
  }
  for (const other of ["http://outband.example.com", "http://192.168.1.2:3000", "http://localhost.example.com", "http://0.0.0.0"]) {
    oneProblem({ ...PUBLIC, PUBLIC_URL: other }, /^PUBLIC_URL must be https/);
  }
});

test("PUBLIC_URL is required when HOST is not loopback", () => {
  for (const host of ["0.0.0.0", "::", "[::]", "192.168.1.2", "outband.internal"])
    oneProblem({ HOST: host }, /^PUBLIC_URL is required when HOST/);
  for (const host of ["127.0.0.1", "::1", "[::1]", "localhost", "127.1.2.3"]) assert.deepEqual(problemsOf({ HOST: host }), []);
  assert.deepEqual(problemsOf({ HOST: "0.0.0.0", PUBLIC_URL: "http://localhost:3000" }), []);
  assert.equal(settingsOf({ HOST: "[::1]" }).host, "::1");
  oneProblem({ HOST: "http://127.0.0.1", PUBLIC_URL: "http://localhost:3000" }, /^HOST must be a name or an address/);
});

test("with a public PUBLIC_URL the first admin must be named", () => {
  oneProblem({ PUBLIC_URL: "https://outband.example.com" }, /^ADMIN_EMAIL and ADMIN_PASSWORD are required/);
  assert.deepEqual(problemsOf(PUBLIC), []);
  assert.deepEqual(problemsOf({ PUBLIC_URL: "http://localhost:1" }), []);
  // Not where people sign in elsewhere: whoever would be made could never sign in.
  const oidc = { PUBLIC_URL: "https://outband.example.com", OIDC_ISSUER: "https://l.example", OIDC_CLIENT_ID: "o" };
  assert.deepEqual(problemsOf({ ...oidc, ADMIN_CLAIM: "a=b" }), []);
  assert.deepEqual(problemsOf(oidc), []);
});

test("a pair that is half set is a problem, either half", () => {
  const pairs: [string, string, string, string][] = [
    ["GOOGLE_CLIENT_ID", "gid", "GOOGLE_CLIENT_SECRET", "gsecret"],
    ["SLACK_CLIENT_ID", "sid", "SLACK_CLIENT_SECRET", "ssecret"],
    ["ADMIN_EMAIL", "a@example.com", "ADMIN_PASSWORD", "correct horse"],
    ["OIDC_ISSUER", "https://login.example.com", "OIDC_CLIENT_ID", "outband"],
  ];
  for (const [a, aValue, b, bValue] of pairs) {
    oneProblem({ [a]: aValue }, new RegExp(`^${a} is set, but ${b} is not\\.`));
    oneProblem({ [b]: bValue }, new RegExp(`^${b} is set, but ${a} is not\\.`));
    assert.deepEqual(problemsOf({ [a]: aValue, [b]: bValue }), []);
  }
  oneProblem({ ...PUBLIC, ADMIN_PASSWORD: "" }, /^ADMIN_EMAIL is set, but ADMIN_PASSWORD is not/);
});

test("ADMIN_EMAIL looks like an address, ADMIN_PASSWORD has 10 characters, ADMIN_API_KEY has 32 and fits in a header", () => {
  for (const bad of ["admin", "a@", "@b", "a b@c", "<a@b>", `${"a".repeat(250)}@b.example`])
    oneProblem({ ...PUBLIC, ADMIN_EMAIL: bad }, /^ADMIN_EMAIL must be/);
  oneProblem({ ...PUBLIC, ADMIN_PASSWORD: "123456789" }, /^ADMIN_PASSWORD must have at least 10/);
  assert.deepEqual(problemsOf({ ADMIN_API_KEY: "k".repeat(32) }), []);
  for (const bad of [
    "k".repeat(31),
    `${"k".repeat(20)} ${"k".repeat(20)}`,
    "k".repeat(513),
    `${"k".repeat(40)}ü`,
    `${"k".repeat(20)}\n${"k".repeat(20)}`,
  ]) {
    oneProblem({ ADMIN_API_KEY: bad }, /^ADMIN_API_KEY must have at least 32 characters/);
  }
});

test("DATABASE_URL must be PostgreSQL's and brings MASTER_KEY with it", () => {
  oneProblem({ DATABASE_URL: "postgresql://u:p@h/d" }, /^MASTER_KEY is required with DATABASE_URL/);
  assert.deepEqual(problemsOf({ DATABASE_URL: "postgres://u:p@h/d", MASTER_KEY: KEY }), []);
  for (const bad of ["mysql://u:p@h/d", "h:5432", "postgresql"])
    oneProblem({ DATABASE_URL: bad, MASTER_KEY: KEY }, /^DATABASE_URL must be a URL/);
});

test("master keys are 32 bytes in base64; a newline at the end does not make another key", () => {
  assert.equal(settingsOf({ MASTER_KEY: `${KEY}\r\n` }).masterKey?.reveal(), KEY);
  for (const bad of ["short", KEY.slice(4), `${KEY}${KEY}`, "A".repeat(43)])
    oneProblem({ MASTER_KEY: bad }, /^MASTER_KEY must be 32 random bytes in base64/);
  oneProblem({ MASTER_KEY_PREVIOUS: `${KEY},bad` }, /^MASTER_KEY_PREVIOUS: entry 2 is not/);
});

test("a DATA_DIR of more than 90 bytes is a problem, counted in bytes of the absolute path", () => {
  assert.deepEqual(problemsOf({ DATA_DIR: `/${"d".repeat(89)}` }), []);
  oneProblem({ DATA_DIR: `/${"d".repeat(90)}` }, /^DATA_DIR must be a path of at most 90 bytes \(this one has 91\)/);
  oneProblem({ DATA_DIR: `/${"ü".repeat(45)}` }, /this one has 91/);
});

test("the external issuer is https unless loopback, keeps its spelling, and its companions need it", () => {
  const oidc = { OIDC_CLIENT_ID: "outband" };
  assert.equal(settingsOf({ ...oidc, OIDC_ISSUER: "https://Login.example.com/a/" }).oidc?.issuer, "https://Login.example.com/a/");
  assert.deepEqual(problemsOf({ ...oidc, OIDC_ISSUER: "http://localhost:9000" }), []);
  oneProblem({ ...oidc, OIDC_ISSUER: "http://login.example.com" }, /^OIDC_ISSUER must be https/);
  oneProblem({ ...PUBLIC, ...oidc, OIDC_ISSUER: `${PUBLIC.PUBLIC_URL}/oauth` }, /^OIDC_ISSUER must not be Outband itself/);
  for (const bad of ["login", "https://u:p@login.example.com", "https://login.example.com?a=1", "https://login.example.com#a"]) {
    oneProblem({ ...oidc, OIDC_ISSUER: bad }, /^OIDC_ISSUER must be a URL/);
  }
  for (const [name, value] of [
    ["OIDC_CLIENT_SECRET", "s"],
    ["OIDC_USER_CLAIM", "a=b"],
    ["ADMIN_CLAIM", "a=b"],
    ["OIDC_ACCEPT_TOKENS", "true"],
  ] as const) {
    oneProblem({ [name]: value }, new RegExp(`^${name} is set, but OIDC_ISSUER is not`));
  }
  for (const bad of ["groups", "=x", "groups=", " = "]) {
    oneProblem({ ...oidc, OIDC_ISSUER: "https://l.example", ADMIN_CLAIM: bad }, /^ADMIN_CLAIM must have the form claim=value/);
    oneProblem({ ...oidc, OIDC_ISSUER: "https://l.example", OIDC_USER_CLAIM: bad }, /^OIDC_USER_CLAIM must have the form/);
  }
  oneProblem({ OIDC_ACCEPT_TOKENS: "maybe" }, /^OIDC_ACCEPT_TOKENS must be true or false/);
});

test("SANDBOX=on with a public PUBLIC_URL is a problem, auto and off are not", () => {
  oneProblem({ ...PUBLIC, SANDBOX: "on" }, /^SANDBOX must not be on/);
  assert.deepEqual(problemsOf({ ...PUBLIC, SANDBOX: "auto" }), []);
  assert.deepEqual(problemsOf({ SANDBOX: "on" }), []);
});

test("ALLOW_PRIVATE_NETWORK is true, false, or a list of hosts, addresses and CIDRs", () => {
  assert.equal(settingsOf({ ALLOW_PRIVATE_NETWORK: "TRUE" }).allowPrivateNetwork, true);
  assert.deepEqual(settingsOf({ ALLOW_PRIVATE_NETWORK: "false" }).allowPrivateNetwork, []);
  assert.deepEqual(settingsOf({ ALLOW_PRIVATE_NETWORK: "::1,printer,10.1.2.3" }).allowPrivateNetwork, ["::1", "printer", "10.1.2.3"]);
  for (const bad of ["10.0.0.0/40", "a b", "http://x", "*.internal", "10.0.0.0/8/8", "host:80"]) {
    oneProblem({ ALLOW_PRIVATE_NETWORK: `ok.internal,${bad}` }, /^ALLOW_PRIVATE_NETWORK must be true.*entry 2 is none of these/);
  }
});

test("ALLOWED_ORIGINS are origins, and no wildcard", () => {
  for (const bad of ["*", "https://a.example/path", "null", "a.example"])
    oneProblem({ ALLOWED_ORIGINS: bad }, /^ALLOWED_ORIGINS: entry 1 is not an origin/);
});

test("all problems are told at once, and none repeats a value", () => {
  const canary = "CANARYCANARY";
  const problems = problemsOf({
    PORT: canary,
    HOST: `${canary} ${canary}`,
    PUBLIC_URL: `ftp://${canary}`,
    DATABASE_URL: canary,
    DATA_DIR: `/${canary}${"d".repeat(90)}`,
    MASTER_KEY: canary,
    MASTER_KEY_PREVIOUS: canary,
    ADMIN_API_KEY: canary,
    ADMIN_EMAIL: canary,
    ADMIN_PASSWORD: canary.slice(0, 6),
    OIDC_ISSUER: canary,
    OIDC_USER_CLAIM: canary,
    ADMIN_CLAIM: canary,
    OIDC_ACCEPT_TOKENS: canary,
    GOOGLE_CLIENT_ID: canary,
    SLACK_CLIENT_SECRET: canary,
    SANDBOX: canary,
    ALLOW_PRIVATE_NETWORK: `*${canary}`,
    ALLOWED_ORIGINS: canary,
    LINK_TTL_S: canary,
    SETTLE_WAIT_MS: canary,
    SETTLE_LEG_MS: canary,
    MAX_ROUNDS: canary,
    AUDIT_RETENTION_DAYS: canary,
    EVENT_RETENTION_DAYS: canary,
    EXECUTION_RETENTION_DAYS: canary,
    TRUST_PROXY: canary,
    LOG_LEVEL: canary,
  });
  assert.equal(problems.length, 29);
  assert.ok(!problems.join("\n").includes("CANARY"));
});

test("the settings do not print their secrets", () => {
  const settings = settingsOf({
    MASTER_KEY: KEY,
    MASTER_KEY_PREVIOUS: OTHER_KEY,
    ADMIN_API_KEY: "k".repeat(40),
    ...PUBLIC,
    DATABASE_URL: "postgresql://u:hunter2@h/d",
  });
  const printed = `${inspect(settings, { depth: 9 })} ${JSON.stringify(settings)}`;
  for (const value of [KEY, OTHER_KEY, "k".repeat(40), "correct horse", "hunter2"]) assert.ok(!printed.includes(value));
});

test("Windows, Slack over http and an issuer without ADMIN_CLAIM are warned of, not refused", () => {
  const warnings = (env: Env, platform = "linux") => {
    const outcome = readSettings(env, platform);
    return outcome.ok ? outcome.warnings : assert.fail(outcome.problems.join(" "));
  };
  assert.deepEqual(warnings({}), []);
  assert.deepEqual(warnings({}, "darwin"), []);
  assert.match(warnings({}, "win32").join(), /WSL/);
  const slack = { SLACK_CLIENT_ID: "s", SLACK_CLIENT_SECRET: "ss" };
  assert.match(warnings(slack).join(), /^Slack takes https redirect URLs only/);
  assert.deepEqual(warnings({ ...slack, ...PUBLIC }), []);
  const oidc = { OIDC_ISSUER: "https://l.example", OIDC_CLIENT_ID: "o" };
  assert.match(warnings(oidc).join(), /^ADMIN_CLAIM is not set/);
  assert.deepEqual(warnings({ ...oidc, ADMIN_CLAIM: "a=b" }), []);
  const admin = { ADMIN_EMAIL: "a@example.com", ADMIN_PASSWORD: "correct horse" };
  assert.match(warnings({ ...oidc, ...admin, ADMIN_CLAIM: "a=b" }).join(), /^ADMIN_EMAIL and ADMIN_PASSWORD do nothing while OIDC_ISSUER is set/);
});
