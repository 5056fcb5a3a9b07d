// The shape of the settings: read once from the environment by config/config.ts, which is the only reader of process.env.
import type { Secret } from "../crypto/secret.js";

export interface Settings {
  port: number;
  host: string;
  /** An origin without a trailing slash; the only base of every URL that leaves the program. */
  publicUrl: string;
  databaseUrl: Secret | null;
  dataDir: string;
  /** From the environment; null on the embedded database, where DATA_DIR/master.key is used. */
  masterKey: Secret | null;
  masterKeysPrevious: Secret[];
  adminApiKey: Secret | null;
  adminEmail: string | null;
  adminPassword: Secret | null;
  oidc: { issuer: string; clientId: string; clientSecret: Secret | null; userClaim: [string, string] | null; adminClaim: [string, string] | null; acceptTokens: boolean } | null;
  google: { clientId: string; clientSecret: Secret } | null;
  slack: { clientId: string; clientSecret: Secret } | null;
  sandbox: "auto" | "on" | "off";
  /** True: everything but link-local and metadata addresses. */
  allowPrivateNetwork: true | string[];
  allowedOrigins: string[];
  linkTtlS: number;
  settleWaitMs: number;
  settleLegMs: number;
  maxRounds: number;
  auditRetentionDays: number;
  eventRetentionDays: number;
  executionRetentionDays: number;
  trustProxy: number;
  logLevel: "debug" | "info" | "warn" | "error" | "silent";
}
