// Runs a tool for a person: the account's real status is read, the tool runs on a client bound to it, the audit row is
// durable, and only then the result leaves. Must never happen: another person's account; data released before its audit
// row; a write done twice.
import { createHash } from "node:crypto";
import { type AuditRow, recordAudit } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import { CallEnded, type Connector, type FormQuestion, NeedsAnswer, ProviderFailure, type Tool, type ToolContext } from "../connectors/connector.js";
import type { Database } from "../db/client.js";
import { asIdentifier, type Identifier, newId } from "../ids.js";
import { clientIdOf, type Principal } from "../identity/principal.js";
import type { Log } from "../log.js";
import type { Access } from "./access.js";
import type { OfferedTool } from "./front.js";
import type { Claim, OnceKey, OnceOnly } from "./onceOnly.js";
import { type AccountRow, accountView, type ConnectionRow, readinessOf } from "./store.js";
import type { Targets } from "./target.js";
import { failedCall, outcomeOfFailure } from "./outcomes.js";
import type { Outcome, ToolCall, ToolCallOutcome } from "./types.js";

/** Contract 6.1: one call ends within 30 s, waits for a person aside. */
const CALL_MS = 28_000;
/** How old `last_used_at` may be before it is written again. */
const USED_EVERY_MS = 60_000;

export interface ExecuteDeps {
  db: Database;
  clock: Clock;
  log: Log;
  access: Access;
  onceOnly: OnceOnly;
  targets: Targets;
  offered(): Promise<OfferedTool[]>;
}

