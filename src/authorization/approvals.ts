// Which clients a person has let in. Each authorization gets a grant of its own, so that one device's end does not end
// another's; a client that proves its domain is not asked for again while an earlier grant covers what it wants.
import type { Clock } from "../clock.js";
import type { Sealer } from "../crypto/seal.js";
import { hashToken } from "../crypto/tokens.js";
import type { Database } from "../db/client.js";
import { openPayload } from "./adapter.js";
import { clientWords, isDocumentClient } from "./clients.js";
import type { AdapterPayload, Grant, KoaContextWithOIDC, Provider } from "./oidcProvider.js";
import { isMcpScope, scopeList } from "./scopes.js";

/** An app that a person let in, as its page shows it. */
export interface ApprovedApp {
  /** Names the app in a form; nothing can be done with it but end it. */
  id: string;
  name: string | null;
  provedHost: string | null;
  scopes: string[];
  since: Date;
}

export interface ApprovalDeps {
  db: Pick<Database, "prisma">;
  sealer: Sealer;
  clock: Clock;
}

/** Earlier grants that are looked at; a person has a few devices. */
const EARLIER_MAX = 20;
const APPS_MAX = 200;

export interface Approvals {
  /** For oidc-provider: the grant of this request, if the person need not be asked. */
  loadGrant(ctx: KoaContextWithOIDC): Promise<Grant | undefined>;
  appsOf(sub: string, provider: Provider): Promise<ApprovedApp[]>;
  /** Ends all grants of the app; its tokens are refused from the next call on. */
  endApp(sub: string, id: string): Promise<void>;
  /** Ends every grant and every session at the authorization server. */
  endAllOf(sub: string): Promise<void>;
}

export function createApprovals(deps: ApprovalDeps): Approvals {
  const { db, sealer, clock } = deps;
  const records = db.prisma.oAuthRecord;

  async function aliveGrants(sub: string, clientHash: string | undefined, take: number) {
    const where = { type: "Grant", sub, expiresAt: { gt: clock.date() }, ...(clientHash === undefined ? {} : { uidHash: clientHash }) };
    const rows = await records.findMany({ where, orderBy: { createdAt: "desc" }, take });
    const opened = await Promise.all(rows.map(async (row) => ({ row, payload: await openPayload(sealer, row) })));
    return opened.flatMap(({ row, payload }) => (payload === null ? [] : [{ row, payload }]));
  }

  return {
    loadGrant: async (ctx) => {
      const { oidc } = ctx;
      const given = oidc.result?.consent?.grantId;
      if (given !== undefined) return oidc.provider.Grant.find(given);
      const { client, account } = oidc;
      if (!client || !account) return undefined;
      // RFC 8252, section 8.6: any program on the machine can pose as a native client, so a person answers each time.
      if (!isDocumentClient(client) || client.applicationType === "native" || oidc.prompts.has("consent")) return undefined;
      const wanted = Object.entries(oidc.resourceServers ?? {}).map(([resource, server]) => {
        return { resource, scopes: scopeList(server.scope).filter((scope) => oidc.requestParamScopes.has(scope)) };
      });
      const earlier = await aliveGrants(account.accountId, hashToken(client.clientId), EARLIER_MAX);
      const covers = wanted.some(({ scopes }) => scopes.length > 0) && earlier.some(({ payload }) => wanted.every((want) => isCovered(payload, want)));
      if (!covers) return undefined;
      const grant = new oidc.provider.Grant({ accountId: account.accountId, clientId: client.clientId });
      grant.addOIDCScope([...oidc.requestParamOIDCScopes]);
      for (const { resource, scopes } of wanted) grant.addResourceScope(resource, scopes);
      await grant.save();
      return grant;
    },

    appsOf: async (sub, provider) => {
      const apps = new Map<string, ApprovedApp>();
      for (const { row, payload } of await aliveGrants(sub, undefined, APPS_MAX)) {
        const { clientId } = payload;
        if (!row.uidHash || !clientId) continue;
        const known = apps.get(row.uidHash);
        const scopes = [...new Set([...(known?.scopes ?? []), ...grantedScopes(payload)])];
        const words = known ?? (await wordsOf(clientId, provider));
        apps.set(row.uidHash, { id: row.uidHash, name: words.name, provedHost: words.provedHost, scopes, since: row.createdAt });
      }
      return [...apps.values()];
    },

    endApp: async (sub, id) => {
      const grants = await records.findMany({ where: { type: "Grant", sub, uidHash: id }, select: { idHash: true } });
      const ids = grants.map(({ idHash }) => idHash);
      await records.deleteMany({ where: { sub, OR: [{ type: "Grant", idHash: { in: ids } }, { grantId: { in: ids } }] } });
    },

    endAllOf: async (sub) => {
      await records.deleteMany({ where: { sub } });
    },
  };
}

function isCovered(payload: AdapterPayload, want: { resource: string; scopes: string[] }): boolean {
  const granted = scopesFor(payload, want.resource);
  return want.scopes.every((scope) => granted.includes(scope));
}

interface GrantPayload {
  resources?: Record<string, string>;
  rejected?: { resources?: Record<string, string> };
}

function scopesFor(payload: AdapterPayload, resource: string): string[] {
  const { resources, rejected } = payload as GrantPayload;
  const refused = scopeList(rejected?.resources?.[resource]);
  return scopeList(resources?.[resource]).filter((scope) => !refused.includes(scope));
}

function grantedScopes(payload: AdapterPayload): string[] {
  return Object.keys((payload as GrantPayload).resources ?? {}).flatMap((resource) => scopesFor(payload, resource).filter(isMcpScope));
}

/** A metadata document is not fetched to draw a list: its host is in the client id. */
async function wordsOf(clientId: string, provider: Provider): Promise<{ name: string | null; provedHost: string | null }> {
  const url = URL.parse(clientId);
  if (url?.protocol === "https:") return { name: null, provedHost: url.host };
  const client = await provider.Client.find(clientId);
  return client ? clientWords(client) : { name: null, provedHost: null };
}
