// The frame of every practice page: the banner that says what it is, one card, no script, nothing from elsewhere.
// Must never happen: a practice page that could be taken for the real thing.
import type { Response } from "express";
import type { Endpoint } from "./endpoint.js";
import { type Html, html } from "./html.js";
import { STYLESHEET } from "./stylesheet.js";

export type PageOwner = "google" | "slack" | "sandbox";

const BANNERS: Record<PageOwner, string> = {
  google: "practice\u00a0Google, nothing\u00a0real",
  slack: "practice\u00a0Slack, nothing\u00a0real",
  sandbox: "practice Google and\u00a0Slack, nothing\u00a0real",
};

const MARKS: Record<PageOwner, string> = { google: "G", slack: "S", sandbox: "GS" };

export interface Page {
  owner: PageOwner;
  title: string;
  /** Below the title. */
  lead?: Html;
  body: Html;
  status?: number;
  /** A form of this page leads back to the program, and from there wherever the program sends the browser on. */
  leadsBack?: true;
}

/**
 * No script, no frame, no third party. Browsers hold `form-action` against every redirect that follows a POST, and the program
 * may send the browser on to an application's page that is not known here: so any web address where the page leads back.
 */
function contentPolicy(leadsBack: boolean): string {
  const targets = leadsBack ? "'self' http: https:" : "'self'";
  return `default-src 'none'; style-src 'self'; form-action ${targets}; frame-ancestors 'none'; base-uri 'none'`;
}

export function sendPage(res: Response, page: Page): Response {
  res.status(page.status ?? 200);
  res.set({
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Content-Security-Policy": contentPolicy(page.leadsBack ?? false),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
  });
  return res.send(frame(page).text);
}

function frame(page: Page): Html {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>${page.title} · sandbox</title>
<link rel="stylesheet" href="/sandbox.css">
</head>
<body class="${page.owner}">
<p class="banner"><strong>sandbox</strong> — ${BANNERS[page.owner]}</p>
<main class="card">
<p class="mark" aria-hidden="true"><span>${MARKS[page.owner]}</span></p>
<h1>${page.title}</h1>
${page.lead ? html`<div class="lead">${page.lead}</div>` : null}
${page.body}
</main>
<p class="foot">These pages run on your own computer and belong to Outband's sandbox. No real account is asked, touched or shown here. Never type a real password.</p>
</body>
</html>
`;
}

/** An end of the road: what went wrong, and what to do. */
export function sendTrouble(
  res: Response,
  trouble: { owner: PageOwner; status: number; title: string; text: string; code?: string },
): Response {
  return sendPage(res, {
    owner: trouble.owner,
    status: trouble.status,
    title: trouble.title,
    body: html`<p>${trouble.text}</p>
${trouble.code ? html`<p class="code">Error: <code>${trouble.code}</code></p>` : null}`,
  });
}

/** The one stylesheet of all practice pages. */
export function stylesheetEndpoint(): Endpoint {
  return {
    method: "GET",
    path: "/sandbox.css",
    run: (_req, res) => res.set({ "Content-Type": "text/css; charset=utf-8", "X-Content-Type-Options": "nosniff" }).send(STYLESHEET),
  };
}
