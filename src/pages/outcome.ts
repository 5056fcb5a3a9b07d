// The page at the end of a try to connect, and the way back to the app that asked. Must never happen: a page that says
// "connected" over an account that is not; a redirect to an address that the vault did not check; a word about a link
// to anybody but its person; the verification code on a page, or in any address but the app's.
import type { Request, Response } from "express";
import type { LinkFailure, LinkOutcome } from "../vault/front.js";
import type { LinkView } from "../vault/types.js";
import { FAILURES } from "./linkFailures.js";
import type { PageDeps } from "./page.js";
import { askerOf, labelWords, statusWords, upstreamName } from "./words.js";

/** Who came from an app has no pages here. */
const APP_ADVICE = "Go back to the app that you came from: you can start again there.";

type OutcomeDeps = Pick<PageDeps, "render" | "session">;

export function showOutcome(deps: OutcomeDeps, req: Request, res: Response, outcome: LinkOutcome): void {
  if (outcome.kind === "failed") {
    showFailure(deps, req, res, outcome.failure, outcome.link, { missing: outcome.missing });
    return;
  }
  const { link } = outcome;
  if (outcome.kind === "awaits_app") {
    const back = wayBack(link, outcome.code.reveal());
    if (back) res.status(303).location(back).end();
    else showUsed(deps, req, res, link, null);
    return;
  }
  const { account } = outcome;
  // A doubled callback may come long after: the row, not the memory of a success, says what is true now.
  if (account.status !== "ACTIVE") {
    showUsed(deps, req, res, link, statusWords(account, account.connectionTitle).sentence);
    return;
  }
  const back = wayBack(link);
  if (back) {
    res.status(303).location(back).end();
    return;
  }
  deps.render.page(req, res, "connected", {
    title: `${account.connectionTitle} connected`,
    bare: true,
    link,
    asker: askerOf(link),
    upstream: upstreamName(account),
    label: account.label === "" ? null : labelWords(account.label),
  });
}

export function showFailure(deps: OutcomeDeps, req: Request, res: Response, failure: LinkFailure, link: LinkView | null, more: { missing?: { title: string }[]; status?: number } = {}): void {
  const words = FAILURES[failure];
  const person = deps.session.person(req);
  const app = link?.verification === "app";
  const own = link !== null && !words.hidesLink && (app || link.identifier === person?.sub) ? link : null;
  const title = own?.connectionTitle ?? "The service";
  const back = own ? wayBack(own) : null;
  deps.render.page(
    req,
    res,
    "connectFailed",
    {
      title: words.heading(title),
      bare: true,
      words: { heading: words.heading(title), sentence: words.sentence(title), advice: app && words.next !== "none" && words.next !== "reload" ? APP_ADVICE : words.advice, tone: words.tone },
      missing: (more.missing ?? []).map((scope) => scope.title),
      link: own,
      asker: own ? askerOf(own) : null,
      // Without a link of their own there is nothing to repeat; who came from an app starts again from there.
      next: app && words.next !== "reload" ? "none" : words.next === "retry" && !own ? "connections" : words.next,
      back: shownBack(back),
    },
    { status: more.status ?? words.status },
  );
}

/** A link that did its work, opened again: what became of the account since is what counts. */
export function showUsed(deps: OutcomeDeps, req: Request, res: Response, link: LinkView, sentence: string | null): void {
  deps.render.page(req, res, "connectUsed", { title: "This link was already used", bare: true, link, sentence, back: link.verification === "app" ? shownBack(wayBack(link)) : null }, { status: 410 });
}

function shownBack(url: string | null): { url: string; host: string } | null {
  return url === null ? null : { url, host: new URL(url).host };
}

/** `return_to` with the link's id and the caller's state. The API checked its origin when the link, or the session token behind it, was made. */
function wayBack(link: LinkView, code?: string): string | null {
  if (link.returnTo === null || !URL.canParse(link.returnTo)) return null;
  const url = new URL(link.returnTo);
  if (url.protocol !== "https:" && url.protocol !== "http:") return null;
  if (code !== undefined) url.searchParams.set("verification_code", code);
  url.searchParams.set("link_id", link.id);
  if (link.callerState !== null) url.searchParams.set("state", link.callerState);
  return url.href;
}
