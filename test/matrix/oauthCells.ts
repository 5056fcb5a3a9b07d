// The authorization server: whose code, refresh token, interaction and grant may be used by which client and at whose browser.
import { createBrowser } from "../support/browser.js";
import { type Attempt, approve, attempt, codeOf, type TestClient } from "../support/oauthClient.js";
import { type Cell, done, forbidden, notFound, type Reply, shown, signIn, type Want } from "./cell.js";
import { isHere, pageCell } from "./pages.js";
import { ACTORS, type Actor, PEOPLE } from "./people.js";
import type { World } from "./world.js";

const OWNER = PEOPLE.owner.sub;
const invalidGrant: Want = { says: "not your grant", status: 400, code: "invalid_grant", refuses: true };
const anybody = { who: "nobody" as Actor, shows: [] };

interface Started {
  request: Attempt;
  code: string;
}
const codes = new WeakMap<World, Promise<Started>>();
const interactions = new WeakMap<World, Promise<{ path: string; cookies: string }>>();

/** A code of the owner's for client one, that nobody has exchanged. */
function codeFor(world: World): Promise<Started> {
  const known = codes.get(world) ?? begin(world);
  codes.set(world, known);
  return known;
}

function ownersBrowser({ outband, visitors }: World) {
  const browser = createBrowser(outband.url);
  browser.setCookie("outband_session", visitors.owner.cookie.replace("outband_session=", ""));
  return browser;
}

async function begin(world: World): Promise<Started> {
  const request = attempt(world.outband.url, world.clients.one);
  const code = codeOf(await approve(ownersBrowser(world), request));
  await world.records.changed();
  return { request, code };
}

/** A question to the owner, shown and not answered: its address, and the cookies of the browser that it was shown in. */
function interactionOf(world: World): Promise<{ path: string; cookies: string }> {
  const known = interactions.get(world) ?? ask(world);
  interactions.set(world, known);
  return known;
}

async function ask(world: World): Promise<{ path: string; cookies: string }> {
  const browser = ownersBrowser(world);
  const page = await browser.follow(await browser.get(attempt(world.outband.url, world.clients.two).url));
  const cookies = [...browser.cookies()].filter(([name]) => name !== "outband_session").map(([name, value]) => `${name}=${value}`);
  await world.records.changed();
  return { path: new URL(page.url).pathname, cookies: cookies.join("; ") };
}

function tokenCell(about: string, want: Want, form: (world: World) => Promise<Record<string, string>>, changes: readonly string[] = [], path = "/oauth/token"): Cell {
  return {
    route: `POST ${path}`,
    ...anybody,
    about,
    want,
    changes,
    async run(world) {
      const sent = await form(world);
      return { reply: await world.send("POST", path, { form: sent }), sent: JSON.stringify(sent) };
    },
  };
}

