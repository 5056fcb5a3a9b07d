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
import type { BrowserPrincipal, Principal } from "../identity/principal.js";
import { claimExchange } from "./exchangeClaim.js";
import type { LinkFailure, LinkOutcome, LinksDoor } from "./front.js";
import type { Grant, Keeper } from "./keep.js";
import { flowPlace, isHeld, type LinkBook, type LinkRow } from "./link.js";
import type { KeyProbe } from "./keyProbe.js";
import { expiryOf } from "./refresh.js";
import type { Revoker } from "./revoke.js";
import type { Settlement } from "./settlement.js";
import { accountView } from "./store.js";
import type { Targets } from "./target.js";
import { type AppCheck, codeOf } from "./verification.js";

/** How long a doubled callback waits for the first one's outcome. */
const DOUBLED_WAIT_MS = 15_000;
/** A grant that waits for its app is not announced. */
const DOUBLED_LOOK_MS = 500;

export interface ConsentDeps {
  db: Database;
  clock: Clock;
  sealer: Sealer;
  oauth: OAuthClient;
  book: LinkBook;
  keeper: Keeper;
  appCheck: Pick<AppCheck, "hold">;
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
      if (target instanceof OAuthFailure) return keeper.settleFailed(link, failureOf(target), target.reason, actorOf(link, person));
      if (target.connector.method.kind !== "oauth") return outcome(link, "unknown_state");

      const flow = { state: newToken(clock), nonce: newToken(clock), verifier: newToken(clock) };
      const url = await deps.oauth
        .authorizationUrl(target, {
          redirectUri: redirectUri(deps.publicUrl, link.account.connection.name),
          scopes: link.scopesRequested,
          ...flow,
          ...(link.verification !== "app" && link.account.externalEmail && link.account.status !== "REVOKED" ? { loginHint: link.account.externalEmail } : {}),
        })
        .catch((thrown: unknown) => asFailure(thrown));
      // Nothing was asked of the provider yet: after a passing trouble the same link may be tried again.
      if (url instanceof OAuthFailure && url.kind === "transient") return outcome(link, "provider_unavailable");
      if (url instanceof OAuthFailure) return keeper.settleFailed(link, failureOf(url), url.reason, actorOf(link, person));

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
      if (isAnothers(link, person)) return outcome(null, "wrong_person");
      const code = codeOf(link.id, browser, url.searchParams.get("code") ?? "");
      if (link.exchangedAt !== null || link.settledAt !== null) return firstOutcome(link, code);
      const actor = actorOf(link, person);
      if (link.expiresAt.getTime() <= clock.now()) return keeper.settleFailed(link, "expired", "link_expired", actor);

      if (!(await claimExchange(db, link.id, link.stateHash))) return firstOutcome(link, code);
      return exchange(link, url, state, actor, code);
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
      if (!(await claimExchange(db, link.id, null))) return firstOutcome(link, null);
      const grant = { credential: { access: { kind: "api_key" as const, fields: cleaned }, refresh: null }, scopes: [], tokenExpiresAt: null, external: tried.external };
      return keepOrHold(link, actorOf(link, person), grant, newToken(clock));
    },

    async refuse({ token, person }) {
      const link = await book.byToken(token);
      const stop = checkLink(link, person);
      if (stop || !link) return outcome(link, stop ?? "unknown_state");
      return keeper.settleFailed(link, "denied", "consent_denied", actorOf(link, person));
    },
  };

  async function exchange(link: LinkRow, url: URL, state: string, actor: Principal, code: Secret): Promise<LinkOutcome> {
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
      return keeper.settleFailed(link, failureOf(failure), failure.kind === "denied" ? "consent_denied" : failure.reason, actor);
    }
    const whose = await deps.oauth.identify(target, answer.access, answer).then(
      (account) => ({ external: account, isUnread: false }),
      () => ({ external: null, isUnread: true }),
    );
    const { external } = whose;
    const scopes = answer.scopes ?? link.scopesRequested;
    const missing = link.scopesRequired.filter((scope) => !scopes.includes(scope));
    if (missing.length > 0) {
      await deps.revoker.revoke(actor, link.account, answer, external?.id ?? link.account.externalId);
      return keeper.settleUnkept(link, "scope_missing", "scope_missing", actor, missing);
    }
    // Somebody else's grant is not to take the place of a known one while the provider cannot say whose it is.
    if (whose.isUnread && link.account.externalId !== null && !["PENDING", "REVOKED"].includes(link.account.status)) {
      await deps.revoker.revoke(actor, link.account, answer, link.account.externalId);
      return keeper.settleUnkept(link, "provider_unavailable", "identity_unread", actor);
    }
    const credential = { access: { kind: "oauth" as const, token: answer.access }, refresh: answer.refresh };
    return keepOrHold(link, actor, { credential, scopes, tokenExpiresAt: expiryOf(clock, answer.expiresInS), external }, code);
  }

  /** Whose it is, the person's sign-in has said; or the app will (contract 5.7). */
  function keepOrHold(link: LinkRow, actor: Principal, grant: Grant, code: Secret): Promise<LinkOutcome> {
    return link.verification === "app" ? deps.appCheck.hold(link, grant, code) : keeper.keep(link, actor, grant);
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

  /** A doubled or reloaded callback exchanges nothing and shows what became of the first. `code`: what the first was given, if this is the same. */
  async function firstOutcome(link: LinkRow, code: Secret | null): Promise<LinkOutcome> {
    const now = await settledOrHeld(link);
    if (isHeld(now) && code !== null && now.codeHash !== null && sameText(hashToken(code), now.codeHash)) return { kind: "awaits_app", link: book.view(now), code, repeated: true };
    if (now.status === "completed") return { kind: "connected", link: book.view(now), account: accountView(now.account), repeated: true };
    return { ...outcome(now, now.settledAt === null && !isHeld(now) ? "under_way" : keeper.failureFor(now)), repeated: true };
  }

  async function settledOrHeld(link: LinkRow): Promise<LinkRow> {
    const signal = clock.deadline(DOUBLED_WAIT_MS);
    let now = link;
    while (now.settledAt === null && !isHeld(now) && !signal.aborted) {
      const end = await deps.settlement.wait({ linkId: link.id, accountId: link.accountId, timeoutMs: DOUBLED_LOOK_MS, signal });
      now = (await book.byId(link.id)) ?? now;
      if (end === "aborted") break;
    }
    return now;
  }

  function checkLink(link: LinkRow | null, person: BrowserPrincipal | null): LinkFailure | null {
    if (!link) return "unknown_state";
    if (isAnothers(link, person)) return "wrong_person";
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

/** A link that an app verifies is whose browser began it: nobody of it signs in here. */
function isAnothers(link: LinkRow, person: BrowserPrincipal | null): boolean {
  return link.verification !== "app" && link.identifier !== person?.sub;
}

/** Who happens to be signed in at the browser has nothing to do with a link that an app verifies. */
function actorOf(link: LinkRow, person: BrowserPrincipal | null): Principal {
  return link.verification === "app" || person === null ? { kind: "system" } : person;
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
