// Where a provider sends the browser back: /connect/callback/{connection}. One address per connection (a mix-up defence,
// RFC 9700 section 4.4). Must never happen: an exchange by HEAD or POST, or for another browser; the code on another page.
import { Router } from "express";
import { methodNotAllowed } from "../http/problem.js";
import { createBrowserBinding } from "./browser.js";
import { showOutcome } from "./outcome.js";
import { pathText, principalOf, type PageDeps } from "./page.js";

export function createCallbackPages(deps: PageDeps): Router {
  const browser = createBrowserBinding(deps);
  const router = Router();
  const path = "/connect/callback/:connection";

  // Express answers HEAD with the GET handler, which would spend the code.
  router.head(path, (_req, res) => {
    res.status(200).end();
  });

  router.get(path, async (req, res, next) => {
    const value = browser.read(req);
    const person = deps.session.person(req);
    const outcome = await deps.vault.links.callback({
      connectionName: pathText(req, "connection"),
      url: new URL(deps.publicUrl + req.originalUrl),
      person: person ? principalOf(person) : null,
      browser: value,
    });
    // The browser that began it, but its session has ended since: sign in, and come back with the code, which waits in the
    // sealed session. Nothing was exchanged: whose browser and which person it is, is looked at before.
    if (!person && outcome.kind === "failed" && outcome.failure === "wrong_person") void deps.session.requirePerson(req, res, next);
    else showOutcome(deps, req, res, outcome);
  });

  // A provider that posts its answer (form_post) comes without our Lax cookies: nothing could be bound, so nothing is taken.
  router.all(path, methodNotAllowed("GET, HEAD"));

  return router;
}
