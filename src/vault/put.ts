// A credential that a server puts in for a person: an API key is tried before it is kept, an OAuth grant is asked whose it is.
// Must never happen: a refused key kept, or in place of one that works; a grant that is known to be somebody else's in an
// account's place; an account left behind by a credential that was not taken.
import type { Clock } from "../clock.js";
import type { ApiKeyMethod, Connector, ExternalAccount } from "../connectors/connector.js";
import { cleanField } from "../connectors/methods/apiKey.js";
import { type OAuthClient, OAuthFailure } from "../connectors/methods/oauth.js";
import { Secret } from "../crypto/secret.js";
import type { Database } from "../db/client.js";
import { isUniqueViolation } from "../db/errors.js";
import { OutbandError } from "../errors.js";
import { type AccountId, newId } from "../ids.js";
import { mayTakeIdentity, transition } from "./account.js";
import { appendAccountEvent } from "./accountEvents.js";
import type { Credential, CredentialBox } from "./credential.js";
import type { AccountsDoor, PutCredential } from "./front.js";
import type { KeyProbe } from "./keyProbe.js";
import { checkLabel } from "./link.js";
import { type AccountRow, accountView, type ConnectionRow } from "./store.js";
import type { Targets } from "./target.js";

const CONFLICTS_AT_MOST = 8;
const RETRY_AFTER_S = 10;

export interface PutDeps {
  db: Database;
  clock: Clock;
  box: CredentialBox;
  keyProbe: KeyProbe;
  oauth: Pick<OAuthClient, "identify">;
  targets: Targets;
  knowsPerson(identifier: string): Promise<boolean>;
}

interface Tried {
  credential: Credential;
  scopes: string[];
  tokenExpiresAt: Date | null;
  external: ExternalAccount | null;
  /** Why the provider did not say whose grant it is. */
  unread: OAuthFailure | null;
}

export function createPut(deps: PutDeps): AccountsDoor["put"] {
  const { db, clock } = deps;

  return async function put(actor, input) {
    const label = input.label ?? "";
    checkLabel(label);
    const connection = await db.prisma.connection.findUnique({ where: { name: input.connectionName } });
    if (!connection) throw new OutbandError("not_found");
    if (!(await deps.knowsPerson(input.identifier))) throw new OutbandError("unknown_identifier");
    const connector = deps.targets.connectorOf(connection);
    const tried = input.credential.type === "oauth" ? await askedWhose(connection, connector, input.credential) : await triedKey(connection, connector, input.credential.fields);
    for (let conflict = 0; conflict < CONFLICTS_AT_MOST; conflict += 1) {
      const account = await accountFor(connection, input.identifier, label);
      requireSameIdentity(account, tried);
      const credential = await deps.box.seal(account, tried.credential, { scopes: tried.scopes, tokenExpiresAt: tried.tokenExpiresAt });
      const row = await db.transaction((tx) =>
        transition(tx, {
          account,
          act: "connected",
          reason: null,
          credential,
          also: { ...identityColumns(account, tried.external), lastRefreshedAt: clock.date() },
          audit: { category: "authorization", action: "account.put", actor, outcome: "ok" },
        }),
      );
      if (row) return accountView(row);
    }
    throw new OutbandError("unavailable");
  };

  async function accountFor(connection: ConnectionRow, identifier: string, label: string): Promise<AccountRow> {
    const key = { connectionId: connection.id, identifier, label };
    const where = { connectionId_identifier_label: key };
    const known = await db.prisma.connectedAccount.findUnique({ where, include: { connection: true } });
    if (known) return known;
    try {
      return await db.transaction(async (tx) => {
        const made = await tx.connectedAccount.create({
          data: { ...key, id: newId<AccountId>(clock, "ca"), status: "PENDING", statusReason: "awaiting_user", createdAt: clock.date() },
        });
        return appendAccountEvent(tx, { accountId: made.id, type: "connected_account.created" });
      });
    } catch (thrown) {
      if (!isUniqueViolation(thrown)) throw thrown;
      return db.prisma.connectedAccount.findUniqueOrThrow({ where, include: { connection: true } });
    }
  }

  /** An access token that has run out says nothing, and its refresh token may still be good: taken, unless another's place is at stake. */
  async function askedWhose(connection: ConnectionRow, connector: Connector, given: Extract<PutCredential, { type: "oauth" }>): Promise<Tried> {
    if (connector.method.kind !== "oauth") throw invalid("credential.type", "This connection does not take an OAuth grant.");
    const token = new Secret(given.access_token);
    const read = await deps.oauth.identify(await deps.targets.targetOf(connection), token).catch((thrown: unknown) => {
      if (thrown instanceof OAuthFailure) return thrown;
      throw thrown;
    });
    return {
      credential: { access: { kind: "oauth", token }, refresh: given.refresh_token === undefined ? null : new Secret(given.refresh_token) },
      scopes: given.scopes ?? [],
      tokenExpiresAt: given.expires_at === undefined ? null : new Date(given.expires_at),
      external: read instanceof OAuthFailure ? null : read,
      unread: read instanceof OAuthFailure ? read : null,
    };
  }

  async function triedKey(connection: ConnectionRow, connector: Connector, given: Record<string, string>): Promise<Tried> {
    if (connector.method.kind !== "api_key") throw invalid("credential.type", "This connection does not take an API key.");
    const fields = cleaned(connector.method, given);
    const probe = await deps.keyProbe.try(connection, connector, connector.method, fields);
    if (probe.kind === "refused") throw new OutbandError("credential_refused");
    if (probe.kind === "unavailable") throw new OutbandError("provider_unavailable", { retryAfterS: RETRY_AFTER_S });
    return { credential: { access: { kind: "api_key", fields }, refresh: null }, scopes: [], tokenExpiresAt: null, external: probe.external, unread: null };
  }
}

