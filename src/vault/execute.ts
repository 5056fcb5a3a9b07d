// Runs a tool for a person: the account's real status is read, the tool runs on a client bound to it, the audit row is
// durable, and only then the result leaves. Must never happen: another person's account; data released before its audit
// row; a write done twice.
import { createHash } from "node:crypto";
import { asIdentifier, type Identifier } from "../ids.js";
import { clientIdOf, type Principal } from "../identity/principal.js";
import type { OfferedTool } from "./front.js";
import { needsAccount, usable } from "./needs.js";
import type { OnceKey } from "./onceOnly.js";
import type { AccountRow, ConnectionRow } from "./store.js";
import { type RunDeps, ToolRun } from "./toolRun.js";
import { labelFrom, type ToolCall, type ToolCallOutcome } from "./types.js";

export interface ExecuteDeps extends RunDeps {
  offered(): Promise<OfferedTool[]>;
}

export function createExecute(deps: ExecuteDeps) {
  const { db } = deps;

  return async function execute(actor: Principal, identifier: Identifier, call: ToolCall): Promise<ToolCallOutcome> {
    const offer = (await deps.offered()).find((one) => one.name === call.tool);
    const run = new ToolRun(deps, offer ?? null, actor, identifier, call);
    if (!offer) return run.failed("not_allowed", "unknown_tool", "There is no such tool, or its connection is disabled.");
    const parsed = offer.tool.input.safeParse(call.args);
    if (!parsed.success) {
      const where = parsed.error.issues.map((issue) => issue.path.join(".") || "arguments").join(", ");
      return run.failed("invalid_arguments", null, `These arguments are not valid: ${where}.`);
    }

    const rows = await accountsOf(identifier, offer.connectionName);
    if (!rows.connection.enabled) return run.failed("not_allowed", "connection_disabled", `The connection ${offer.connectionName} is disabled.`);
    const found = chosen(rows.accounts, call.account);
    const account = found === "ambiguous" && offer.tool.effect === "write" && call.idempotencyKey !== undefined ? await ofKey(actor, identifier, call, rows.accounts) : found;
    if (account === "ambiguous") {
      const labels = rows.accounts.map((row) => row.label || "default");
      return run.failed("ambiguous_account", null, `Several accounts are connected. Say which one with "account": ${labels.map((label) => JSON.stringify(label)).join(", ")}.`);
    }
    if (!account) {
      return needsAccount(rows.connection, labelFrom(call.account), null, offer.tool);
    }

    const argumentsDigest = digest(parsed.data);
    const onceKey = onceKeyOf(actor, identifier, call, account);
    const claim = offer.tool.effect === "write" && onceKey ? await deps.onceOnly.claim(onceKey, argumentsDigest) : null;
    const held = claim?.kind === "running" && onceKey ? await deps.onceOnly.waitFor(onceKey, argumentsDigest, run.over) : claim;
    if (claim && held?.kind !== "yours") return run.recorded(held, account);

    const mine = held?.kind === "yours" ? held : null;
    try {
      if (usable(account, offer.tool)) return await run.execute(account, offer.tool, parsed.data, mine);
      await run.giveBack(mine);
      return needsAccount(rows.connection, account.label, account, offer.tool);
    } finally {
      if (mine) await deps.onceOnly.letGo(mine.executionId);
    }
  };

  /** Several accounts, and none named: a write that was done under its key before was done on one of them. */
  async function ofKey(actor: Principal, identifier: Identifier, call: ToolCall, accounts: readonly AccountRow[]): Promise<AccountRow | "ambiguous"> {
    const keys = accounts.flatMap((account) => onceKeyOf(actor, identifier, call, account) ?? []);
    const known = await deps.onceOnly.known(keys);
    return accounts.find(({ id }) => id === known?.accountId) ?? "ambiguous";
  }

  async function accountsOf(identifier: Identifier, connectionName: string): Promise<{ connection: ConnectionRow; accounts: AccountRow[] }> {
    const connection = await db.prisma.connection.findUniqueOrThrow({
      where: { name: connectionName },
      include: { accounts: { where: { identifier }, orderBy: [{ label: "asc" }] } },
    });
    const { accounts, ...row } = connection;
    return { connection: row, accounts: accounts.map((account) => ({ ...account, connection: row })) };
  }
}

/** A label, else an upstream e-mail; without a name the only account there is. */
export function chosen(accounts: readonly AccountRow[], name: string | undefined): AccountRow | null | "ambiguous" {
  if (name === undefined) {
    const held = accounts.filter((account) => account.status !== "PENDING" && account.status !== "REVOKED");
    const candidates = held.length > 0 ? held : accounts;
    if (candidates.length > 1) return candidates.find((account) => held.length === 0 && account.label === "") ?? "ambiguous";
    return candidates[0] ?? null;
  }
  const label = labelFrom(name);
  const byLabel = accounts.find((account) => account.label === label);
  if (byLabel) return byLabel;
  const byEmail = accounts.filter((account) => account.externalEmail !== null && account.externalEmail === name);
  return byEmail.length > 1 ? "ambiguous" : (byEmail[0] ?? null);
}

function onceKeyOf(actor: Principal, identifier: Identifier, call: ToolCall, account: AccountRow): OnceKey | null {
  const key = call.idempotencyKey !== undefined ? `key:${call.idempotencyKey}` : call.chain !== undefined ? `chain:${call.chain}` : null;
  if (key === null) return null;
  return { identifier: asIdentifier(identifier), clientId: clientIdOf(actor), tool: call.tool, accountId: account.id, key };
}

function digest(args: unknown): string {
  return createHash("sha256").update(canonical(args)).digest("hex");
}

/** JSON with sorted keys, so that the same arguments give the same digest. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const entries = Object.entries(value).filter(([, item]) => item !== undefined);
    return `{${entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join(",")}}`;
  }
  return JSON.stringify(value) ?? "null";
}

