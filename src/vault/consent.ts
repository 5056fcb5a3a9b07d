// The person's way through a link: start, the provider's answer, a key typed in, a no. Checks come first and in one order;
// the exchange happens once. Must never happen: an exchange for another browser or person; a second exchange; a success
// page over a grant that was not stored.
import type { Clock } from "../clock.js";
import type { ApiKeyMethod } from "../connectors/connector.js";
import { cleanField } from "../connectors/methods/apiKey.js";
import { OAuthFailure } from "../connectors/methods/oauthFailures.js";
import type { OAuthClient, OAuthTarget, TokenAnswer } from "../connectors/methods/oauth.js";
import { Secret } from "../crypto/secret.js";
import { type Sealer, UnreadableError } from "../crypto/seal.js";
import { hashToken, newToken, sameText } from "../crypto/tokens.js";
import type { Database } from "../db/client.js";
import type { BrowserPrincipal } from "../identity/principal.js";
import type { LinkFailure, LinkOutcome, LinksDoor } from "./front.js";
import type { Keeper } from "./keep.js";
import { flowPlace, type LinkBook, type LinkRow } from "./link.js";
import type { KeyProbe } from "./keyProbe.js";
import { expiryOf } from "./refresh.js";
import type { Revoker } from "./revoke.js";
import type { Settlement } from "./settlement.js";
import { accountView } from "./store.js";
import type { Targets } from "./target.js";

/** How long a doubled callback waits for the first one's outcome. */
const DOUBLED_WAIT_MS = 15_000;

export interface ConsentDeps {
  db: Database;
  clock: Clock;
  sealer: Sealer;
  oauth: OAuthClient;
  book: LinkBook;
  keeper: Keeper;
  keyProbe: KeyProbe;
  revoker: Revoker;
  settlement: Settlement;
  targets: Targets;
  publicUrl: string;
  linkTtlS: number;
}

type Steps = Pick<LinksDoor, "start" | "callback" | "submitKey" | "refuse">;

