// One call of a tool on its way: the client bound to the account, the tool's end in our words, the audit row, the result.
// Must never happen: a result that leaves before its audit row is durable; a write's key freed after the body may have left.
import { setMaxListeners } from "node:events";
import { type AuditRow, recordAudit } from "../audit/audit.js";
import type { Clock } from "../clock.js";
import { CallEnded, type Connector, type FormQuestion, NeedsAnswer, ProviderFailure, type Tool, type ToolContext } from "../connectors/connector.js";
import type { Database } from "../db/client.js";
import { type Identifier, newId } from "../ids.js";
import type { Principal } from "../identity/principal.js";
import type { Access } from "./access.js";
import type { OfferedTool } from "./front.js";
import type { Claim, OnceOnly } from "./onceOnly.js";
import { failedCall, outcomeOfFailure } from "./outcomes.js";
import { type AccountRow, accountView } from "./store.js";
import type { Targets } from "./target.js";
import type { Outcome, ToolCall, ToolCallOutcome } from "./types.js";
import { needsAccount } from "./needs.js";

/** Contract 6.1: one call ends within 30 s, waits for a person aside. */
const CALL_MS = 28_000;
/** Requests that a tool has under way listen to its call's end. Node warns on stderr at the eleventh; a digest reads 20 messages at once. */
const LISTENERS_MAX = 64;
/** How old `last_used_at` may be before it is written again. */
const USED_EVERY_MS = 60_000;

export interface RunDeps {
  db: Database;
  clock: Clock;
  access: Access;
  onceOnly: OnceOnly;
  targets: Targets;
}

/** One call on its way: what its audit row will say, and how it ends. */
export class ToolRun {
  readonly executionId: string;
  /** The call's time is up: from its first step on, waiting for another call of the same key included. */
  readonly over: AbortSignal;

  constructor(
    private readonly deps: RunDeps,
    readonly offer: OfferedTool | null,
    readonly actor: Principal,
    readonly identifier: Identifier,
    readonly call: ToolCall,
  ) {
    this.executionId = newId(deps.clock, "exe");
    this.over = deps.clock.deadline(CALL_MS);
  }

  async execute(account: AccountRow, tool: Tool, args: Record<string, unknown>, claim: (Claim & { kind: "yours" }) | null): Promise<ToolCallOutcome> {
    const signal = AbortSignal.any([this.call.signal, this.over]);
    setMaxListeners(LISTENERS_MAX, signal);
    const connector = this.deps.targets.connectorOf(account.connection);
    try {
      const result = await tool.run(await this.context(account, connector, signal, claim), args);
      if (claim) await this.deps.onceOnly.done(claim.executionId, account.connectionId, result);
      await this.audit("ok", null, account);
      await this.markUsed(account);
      return { kind: "done", executionId: this.executionId, result, replayed: false, account: accountView(account) };
    } catch (thrown) {
      return this.ended(thrown, account, claim);
    }
  }

  private async context(account: AccountRow, connector: Connector, signal: AbortSignal, claim: { onceToken: string } | null): Promise<ToolContext> {
    const api = await this.deps.access.clientFor(account, connector, { signal, exemptOrigin: this.deps.targets.exemptOriginOf(account.connection) });
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
      clock: this.deps.clock,
      signal,
      onceToken: claim?.onceToken ?? this.deps.clock.randomBytes(16).toString("hex"),
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
      if (thrown.kind === "outcome_unknown" && claim) await this.deps.onceOnly.unknown(claim.executionId, thrown.reference ?? null);
      else await this.giveBack(claim);
      if (thrown.kind === "unauthorized") return this.needsAgain(account, thrown);
      const told = outcomeOfFailure(thrown, account.connection.title);
      return this.failed(told.outcome, told.reason, told.text, account, thrown.retryAfterS);
    }
    if (this.call.signal.aborted) {
      // The caller left. Whether a write went out is not known here: under its key that is what the next one is told.
      return this.failed("cancelled", "client_left", "The call was given up.", account);
    }
    throw thrown;
  }

  /** The credential was refused while the tool ran: the account as it now stands says what is needed. */
  private async needsAgain(account: AccountRow, failure: ProviderFailure): Promise<ToolCallOutcome> {
    const now = await this.deps.db.prisma.connectedAccount.findUnique({ where: { id: account.id }, include: { connection: true } });
    if (now?.status === "ACTIVE" || !this.offer) {
      // Somebody connected it anew meanwhile: there is nothing to ask for.
      return this.failed("provider_unavailable", "account_changed", "The account was connected anew while this ran. Try again.", account, 1);
    }
    await this.audit("reauth_needed", failure.reason, account);
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
    if (claim?.kind === "yours") await this.deps.onceOnly.release(claim.executionId);
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
    await recordAudit(this.deps.db.prisma, row);
  }

  private async markUsed(account: AccountRow): Promise<void> {
    const now = this.deps.clock.date();
    if (account.lastUsedAt && now.getTime() - account.lastUsedAt.getTime() < USED_EVERY_MS) return;
    await this.deps.db.prisma.connectedAccount.updateMany({ where: { id: account.id }, data: { lastUsedAt: now } });
  }
}

function answered(question: FormQuestion, answers: ToolCall["answers"]): Record<string, string> {
  const given = answers[question.key];
  if (!given) throw new NeedsAnswer(question);
  return given;
}

function outcomeUnknownText(title: string): string {
  return `${title} may or may not have done this already. It was not sent again. Look there before you try with a new idempotency key.`;
}