export function createExecute(deps: ExecuteDeps) {
  const { db, clock } = deps;

  return async function execute(actor: Principal, identifier: Identifier, call: ToolCall): Promise<ToolCallOutcome> {
    const offer = (await deps.offered()).find((one) => one.name === call.tool);
    const run = new Run(offer ?? null, actor, identifier, call);
    if (!offer) return run.failed("not_allowed", "unknown_tool", "There is no such tool, or its connection is disabled.");
    const parsed = offer.tool.input.safeParse(call.args);
    if (!parsed.success) {
      const where = parsed.error.issues.map((issue) => issue.path.join(".") || "arguments").join(", ");
      return run.failed("invalid_arguments", null, `These arguments are not valid: ${where}.`);
    }

    const rows = await accountsOf(identifier, offer.connectionName);
    if (!rows.connection.enabled) return run.failed("not_allowed", "connection_disabled", `The connection ${offer.connectionName} is disabled.`);
    const account = chosen(rows.accounts, call.account);
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
    const held = claim?.kind === "running" && onceKey ? await deps.onceOnly.waitFor(onceKey, argumentsDigest, clock.deadline(CALL_MS)) : claim;
    if (claim && held?.kind !== "yours") return run.recorded(held, account);

    if (!usable(account, offer.tool)) {
      await run.giveBack(held);
      return needsAccount(rows.connection, account.label, account, offer.tool);
    }
    return run.execute(account, offer.tool, parsed.data, held?.kind === "yours" ? held : null);
  };

  async function accountsOf(identifier: Identifier, connectionName: string): Promise<{ connection: ConnectionRow; accounts: AccountRow[] }> {
    const connection = await db.prisma.connection.findUniqueOrThrow({
      where: { name: connectionName },
      include: { accounts: { where: { identifier }, orderBy: [{ label: "asc" }] } },
    });
    const { accounts, ...row } = connection;
    return { connection: row, accounts: accounts.map((account) => ({ ...account, connection: row })) };
  }

  function needsAccount(connection: ConnectionRow, label: string, account: AccountRow | null, tool: Tool): ToolCallOutcome {
    const lacksScope = account?.status === "ACTIVE";
    return {
      kind: "needs_account",
      connectionName: connection.name,
      connectionTitle: connection.title,
      label,
      readiness: account ? readinessOf(account.status) : "needs_connection",
      reason: lacksScope ? "scope_missing" : (account?.statusReason ?? "not_connected"),
      scopes: [...tool.scopes],
      accountId: account ? accountView(account).id : null,
    };
  }

  /** One call on its way: what its audit row will say, and how it ends. */
  class Run {
    readonly executionId = newId(clock, "exe");
    constructor(
      readonly offer: OfferedTool | null,
      readonly actor: Principal,
      readonly identifier: Identifier,
      readonly call: ToolCall,
    ) {}

    async execute(account: AccountRow, tool: Tool, args: Record<string, unknown>, claim: (Claim & { kind: "yours" }) | null): Promise<ToolCallOutcome> {
      const signal = AbortSignal.any([this.call.signal, clock.deadline(CALL_MS)]);
      const connector = deps.targets.connectorOf(account.connection);
      try {
        const result = await tool.run(await this.context(account, connector, signal, claim), args);
        if (claim) await deps.onceOnly.done(claim.executionId, account.connectionId, result);
        await this.audit("ok", null, account);
        await this.markUsed(account);
        return { kind: "done", executionId: this.executionId, result, replayed: false, account: accountView(account) };
      } catch (thrown) {
        return this.ended(thrown, account, claim);
      }
    }

    private async context(account: AccountRow, connector: Connector, signal: AbortSignal, claim: { onceToken: string } | null): Promise<ToolContext> {
      const api = await deps.access.clientFor(account, connector, { signal, exemptOrigin: deps.targets.exemptOriginOf(account.connection) });
      const view = accountView(account);
      return {
        api,
        account: {
          id: view.id,
          connectionName: view.connectionName,
          label: view.label,
          external: view.external,
          scopes: view.scopes,
          settings: account.connection.settings as Record<string, unknown>,
        },
        clock,
        signal,
        onceToken: claim?.onceToken ?? clock.randomBytes(16).toString("hex"),
        ask: (question) => answered(question, this.call.answers),
      };
    }

    private async ended(thrown: unknown, account: AccountRow, claim: (Claim & { kind: "yours" }) | null): Promise<ToolCallOutcome> {
      if (thrown instanceof NeedsAnswer) {
        await this.giveBack(claim);
        return { kind: "needs_answer", question: thrown.question };
      }
      if (thrown instanceof CallEnded) {
        await this.giveBack(claim);
        return this.failed(thrown.outcome, thrown.reason, thrown.message, account);
      }
      if (thrown instanceof ProviderFailure) {
        if (thrown.kind === "outcome_unknown" && claim) await deps.onceOnly.unknown(claim.executionId, thrown.reference ?? null);
        else await this.giveBack(claim);
        if (thrown.kind === "unauthorized") return this.needsAgain(account, thrown);
        const told = outcomeOfFailure(thrown, account.connection.title);
        return this.failed(told.outcome, told.reason, told.text, account, thrown.retryAfterS);
      }
      if (this.call.signal.aborted) {
        // The caller left. Whether a write went out is not known here, so its key stays claimed until it runs out.
        return this.failed("cancelled", "client_left", "The call was given up.", account);
      }
      throw thrown;
    }

    /** The credential was refused while the tool ran: the account as it now stands says what is needed. */
    private async needsAgain(account: AccountRow, failure: ProviderFailure): Promise<ToolCallOutcome> {
      const now = await db.prisma.connectedAccount.findUnique({ where: { id: account.id }, include: { connection: true } });
      await this.audit("reauth_needed", failure.reason, account);
      if (!this.offer) throw failure;
      return needsAccount(account.connection, account.label, now ?? { ...account, status: "REVOKED", statusReason: null }, this.offer.tool);
    }

    async recorded(claim: Claim | null, account: AccountRow): Promise<ToolCallOutcome> {
      switch (claim?.kind) {
        case "done":
          await this.audit("ok", "replayed", account);
          return { kind: "done", executionId: claim.executionId, result: claim.result, replayed: true, account: accountView(account) };
        case "other_arguments":
          return this.failed("invalid_arguments", "idempotency_key_reused", "This idempotency key was used with other arguments.", account);
        case "unknown":
          return this.failed("outcome_unknown", "not_sent_again", outcomeUnknownText(account.connection.title), account);
        default:
          return this.failed("provider_unavailable", "busy", "The same call is still running. Try again shortly.", account, 5);
      }
    }

    async giveBack(claim: Claim | null): Promise<void> {
      if (claim?.kind === "yours") await deps.onceOnly.release(claim.executionId);
    }

    async failed(outcome: Outcome, reason: string | null, text: string, account?: AccountRow, retryAfterS?: number): Promise<ToolCallOutcome> {
      await this.audit(outcome, reason, account);
      return failedCall({ executionId: this.executionId, outcome, reason, text, connectionName: this.offer?.connectionName ?? null, retryAfterS });
    }

    private async audit(outcome: string, reason: string | null, account?: AccountRow): Promise<void> {
      const row: AuditRow = {
        category: "tool_call",
        action: "tool.executed",
        actor: this.actor,
        identifier: this.identifier,
        connectionName: this.offer?.connectionName,
        accountId: account?.id,
        tool: this.offer?.name ?? "unknown",
        outcome,
        reason: reason ?? undefined,
        detail: { execution_id: this.executionId },
        requestId: this.call.requestId,
        traceId: this.call.traceId,
      };
      await recordAudit(db.prisma, row);
    }

    private async markUsed(account: AccountRow): Promise<void> {
      const now = clock.date();
      if (account.lastUsedAt && now.getTime() - account.lastUsedAt.getTime() < USED_EVERY_MS) return;
      await db.prisma.connectedAccount.updateMany({ where: { id: account.id }, data: { lastUsedAt: now } });
    }
  }
}

export function usable(account: Pick<AccountRow, "status" | "scopes">, tool: Pick<Tool, "scopes">): boolean {
  return account.status === "ACTIVE" && tool.scopes.every((scope) => account.scopes.includes(scope));
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

/** The default label is empty and shown as `default`. */
export function labelFrom(name: string | undefined): string {
  return name === undefined || name === "default" ? "" : name;
}

function answered(question: FormQuestion, answers: ToolCall["answers"]): Record<string, string> {
  const given = answers[question.key];
  if (!given) throw new NeedsAnswer(question);
  return given;
}

function onceKeyOf(actor: Principal, identifier: Identifier, call: ToolCall, account: AccountRow): OnceKey | null {
  const key = call.idempotencyKey !== undefined ? `key:${call.idempotencyKey}` : call.stateDigest !== undefined ? `state:${call.stateDigest}` : null;
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

function outcomeUnknownText(title: string): string {
  return `${title} may or may not have done this already. It was not sent again. Look there before you try with a new idempotency key.`;
}
