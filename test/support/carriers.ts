// Where a secret may stand on the wire, and why: everything else is a leak. A row names the exact text that may hold it,
// so that the same secret elsewhere in the same answer is found.
import { type Secret, type Searcher, searcherFor } from "./needles.js";
import type { Exchange } from "./wire.js";

/** Of a row for every kind. */
const ANY = "any" as const;

export interface Carrier {
  kinds: readonly string[] | typeof ANY;
  /** `target`, `body`, or a header's name. */
  part: string;
  where: (exchange: Exchange) => boolean;
  as: (value: string, exchange: Exchange) => string[];
  reason: string;
}

const at = (method: string, path: RegExp) => (exchange: Exchange): boolean => exchange.method === method && path.test(exchange.path);
const anywhere = (): boolean => true;
const isRedirect = ({ answer }: Exchange): boolean => answer.status >= 300 && answer.status <= 399;
/** The sentence that Express and Koa write. */
function repeated({ answer }: Exchange): string[] {
  const [, location = ""] = answer.headers.find(([name]) => name === "location") ?? [];
  return [location, location.replaceAll("&", "&amp;")].map((url) => `Redirecting to ${url}`);
}
const inQuery = (...names: string[]) => (value: string): string[] => names.flatMap((name) => [`${name}=${value}`, `${name}=${encodeURIComponent(value)}`]);
/** `a.b` signed, `s%3Aa.b` as express-session writes it. */
const cookie = (...names: string[]) => (value: string): string[] => names.flatMap((name) => [`${name}=${value}`, `${name}=s%3A${value}`]);