function tokenRequests(): Cell[] {
  const exchange = (about: string, want: Want, clientOf: (world: World) => TestClient, change: (started: Started) => Record<string, string> = () => ({}), changes: readonly string[] = []): Cell =>
    tokenCell(about, want, async (world) => {
      const started = await codeFor(world);
      const client = clientOf(world);
      return { grant_type: "authorization_code", client_id: client.id, code: started.code, redirect_uri: client.redirectUri, code_verifier: started.request.verifier, ...change(started) };
    }, changes);
  const refresh = (about: string, want: Want, clientOf: (world: World) => TestClient, grant: string, more: Record<string, string> = {}, changes: readonly string[] = []): Cell =>
    tokenCell(about, want, async (world) => ({ grant_type: "refresh_token", client_id: clientOf(world).id, refresh_token: world.grants[grant]?.refresh ?? "", ...more }), changes);
  const one = ({ clients }: World): TestClient => clients.one;
  const two = ({ clients }: World): TestClient => clients.two;
  const isOwners: Cell["also"] = ({ text }: Reply) => {
    const [, claims = ""] = String(JSON.parse(text).access_token).split(".");
    const { sub } = JSON.parse(Buffer.from(claims, "base64url").toString());
    return sub === OWNER ? null : `a token of ${sub}`;
  };
  return [
    exchange("the owner's code, by another client", invalidGrant, two),
    exchange("the owner's code, without the secret of who began", invalidGrant, one, () => ({ code_verifier: "A".repeat(43) })),
    exchange("the owner's code, to another address", invalidGrant, one, () => ({ redirect_uri: "http://127.0.0.1:1/other" })),
    exchange("the owner's code, cut", invalidGrant, one, ({ code }) => ({ code: code.slice(0, -1) })),
    { ...exchange("the owner's code, by its client", { says: "done", status: 200, refuses: false }, one, undefined, [OWNER]), also: isOwners },
    refresh("the owner's refresh token, by another client", invalidGrant, two, "owner by client one"),
    refresh("the other's refresh token, by another client", invalidGrant, one, "other by client two"),
    tokenCell("an access token in a refresh token's place", invalidGrant, async (world) => ({ grant_type: "refresh_token", client_id: world.clients.one.id, refresh_token: world.bearers["owner by client one"] ?? "" })),
    refresh("the disabled person's refresh token", invalidGrant, one, "disabled"),
    refresh("the deleted person's refresh token", invalidGrant, one, "deleted"),
    // Its own client may spend it in vain.
    refresh("the owner's, for another resource", { says: "not this resource", status: 400, code: "invalid_target", refuses: true }, one, "owner by client one", { resource: "https://elsewhere.example/mcp" }, [OWNER]),
    refresh("the owner's, for more than was granted", { says: "not this scope", status: 400, code: "invalid_scope", refuses: true }, one, "owner, reading alone", { scope: "mcp:read mcp:write" }),
    tokenCell("a client's own credentials, for no person", { says: "not this way", status: 400, code: "unsupported_grant_type", refuses: true }, async (world) => ({ grant_type: "client_credentials", client_id: world.clients.one.id })),
    tokenCell("an API key for a password", { says: "not this way", status: 400, code: "unsupported_grant_type", refuses: true }, async (world) => ({ grant_type: "password", client_id: world.clients.one.id, username: "owner@people.example", password: world.keys["admin"] ?? "" })),
  ];
}

/** Ends nothing of another client's; that the answer is friendly is the standard's (RFC 7009, section 2.2). */
function revocations(): Cell[] {
  return ["owner by client one", "other by client two"].map((grant) =>
    tokenCell(`${grant}, by another client`, { says: "nothing", status: 200, refuses: false }, async (world) => ({ client_id: world.clients.third.id, token: world.grants[grant]?.refresh ?? "" }), [], "/oauth/revoke"),
  ).map((cell) => ({ ...cell, route: "MOUNT /oauth/revoke" }));
}

/** A question is answered at the browser and by the person that it was asked of. */
function answering(): Cell[] {
  const cells: Cell[] = [];
  const ended: Want = { says: "no question here", status: 400, refuses: true };
  const again: Want = { ...done(/^\/oauth\/authorize\?/), says: "asked anew, as who is here", refuses: true };
  for (const who of ACTORS) {
    const add = (route: string, about: string, want: Want, form: Record<string, string> | undefined, withCookies: boolean): void =>
      void cells.push({
        route,
        who,
        about,
        want,
        changes: [],
        shows: isHere(who) ? [PEOPLE[who].sub] : [],
        async run(world) {
          const { path, cookies } = await interactionOf(world);
          const { cookie } = world.visitors[who];
          return { reply: await world.visit(who, route.split(" ")[0] ?? "", path, form, { cookie: withCookies ? `${cookie}; ${cookies}` : cookie }), sent: path };
        },
      });
    const yes = { decision: "allow", write: "yes" };
    const stale = who === "signed out" || who === "disabled" || who === "deleted";
    add("GET /oauth/interaction/:uid", "the owner's question, in another browser", ended, undefined, false);
    add("POST /oauth/interaction/:uid", "the owner's question, in another browser", stale ? forbidden : ended, yes, false);
    if (who === "owner") continue;
    add("GET /oauth/interaction/:uid", "the owner's question, in the owner's browser", isHere(who) ? again : signIn, undefined, true);
    add("POST /oauth/interaction/:uid", "the owner's question, in the owner's browser", stale ? forbidden : again, yes, true);
  }
  for (const [about, csrf] of [["without the form's token", () => ""], ["with the token of another's session", ({ visitors }: World) => visitors.other.csrf]] as const) {
    cells.push({
      route: "POST /oauth/interaction/:uid",
      who: "owner",
      about: `own question, ${about}`,
      want: forbidden,
      changes: [],
      shows: [OWNER],
      async run(world) {
        const { path, cookies } = await interactionOf(world);
        return { reply: await world.visit("owner", "POST", path, { decision: "allow", write: "yes" }, { csrf: csrf(world), cookie: `${world.visitors.owner.cookie}; ${cookies}` }), sent: path };
      },
    });
  }
  return cells;
}

