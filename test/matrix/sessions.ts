// Sign-in, sign-out, invitations, a person's own settings, and the provider's way back: who may use whose.
import { createHash } from "node:crypto";
import { createBrowser } from "../support/browser.js";
import { PASSWORD } from "../support/outband.js";
import { type Cell, done, forbidden, gone, type Reply, shown, signIn, startOver, type Want } from "./cell.js";
import { forgeries, isHere, pageCell } from "./pages.js";
import { ACTORS, type Actor, emailOf, PEOPLE, type Person } from "./people.js";
import type { World } from "./world.js";

const signInFirst = startOver("/login");
const wrong: Want = { says: "wrong, with the form again", status: 400, refuses: true };

/** /account changes who sends the form, whatever it names besides. */
function ownSettings(): Cell[] {
  const cells: Cell[] = [];
  const named = { sub: PEOPLE.owner.sub, identifier: PEOPLE.owner.sub, email: emailOf("owner"), role: "admin" };
  for (const who of ACTORS) {
    const here = isHere(who);
    const mine = here ? [PEOPLE[who].sub] : [];
    const name = { route: "POST /account/name", who, path: () => "/account/name", form: { name: `Renamed ${PEOPLE[who as Person]?.slug}`, ...named } };
    cells.push(pageCell({ ...name, about: "own, with another's identifier and a role in it", want: here ? done("/account?done=name") : signInFirst, changes: mine }));
    const password = { route: "POST /account/password", who, path: () => "/account/password", form: { current: "not the password", password: "another one of mine", ...named } };
    cells.push(pageCell({ ...password, about: "own, without the old password", want: here ? wrong : signInFirst }));
    const app = { route: "POST /account/apps/:id/remove", who };
    const third = ({ clients }: World): string => `/account/apps/${createHash("sha256").update(clients.third.id).digest("hex")}/remove`;
    // One app, several people: it is removed for who asks. Whoever does not use it removes nothing.
    cells.push(pageCell({ ...app, about: "an app that others use too", want: here ? done("/account?done=app") : signInFirst, changes: mine, path: third }));
    cells.push(pageCell({ ...app, about: "no app", want: here ? done("/account?done=app") : signInFirst, path: () => "/account/apps/none/remove" }));
    if (here) cells.push(...forgeries(name), ...forgeries({ ...password, form: { current: PASSWORD, password: "another one of mine" } }), ...forgeries({ ...app, path: third }));
  }
  return cells;
}

/** A sign-in of somebody else's browser, with their own words or with a session that has ended. */
function signIns(): Cell[] {
  const cells: Cell[] = [];
  const unauthorized: Want = { says: "not signed in", status: 401, refuses: true };
  for (const [about, email, password] of [
    ["a person who is disabled, with their password", emailOf("disabled"), PASSWORD],
    ["a person who was deleted, with their password", emailOf("deleted"), PASSWORD],
    ["somebody with another's identifier for an address", PEOPLE.owner.sub, PASSWORD],
    ["another's address with a wrong password", emailOf("viewer"), "not the password"],
    ["another's address without a password", emailOf("viewer"), ""],
  ] as const) {
    cells.push(pageCell({ route: "POST /login", who: "nobody", about, want: unauthorized, path: () => "/login", form: { email, password } }));
  }
  for (const who of ["nobody", "signed out", "disabled", "deleted"] as const) {
    const form = { email: emailOf("owner"), password: PASSWORD };
    for (const cell of forgeries({ route: "POST /login", who, path: () => "/login", form, about: "with another's right password" })) cells.push(cell);
  }
  for (const who of ACTORS.filter(isHere)) {
    const logout = { route: "POST /logout", who, path: () => "/logout" };
    cells.push(...forgeries(logout));
    // Somebody else's token ends nobody's session: the page is still there.
    cells.push(pageCell({ route: "GET /account", who, about: "after a sign-out that was forged", want: shown, path: () => "/account" }));
  }
  return cells;
}

