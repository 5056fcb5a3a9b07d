// Offers a page to the person: who asks, the host, the whole address, then the question. Must never happen: a page that
// opens before a yes, an address shown shortened, a scheme other than http(s), an answer that was taken without asking
// (MCP elicitation, URL mode: the client shows the full URL and gets consent).
import { isLoopback, isSameHost } from "./address.js";
import type { OpenBrowser } from "./browser.js";
import { framed, plainLine } from "./plain.js";
import { askYesNo, type Terminal } from "./terminal.js";

export interface PageOffer {
  /** Our sentence, ending with a full stop or a colon. */
  introduction: string;
  /** What the other side says about it; null: nothing. */
  words: string | null;
  url: string;
  /** What Enter means. "yes" only for what the person asked for in so many words, such as signing in. */
  assume: "yes" | "no";
}

export type PageOutcome =
  | "opened" // or printed, and the person said that they open it
  | "declined"
  | "interrupted"
  /** Nobody could be asked, or nobody answered. */
  | "unasked"
  /** Not an address that we open. */
  | "refused";

export interface Pages {
  offer(offer: PageOffer): Promise<PageOutcome>;
}

export interface PageOptions {
  /** Do not ask; open what is on the server's own host. */
  yes: boolean;
  /** Never start a browser; print the address. */
  noBrowser: boolean;
}

export function createPages(deps: { terminal: Terminal; open: OpenBrowser; server: string; options: PageOptions }): Pages {
  const { terminal, options } = deps;
  const server = new URL(deps.server);

  async function consent(offer: PageOffer, ownHost: boolean): Promise<PageOutcome> {
    // Signing in was asked for by the command itself, and printing an address opens nothing.
    if (options.noBrowser && offer.assume === "yes") return "opened";
    if (options.yes && ownHost) return "opened";
    if (!terminal.interactive) {
      terminal.say(
        options.yes
          ? "Not opened: --yes covers pages of the server's own host only."
          : "Not opened: there is nobody to ask here (no terminal). Run it in a terminal, or with --yes.",
      );
      return "unasked";
    }
    const question = options.noBrowser ? "Will you open it yourself?" : "Open it in your browser?";
    const answer = await askYesNo(terminal, question, ownHost ? offer.assume : "no");
    if (answer === "yes") return "opened";
    if (answer === "no") return "declined";
    return answer === "interrupted" ? "interrupted" : "unasked";
  }

  return {
    async offer(offer) {
      const url = URL.canParse(offer.url) ? new URL(offer.url) : null;
      terminal.say("");
      terminal.say(offer.introduction);
      if (offer.words !== null) terminal.say(framed(offer.words, { columns: terminal.columns, linesMax: 20 }));
      if (url === null || !isOpenable(url)) {
        terminal.say(`Not opened: this is not a web address that is safe to open: ${plainLine(offer.url, 300)}`);
        return "refused";
      }
      terminal.say(`Host:\n  ${url.host}\nFull address:\n  ${url.href}`);
      const ownHost = isSameHost(url, server);
      if (!ownHost) terminal.say(`Careful: this page is on ${url.host}, not on ${server.host}, the server that you called.`);
      if (url.protocol === "http:" && !isLoopback(url))
        terminal.say("Careful: the address starts with http: what you type there can be read on the way.");
      const outcome = await consent(offer, ownHost);
      if (outcome !== "opened" || options.noBrowser) return outcome;
      if (!(await deps.open(url))) terminal.say("No browser could be started here. Please open the address above yourself.");
      return outcome;
    },
  };
}

/** `https://server@elsewhere.example/` reads like the server's own address and is not. */
function isOpenable(url: URL): boolean {
  return (url.protocol === "https:" || url.protocol === "http:") && url.username === "" && url.password === "";
}
