// Contract 6.1: a call that lacks something becomes a question, the retry's answer is taken once, and a person in the
// browser is waited for, in legs. Must never happen: a link for an account that is usable, or for what only an operator
// can mend; the same link again after an answer; `accept` taken for "connected"; a chain without an end.
import { type CallToolResult, type InputRequiredResult, inputRequired, inputResponse } from "@modelcontextprotocol/server";
import { OutbandError } from "../errors.js";
import { type AccountId, type LinkId, newId } from "../ids.js";
import type { Vault } from "../vault/front.js";
import type { LinkCreated, LinkView, ToolCallOutcome } from "../vault/types.js";
import { fieldsOf, fittingAnswer, formRequest } from "./forms.js";
import type { AnswerAction, Asker, QuestionBook } from "./questions.js";
import {
  type Binding,
  FIRST_ROUND,
  type PendingForm,
  type PendingLink,
  type RoundState,
  STATE_BYTES_MADE_MAX,
  type StateCodec,
  StateTooLarge,
} from "./requestState.js";
import { done, type NotDone, notDone } from "./results.js";
import { beginLeg, type WaitingDeps } from "./waiting.js";
import {
  askToConnectText,
  connectPageOf,
  declinedText,
  notConnectedText,
  isOperators,
  linkRefused,
  openThePageText,
  operatorText,
  type Subject,
} from "./words.js";

export type Answer = CallToolResult | InputRequiredResult;

/** One request of a chain: who asks, what it carries, and what its client can show. */
export interface Round {
  asker: Asker;
  binding: Binding;
  tool: { title: string; connectionName: string | null; connectionTitle: string; sandbox: boolean };
  /** Opened and checked; null: the first request of a chain. */
  state: RoundState | null;
  responses: Record<string, unknown> | undefined;
  /** As this very request declared it. */
  can: { url: boolean; form: boolean };
  /** Aborts when the client goes away. */
  signal: AbortSignal;
  /** Null: the client gave no progress token. */
  progress: ((seconds: number, total: number, message: string) => Promise<void>) | null;
}

/** Runs the tool with the answers so far; reads the account's real status each time. */
export type Attempt = (answers: RoundState["answers"]) => Promise<ToolCallOutcome>;

export interface ElicitationDeps extends Omit<WaitingDeps, "links" | "settings"> {
  vault: { links: Pick<Vault["links"], "create" | "get" | "answered" | "wait"> };
  questions: QuestionBook;
  states: Pick<StateCodec, "mint">;
  settings: { publicUrl: string; settleWaitMs: number; settleLegMs: number; maxRounds: number };
}

export interface Elicitation {
  run(round: Round, attempt: Attempt): Promise<Answer>;
}

export function createElicitation(deps: ElicitationDeps): Elicitation {
  return { run: (round, attempt) => new Chain(deps, round, attempt).answer() };
}

type NeedsAccount = Extract<ToolCallOutcome, { kind: "needs_account" }>;
type NeedsAnswer = Extract<ToolCallOutcome, { kind: "needs_answer" }>;
type End = Pick<NotDone, "outcome" | "reason" | "text"> & Partial<NotDone>;

const OUTCOME_OF = { needs_connection: "not_connected", needs_reauth: "reauth_needed", ready: "scope_missing" } as const;
/** Outcomes that the person can mend on the connections page. */
const MENDED_ON_PAGE: ReadonlySet<string> = new Set(["not_connected", "reauth_needed", "scope_missing"]);
/** What links.create throws for things that no retry mends. */
const NO_LINK: ReadonlySet<string> = new Set(["not_found", "forbidden", "unknown_identifier", "invalid_request"]);
/** What a pending link adds to a state. */
const LINK_ROOM_BYTES = 512;

/** The chain of one call, as far as one request takes it. */
class Chain {
  readonly #deps: ElicitationDeps;
  readonly #round: Round;
  readonly #attempt: Attempt;
  readonly #page: string;
  #state: RoundState;

  constructor(deps: ElicitationDeps, round: Round, attempt: Attempt) {
    this.#deps = deps;
    this.#round = round;
    this.#attempt = attempt;
    this.#page = connectPageOf(deps.settings.publicUrl, round.asker.principal);
    this.#state = round.state ?? { ...FIRST_ROUND, chain: deps.clock.randomBytes(16).toString("base64url") };
  }

  async answer(): Promise<Answer> {
    const pending = this.#state.pending;
    if (pending?.kind === "link" && pending.accepted) return this.#settle(pending);
    if (pending === null) return this.#conclude(await this.#attempt(this.#state.answers));

    const view = inputResponse(this.#round.responses, pending.key);
    if (view.kind !== "elicit") {
      // Missing or malformed (MRTR-16, MRTR-17): the account may be usable by now, else the question is put again.
      await this.#settled("unanswered", null);
      return this.#conclude(await this.#attempt(this.#state.answers));
    }
    await this.#deps.questions.answered(this.#round.asker, pending.elicitation, view.action);
    if (pending.kind === "link") return this.#takeLinkAnswer(pending, view.action);
    // Content is looked at for `accept` alone: a client may send anything along with a cancel.
    return view.action === "accept" ? this.#takeForm(pending, view.content) : this.#declined(pending, view.action);
  }

  async #takeLinkAnswer(pending: PendingLink, action: AnswerAction): Promise<Answer> {
    await this.#deps.vault.links.answered(pending.link as LinkId, action);
    if (action !== "accept") return this.#declined(pending, action);
    const accepted = { ...pending, accepted: true };
    this.#state = { ...this.#state, pending: accepted };
    return this.#settle(accepted);
  }

