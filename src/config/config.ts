// The settings: the only reader of process.env. Everything wrong is told at once, before anything is opened (exit code 78).
// Must never happen: a setting that contradicts another and starts anyway, or a value in a problem.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parse } from "dotenv";
import { readMasterKey } from "../crypto/keyText.js";
import { Secret } from "../crypto/secret.js";
import { isLoopbackHost, readAllowEntry } from "../net/addresses.js";
import { createReader, type Environment, type Reader } from "./reader.js";
import type { Settings } from "./settings.js";

export type SettingsOutcome = { ok: true; settings: Settings; warnings: string[] } | { ok: false; problems: string[] };

/** sysexits(3) EX_CONFIG. */
export const EXIT_CODE_SETTINGS = 78;

/** The database's lock is a socket in DATA_DIR; socket paths end at 104 bytes on macOS, 108 on Linux. */
const DATA_DIR_BYTES_MAX = 90;
const ADMIN_API_KEY_CHARS_MIN = 32;
const ADMIN_PASSWORD_CHARS_MIN = 10;
/** Stock MCP clients stop at 10 rounds of one call; three are left for its questions. */
const SETTLE_LEGS_MAX = 7;
const DAYS_MAX = 3_650;

/** `platform` as in process.platform. */
export function readSettings(env: Environment, platform: string = process.platform): SettingsOutcome {
  const problems: string[] = [];
  const reader = createReader(env, problems);
  const settings = settingsFrom(reader);
  checkTogether(settings, reader);
  return problems.length > 0 ? { ok: false, problems } : { ok: true, settings, warnings: warningsAbout(settings, platform) };
}

