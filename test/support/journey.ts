// Steps of the main job that several journeys share.
import assert from "node:assert/strict";
import { authorizeAs, type PersonAnswers } from "./awkwardPerson.js";
import type { Browser, Page } from "./browser.js";
import type { CallOptions } from "./mcpCall.js";
import type { Answer } from "./outband.js";

/** The databases there are to test on. */
export const KINDS = ["embedded", ...(process.env.TEST_DATABASE_URL ? (["postgresql"] as const) : [])] as const;

/** From the link to the provider's answer: the URL of the callback, not yet opened. */
export async function consent(link: string, browser: Browser, answers: PersonAnswers = {}): Promise<string> {
  const page = await browser.get(link);
  assert.equal(page.status, 200, page.text);
  const started = await browser.post(link, {}, { from: page });
  assert.equal(started.status, 303, started.text);
  return (await authorizeAs(started.location ?? "", answers)).href;
}

/** From the link to the end of the callback, as the person does it. */
export async function connect(link: string, browser: Browser, answers: PersonAnswers = {}): Promise<Page> {
  return browser.get(await consent(link, browser, answers));
}

export function retryOf(asked: Answer, action: string, key = "connect_gmail"): CallOptions {
  return { retry: { inputResponses: { [key]: { action } }, requestState: asked.body.result.requestState } };
}

/** Repeats state-only legs as stock clients do, until the call ends. */
export async function finish(first: Promise<Answer> | Answer, again: (options: CallOptions) => Promise<Answer>): Promise<{ answer: Answer; legs: number }> {
  let answer = await first;
  let legs = 0;
  while (answer.body?.result?.resultType === "input_required" && Object.keys(answer.body.result.inputRequests ?? {}).length === 0) {
    legs += 1;
    assert.ok(legs < 20, "the call never ends");
    answer = await again({ retry: { requestState: answer.body.result.requestState } });
  }
  return { answer, legs };
}
