// The sandbox's own first page: what it is, who the practice people are, and which grants are in force, each of which can be taken
// back here, as a person would at the real provider.
import type { Request, Response } from "express";
import type { Endpoint } from "./endpoint.js";
import type { GrantRecord, Grants } from "./grants.js";
import { address, html, type Html } from "./html.js";
import { sendPage, sendTrouble } from "./page.js";
import { initialsOf, PEOPLE } from "./people.js";
import type { Store } from "./state.js";

interface HomeDeps {
  google: Grants;
  slack: Grants;
  publicUrl: () => string;
  store: Store;
}

/** More are not of interest to anybody. */
const SHOWN_MAX = 30;

function nameOf(grant: GrantRecord): string {
  const name = PEOPLE.find((person) => person.sub === grant.person || person.slackId === grant.person)?.name ?? grant.person;
  return grant.kind === "bot" ? `the app, allowed by ${name}` : name;
}

function providerOf(grant: GrantRecord): string {
  return grant.kind === "google" ? "Practice Google" : "Practice Slack";
}

function permissions(count: number): string {
  return count === 1 ? "1\u00a0permission" : `${count}\u00a0permissions`;
}

export function homeEndpoints(deps: HomeDeps): Endpoint[] {
  const { google, slack, publicUrl, store } = deps;

  function rows(): Html[] {
    const grants = [...google.live(), ...slack.live()].sort((a, b) => b.createdAtMs - a.createdAtMs).slice(0, SHOWN_MAX);
    return grants.map(
      (grant) => html`<div class="grant"><span><b>${providerOf(grant)}</b>, ${nameOf(grant)}
<small>${new Date(grant.createdAtMs).toISOString().slice(0, 16).replace("T", " ")} UTC, ${permissions(grant.scopes.length)}</small></span>
<form method="post" action="/grants/remove"><button class="act small" name="grant" value="${grant.id}" aria-label="Take back: ${providerOf(grant)}, ${nameOf(grant)}">Take back</button></form></div>`,
    );
  }

  function show(_req: Request, res: Response): Response {
    const grants = rows();
    return sendPage(res, {
      owner: "sandbox",
      title: "The sandbox",
      lead: html`<p>A practice Google and a practice Slack that come with Outband, so that everything can be tried without an account.</p>`,
      body: html`<p>Outband itself is at <a href="${publicUrl()}">${publicUrl()}</a>.</p>
<h2>Practice people</h2>
<ul class="plain">${PEOPLE.map(
        (person) => html`<li class="whom"><span class="face" aria-hidden="true">${initialsOf(person)}</span>
<span>${person.name}, ${person.role.toLowerCase()}<small>${address(person.email)}</small></span></li>`,
      )}</ul>
<h2>What was allowed to Outband</h2>
${
  grants.length > 0
    ? html`${grants}
<p class="muted">"Take back" does what removing an app does in a Google or Slack account: its tokens stop working at once.</p>`
    : html`<p class="muted">Nothing at the moment.</p>`
}`,
    });
  }

  /** The id is a random value that no other site knows; a form from elsewhere is turned away all the same. */
  async function remove(req: Request, res: Response): Promise<Response> {
    const id = String((req.body as { grant?: unknown } | undefined)?.grant ?? "");
    const from = req.get("sec-fetch-site") ?? "same-origin";
    if (from !== "same-origin" && from !== "none") {
      return sendTrouble(res, { owner: "sandbox", status: 403, title: "Not from here", text: "This form was sent by another site." });
    }
    if (google.revoke(id) || slack.revoke(id)) await store.save();
    res.redirect(303, "/");
    return res;
  }

  return [
    { method: "GET", path: "/", run: show },
    { method: "POST", path: "/grants/remove", run: remove },
  ];
}