/** The process's environment over the `.env` of the working folder. */
export function loadEnvironment(cwd: string): Environment {
  let file: Environment = {};
  try {
    file = parse(readFileSync(join(cwd, ".env")));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  return { ...file, ...process.env };
}

function settingsFrom(reader: Reader): Settings {
  const port = reader.whole("PORT", 3000, { min: 1, max: 65_535 });
  return {
    port,
    host: readHost(reader),
    publicUrl: readPublicUrl(reader, port),
    databaseUrl: readDatabaseUrl(reader),
    dataDir: readDataDir(reader),
    masterKey: readKey(reader),
    masterKeysPrevious: readPreviousKeys(reader),
    adminApiKey: readAdminApiKey(reader),
    ...readAdmin(reader),
    oidc: readOidc(reader),
    google: readClient(reader, "GOOGLE"),
    slack: readClient(reader, "SLACK"),
    sandbox: reader.choice("SANDBOX", "auto", ["auto", "on", "off"]),
    allowPrivateNetwork: readAllowPrivateNetwork(reader),
    allowedOrigins: readAllowedOrigins(reader),
    linkTtlS: reader.whole("LINK_TTL_S", 600, { min: 1, max: 86_400 }),
    settleWaitMs: reader.whole("SETTLE_WAIT_MS", 120_000, { min: 0, max: 3_600_000 }),
    // Clients time out at 60 s; under 100 ms a wait is only load.
    settleLegMs: reader.whole("SETTLE_LEG_MS", 25_000, { min: 100, max: 55_000 }),
    maxRounds: reader.whole("MAX_ROUNDS", 5, { min: 1, max: 10 }),
    auditRetentionDays: reader.whole("AUDIT_RETENTION_DAYS", 400, { min: 1, max: DAYS_MAX }),
    eventRetentionDays: reader.whole("EVENT_RETENTION_DAYS", 30, { min: 1, max: DAYS_MAX }),
    executionRetentionDays: reader.whole("EXECUTION_RETENTION_DAYS", 7, { min: 1, max: DAYS_MAX }),
    trustProxy: reader.whole("TRUST_PROXY", 0, { min: 0, max: 10 }),
    logLevel: reader.choice("LOG_LEVEL", "info", ["debug", "info", "warn", "error", "silent"]),
  };
}

function readHost(reader: Reader): string {
  const host = reader.text("HOST") ?? "127.0.0.1";
  if (!/^[A-Za-z0-9_.:[\]-]{1,255}$/.test(host)) reader.problem("HOST must be a name or an address without a scheme, a path or spaces.");
  return host.replace(/^\[(.*)\]$/, "$1");
}

function readPublicUrl(reader: Reader, port: number): string {
  const text = reader.text("PUBLIC_URL");
  if (text === null) return `http://localhost:${port}`;
  const origin = originOf(text);
  if (origin === null) {
    reader.problem("PUBLIC_URL must be an origin, such as https://outband.example.com: no path, no query, no user name.");
    return `http://localhost:${port}`;
  }
  if (isPlainPublic(origin)) reader.problem("PUBLIC_URL must be https unless its host is a loopback name.");
  return origin;
}

/** Scheme, host and port of an http(s) URL that has nothing else; null otherwise. */
function originOf(text: string): string | null {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) return null;
  const bare = url.pathname === "/" && url.username === "" && url.password === "" && !/[?#@\\]/.test(text);
  return bare ? url.origin : null;
}

function isPlainPublic(url: string): boolean {
  return new URL(url).protocol === "http:" && !isLoopbackUrl(url);
}

function isLoopbackUrl(url: string): boolean {
  return isLoopbackHost(new URL(url).hostname);
}

function readDatabaseUrl(reader: Reader): Secret | null {
  const url = reader.secret("DATABASE_URL");
  if (url === null) return null;
  const text = url.reveal();
  const fits = URL.canParse(text) && ["postgres:", "postgresql:"].includes(new URL(text).protocol);
  if (!fits) reader.problem("DATABASE_URL must be a URL that begins with postgresql:// (special characters in it are percent-encoded).");
  return url;
}

function readDataDir(reader: Reader): string {
  const path = resolve(reader.text("DATA_DIR") ?? "./data");
  const bytes = Buffer.byteLength(path);
  if (bytes > DATA_DIR_BYTES_MAX) {
    reader.problem(
      `DATA_DIR must be a path of at most ${DATA_DIR_BYTES_MAX} bytes (this one has ${bytes}): the lock inside is a socket, and socket paths are short.`,
    );
  }
  return path;
}

const KEY_HOW_TO = "Make one with: openssl rand -base64 32";

function readKey(reader: Reader): Secret | null {
  const key = reader.secret("MASTER_KEY");
  if (key !== null && readMasterKey(key.reveal()) === null) reader.problem(`MASTER_KEY must be 32 random bytes in base64. ${KEY_HOW_TO}`);
  return key;
}

function readPreviousKeys(reader: Reader): Secret[] {
  const keys = reader.list("MASTER_KEY_PREVIOUS");
  keys.forEach((key, index) => {
    if (readMasterKey(key) === null) reader.problem(`MASTER_KEY_PREVIOUS: entry ${index + 1} is not 32 bytes in base64.`);
  });
  return keys.map((key) => new Secret(key));
}

function readAdminApiKey(reader: Reader): Secret | null {
  const key = reader.secret("ADMIN_API_KEY");
  // It travels in an Authorization header.
  const fits = key === null || new RegExp(`^[\\x21-\\x7e]{${ADMIN_API_KEY_CHARS_MIN},512}$`).test(key.reveal());
  if (!fits)
    reader.problem(
      `ADMIN_API_KEY must have at least ${ADMIN_API_KEY_CHARS_MIN} characters (at most 512), printable and without spaces. ${KEY_HOW_TO}`,
    );
  return key;
}

function readAdmin(reader: Reader): { adminEmail: string | null; adminPassword: Secret | null } {
  const adminEmail = reader.text("ADMIN_EMAIL");
  const adminPassword = reader.password("ADMIN_PASSWORD");
  if (adminEmail !== null && (adminEmail.length > 254 || !/^[^\s@<>"]+@[^\s@<>"]+$/.test(adminEmail)))
    reader.problem("ADMIN_EMAIL must be an e-mail address.");
  const chars = adminPassword?.reveal().length ?? ADMIN_PASSWORD_CHARS_MIN;
  if (chars < ADMIN_PASSWORD_CHARS_MIN || chars > 512)
    reader.problem(`ADMIN_PASSWORD must have at least ${ADMIN_PASSWORD_CHARS_MIN} characters (at most 512).`);
  bothOrNone(reader, ["ADMIN_EMAIL", adminEmail], ["ADMIN_PASSWORD", adminPassword]);
  return { adminEmail, adminPassword };
}

function bothOrNone(reader: Reader, a: [name: string, value: unknown], b: [name: string, value: unknown]): void {
  if (a[1] !== null && b[1] === null) reader.problem(`${a[0]} is set, but ${b[0]} is not. Set both or neither.`);
  if (a[1] === null && b[1] !== null) reader.problem(`${b[0]} is set, but ${a[0]} is not. Set both or neither.`);
}

function readClient(reader: Reader, provider: "GOOGLE" | "SLACK"): { clientId: string; clientSecret: Secret } | null {
  const [idName, secretName] = [`${provider}_CLIENT_ID`, `${provider}_CLIENT_SECRET`];
  const clientId = reader.text(idName);
  const clientSecret = reader.secret(secretName);
  bothOrNone(reader, [idName, clientId], [secretName, clientSecret]);
  return clientId === null || clientSecret === null ? null : { clientId, clientSecret };
}

function readOidc(reader: Reader): Settings["oidc"] {
  const issuer = reader.text("OIDC_ISSUER");
  const clientId = reader.text("OIDC_CLIENT_ID");
  const clientSecret = reader.secret("OIDC_CLIENT_SECRET");
  const userClaim = readClaim(reader, "OIDC_USER_CLAIM");
  const adminClaim = readClaim(reader, "ADMIN_CLAIM");
  const acceptTokens = reader.flag("OIDC_ACCEPT_TOKENS");
  bothOrNone(reader, ["OIDC_ISSUER", issuer], ["OIDC_CLIENT_ID", clientId]);
  if (issuer === null) {
    const rest: [string, boolean][] = [
      ["OIDC_CLIENT_SECRET", clientSecret !== null],
      ["OIDC_USER_CLAIM", userClaim !== null],
      ["ADMIN_CLAIM", adminClaim !== null],
      ["OIDC_ACCEPT_TOKENS", acceptTokens],
    ];
    for (const [name, isSet] of rest)
      if (isSet) reader.problem(`${name} is set, but OIDC_ISSUER is not: it has no meaning without an issuer.`);
    return null;
  }
  checkIssuer(reader, issuer);
  return clientId === null ? null : { issuer, clientId, clientSecret, userClaim, adminClaim, acceptTokens };
}

/** Kept as typed: the issuer is compared byte for byte with what it says of itself (OpenID Connect Discovery 4.3). */
function checkIssuer(reader: Reader, issuer: string): void {
  const url = URL.canParse(issuer) ? new URL(issuer) : null;
  const fits = url !== null && /^https?:$/.test(url.protocol) && url.username === "" && url.password === "" && !/[?#]/.test(issuer);
  if (!fits) reader.problem("OIDC_ISSUER must be a URL without a query or a user name.");
  else if (isPlainPublic(issuer)) reader.problem("OIDC_ISSUER must be https unless its host is a loopback name.");
}

function readClaim(reader: Reader, name: string): [string, string] | null {
  const text = reader.text(name);
  if (text === null) return null;
  const at = text.indexOf("=");
  const [claim, value] = [text.slice(0, Math.max(at, 0)).trim(), text.slice(at + 1).trim()];
  if (claim !== "" && value !== "") return [claim, value];
  reader.problem(`${name} must have the form claim=value.`);
  return null;
}

function readAllowPrivateNetwork(reader: Reader): true | string[] {
  const text = reader.text("ALLOW_PRIVATE_NETWORK")?.toLowerCase();
  if (text === "true") return true;
  if (text === "false") return [];
  const entries = reader.list("ALLOW_PRIVATE_NETWORK");
  entries.forEach((entry, index) => {
    if (readAllowEntry(entry) === null)
      reader.problem(
        `ALLOW_PRIVATE_NETWORK must be true, or a comma list of hosts, addresses and CIDRs: entry ${index + 1} is none of these.`,
      );
  });
  return entries;
}

function readAllowedOrigins(reader: Reader): string[] {
  return reader.list("ALLOWED_ORIGINS").map((entry, index) => {
    const origin = originOf(entry);
    if (origin === null)
      reader.problem(`ALLOWED_ORIGINS: entry ${index + 1} is not an origin such as https://client.example.com (\`*\` is not taken).`);
    return origin ?? entry;
  });
}

/** What only shows when settings are seen side by side. */
function checkTogether(settings: Settings, reader: Reader): void {
  const isPublic = !isLoopbackUrl(settings.publicUrl);
  if (!isLoopbackHost(settings.host) && reader.text("PUBLIC_URL") === null) {
    reader.problem("PUBLIC_URL is required when HOST is not a loopback address: it is the base of every link that is given out.");
  }
  // With an issuer they would make somebody who cannot sign in: ADMIN_CLAIM says there who administers.
  if (isPublic && reader.text("OIDC_ISSUER") === null && settings.adminEmail === null && settings.adminPassword === null) {
    reader.problem(
      "ADMIN_EMAIL and ADMIN_PASSWORD are required when PUBLIC_URL is not a loopback name: nobody else may become the first admin.",
    );
  }
  if (settings.oidc?.issuer === `${settings.publicUrl}/oauth`)
    reader.problem("OIDC_ISSUER must not be Outband itself: people sign in there, and Outband would send them back for it.");
  if (isPublic && settings.sandbox === "on")
    reader.problem("SANDBOX must not be on when PUBLIC_URL is not a loopback name: its practice people have no secrets.");
  if (settings.databaseUrl !== null && settings.masterKey === null) {
    reader.problem(`MASTER_KEY is required with DATABASE_URL. ${KEY_HOW_TO}`);
  }
  const legs = Math.ceil(settings.settleWaitMs / settings.settleLegMs);
  if (legs > SETTLE_LEGS_MAX) {
    reader.problem(
      `SETTLE_WAIT_MS is ${legs} times SETTLE_LEG_MS; at most ${SETTLE_LEGS_MAX} legs are possible, because MCP clients stop at 10 rounds. Lower the wait or raise the leg.`,
    );
  }
}

function warningsAbout(settings: Settings, platform: string): string[] {
  const warnings: string[] = [];
  if (platform === "win32") warnings.push("Windows is not supported: file modes and the lock do not work there. Run Outband in WSL.");
  if (settings.slack !== null && settings.publicUrl.startsWith("http:")) {
    warnings.push(
      "Slack takes https redirect URLs only, and PUBLIC_URL is http: Slack will not connect until it is https (a tunnel or a proxy).",
    );
  }
  if (settings.oidc !== null && settings.oidc.adminClaim === null) {
    warnings.push("ADMIN_CLAIM is not set: nobody who signs in at OIDC_ISSUER becomes an admin.");
  }
  if (settings.oidc !== null && settings.adminEmail !== null) {
    warnings.push("ADMIN_EMAIL and ADMIN_PASSWORD do nothing while OIDC_ISSUER is set: people sign in there, without passwords of ours.");
  }
  return warnings;
}