function addresses(): Cell[] {
  const cells: Cell[] = [];
  for (const who of ACTORS) {
    cells.push(pageCell({ route: "GET /oauth/authorize", who, about: "a request of an app", want: done(/^\/oauth\/interaction\//), path: ({ outband, clients }) => attempt(outband.url, clients.one).url.slice(outband.url.length) }));
    cells.push(pageCell({ route: "GET /oauth/authorize", who, about: "a request without asking anybody", want: done(/^http:\/\/127\.0\.0\.1:33418\/callback\?error=(?:login|consent|interaction)_required/), path: ({ outband, clients }) => attempt(outband.url, clients.one, { prompt: "none" }).url.slice(outband.url.length) }));
    cells.push(pageCell({ route: "GET /oauth/authorize", who, about: "a request to go elsewhere", want: { says: "not this address", status: 400, refuses: true }, path: ({ outband, clients }) => attempt(outband.url, clients.one, { redirect_uri: "https://thief.example/cb" }).url.slice(outband.url.length) }));
    cells.push(pageCell({ route: "GET /oauth/authorize/:uid", who, about: "nobody's request, resumed", want: { says: "no request here", status: 400, refuses: true }, path: () => "/oauth/authorize/none" }));
    for (const path of ["/oauth/me", "/oauth/userinfo", "/oauth/introspect", "/oauth/end", "/oauth/par"]) cells.push(pageCell({ route: "MOUNT /oauth", who, about: path, want: notFound, path: () => path, }));
    for (const path of ["/account/none", "/admin/none"]) {
      const isAdmin = path.startsWith("/admin");
      cells.push(pageCell({ route: `MOUNT ${isAdmin ? "/admin" : "/account"}`, who, about: "an address below", want: isHere(who) ? notFound : signIn, path: () => path }));
    }
  }
  const open: [string, string][] = [
    ["MOUNT /.well-known/oauth-authorization-server/oauth", "/.well-known/oauth-authorization-server/oauth"],
    ["MOUNT /.well-known/openid-configuration/oauth", "/.well-known/openid-configuration/oauth"],
    ["MOUNT /oauth/.well-known", "/oauth/.well-known/openid-configuration"],
    ["MOUNT /oauth/jwks", "/oauth/jwks"],
    ["MOUNT /assets", "/assets/outband.css"],
  ];
  for (const [route, path] of open) cells.push(pageCell({ route, who: "nobody", about: "what everybody may read", want: shown, path: () => path, also: ({ text }) => (/"d"\s*:/.test(text) ? "a private key" : null) }));
  for (const path of ["/oauth/token", "/oauth/register"]) cells.push(pageCell({ route: `MOUNT ${path}`, who: "nobody", about: "by GET", want: notFound, path: () => path }));
  cells.push(tokenCell("a client without an address", { says: "not sound", status: 400, refuses: true }, async () => ({}), [], "/oauth/register"));
  return cells;
}

export function oauthCells(): Cell[] {
  return [...tokenRequests(), ...revocations(), ...answering(), ...addresses()];
}

