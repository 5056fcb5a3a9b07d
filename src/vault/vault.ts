// The vault's front door, put together. The only way of the surfaces to an account; none of them ever holds a token.
import type { Clock } from "../clock.js";
import type { OAuthClient } from "../connectors/methods/oauth.js";
import type { Connector } from "../connectors/connector.js";
import type { ConnectionShape, Registry } from "../connectors/registry.js";
import type { Sealer } from "../crypto/seal.js";
import type { Database } from "../db/client.js";
import type { Log } from "../log.js";
import type { Egress } from "../net/egress.js";
import { createAccess } from "./access.js";
import { appendAccountEvent } from "./accountEvents.js";
import { createAccounts } from "./accounts.js";
import { type Connections, createConnections } from "./connections.js";
import { createConsent } from "./consent.js";
import { createCredentialBox } from "./credential.js";
import { createExecute } from "./execute.js";
import type { Vault } from "./front.js";
import { createKeeper } from "./keep.js";
import { createKeyProbe } from "./keyProbe.js";
import { createLinkBook } from "./link.js";
import { createOffer } from "./offer.js";
import { createOnceOnly } from "./onceOnly.js";
import { createPersonEnd } from "./personEnd.js";
import { createRefresher } from "./refresh.js";
import { createRefreshAhead } from "./refreshAhead.js";
import { createRevoker } from "./revoke.js";
import { createSettlement } from "./settlement.js";
import { createSweep } from "./sweep.js";
import { createTargets } from "./target.js";
import { createAppCheck } from "./verification.js";

export interface VaultDeps {
  db: Database;
  clock: Clock;
  log: Log;
  sealer: Sealer;
  egress: Egress;
  oauth: OAuthClient;
  registry: Registry;
  publicUrl: string;
  linkTtlS: number;
  retention: { executionDays: number; eventDays: number; auditDays: number };
  /** Where the practice providers listen; null: there is no sandbox. */
  sandboxOrigin: () => string | null;
  knowsPerson(identifier: string): Promise<boolean>;
  isShutOut(identifier: string): Promise<boolean>;
  /** Names this process in leases. */
  instance: string;
}

/** What app.ts needs of the vault besides its front door. */
export interface BuiltVault extends Vault {
  connections: Connections;
  /** One pass of renewing tokens before they run out. */
  refreshAhead(stopping: AbortSignal): Promise<void>;
  /** The connector as a connection shapes it, for words on pages. */
  connectorOf(connection: ConnectionShape): Connector;
}

export function createVault(deps: VaultDeps): BuiltVault {
  const { db, clock, log, sealer, egress, oauth, registry, publicUrl, linkTtlS, knowsPerson, isShutOut } = deps;
  const targets = createTargets({ registry, sealer, sandboxOrigin: deps.sandboxOrigin });
  const box = createCredentialBox(sealer);
  const settlement = createSettlement({ db, clock, log });
  const revoker = createRevoker({ db, clock, log, sealer, oauth, targets });
  const reread = (id: string) => db.prisma.connectedAccount.findUnique({ where: { id }, include: { connection: true } });
  const refresher = createRefresher({
    db,
    clock,
    log,
    oauth,
    box,
    targetOf: targets.targetOf,
    reread,
    revokeQuietly: async (account, answer) => {
      await revoker.revoke({ kind: "system" }, account, answer, account.externalId);
    },
    instance: deps.instance,
  });
  const keyProbe = createKeyProbe({ egress, targets });
  const book = createLinkBook({ db, clock, sealer, targets, publicUrl, linkTtlS, knowsPerson, isShutOut });
  const keeper = createKeeper({ db, clock, log, box, book, revoker, settlement, targets });
  const appCheck = createAppCheck({ db, clock, log, sealer, book, keeper, revoker, settlement, isShutOut });
  const consent = createConsent({ db, clock, sealer, oauth, book, keeper, appCheck, keyProbe, revoker, settlement, targets, publicUrl, linkTtlS });
  const accounts = createAccounts({ db, clock, box, refresher, revoker, appCheck, keyProbe, oauth, targets, knowsPerson, isShutOut });
  const connections = createConnections({
    db,
    clock,
    sealer,
    registry,
    targets,
    publicUrl,
    refusesUrl: (url) => egress.refuses(url),
    removeAccount: (actor, id) => accounts.disconnect(actor, id, { purge: true }),
  });
  const access = createAccess({ db, clock, egress, box, refresher });
  const onceOnly = createOnceOnly({
    db,
    clock,
    log,
    sealer,
    scopeOf: async (accountId) => (await db.prisma.connectedAccount.findUniqueOrThrow({ where: { id: accountId }, select: { connectionId: true } })).connectionId,
  });
  const offered = createOffer({ db, targets });

  return {
    connections,
    connectorOf: targets.connectorOf,
    accounts,
    links: {
      ...consent,
      create: book.create,
      answered: book.answered,
      endOf: createPersonEnd({ db, clock, settlement, appCheck }),
      verify: appCheck.verify,
      byToken: async (token) => viewed(await book.byToken(token)),
      get: async (id) => viewed(await book.byId(id)),
      wait: settlement.wait,
    },
    events: {
      elicitation: async (tx, event) => {
        // An account that was purged meanwhile has no events any more.
        const there = await tx.connectedAccount.findUnique({ where: { id: event.accountId }, select: { id: true } });
        if (there) await appendAccountEvent(tx, event);
      },
    },
    tools: { offered, execute: createExecute({ db, clock, access, onceOnly, targets, offered }) },
    sweep: createSweep({
      db,
      clock,
      book,
      keeper,
      appCheck,
      revoker,
      executionRetentionDays: deps.retention.executionDays,
      eventRetentionDays: deps.retention.eventDays,
      auditRetentionDays: deps.retention.auditDays,
    }),
    refreshAhead: createRefreshAhead({ db, clock, log, refresher, reread }),
    close: async () => {
      settlement.close();
      await refresher.close();
      await revoker.close();
    },
  };

  function viewed(row: Awaited<ReturnType<typeof book.byId>>) {
    return row ? book.view(row) : null;
  }
}