/** In what the program answers. */
export const IN_ANSWERS: Carrier[] = [
  { kinds: ["form token"], part: "body", where: anywhere, as: (value) => [`name="_csrf" value="${value}"`], reason: "a form must carry it: synchroniser token, of this browser's session" },
  { kinds: ["session cookie"], part: "set-cookie", where: anywhere, as: (value) => [...cookie("outband_session")(value), `.${encodeURIComponent(value)};`], reason: "the cookie itself: id, and its signature" },
  { kinds: ["browser cookie"], part: "set-cookie", where: at("POST", /^\/connect\/[\w-]{43}$/), as: cookie("outband_browser"), reason: "the cookie itself, set by the POST that starts a flow" },
  { kinds: ["authorization cookie"], part: "set-cookie", where: at("GET", /^\/oauth\//), as: cookie("outband_oauth", "outband_oauth.sig", "outband_interaction.sig", "outband_resume.sig"), reason: "the cookie itself, and its signature" },
  { kinds: ["step cookie"], part: "set-cookie", where: at("GET", /^\/oauth\//), as: (value) => [...cookie("outband_interaction", "outband_resume")(value), `path=/oauth/interaction/${value};`, `path=/oauth/authorize/${value};`], reason: "the cookie itself, bound to the path of its step" },
  { kinds: ["step cookie"], part: "location", where: anywhere, as: (value) => [`/oauth/interaction/${value}`, `/oauth/authorize/${value}`], reason: "the way to the step's own page, and on from it: useless without the signed cookie" },
  { kinds: ["step cookie"], part: "body", where: at("GET", /^\/oauth\/interaction\//), as: (value) => [`action="/oauth/interaction/${value}"`], reason: "the form of the step's own page" },
  { kinds: ["upstream state", "upstream nonce"], part: "location", where: at("POST", /^\/connect\/[\w-]{43}$/), as: inQuery("state", "nonce"), reason: "the way to the provider: state and nonce are made to travel there" },
  { kinds: ["upstream state", "upstream code"], part: "location", where: at("POST", /^\/login$/), as: inQuery("state", "code"), reason: "the callback of a person whose session ended meanwhile: back to it after the sign-in, on our own origin" },
  { kinds: ["upstream state", "upstream code"], part: "location", where: at("GET", /^\/connect\/callback\//), as: inQuery("state", "code"), reason: "the callback brought from another loopback name to ours, as it was asked" },
  { kinds: ANY, part: "body", where: isRedirect, as: (_value, exchange) => repeated(exchange), reason: "a redirect for people repeats its Location, which was judged" },
  { kinds: ["link token"], part: "body", where: at("POST", /^\/mcp$/), as: (value) => [`"url":"http://localhost:PORT/connect/${value}"`], reason: "the url of input_required: made for this" },
  { kinds: ["link token"], part: "body", where: at("POST", /^\/api\/v1\/authorization-links$/), as: (value) => [`"url":"http://localhost:PORT/connect/${value}"`], reason: "the answer that makes the link" },
  { kinds: ["link token"], part: "location", where: at("POST", /^\/(connections\/(connect|retry|[\w-]+\/reconnect)|login|logout)$/), as: (value) => [`/connect/${value}`], reason: "the person's own way to the page, at once or after a sign-in" },
  { kinds: ["link token"], part: "body", where: at("GET", /^\/connect\/[\w-]{43}$/), as: (value) => ["", "/key", "/refuse"].map((end) => `action="/connect/${value}${end}"`), reason: "the forms of the link's own page" },
  { kinds: ["link token"], part: "body", where: at("POST", /^\/connect\/[\w-]{43}\/key$/), as: (value) => ["/key", "/refuse"].map((end) => `action="/connect/${value}${end}"`), reason: "the same page again, after a key that was refused" },
  { kinds: ["link token"], part: "body", where: at("GET", /^\/connect\/[\w-]{43}$/), as: (value) => [`name="back" value="/connect/${value}"`], reason: "the wrong person, who has the link already: the way back after a change of sign-in" },
  { kinds: ["verification code"], part: "location", where: at("GET", /^\/connect\/callback\//), as: inQuery("verification_code"), reason: "the way back to the app that verifies: made for this" },
  { kinds: ["set-up token", "invitation token"], part: "body", where: (exchange) => /^\/setup\//.test(exchange.path), as: (value) => [`action="/setup/${value}"`], reason: "the form of the link's own page" },
  { kinds: ["invitation token"], part: "body", where: at("POST", /^\/api\/v1\/users$/), as: (value) => [`"invitation_url":"http://localhost:PORT/setup/${value}"`], reason: "the answer that makes the invitation" },
  { kinds: ["request state"], part: "body", where: at("POST", /^\/mcp$/), as: (value) => [`"requestState":"${value}"`], reason: "given to the client to bring back" },
  { kinds: ["session token"], part: "body", where: at("POST", /^\/api\/v1\/session-tokens$/), as: (value) => [`"token":"${value}"`], reason: "the answer that mints it" },
  { kinds: ["obk key"], part: "body", where: at("POST", /^\/api\/v1\/api-keys$/), as: (value) => [`"key":"${value}"`], reason: "the answer that makes it: shown once" },
  { kinds: ["own client secret"], part: "body", where: at("POST", /^\/oauth\/register$/), as: (value) => [`"client_secret":"${value}"`], reason: "the answer of the registration (RFC 7591)" },
  { kinds: ["own code", "own state"], part: "location", where: at("GET", /^\/oauth\/authorize(\/|$)/), as: inQuery("code", "state"), reason: "the way back to the client (RFC 6749)" },
  { kinds: ["own state"], part: "body", where: at("GET", /^\/oauth\/interaction\//), as: inQuery("state"), reason: "the consent page's way to begin again as another person" },
  { kinds: ["own access token", "own refresh token"], part: "body", where: at("POST", /^\/oauth\/token$/), as: (value) => [`"access_token":"${value}"`, `"refresh_token":"${value}"`], reason: "the token endpoint's own answer" },
];

const GMAIL = /^\/google\/(api\/|userinfo$)/;
const SLACK = /^\/slack\/api\/(?!oauth\.v2\.access)/;
const TOKEN = /^\/(google\/token|slack\/api\/oauth\.v2\.access)$/;
const REVOKE = /^\/(google\/revoke|slack\/api\/auth\.revoke)$/;
const both = (...paths: RegExp[]) => (exchange: Exchange): boolean => paths.some((path) => path.test(exchange.path));

/** In what a provider is asked: by the program, and by the person's browser. */
export const IN_PROVIDER_REQUESTS: Carrier[] = [
  { kinds: ["upstream access token", "put access token"], part: "authorization", where: both(GMAIL, SLACK), as: (value) => [`Bearer ${value}`], reason: "RFC 6750: the Authorization header of its own API" },
  { kinds: ["upstream access token", "upstream refresh token"], part: "body", where: both(REVOKE), as: inQuery("token"), reason: "RFC 7009: taken back" },
  { kinds: ["upstream refresh token"], part: "body", where: both(TOKEN), as: inQuery("refresh_token"), reason: "RFC 6749: a refresh" },
  { kinds: ["upstream code"], part: "body", where: both(TOKEN), as: inQuery("code"), reason: "RFC 6749: the exchange" },
  { kinds: ["upstream verifier"], part: "body", where: both(TOKEN), as: inQuery("code_verifier"), reason: "RFC 7636: the exchange" },
  { kinds: ["upstream client secret"], part: "body", where: both(TOKEN, REVOKE), as: inQuery("client_secret"), reason: "RFC 6749: client_secret_post" },
  { kinds: ["upstream state", "upstream nonce"], part: "target", where: at("GET", /^\/(google\/authorize|slack\/oauth\/v2\/authorize)$/), as: inQuery("state", "nonce"), reason: "the person's browser brings them" },
  { kinds: ["key in a header", "refused key"], part: "authorization", where: at("GET", /^\/v1\/me$/), as: (value) => [`Bearer ${value}`], reason: "as the operator's settings say, at the host of that key" },
  { kinds: ["key in a query", "refused key"], part: "target", where: at("GET", /^\/v2\/me$/), as: inQuery("key"), reason: "as the operator's settings say, at the host of that key" },
];

export interface Judgement {
  /** In words, without the value. */
  leaks: string[];
  /** Reasons of rows that nothing needed. */
  unused: string[];
}

/** Every secret in every part that no row allows there. */
export function judge(exchanges: readonly Exchange[], side: "request" | "answer", carriers: readonly Carrier[], searcher: Searcher): Judgement {
  const leaks = new Set<string>();
  const used = new Set<Carrier>();
  for (const exchange of exchanges) {
    for (const [part, text] of partsOf(exchange, side)) {
      for (const secret of searcher.find(text)) {
        const left = withoutLawful(exchange, part, text, secret, carriers, used);
        if (searcherFor([secret]).find(left).length > 0) leaks.add(`${secret.kind} in ${part} of ${whichOf(exchange, secret)}`);
      }
    }
  }
  return { leaks: [...leaks], unused: carriers.filter((carrier) => !used.has(carrier)).map(({ kinds, part, reason }) => `${kinds === ANY ? ANY : kinds.join(", ")} in ${part}: ${reason}`) };
}

function partsOf(exchange: Exchange, side: "request" | "answer"): [part: string, text: string][] {
  const { headers, body } = exchange[side];
  return [...(side === "request" ? [["target", exchange.target] as [string, string]] : []), ...headers, ["body", body]];
}

function withoutLawful(exchange: Exchange, part: string, text: string, secret: Secret, carriers: readonly Carrier[], used: Set<Carrier>): string {
  let left = text;
  for (const carrier of carriers) {
    if (carrier.part !== part || !(carrier.kinds === ANY || carrier.kinds.includes(secret.kind)) || !carrier.where(exchange)) continue;
    for (const lawful of carrier.as(secret.value, exchange).map((one) => one.replace("PORT", String(exchange.port)))) {
      const before = left;
      left = left.replaceAll(lawful, "(lawful)");
      if (left !== before) used.add(carrier);
    }
  }
  return left;
}

function whichOf(exchange: Exchange, secret: Secret): string {
  const path = exchange.path.replaceAll(secret.value, "…").replace(/[\w-]{40,}/g, "…");
  return `${exchange.answer.status} ${exchange.method} ${path}`;
}
