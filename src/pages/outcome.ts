// The page at the end of a try to connect, and the way back to the app that asked. Must never happen: a page that says
// "connected" over an account that is not; a redirect to an address that the vault did not check; a word about a link
// to anybody but its person.
import type { Request, Response } from "express";
import type { LinkFailure, LinkOutcome } from "../vault/front.js";
import type { LinkView } from "../vault/types.js";
import { FAILURES } from "./linkFailures.js";
import type { PageDeps } from "./page.js";
import { askerOf, labelWords, statusWords, upstreamName } from "./words.js";

type OutcomeDeps = Pick<PageDeps, "render" | "session">;

export function showOutcome(deps: OutcomeDeps, req: Request, res: Response, outcome: LinkOutcome): void {
  if (outcome.kind === "failed") {
    showFailure(deps, req, res, outcome.failure, outcome.link, outcome.missing);
    return;
  }
  const { link, account } = outcome;
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

export function showFailure(deps: OutcomeDeps, req: Request, res: Response, failure: LinkFailure, link: LinkView | null, missing: { title: string }[] = []): void {
  const words = FAILURES[failure];
  const person = deps.session.person(req);
  const own = link !== null && !words.hidesLink && person !== null && link.identifier === person.sub ? link : null;
  const title = own?.connectionTitle ?? "The service";
  const back = own ? wayBack(own) : null;
  deps.render.page(
    req,
    res,
    "connectFailed",
    {
      title: words.heading(title),
      bare: true,
      words: { heading: words.heading(title), sentence: words.sentence(title), advice: words.advice, tone: words.tone },
      missing: missing.map((scope) => scope.title),
      link: own,
      asker: own ? askerOf(own) : null,
      // Without a link of their own there is nothing to repeat.
      next: words.next === "retry" && !own ? "connections" : words.next,
      back: back === null ? null : { url: back, host: new URL(back).host },
    },
    { status: words.status },
  );
}

/** A link that did its work, opened again: what became of the account since is what counts. */
export function showUsed(deps: OutcomeDeps, req: Request, res: Response, link: LinkView, sentence: string | null): void {
  deps.render.page(req, res, "connectUsed", { title: "This link was already used", bare: true, link, sentence }, { status: 410 });
}

/** `return_to` with the link's id and the caller's state. The vault checked its origin when the link was made. */
function wayBack(link: LinkView): string | null {
  if (link.returnTo === null || !URL.canParse(link.returnTo)) return null;
  const url = new URL(link.returnTo);
  if (url.protocol !== "https:" && url.protocol !== "http:") return null;
  url.searchParams.set("link_id", link.id);
  if (link.callerState !== null) url.searchParams.set("state", link.callerState);
  return url.href;
}