export function createConsent(deps: ConsentDeps): Steps {
  const { db, clock, book, keeper } = deps;

  return {
    async start({ token, person, browser }) {
      const link = await book.byToken(token);
      const stop = checkLink(link, person);
      if (stop || !link) return outcome(link, stop ?? "unknown_state");
      const target = await deps.targets.targetOf(link.account.connection).catch((thrown: unknown) => asFailure(thrown));
      if (target instanceof OAuthFailure) return keeper.settleFailed(link, failureOf(target), target.reason, person);
      if (target.connector.method.kind !== "oauth") return outcome(link, "unknown_state");

      const flow = { state: newToken(clock), nonce: newToken(clock), verifier: newToken(clock) };
      const url = await deps.oauth
        .authorizationUrl(target, {
          redirectUri: redirectUri(deps.publicUrl, link.account.connection.name),
          scopes: link.scopesRequested,
          ...flow,
          ...(link.account.externalEmail && link.account.status !== "REVOKED" ? { loginHint: link.account.externalEmail } : {}),
        })
        .catch((thrown: unknown) => asFailure(thrown));
      // Nothing was asked of the provider yet: after a passing trouble the same link may be tried again.
      if (url instanceof OAuthFailure && url.kind === "transient") return outcome(link, "provider_unavailable");
      if (url instanceof OAuthFailure) return keeper.settleFailed(link, failureOf(url), url.reason, person);

      const flowSealed = await deps.sealer.seal(
        link.connectionId,
        flowPlace(link.id),
        JSON.stringify({ nonce: flow.nonce.reveal(), verifier: flow.verifier.reveal() }),
      );
      const started = await db.prisma.authorizationLink.updateMany({
        where: { id: link.id, status: { in: ["open", "started"] }, exchangedAt: null, expiresAt: { gt: clock.date() } },
        data: {
          status: "started",
          startedAt: clock.date(),
          stateHash: hashToken(flow.state),
          browserHash: hashToken(new Secret(browser)),
          flowSealed,
          // The first start gives the state its own life; a later one does not stretch it.
          ...(link.status === "open" ? { expiresAt: new Date(clock.now() + deps.linkTtlS * 1000) } : {}),
        },
      });
      if (started.count !== 1) return outcome(await book.byId(link.id), "already_used");
      return { kind: "redirect", url: url.href };
    },

    async callback({ connectionName, url, person, browser }) {
      const state = url.searchParams.get("state");
      const link = state === null ? null : await book.byState(state);
      // A state of another connection's redirect URI is a mix-up attack: it is as good as unknown.
      if (state === null || !link || link.account.connection.name !== connectionName) return outcome(null, "unknown_state");
      if (browser === null || link.browserHash === null || !sameText(hashToken(new Secret(browser)), link.browserHash)) return outcome(null, "wrong_browser");
      if (!person || person.sub !== link.identifier) return outcome(null, "wrong_person");
      if (link.exchangedAt !== null || link.settledAt !== null) return firstOutcome(link);
      if (link.expiresAt.getTime() <= clock.now()) return keeper.settleFailed(link, "expired", "link_expired", person);

      const claimed = await db.prisma.authorizationLink.updateMany({
        where: { id: link.id, status: "started", exchangedAt: null, stateHash: link.stateHash },
        data: { exchangedAt: clock.date() },
      });
      if (claimed.count !== 1) return firstOutcome(link);
      return exchange(link, url, state, person);
    },

    async submitKey({ token, person, fields }) {
      const link = await book.byToken(token);
      const stop = checkLink(link, person);
      if (stop || !link) return outcome(link, stop ?? "unknown_state");
      const connector = deps.targets.connectorOf(link.account.connection);
      if (connector.method.kind !== "api_key") return outcome(link, "unknown_state");
      const cleaned = cleanFields(connector.method, fields);
      if (!cleaned) return outcome(link, "key_malformed");

      const tried = await deps.keyProbe.try(link.account.connection, connector, connector.method, cleaned);
      if (tried.kind !== "accepted") return outcome(link, tried.kind === "refused" ? "key_refused" : "provider_unavailable");
      const claimed = await db.prisma.authorizationLink.updateMany({
        where: { id: link.id, status: { in: ["open", "started"] }, exchangedAt: null },
        data: { exchangedAt: clock.date(), status: "started" },
      });
      if (claimed.count !== 1) return firstOutcome(link);
      return keeper.keep(link, person, {
        credential: { access: { kind: "api_key", fields: cleaned }, refresh: null },
        scopes: [],
        tokenExpiresAt: null,
        external: tried.external,
      });
    },

    async refuse({ token, person }) {
      const link = await book.byToken(token);
      const stop = checkLink(link, person);
      if (stop || !link) return outcome(link, stop ?? "unknown_state");
      return keeper.settleFailed(link, "denied", "consent_denied", person);
    },
  };

  async function exchange(link: LinkRow, url: URL, state: string, person: BrowserPrincipal): Promise<LinkOutcome> {
    let target: OAuthTarget;
    let answer: TokenAnswer;
    try {
      target = await deps.targets.targetOf(link.account.connection);
      const flow = await openFlow(link);
      answer = await deps.oauth.exchange(target, {
        url,
        redirectUri: redirectUri(deps.publicUrl, link.account.connection.name),
        state: new Secret(state),
        ...flow,
      });
    } catch (thrown) {
      const failure = asFailure(thrown);
      return keeper.settleFailed(link, failureOf(failure), failure.kind === "denied" ? "consent_denied" : failure.reason, person);
    }
    const external = await deps.oauth.identify(target, answer.access, answer).catch(() => null);
    const scopes = answer.scopes ?? link.scopesRequested;
    const missing = link.scopesRequired.filter((scope) => !scopes.includes(scope));
    if (missing.length > 0) {
      await deps.revoker.revoke(person, link.account, answer, external?.id ?? link.account.externalId);
      return keeper.settleFailed(link, "scope_missing", "scope_missing", person, missing);
    }
    return keeper.keep(link, person, {
      credential: { access: { kind: "oauth", token: answer.access }, refresh: answer.refresh },
      scopes,
      tokenExpiresAt: expiryOf(clock, answer.expiresInS),
      external,
    });
  }

  async function openFlow(link: LinkRow): Promise<{ nonce: Secret; verifier: Secret }> {
    if (!link.flowSealed) throw new OAuthFailure("malformed", "flow_gone", {});
    const opened = await deps.sealer.open(link.connectionId, flowPlace(link.id), link.flowSealed).catch((thrown: unknown) => {
      if (thrown instanceof UnreadableError) throw new OAuthFailure("malformed", "flow_unreadable");
      throw thrown;
    });
    const flow = JSON.parse(opened.reveal()) as { nonce: string; verifier: string };
    return { nonce: new Secret(flow.nonce), verifier: new Secret(flow.verifier) };
  }

  /** A doubled or reloaded callback exchanges nothing and shows what became of the first. */
  async function firstOutcome(link: LinkRow): Promise<LinkOutcome> {
    if (link.settledAt === null) {
      const signal = clock.deadline(DOUBLED_WAIT_MS);
      await deps.settlement.wait({ linkId: link.id, accountId: link.accountId, timeoutMs: DOUBLED_WAIT_MS, signal });
    }
    const now = (await book.byId(link.id)) ?? link;
    if (now.status === "completed") return { kind: "connected", link: book.view(now), account: accountView(now.account), repeated: true };
    return { ...outcome(now, keeper.failureFor(now)), repeated: true };
  }

  function checkLink(link: LinkRow | null, person: BrowserPrincipal): LinkFailure | null {
    if (!link) return "unknown_state";
    if (link.identifier !== person.sub) return "wrong_person";
    if (!link.account.connection.enabled) return "connection_disabled";
    if (link.settledAt !== null || link.exchangedAt !== null) return "already_used";
    if (link.expiresAt.getTime() <= clock.now()) return "expired";
    return null;
  }

  function outcome(link: LinkRow | null, failure: LinkFailure): Extract<LinkOutcome, { kind: "failed" }> {
    // Whose link it is stays unsaid to anybody else.
    const shown = failure === "wrong_person" ? null : link;
    return { kind: "failed", link: shown ? book.view(shown) : null, failure, missing: [], repeated: false };
  }
}

export function redirectUri(publicUrl: string, connectionName: string): string {
  return `${publicUrl}/connect/callback/${connectionName}`;
}

function asFailure(thrown: unknown): OAuthFailure {
  if (thrown instanceof OAuthFailure) return thrown;
  throw thrown;
}

function failureOf(failure: OAuthFailure): LinkFailure {
  switch (failure.kind) {
    case "denied":
      return "denied";
    case "transient":
      return "provider_unavailable";
    case "client_rejected":
    case "misconfigured":
      return "client_rejected";
    case "invalid_grant":
    case "iss_mismatch":
    case "malformed":
      return "provider_error";
    default:
      return failure.kind satisfies never;
  }
}

/** Trimmed and checked by the connector's fields; null: one is absent or malformed (never echoed). */
function cleanFields(method: ApiKeyMethod, given: Record<string, string>): Record<string, Secret> | null {
  const cleaned: Record<string, Secret> = {};
  for (const field of method.fields) {
    const result = cleanField(given[field.name] ?? "");
    if (!result.ok) return null;
    cleaned[field.name] = new Secret(result.value);
  }
  return cleaned;
}