  async #takeForm(pending: PendingForm, content: Record<string, unknown> | undefined): Promise<Answer> {
    const answer = fittingAnswer(pending.fields, content);
    if (answer === null) await this.#settled("invalid_answer", null);
    else this.#state = { ...this.#state, answers: { ...this.#state.answers, [pending.key]: answer } };
    return this.#conclude(await this.#attempt(this.#state.answers));
  }

  /** `accept` means "agreed to open": reads the account, and waits for the person until the leg, or all the time, is used up. */
  async #settle(pending: PendingLink): Promise<Answer> {
    const { progress, signal, asker, tool } = this.#round;
    const leg = beginLeg(
      { ...this.#deps, links: this.#deps.vault.links },
      {
        principal: asker.principal,
        link: pending.link as LinkId,
        account: pending.account as AccountId,
        waitedMs: this.#state.waitedMs,
        signal,
        progress:
          progress && ((seconds, total) => progress(seconds, total, `Waiting for ${tool.connectionTitle} to be connected in the browser`)),
      },
    );
    try {
      for (;;) {
        const outcome = await this.#attempt(this.#state.answers);
        if (outcome.kind !== "needs_account" || isOperators(outcome.reason)) return await this.#conclude(outcome);
        const link = await this.#deps.vault.links.get(pending.link);
        if (link?.status !== "open" && link?.status !== "started") return await this.#afterLink(outcome, link);
        const next = await leg.next();
        this.#state = { ...this.#state, waitedMs: leg.waitedMs };
        switch (next) {
          case "read_again":
            continue;
          case "leg_over":
            // State alone: nothing is asked of anyone, and stock clients come back by themselves.
            return inputRequired({ requestState: this.#mint() });
          case "time_over":
            return await this.#notConnected(outcome, "awaiting_user");
          case "busy":
            return await this.#notConnected(outcome, "busy");
          default:
            return next satisfies never;
        }
      }
    } finally {
      leg.end();
    }
  }

  /** The link settled and the account is still not usable. */
  async #afterLink(outcome: NeedsAccount, link: LinkView | null): Promise<Answer> {
    if (link?.status !== "completed" || outcome.readiness !== "needs_reauth") return this.#notConnected(outcome, reasonOf(outcome, link));
    // The new grant died at its first use (LOOP-06): one more consent may help, a third will not.
    if (!this.#state.reasked) return this.#askToConnect(outcome);
    const text = notConnectedText(this.#subject(outcome), outcome.reason, this.#page);
    return this.#end({ outcome: "reauth_needed", reason: outcome.reason, text, connectionName: outcome.connectionName });
  }

  async #conclude(outcome: ToolCallOutcome): Promise<Answer> {
    switch (outcome.kind) {
      case "done":
        await this.#settled("ok", null);
        return done(outcome.result, this.#round.tool.sandbox);
      case "failed":
        return this.#end(outcome);
      case "needs_answer":
        return this.#askForm(outcome);
      case "needs_account":
        return this.#askToConnect(outcome);
      default:
        return outcome satisfies never;
    }
  }

  async #askToConnect(outcome: NeedsAccount): Promise<Answer> {
    const { connectionName, readiness, reason } = outcome;
    const subject = this.#subject(outcome);
    if (isOperators(outcome.reason))
      return this.#end({ outcome: "provider_error", reason, text: operatorText(subject, reason), connectionName });
    if (!this.#round.can.url)
      return this.#end({ outcome: OUTCOME_OF[readiness], reason, text: openThePageText(subject, readiness, this.#page), connectionName });
    const link = this.#state.questions >= this.#deps.settings.maxRounds ? "asked_too_often" : await this.#link(outcome);
    if (link === "asked_too_often") return this.#notConnected(outcome, link);
    if (link instanceof OutbandError) return this.#noLink(outcome, link);

    // The question before this one, if there was one, has led nowhere.
    await this.#settled(OUTCOME_OF[readiness], reason);
    const key = `connect_${connectionName}`;
    const elicitation = await this.#deps.questions.asked(this.#round.asker, {
      kind: "url",
      key,
      round: this.#state.round + 1,
      connectionName,
      accountId: link.accountId,
      linkId: link.id,
    });
    this.#state = {
      ...this.#state,
      questions: this.#state.questions + 1,
      reasked: this.#state.reasked || readiness === "needs_reauth",
      pending: { kind: "link", key, elicitation, link: link.id, account: link.accountId, connection: connectionName, accepted: false },
    };
    const message = askToConnectText(subject, readiness, this.#round.tool.title);
    return inputRequired({ inputRequests: { [key]: inputRequired.elicitUrl({ message, url: link.url }) }, requestState: this.#mint() });
  }

  async #link(outcome: NeedsAccount): Promise<LinkCreated | "asked_too_often" | OutbandError> {
    const { principal, tool } = this.#round.asker;
    try {
      return await this.#deps.vault.links.create(principal, {
        connectionName: outcome.connectionName,
        identifier: principal.sub,
        label: outcome.label,
        askedBy: "mcp",
        clientId: principal.clientId,
        clientName: principal.clientName,
        tool,
        scopesRequired: outcome.scopes,
        // An answer without the state that says to what.
        hasSeen: this.#round.state === null && this.#round.responses !== undefined,
      });
    } catch (thrown) {
      if (thrown instanceof OutbandError && NO_LINK.has(thrown.code)) return thrown;
      throw thrown;
    }
  }

  #noLink({ connectionName }: NeedsAccount, refusal: OutbandError): Promise<Answer> {
    return this.#end({ ...linkRefused(refusal), connectionName });
  }

  async #askForm({ question }: NeedsAnswer): Promise<Answer> {
    const { outcome, text } = question.otherwise;
    const instead = (reason: string): Promise<Answer> =>
      this.#end({ outcome, reason, text, ...(outcome === "not_allowed" ? { connectPage: this.#page } : {}) });
    if (!this.#round.can.form) return instead("no_form_support");
    if (this.#state.questions >= this.#deps.settings.maxRounds) return instead("asked_too_often");

    // Asked again although an answer is there: that answer was of no use.
    const { [question.key]: _useless, ...answers } = this.#state.answers;
    const asking = { ...this.#state, answers, questions: this.#state.questions + 1 };
    const pending = { kind: "form" as const, key: question.key, fields: fieldsOf(question) };
    if (!this.#fits({ ...asking, pending: { ...pending, elicitation: newId(this.#deps.clock, "elc") } }))
      return instead("answers_too_long");

    await this.#settled("ok", null);
    const { connectionName } = this.#round.tool;
    const asked = { kind: "form" as const, key: question.key, round: this.#state.round + 1, connectionName, accountId: null, linkId: null };
    const elicitation = await this.#deps.questions.asked(this.#round.asker, asked);
    this.#state = { ...asking, pending: { ...pending, elicitation } };
    return inputRequired({
      inputRequests: { [question.key]: { method: "elicitation/create", params: formRequest(question) } },
      requestState: this.#mint(),
    });
  }

  #declined(pending: PendingLink | PendingForm, action: Exclude<AnswerAction, "accept">): Promise<Answer> {
    const ofLink = pending.kind === "link";
    const text = declinedText(ofLink ? this.#subject() : null, action);
    return this.#end({
      outcome: "declined",
      reason: action === "decline" ? "declined" : "cancelled",
      text,
      ...(ofLink ? { connectionName: pending.connection } : {}),
    });
  }

  #notConnected(outcome: NeedsAccount, reason: string): Promise<Answer> {
    const text = notConnectedText(this.#subject(outcome), reason, this.#page);
    // An account that works for other tools is not "not connected": it lacks a permission.
    const word = outcome.readiness === "ready" ? "scope_missing" : "not_connected";
    return this.#end({
      outcome: word,
      reason,
      text,
      connectionName: outcome.connectionName,
      ...(reason === "busy" ? { retryAfterS: 60 } : {}),
    });
  }

  async #end(end: End): Promise<Answer> {
    await this.#settled(end.outcome, end.reason);
    const { connectionName, sandbox } = this.#round.tool;
    const connectPage = MENDED_ON_PAGE.has(end.outcome) ? this.#page : undefined;
    return notDone({ connectionName, executionId: newId(this.#deps.clock, "exe"), sandbox, connectPage, ...end });
  }

  async #settled(outcome: string, reason: string | null): Promise<void> {
    const pending = this.#state.pending;
    if (pending) await this.#deps.questions.settled(this.#round.asker, pending.elicitation, outcome, reason);
  }

  #mint(): string {
    return this.#deps.states.mint({ ...this.#state, round: this.#state.round + 1 }, this.#round.binding);
  }

  /** With room to spare, so that a question by link still fits in after this one. */
  #fits(state: RoundState): boolean {
    try {
      return this.#deps.states.mint(state, this.#round.binding).length <= STATE_BYTES_MADE_MAX - LINK_ROOM_BYTES;
    } catch (thrown) {
      if (thrown instanceof StateTooLarge) return false;
      throw thrown;
    }
  }

  #subject(outcome?: NeedsAccount): Subject {
    const { connectionName, connectionTitle, sandbox } = this.#round.tool;
    return { connectionName: outcome?.connectionName ?? connectionName ?? "", title: outcome?.connectionTitle ?? connectionTitle, sandbox };
  }
}

function reasonOf(outcome: NeedsAccount, link: LinkView | null): string {
  switch (link?.status) {
    case "denied":
      return "consent_denied";
    case "expired":
    case undefined:
      return "link_expired";
    case "failed":
      return link.reason?.split(":")[0] ?? "link_failed";
    default:
      return outcome.reason;
  }
}
