// Calls a provider's API as one account: applies the credential out of the tool's sight, refreshes once on a refusal,
// never sends a write again once its body may have left. Must never happen: a request off the API's own host; a credential
// in an error; a refused token that leaves the status as it was.
import type { Clock } from "../clock.js";
import { type ApiAnswer, type ApiClient, type ApiRequest, type Connector, ProviderFailure } from "../connectors/connector.js";
import { applyKey } from "../connectors/methods/apiKey.js";
import { UnreadableError } from "../crypto/seal.js";
import type { Database } from "../db/client.js";
import { type Egress, type EgressAnswer, EgressError } from "../net/egress.js";
import { type Act, transition } from "./account.js";
import type { AccessCredential, CredentialBox } from "./credential.js";
import type { RefreshEnd, Refresher } from "./refresh.js";
import type { AccountRow } from "./store.js";
import type { StatusReason } from "./types.js";

const TIMEOUT_MS = 10_000;
/** The longest Retry-After that a read waits for inside its call; longer ones are told. */
const WAIT_429_MS = 3_000;
/** A token that is good for longer than this is used when its renewal ahead of time does not end soon. */
const GOOD_FOR_MS = 20_000;
const PATIENCE_AHEAD_MS = 3_000;

export interface Access {
  clientFor(account: AccountRow, connector: Connector, options: { signal: AbortSignal; exemptOrigin: string | undefined }): Promise<ApiClient>;
}

interface Held {
  credential: AccessCredential;
  /** Of the row it was opened from. */
  generation: number;
}

export interface AccessDeps {
  db: Database;
  clock: Clock;
  egress: Egress;
  box: CredentialBox;
  refresher: Refresher;
}

export function createAccess(deps: AccessDeps): Access {
  const { db, clock, egress, box, refresher } = deps;

  return {
    async clientFor(start, connector, options) {
      // The row as it was read, or as a refresh that was due left it; later refreshes change `account` alone.
      let account = start;
      let held: Promise<Held> | null = null;
      let renewal: Promise<void> | null = null;

      if (refresher.isDue(account)) {
        const ahead = goodForMs(account, clock) > GOOD_FOR_MS;
        const end = await refresher.refresh(account, ahead ? { patienceMs: PATIENCE_AHEAD_MS } : {});
        // A transient trouble ahead of the end costs nothing: the token still works.
        if (end.kind === "fresh") account = end.account;
        else if (end.kind === "unusable" || goodForMs(account, clock) <= 0) throw failureOf(end);
      }

      const first = account;
      return { request };

      async function request(wanted: ApiRequest): Promise<ApiAnswer> {
        for (;;) {
          held ??= open(account);
          const used = await held;
          const answer = await send(wanted, used.credential);
          const refused = answer.status === 401 ? "token_rejected" : (connector.readsAuthFailure?.(answer.status, answer.json) ?? null);
          if (!refused) return checked(wanted, answer);
          // A refusal means that nothing was done: one refresh, one more send, also for a write. Requests side by side share
          // the one refresh, and a refusal of the token before it says nothing about the new one.
          if (used.generation === first.generation && first.refreshSealed && refused !== "revoked_at_provider") {
            renewal ??= renew();
            await renewal;
          } else {
            throw await refuse(refused);
          }
        }
      }

      async function renew(): Promise<void> {
        const end = await refresher.refresh(account);
        if (end.kind !== "fresh") throw failureOf(end);
        account = end.account;
        held = null;
      }

      async function open(row: AccountRow): Promise<Held> {
        const credential = await guardUnreadable(row, () => box.openAccess(row));
        if (!credential) throw new ProviderFailure("unauthorized", "no_credential");
        return { credential, generation: row.generation };
      }

      async function send(wanted: ApiRequest, credential: AccessCredential, again = false): Promise<ApiAnswer> {
        const outgoing = build(connector, wanted, credential);
        let raw: EgressAnswer;
        try {
          raw = await egress.send({
            ...outgoing,
            timeoutMs: TIMEOUT_MS,
            signal: options.signal,
            ...(wanted.bytesMax === undefined ? {} : { bytesMax: wanted.bytesMax }),
            ...(options.exemptOrigin === undefined ? {} : { exemptOrigin: options.exemptOrigin }),
          });
        } catch (thrown) {
          if (!(thrown instanceof EgressError)) throw thrown;
          if (wanted.write && thrown.maybeSent) throw new ProviderFailure("outcome_unknown", thrown.kind);
          throw new ProviderFailure(thrown.kind === "too_large" ? "rejected" : "unavailable", thrown.kind);
        }
        const retryAfterMs = retryAfterOf(raw.headers, clock.now());
        if (raw.status === 429 && !again && retryAfterMs !== null && retryAfterMs <= WAIT_429_MS) {
          await clock.sleep(retryAfterMs, options.signal);
          return send(wanted, credential, true);
        }
        return answerOf(raw);
      }

      function checked(wanted: ApiRequest, answer: ApiAnswer): ApiAnswer {
        const retryAfterMs = retryAfterOf(answer.headers, clock.now());
        const more = retryAfterMs === null ? {} : { retryAfterS: Math.ceil(retryAfterMs / 1000) };
        if (answer.status === 429) throw new ProviderFailure("rate_limited", "rate_limited", more);
        if (answer.status >= 500) {
          if (wanted.write) throw new ProviderFailure("outcome_unknown", `status_${answer.status}`, more);
          throw new ProviderFailure("unavailable", `status_${answer.status}`, more);
        }
        return answer;
      }

      async function refuse(refused: "token_rejected" | "revoked_at_provider"): Promise<ProviderFailure> {
        // Whether a token that cannot be renewed has run out is for the provider to say: our clock may be ahead.
        const ranOut = refused === "token_rejected" && !account.refreshSealed && account.tokenExpiresAt !== null && goodForMs(account, clock) <= 0;
        const reason = ranOut ? "no_refresh_token" : refused;
        await settle(account, ranOut ? "ran_out" : refused, reason);
        return new ProviderFailure("unauthorized", reason);
      }
    },
  };

  async function settle(account: AccountRow, act: Act, reason: StatusReason): Promise<void> {
    await db.transaction((tx) =>
      transition(tx, {
        account,
        act,
        reason,
        audit: { category: "token_lifecycle", action: "token.refused", actor: { kind: "system" }, outcome: reason },
      }),
    );
  }

  /** One row that does not open puts that account in ERROR and nothing else. */
  async function guardUnreadable<T>(account: AccountRow, run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (thrown) {
      if (!(thrown instanceof UnreadableError)) throw thrown;
      await settle(account, "unreadable", "unreadable_credential");
      throw new ProviderFailure("unauthorized", "unreadable_credential");
    }
  }
}

