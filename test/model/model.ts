// Accounts and links as plain objects in memory: what contract sections 2, 5 and 6.1.5 say, and nothing of how the vault does
// it. Every function answers what the vault must answer, in one word.
export type Status = "PENDING" | "ACTIVE" | "EXPIRED" | "REVOKED" | "ERROR";

export interface ModelAccount {
  id: string;
  person: string;
  label: string;
  status: Status;
  reason: string | null;
  external: string | null;
  access: string | null;
  refresh: string | null;
  /** An answer of the token endpoint was lost since the last success. */
  answerLost: boolean;
}

export interface ModelLink {
  id: string;
  token: string;
  account: ModelAccount;
  person: string;
  askedBy: "mcp" | "api";
  client: string;
  status: "open" | "started" | "completed" | "denied" | "failed" | "expired";
  failure: string | null;
  settled: boolean;
  answered: boolean;
  createdAt: number;
  expiresAt: number;
  state: string | null;
}

export type Consent =
  | { kind: "ok"; external: string | null; access: string; refresh: string | null }
  | { kind: "denied" | "transient" | "rejected" | "client" }
  | { kind: "narrow"; external: string | null };

export type Renewal = { kind: "ok"; access: string; refresh: string | null } | { kind: "dead" | "client" | "transient" | "lost" };

const SHARED_REST_MS = 60_000;
const LINKS_AT_MOST = 3;

export class Model {
  readonly accounts = new Set<ModelAccount>();
  readonly links = new Set<ModelLink>();
  constructor(
    private readonly ttlMs: number,
    private readonly now: () => number,
  ) {}

  find(person: string, label: string): ModelAccount | undefined {
    return [...this.accounts].find((account) => account.person === person && account.label === label);
  }

  /** What creating a link comes to; the caller adds the row that the vault made. */
  wouldLink(person: string, label: string, askedBy: "mcp" | "api", client: string): { kind: "shared"; link: ModelLink } | { kind: "asked_too_often" | "provider_error" | "new" } {
    if (askedBy === "mcp") {
      const mine = [...this.links].filter((link) => link.askedBy === "mcp" && link.person === person && link.client === client);
      const shared = mine.filter(
        (link) => isOpen(link) && !link.answered && link.account.label === label && link.expiresAt > this.now() + SHARED_REST_MS,
      );
      const latest = shared.at(-1);
      if (latest) return { kind: "shared", link: latest };
      if (mine.filter((link) => link.status !== "completed" && link.createdAt > this.now() - this.ttlMs).length >= LINKS_AT_MOST) return { kind: "asked_too_often" };
    }
    const account = this.find(person, label);
    if (account?.status === "ERROR") return { kind: "provider_error" };
    return { kind: "new" };
  }

  addLink(made: { id: string; token: string; accountId: string }, person: string, label: string, askedBy: "mcp" | "api", client: string): ModelLink {
    let account = this.find(person, label);
    if (!account) {
      account = { id: made.accountId, person, label, status: "PENDING", reason: "awaiting_user", external: null, access: null, refresh: null, answerLost: false };
      this.accounts.add(account);
    }
    const now = this.now();
    const link: ModelLink = { id: made.id, token: made.token, account, person, askedBy, client, status: "open", failure: null, settled: false, answered: false, createdAt: now, expiresAt: now + this.ttlMs, state: null };
    this.links.add(link);
    return link;
  }

  /** Null: nothing stands in the way. */
  stop(link: ModelLink, person: string): string | null {
    if (!this.links.has(link)) return "unknown_state";
    if (link.person !== person) return "wrong_person";
    if (link.settled) return "already_used";
    if (link.expiresAt <= this.now()) return "expired";
    return null;
  }

  start(link: ModelLink, person: string, state: () => string | null): string {
    const stop = this.stop(link, person);
    if (stop) return stop;
    if (link.status === "open") link.expiresAt = this.now() + this.ttlMs;
    link.status = "started";
    link.state = state();
    return "redirect";
  }

  callback(link: ModelLink, given: { state: string; person: string; ownBrowser: boolean }, consent: Consent): string {
    if (!this.links.has(link) || link.state !== given.state) return "unknown_state";
    if (!given.ownBrowser) return "wrong_browser";
    if (link.person !== given.person) return "wrong_person";
    if (link.settled) return link.status === "completed" ? "connected again" : `${link.failure} again`;
    if (link.expiresAt <= this.now()) return this.fail(link, "expired");
    switch (consent.kind) {
      case "denied":
        return this.fail(link, "denied");
      case "transient":
        return this.fail(link, "provider_unavailable");
      case "rejected":
        return this.fail(link, "provider_error");
      case "client":
        return this.fail(link, "client_rejected");
      case "narrow":
        return this.fail(link, "scope_missing");
      case "ok": {
        const { account } = link;
        if (!mayTake(account, consent.external)) return this.fail(link, "wrong_identity");
        const keeps = consent.refresh === null && account.status === "ACTIVE" && account.external !== null && account.external === consent.external;
        this.connect(account, { access: consent.access, refresh: keeps ? account.refresh : consent.refresh, external: consent.external ?? account.external });
        link.status = "completed";
        link.settled = true;
        return "connected";
      }
      default:
        return consent satisfies never;
    }
  }