/** Contract section 2: not in the place of a known identity, neither as another one nor as one that nobody knows. */
function requireSameIdentity(account: AccountRow, tried: Tried): void {
  if (!mayTakeIdentity(account, tried.external?.id ?? null)) throw new OutbandError("wrong_upstream_identity");
  if (tried.unread === null || account.externalId === null || isFree(account)) return;
  if (saysNo(tried.unread)) throw new OutbandError("credential_refused");
  throw new OutbandError("provider_unavailable", { retryAfterS: tried.unread.retryAfterS ?? RETRY_AFTER_S });
}

/** RFC 6750, section 3.1: 401 and 403 are about the token, which at a token endpoint they would not be. */
function saysNo(failure: OAuthFailure): boolean {
  return failure.kind !== "transient" || failure.reason === "status_401" || failure.reason === "status_403";
}

function identityColumns(account: AccountRow, external: ExternalAccount | null) {
  if (external) return { externalId: external.id, externalEmail: external.email, externalName: external.name };
  return isFree(account) ? { externalId: null, externalEmail: null, externalName: null } : {};
}

function isFree(account: AccountRow): boolean {
  return account.status === "PENDING" || account.status === "REVOKED";
}

function cleaned(method: ApiKeyMethod, given: Record<string, string>): Record<string, Secret> {
  const problems: { path: string; message: string }[] = [];
  const fields: Record<string, Secret> = {};
  for (const { name } of method.fields) {
    const field = cleanField(given[name] ?? "");
    if (field.ok) fields[name] = new Secret(field.value);
    else problems.push({ path: `credential.fields.${name}`, message: field.problem });
  }
  if (Object.keys(given).some((name) => !method.fields.some((field) => field.name === name))) {
    problems.push({ path: "credential.fields", message: `There is a field that this connection does not have. It has ${method.fields.map(({ name }) => name).join(", ")}.` });
  }
  if (problems.length > 0) throw new OutbandError("invalid_request", { problems });
  return fields;
}

function invalid(path: string, message: string): OutbandError {
  return new OutbandError("invalid_request", { problems: [{ path, message }] });
}