/** A set-up or invitation link is its holder's, once; the person behind it must still be let in. */
function invitations(): Cell[] {
  const cells: Cell[] = [];
  for (const who of ACTORS) {
    for (const [about, token] of [
      ["a link that is none", () => "A".repeat(43)],
      ["a connect link in its place", ({ links }: World) => links.owner.open.token],
      ["a person's identifier", () => encodeURIComponent(PEOPLE.owner.sub)],
    ] as const) {
      const path = (world: World): string => `/setup/${token(world)}`;
      const stale = who === "signed out" || who === "disabled" || who === "deleted";
      cells.push(pageCell({ route: "GET /setup/:token", who, about, want: gone, path }));
      cells.push(pageCell({ route: "POST /setup/:token", who, about, want: stale ? forbidden : gone, path, form: { password: "a new password of mine", email: "new@people.example" } }));
    }
  }
  return cells;
}

/** One flow that the owner began, in the browser that they began it in. */
interface Flow {
  state: string;
  binding: string;
}
const flows = new WeakMap<World, Promise<Flow>>();

function flowOf(world: World): Promise<Flow> {
  const known = flows.get(world) ?? begin(world);
  flows.set(world, known);
  return known;
}

async function begin(world: World): Promise<Flow> {
  const token = world.spares["owner"]?.oauth.pop()?.token ?? "";
  const { cookie, csrf } = world.visitors.owner;
  const browser = createBrowser(world.outband.url);
  browser.setCookie("outband_session", cookie.replace("outband_session=", ""));
  const page = await browser.post(`/connect/${token}`, { _csrf: csrf });
  await world.records.changed();
  return { state: new URL(page.location ?? "").searchParams.get("state") ?? "", binding: `outband_browser=${browser.cookie("outband_browser")}` };
}

const unknownFlow: Want = { says: "not a flow of this address", status: 400, refuses: true };
const notYours: Want = { says: "not this browser or person", status: 403, refuses: true };

/** The way back from the provider is the browser's and the person's that began it: nobody else's code is exchanged (contract 5.3). */
function callbacks(): Cell[] {
  const cells: Cell[] = [];
  const add = (who: Actor, about: string, want: Want, path: (flow: Flow) => string, cookieOf: (flow: Flow, own: string) => string, method: "GET" | "HEAD" | "POST" = "GET"): void => {
    cells.push({
      route: method === "POST" ? "ALL /connect/callback/:connection" : `${method} /connect/callback/:connection`,
      who,
      about,
      want,
      changes: [],
      shows: isHere(who) ? [PEOPLE[who].sub] : [],
      also: (_reply: Reply, { outband }) => (outband.provider.count("POST /google/token") === 0 ? null : "a code was exchanged"),
      async run(world) {
        const flow = await flowOf(world);
        world.outband.provider.resetCounts();
        const reply = await world.visit(who, method, path(flow), {}, { cookie: cookieOf(flow, world.visitors[who].cookie) });
        return { reply, sent: path(flow) };
      },
    });
  };
  const back = ({ state }: Flow): string => `/connect/callback/gmail?code=a-stolen-code&state=${state}`;
  for (const who of ACTORS) {
    add(who, "the owner's state in another browser", notYours, back, (_flow, own) => own);
    add(who, "the owner's state with another browser's mark", notYours, back, (_flow, own) => `${own}; outband_browser=${"B".repeat(43)}`);
    add(who, "a state that is nobody's", unknownFlow, () => "/connect/callback/gmail?code=x&state=none", ({ binding }, own) => `${own}; ${binding}`);
    add(who, "the owner's state at another connection", unknownFlow, ({ state }) => `/connect/callback/slack?code=x&state=${state}`, ({ binding }, own) => `${own}; ${binding}`);
    add(who, "by HEAD, with all that it takes", { says: "nothing", status: 200, refuses: true }, back, ({ binding }, own) => `${own}; ${binding}`, "HEAD");
    add(who, "by POST, with all that it takes", { says: "not this way", status: 405, refuses: true }, back, ({ binding }, own) => `${own}; ${binding}`, "POST");
    if (who === "owner") continue;
    const stolen = isHere(who) ? notYours : signIn;
    add(who, "the owner's state in the owner's browser, signed in as somebody else", stolen, back, ({ binding }, own) => `${own}; ${binding}`);
  }
  return cells;
}

export function sessionCells(): Cell[] {
  return [...ownSettings(), ...signIns(), ...invitations(), ...callbacks()];
}
