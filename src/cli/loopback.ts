// The address on this machine that the browser comes back to after signing in (RFC 8252, section 7.3). Must never happen:
// a code taken with another `state`, an answer that repeats what came in, a request under another Host (rebinding).
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** What came back, and the page that the browser is still waiting for. */
export interface Callback {
  params: URLSearchParams;
  /** Shows the person how it ended; the browser waits until then, so that it never says "signed in" too early. */
  answer(outcome: "done" | "failed"): void;
}

export interface Loopback {
  readonly redirectUrl: string;
  /** The next callback that carries this `state`. Rejects with the signal's reason. */
  wait(state: string, signal: AbortSignal): Promise<Callback>;
  close(): Promise<void>;
}

const PATH = "/callback";

export async function openLoopback(): Promise<Loopback> {
  let waiter: { state: string; take: (callback: Callback) => void } | null = null;
  const unanswered = new Set<Promise<unknown>>();

  const server = createServer((request, response) => {
    const { port } = server.address() as AddressInfo;
    const params = readCallback(request, port);
    if (params === null) return answerPage(response, 404, "Nothing here", "This address only takes the end of a sign-in.");
    // A page that guesses the port must not be able to end the sign-in of the person: it is left waiting.
    if (waiter === null || params.get("state") !== waiter.state) {
      return answerPage(response, 400, "Not the sign-in that was waited for", "Please start again from the terminal.");
    }
    const { take } = waiter;
    waiter = null;
    unanswered.add(once(response, "close"));
    take({
      params,
      answer: (outcome) =>
        outcome === "done"
          ? answerPage(response, 200, "You are signed in", "You can close this tab and go back to the terminal.")
          : answerPage(response, 400, "The sign-in did not work", "The terminal says why. You can close this tab."),
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    // Literally 127.0.0.1: what "localhost" means is up to the machine (RFC 8252, section 8.3).
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;

  return {
    redirectUrl: `http://127.0.0.1:${port}${PATH}`,
    wait: (state, signal) =>
      new Promise((resolve, reject) => {
        const stop = (): void => {
          waiter = null;
          reject(signal.reason);
        };
        if (signal.aborted) return stop();
        signal.addEventListener("abort", stop, { once: true });
        waiter = {
          state,
          take: (callback) => {
            signal.removeEventListener("abort", stop);
            resolve(callback);
          },
        };
      }),
    async close() {
      // The page that says how it ended is let out first; a browser's spare connections are not waited for.
      await Promise.all(unanswered);
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function readCallback(request: IncomingMessage, port: number): URLSearchParams | null {
  if (request.method !== "GET" || request.headers.host !== `127.0.0.1:${port}`) return null;
  const url = new URL(request.url ?? "/", `http://127.0.0.1:${port}`);
  return url.pathname === PATH ? url.searchParams : null;
}

/** The hosted pages' look, in the page itself: nothing else is asked for, and nothing but this very text is allowed as style. */
const STYLE = `:root{color-scheme:light dark;--ground:#f5f4f0;--surface:#fff;--ink:#1b211f;--soft:#59625e;--line:#e0ded7;--accent:#0f5c54}
@media (prefers-color-scheme:dark){:root{--ground:#111514;--surface:#1a1f1d;--ink:#e8ebe9;--soft:#a4aea9;--line:#2f3734;--accent:#7dcfbf}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;display:grid;place-items:center;padding:1.25rem;background:var(--ground);color:var(--ink);font:1rem/1.5 ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Helvetica Neue",Arial,sans-serif;overflow-wrap:anywhere}
main{width:100%;max-width:30rem;padding:2rem;background:var(--surface);border:1px solid var(--line);border-radius:1rem}
h1{margin:0 0 .5rem;font-size:1.5rem;line-height:1.25;font-weight:650;letter-spacing:-.012em}
p{margin:0}
.from{margin:0 0 1rem;color:var(--accent);font-weight:650}
.foot{margin:1.25rem 0 0;color:var(--soft);font-size:.875rem}`;
const STYLE_HASH = createHash("sha256").update(STYLE).digest("base64");

function answerPage(response: ServerResponse, status: number, title: string, text: string): void {
  response.writeHead(status, {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-store",
    "content-security-policy": `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; frame-ancestors 'none'`,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    connection: "close",
  });
  response.end(
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">` +
      `<meta name="viewport" content="width=device-width, initial-scale=1"><title>${title} · Outband</title>` +
      `<style>${STYLE}</style></head><body><main><p class="from">Outband</p><h1>${title}</h1><p>${text}</p>` +
      `<p class="foot">This page is on your own machine, from the command line.</p></main></body></html>`,
  );
}
