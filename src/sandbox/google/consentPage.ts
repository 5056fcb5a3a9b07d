// The practice Google's two pages: who you are, and what you allow.
import type { Response } from "express";
import { address, html } from "../html.js";
import { sendPage } from "../page.js";
import { initialsOf, PEOPLE, type PracticePerson } from "../people.js";
import { type GoogleScope, googleScope } from "./scopes.js";

export function sendChooser(res: Response, data: { id: string }): Response {
  const people = PEOPLE.map(
    (person) => html`<li><button class="person" name="person" value="${person.sub}">
<span class="face" aria-hidden="true">${initialsOf(person)}</span>
<span><b>${person.name}</b><small>${address(person.email)}</small></span>
</button></li>`,
  );
  return sendPage(res, {
    owner: "google",
    title: "Choose a practice account",
    lead: html`<p>to go on to <strong>Outband</strong></p>`,
    body: html`<form method="post" action="/google/account">
<input type="hidden" name="request" value="${data.id}">
<ul class="plain">${people}</ul>
</form>
<p class="muted">Both people are invented. There is no password.</p>`,
    leadsBack: true,
  });
}

/** The two spellings of a sign-in scope read the same, so each title is shown once. */
function signInTitles(scopes: readonly GoogleScope[]): string[] {
  return [...new Set(scopes.filter((scope) => scope.signIn).map((scope) => scope.title))];
}

export function sendConsent(
  res: Response,
  data: { id: string; person: PracticePerson; scopes: readonly string[]; returnTo: string },
): Response {
  const scopes = data.scopes.map(googleScope).filter((scope) => scope !== undefined);
  const titles = signInTitles(scopes);
  const choices = scopes.filter((scope) => !scope.signIn);
  return sendPage(res, {
    owner: "google",
    title: "Outband wants to use your practice account",
    body: html`<div class="whose"><span>${address(data.person.email)}</span>
<form method="post" action="/google/account"><input type="hidden" name="request" value="${data.id}">
<button class="link">Use another account</button></form></div>
<form method="post" action="/google/consent">
<input type="hidden" name="request" value="${data.id}">
${
  titles.length > 0 &&
  html`<h2>This comes with signing in</h2>
<ul class="plain">${titles.map((title) => html`<li class="given">${title}</li>`)}</ul>`
}
${
  choices.length > 0 &&
  html`<fieldset>
<legend>Choose what Outband may do</legend>
${choices.map(
  (scope) => html`<label class="choice"><input type="checkbox" name="scope" value="${scope.name}" checked>
<span><b>${scope.title}</b>${scope.detail && html`<small>${scope.detail}</small>`}</span></label>`,
)}
</fieldset>`
}
<p class="muted">Untick a box to practise a grant that is not complete. After your answer you go back to <strong>${data.returnTo}</strong>.</p>
<div class="actions">
<button class="act primary" name="decision" value="allow">Allow</button>
<button class="act" name="decision" value="deny">Deny</button>
</div>
</form>`,
    leadsBack: true,
  });
}