  refuse(link: ModelLink, person: string): string {
    return this.stop(link, person) ?? this.fail(link, "denied");
  }

  answered(link: ModelLink, action: "accept" | "decline" | "cancel"): void {
    if (!this.links.has(link)) return;
    if (!link.answered) link.answered = true;
    if (action === "accept" || link.settled) return;
    Object.assign(link, { status: "denied", failure: "denied", settled: true });
  }

  /** `external`: whose the grant is; `unread`: the provider did not say. */
  put(account: ModelAccount | null, grant: { access: string; refresh: string | null; external: string | null; unread: "transient" | "invalid_grant" | null }): string {
    if (account && !mayTake(account, grant.external)) return "wrong_upstream_identity";
    const isFree = !account || account.status === "PENDING" || account.status === "REVOKED";
    if (grant.unread && account && account.external !== null && !isFree) return grant.unread === "transient" ? "provider_unavailable" : "credential_refused";
    if (account) this.connect(account, { access: grant.access, refresh: grant.refresh, external: grant.external ?? (isFree ? null : account.external) });
    return "ok";
  }

  addAccount(id: string, person: string, label: string): ModelAccount {
    const account: ModelAccount = { id, person, label, status: "PENDING", reason: "awaiting_user", external: null, access: null, refresh: null, answerLost: false };
    this.accounts.add(account);
    return account;
  }

  rename(account: ModelAccount, label: string): string {
    const other = this.find(account.person, label);
    if (other && other !== account) return "already_exists";
    account.label = label;
    return "ok";
  }

  disconnect(account: ModelAccount, byOwner: boolean, purge: boolean): string {
    if (account.status !== "REVOKED") this.end(account, "REVOKED", byOwner ? "disconnected_by_user" : "disconnected_by_admin");
    if (purge) {
      this.accounts.delete(account);
      for (const link of [...this.links]) if (link.account === account) this.links.delete(link);
    }
    return "ok";
  }

  refresh(account: ModelAccount, renewal: Renewal): { said: string; asked: boolean } {
    if (account.status === "PENDING") return { said: "not_connected", asked: false };
    if (account.status !== "ACTIVE") return { said: "reauth_needed", asked: false };
    if (account.refresh === null) return { said: "ok", asked: false };
    switch (renewal.kind) {
      case "ok":
        this.connect(account, { access: renewal.access, refresh: renewal.refresh ?? account.refresh, external: account.external });
        return { said: "ok", asked: true };
      case "dead":
        this.end(account, "EXPIRED", account.answerLost ? "refresh_outcome_unknown" : "refresh_rejected");
        return { said: "ok", asked: true };
      case "client":
        Object.assign(account, { status: "ERROR", reason: "client_rejected" });
        return { said: "ok", asked: true };
      case "lost":
        account.answerLost = true;
        return { said: "provider_unavailable", asked: true };
      case "transient":
        return { said: "provider_unavailable", asked: true };
      default:
        return renewal satisfies never;
    }
  }

  sweep(): void {
    for (const link of this.links) if (!link.settled && link.expiresAt < this.now()) this.fail(link, "expired");
  }

  private connect(account: ModelAccount, grant: { access: string; refresh: string | null; external: string | null }): void {
    Object.assign(account, { ...grant, status: "ACTIVE", reason: null, answerLost: false });
  }

  private end(account: ModelAccount, status: Status, reason: string): void {
    Object.assign(account, { status, reason, access: null, refresh: null });
  }

  private fail(link: ModelLink, failure: string): string {
    Object.assign(link, { status: failure === "denied" ? "denied" : failure === "expired" ? "expired" : "failed", failure, settled: true });
    const reason = { denied: "consent_denied", expired: "link_expired", scope_missing: "scope_missing" }[failure];
    if (reason !== undefined && link.account.status === "PENDING") link.account.reason = reason;
    return failure;
  }
}

function isOpen(link: ModelLink): boolean {
  return link.status === "open" || link.status === "started";
}

function mayTake(account: ModelAccount, external: string | null): boolean {
  if (account.status === "PENDING" || account.status === "REVOKED") return true;
  return account.external === null || external === null || account.external === external;
}
