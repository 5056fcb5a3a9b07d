// A vault in memory for the unit tests of the pages: it keeps what it was asked, and answers what a test told it to.
// It proves nothing about the vault; the journeys use the real one.
import assert from "node:assert/strict";
import { OutbandError } from "../../src/errors.js";
import { asIdentifier, type AccountId, type ConnectionId, type LinkId } from "../../src/ids.js";
import type { LinkOutcome, LinksDoor, Vault } from "../../src/vault/front.js";
import type { AccountView, ConnectionView, LinkRequest, LinkView } from "../../src/vault/types.js";

export interface FakeVault {
  vault: Vault;
  connections: ConnectionView[];
  accounts: AccountView[];
  /** Token → link. */
  links: Map<string, LinkView>;
  /** Every call that would change something, in order. */
  calls: { name: string; input: unknown }[];
  /** What the next start, callback, submitKey or refuse answers. */
  answer: { [Name in "start" | "callback" | "submitKey" | "refuse"]?: Awaited<ReturnType<LinksDoor[Name]>> };
  /** Thrown by the next rename. */
  renameError: Error | null;
}

const THEN = new Date("2026-05-04T10:00:00Z");

export function connectionView(more: Partial<ConnectionView> & { name: string; title: string; connector: string }): ConnectionView {
  return {
    id: `conn_${more.name}` as ConnectionId,
    method: "oauth",
    clientId: "client",
    hasClientSecret: true,
    scopes: [],
    endpoints: {},
    settings: {},
    requestAllow: [],
    enabled: true,
    origin: "operator",
    sandbox: false,
    redirectUri: `http://localhost/connect/callback/${more.name}`,
    createdAt: THEN,
    updatedAt: THEN,
    ...more,
  };
}

export function accountView(more: Omit<Partial<AccountView>, "id" | "identifier"> & { id: string; identifier: string }): AccountView {
  return {
    connectionName: "gmail",
    connectionTitle: "Gmail",
    connector: "gmail",
    label: "",
    status: "ACTIVE",
    statusReason: null,
    readiness: "ready",
    external: null,
    scopes: [],
    tokenExpiresAt: null,
    lastUsedAt: null,
    lastRefreshedAt: null,
    createdAt: THEN,
    updatedAt: THEN,
    sandbox: false,
    ...more,
    id: more.id as AccountId,
    identifier: asIdentifier(more.identifier),
  };
}

export function linkView(more: Omit<Partial<LinkView>, "id" | "identifier"> & { id: string; identifier: string }): LinkView {
  return {
    accountId: "ca_1" as AccountId,
    connectionName: "gmail",
    connectionTitle: "Gmail",
    connector: "gmail",
    method: "oauth",
    sandbox: false,
    label: "",
    askedBy: "mcp",
    clientName: "Claude Code",
    scopesRequired: [],
    scopesRequested: [],
    status: "open",
    reason: null,
    expiresAt: new Date("2099-01-01T00:00:00Z"),
    returnTo: null,
    callerState: null,
    verification: "sign_in",
    ...more,
    id: more.id as LinkId,
    identifier: asIdentifier(more.identifier),
  };
}

/** What the only call so far was given. */
export function onlyInput<Input>(fake: Pick<FakeVault, "calls">): Input {
  assert.equal(fake.calls.length, 1);
  return fake.calls[0]?.input as Input;
}

export function createFakeVault(): FakeVault {
  const fake: FakeVault = { vault: undefined as unknown as Vault, connections: [], accounts: [], links: new Map(), calls: [], answer: {}, renameError: null };
  const note = (name: string, input: unknown): void => {
    fake.calls.push({ name, input });
  };
  const unused = (): never => {
    throw new Error("the fake vault was not told what to answer");
  };
  const settled = (name: "callback" | "submitKey" | "refuse") => async (input: unknown): Promise<LinkOutcome> => {
    note(name, input);
    return (fake.answer[name] as LinkOutcome | undefined) ?? unused();
  };
  fake.vault = {
    connections: {
      list: async () => fake.connections,
      get: async (name) => fake.connections.find((connection) => connection.name === name) ?? null,
      create: unused,
      update: unused,
      remove: unused,
    },
    accounts: {
      list: unused,
      tally: unused,
      ofPerson: async (identifier) => fake.accounts.filter((account) => account.identifier === identifier),
      get: async (id) => fake.accounts.find((account) => account.id === id) ?? null,
      find: unused,
      rename: async (actor, id, label) => {
        note("rename", { actor, id, label });
        if (fake.renameError) throw fake.renameError;
        return fake.accounts.find((account) => account.id === id) ?? unused();
      },
      disconnect: async (actor, id, options) => {
        note("disconnect", { actor, id, options });
        return fake.accounts.find((account) => account.id === id) ?? unused();
      },
      put: unused,
      refresh: unused,
    },
    links: {
      create: async (actor, request: LinkRequest) => {
        note("create", { actor, request });
        if (!fake.connections.some((connection) => connection.name === request.connectionName)) throw new OutbandError("not_found");
        return { id: "lnk_new" as LinkId, accountId: "ca_new" as AccountId, url: "http://elsewhere.test/connect/fresh-token-of-the-fake-vault", expiresAt: THEN };
      },
      byToken: async (token) => fake.links.get(token) ?? null,
      get: async (id) => [...fake.links.values()].find((link) => link.id === id) ?? null,
      answered: unused,
      endOf: unused,
      start: async (input) => {
        note("start", input);
        return fake.answer.start ?? unused();
      },
      callback: settled("callback"),
      submitKey: settled("submitKey"),
      refuse: settled("refuse"),
      verify: unused,
      wait: unused,
    },
    tools: { offered: unused, execute: unused },
    sweep: async () => {},
    events: { elicitation: async () => {} },
    close: async () => {},
  };
  return fake;
}