function goodForMs(account: AccountRow, clock: Clock): number {
  return account.tokenExpiresAt === null ? 0 : account.tokenExpiresAt.getTime() - clock.now();
}

function failureOf(end: RefreshEnd): ProviderFailure {
  if (end.kind === "transient") return new ProviderFailure("unavailable", "refresh_failed", { retryAfterS: end.retryAfterS });
  return new ProviderFailure("unauthorized", end.account.statusReason ?? "token_rejected");
}

function build(connector: Connector, wanted: ApiRequest, held: AccessCredential): { method: string; url: string; headers: Record<string, string>; body?: string } {
  const url = apiUrl(connector, wanted.path);
  for (const [name, value] of Object.entries(wanted.query ?? {})) {
    for (const one of Array.isArray(value) ? value : value === undefined ? [] : [value]) url.searchParams.append(name, String(one));
  }
  const headers: Record<string, string> = { accept: "application/json", ...wanted.headers };
  let body: string | undefined;
  if (wanted.json !== undefined) {
    headers["content-type"] = "application/json; charset=utf-8";
    body = JSON.stringify(wanted.json);
  } else if (wanted.form) {
    headers["content-type"] = "application/x-www-form-urlencoded";
    body = new URLSearchParams(wanted.form).toString();
  }
  if (held.kind === "oauth") {
    headers["authorization"] = `Bearer ${held.token.reveal()}`;
  } else if (connector.method.kind === "api_key") {
    const applied = applyKey(connector.method, held.fields);
    Object.assign(headers, applied.headers);
    for (const [name, value] of Object.entries(applied.query)) url.searchParams.set(name, value);
  }
  return { method: wanted.method, url: url.href, headers, ...(body === undefined ? {} : { body }) };
}

/** The path stays on the API's host and below its base; anything else is a fault of ours or an attack. */
export function apiUrl(connector: Pick<Connector, "endpoints">, path: string): URL {
  const base = connector.endpoints.api?.replace(/\/+$/, "");
  if (!base) throw new ProviderFailure("rejected", "no_api_endpoint");
  if (!path.startsWith("/") || path.includes("\\") || path.includes("#")) throw new ProviderFailure("invalid_arguments", "path");
  const url = new URL(base + path);
  const root = new URL(base);
  const below = root.pathname === "/" ? "/" : `${root.pathname}/`;
  if (url.origin !== root.origin || !url.pathname.startsWith(below) || url.username !== "") throw new ProviderFailure("invalid_arguments", "path");
  return url;
}

function answerOf(raw: EgressAnswer): ApiAnswer {
  const text = raw.body.toString("utf8");
  return { status: raw.status, headers: raw.headers, json: /\bjson\b/.test(raw.headers["content-type"] ?? "") ? parsed(text) : null, text };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}

/**
 * Retry-After in seconds or as an HTTP date (RFC 9110 section 10.2.3), in ms; null when absent or odd. At most an hour. A date
 * is measured against the answer's own Date, so that our clock and the provider's need not agree.
 */
export function retryAfterOf(headers: Record<string, string>, nowMs: number): number | null {
  const given = headers["retry-after"];
  if (given === undefined) return null;
  const seconds = Number(given);
  const sentMs = Date.parse(headers["date"] ?? "");
  const ms = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(given) - (Number.isNaN(sentMs) ? nowMs : sentMs);
  if (!Number.isFinite(ms) || ms < 0) return null;
  return Math.min(ms, 3_600_000);
}
