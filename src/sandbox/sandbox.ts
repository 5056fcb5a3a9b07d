// The practice Google and Slack that ship with the program, for trying everything without an account. Everything they hold is
// invented. Must never happen: a way from here to a real provider, or a practice page that could be taken for a real one.
import type { Clock } from "../clock.js";
import type { Endpoints } from "../connectors/connector.js";
import type { Secret } from "../crypto/secret.js";
import type { Log } from "../log.js";
import type { TokenPolicy } from "./grants.js";
import { openSandbox } from "./open.js";

export interface SandboxProvider {
  clientId: string;
  clientSecret: Secret;
  endpoints: Endpoints;
}

export interface Sandbox {
  /** `http://localhost:PORT`; answers on 127.0.0.1 and ::1. */
  origin: string;
  google: SandboxProvider;
  slack: SandboxProvider;
  /** Requests by endpoint since the start, such as `POST /google/token`. */
  counts(): Record<string, number>;
  close(): Promise<void>;
}

/** Google: an hour, refresh tokens that stay. Slack without token rotation: tokens that do not expire. */
const POLICIES: { google: TokenPolicy; slack: TokenPolicy } = {
  google: { accessTtlS: 3600, rotatesRefreshTokens: false },
  slack: { accessTtlS: null, rotatesRefreshTokens: false },
};

export async function startSandbox(options: {
  port: number;
  publicUrl: string;
  file: string | null;
  clock: Clock;
  log: Log;
}): Promise<Sandbox> {
  return openSandbox({ ...options, publicUrl: () => options.publicUrl, policies: POLICIES });
}
