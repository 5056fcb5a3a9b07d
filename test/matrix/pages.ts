// The pages of a signed-in person and of links, as tables: which route, whose thing, what each standing is told.
import { type Cell, done, forbidden, gone, notFound, type Reply, shown, signIn, startOver, type Want } from "./cell.js";
import { ACTORS, type Actor, HERE, HOLDERS, type Holder, PEOPLE, type Person, standingOf, subOf } from "./people.js";
import { APP_LINKS, type AppLinkState, LINKS, type LinkState, STATUSES } from "./seed.js";
import type { World } from "./world.js";

type Method = "GET" | "POST" | "HEAD";

interface Ask {
  route: string;
  who: Actor;
  about: string;
  want: Want;
  path(world: World): string;
  form?: Record<string, string>;
  changes?: readonly string[];
  shows?: readonly string[] | null;
  also?: Cell["also"];
  /** What the asker knows by what they sent, besides what stands in it. */
  knows?: (world: World) => string;
  csrf?: (world: World) => string;
  cookie?: (world: World) => string;
  headers?: Record<string, string>;
}

export function pageCell(ask: Ask): Cell {
  const [named = ""] = ask.route.split(" ");
  const method = named === "MOUNT" || named === "ALL" ? "GET" : named;
  const own = subOf(ask.who);
  return {
    route: ask.route,
    who: ask.who,
    about: ask.about,
    want: ask.want,
    changes: ask.changes ?? [],
    shows: ask.shows === undefined ? (own !== null && standingOf(ask.who) !== "nobody" ? [own] : []) : ask.shows,
    ...(ask.also ? { also: ask.also } : {}),
    async run(world) {
      const path = ask.path(world);
      const more = { ...(ask.csrf ? { csrf: ask.csrf(world) } : {}), ...(ask.cookie ? { cookie: ask.cookie(world) } : {}), ...(ask.headers ? { headers: ask.headers } : {}) };
      const reply = await world.visit(ask.who, method as Method, path, ask.form, more);
      return { reply, sent: `${safeDecoded(path)} ${JSON.stringify(ask.form ?? {})} ${ask.knows?.(world) ?? ""}` };
    },
  };
}

function safeDecoded(path: string): string {
  try {
    return `${path} ${decodeURIComponent(path)}`;
  } catch {
    return path;
  }
}

/** The two holders reach for each other's; everybody else for the owner's, whose twins they are or who they are not. */
const reachedBy = (who: Actor): readonly Holder[] => (who === "owner" || who === "other" ? HOLDERS : ["owner"]);

const isHere = (actor: Actor): actor is Person => standingOf(actor) !== "nobody";

/** The guard of forms knows no person: it is shown for each standing. */
const FORGED: readonly Actor[] = ["owner", "viewer", "admin", "nobody", "disabled"];

/** Forms without the session's token, with another session's, or sent by another site: for what would be allowed with it. */
export function forgeries(ask: Omit<Ask, "want" | "about" | "changes"> & { about?: string }): Cell[] {
  if (!FORGED.includes(ask.who)) return [];
  const about = ask.about ?? "own";
  const another: Actor = "other";
  const bare = { ...ask, want: forbidden, changes: [] };
  return [
    pageCell({ ...bare, about: `${about}, without the form's token`, csrf: () => "" }),
    pageCell({ ...bare, about: `${about}, with the token of another's session`, csrf: (world) => world.visitors[another].csrf }),
    pageCell({ ...bare, about: `${about}, sent by another site`, headers: { "sec-fetch-site": "cross-site" } }),
    pageCell({ ...bare, about: `${about}, of another origin`, headers: { origin: "https://evil.example" } }),
  ];
}

/** Pages that are about nobody's thing in particular. */
function plainPages(): Cell[] {
  const cells: Cell[] = [];
  for (const who of ACTORS) {
    const page = (route: string, here: Want, else_: Want = signIn): void => void cells.push(pageCell({ route, who, about: "the page", want: isHere(who) ? here : else_, path: () => route.split(" ")[1] ?? "" }));
    page("GET /", done(standingOf(who) === "admin" ? "/admin" : "/connections"));
    page("GET /connections", shown);
    page("GET /account", shown);
    page("GET /login", done("/connections"), shown);
    page("GET /healthz", shown, shown);
    page("GET /readyz", shown, shown);
    page("ALL /logout", { says: "only a form", status: 405, refuses: true }, { says: "only a form", status: 405, refuses: true });
    cells.push(pageCell({ route: "GET /connections", who, about: "with words of another's in the address", want: isHere(who) ? shown : signIn, path: ({ accounts }) => `/connections?done=${accounts.owner.ACTIVE}&id=${accounts.owner.ACTIVE}&identifier=${encodeURIComponent(PEOPLE.owner.sub)}` }));
  }
  return cells;
}

interface AccountRoute {
  route: string;
  form?: Record<string, string>;
  /** For one's own ACTIVE account. */
  own: Want;
  changing: boolean;
}

const ACCOUNT_ROUTES: readonly AccountRoute[] = [
  { route: "GET /connections/:id", own: shown, changing: false },
  { route: "GET /connections/:id/disconnect", own: shown, changing: false },
  { route: "POST /connections/:id/label", form: { label: "sneaked" }, own: done(/^\/connections\/ca_\w+\?done=renamed$/), changing: true },
  { route: "POST /connections/:id/reconnect", own: done(/^\/connect\/[\w-]{43}$/), changing: true },
  { route: "POST /connections/:id/disconnect", own: done("/connections?done=disconnected"), changing: true },
];

/** What a form does differs between an account that is connected and one that can only be removed. */
const CHANGED = ["ACTIVE", "REVOKED"] as const;

/** Ids that are nobody's, also such as a fold or a join would make somebody's. */
const NO_IDS: [string, (world: World) => string][] = [
  ["nobody's", () => "ca_0000000000000000000000"],
  ["another's id in capitals", ({ accounts }) => accounts.owner.ACTIVE.toUpperCase()],
  ["another's id with a NUL", ({ accounts }) => `${accounts.owner.ACTIVE}%00`],
  ["another's identifier", () => encodeURIComponent(PEOPLE.owner.sub)],
];

/** An account is its person's; to everybody else, also who runs the installation, it is one that does not exist. */
function accountPages(): Cell[] {
  const cells: Cell[] = [];
  for (const row of ACCOUNT_ROUTES) {
    const at = (id: string): string => row.route.split(" ")[1]?.replace(":id", id) ?? "";
    const refused = row.changing ? startOver("/connections") : signIn;
    for (const who of ACTORS) {
      const base = { route: row.route, who, ...(row.form ? { form: row.form } : {}) };
      for (const holder of reachedBy(who)) {
        for (const status of row.changing || !isHere(who) ? CHANGED : STATUSES) {
          if (who === holder && row.changing) continue;
          const want = !isHere(who) ? refused : who === holder ? row.own : notFound;
          cells.push(pageCell({ ...base, about: `${holder}'s ${status} account`, want, path: ({ accounts }) => at(accounts[holder][status]) }));
        }
      }
      for (const [about, id] of who === "owner" ? NO_IDS.slice(0, 1) : NO_IDS) cells.push(pageCell({ ...base, about, want: isHere(who) ? notFound : refused, path: (world) => at(id(world)) }));
      if (!isHere(who)) continue;
      if (row.changing) cells.push(...forgeries({ ...base, path: ({ spares }) => at(spares[who]?.accounts[0] ?? "") }));
      cells.push(pageCell({ ...base, about: "own", want: row.own, changes: row.changing ? [PEOPLE[who].sub] : [], path: (world) => at(row.changing ? world.takeAccount(who) : (world.real[who] ?? "")) }));
    }
  }
  return cells;
}

/** Forms that name the thing in a field. */
function namingForms(): Cell[] {
  const cells: Cell[] = [];
  for (const who of ACTORS) {
    const mine = isHere(who) ? [PEOPLE[who].sub] : [];
    const want = isHere(who) ? done(/^\/connect\/[\w-]{43}$/) : startOver("/connections");
    const connect = { route: "POST /connections/connect", who, path: () => "/connections/connect" };
    // Whatever else a form names, a link is made for who sends it.
    cells.push(pageCell({ ...connect, about: "own", form: { connection_name: "gmail", label: "mine" }, want, changes: mine }));
    cells.push(pageCell({ ...connect, about: "with another's identifier in it", form: { connection_name: "gmail", label: "mine too", identifier: PEOPLE.owner.sub, sub: PEOPLE.owner.sub, account_id: "x" }, want, changes: mine }));
    cells.push(pageCell({ ...connect, about: "a label that another has just taken", form: { connection_name: "gmail", label: "common", another: "1" }, want, changes: mine }));
    cells.push(pageCell({ ...connect, about: "a connection that is not there", form: { connection_name: "none" }, want: isHere(who) ? notFound : want }));
    if (isHere(who)) cells.push(...forgeries({ ...connect, form: { connection_name: "gmail" } }));

    const retry = { route: "POST /connections/retry", who, path: () => "/connections/retry" };
    for (const holder of reachedBy(who)) {
      for (const state of ["open", "completed"] as const) {
        const isOwn = who === holder;
        cells.push(retried(retry, `${holder}'s ${state} link`, isHere(who) && !isOwn ? notFound : want, isOwn ? mine : [], ({ links }) => links[holder][state].id));
      }
    }
    cells.push(retried(retry, "nobody's link", isHere(who) ? notFound : want, [], () => "lnk_none"));
    cells.push(retried(retry, "another's link, by its token", isHere(who) ? notFound : want, [], ({ links }) => links[who === "owner" ? "other" : "owner"].open.token));
  }
  return cells;
}

function retried(base: Pick<Ask, "route" | "who" | "path">, about: string, want: Want, changes: readonly string[], idOf: (world: World) => string): Cell {
  const cell = pageCell({ ...base, about, want, changes });
  cell.run = async (world) => {
    const link_id = idOf(world);
    return { reply: await world.visit(base.who, "POST", base.path(world), { link_id }), sent: link_id };
  };
  return cell;
}

interface LinkRoute {
  route: string;
  changing: boolean;
  form?: Record<string, string>;
  /** Of the two kinds of links, which this is for. */
  spare: "oauth" | "key" | null;
  own: Want;
}

const LINK_ROUTES: readonly LinkRoute[] = [
  { route: "GET /connect/:token", changing: false, spare: "oauth", own: shown },
  { route: "POST /connect/:token", changing: true, spare: "oauth", own: done(/^http:\/\/(?:127\.0\.0\.1|localhost):\d+\/google\//) },
  { route: "POST /connect/:token/key", changing: true, form: { "field.api_key": "sk_live_this-is-the-good-key" }, spare: "key", own: shown },
  { route: "POST /connect/:token/refuse", changing: true, spare: "oauth", own: shown },
];

const CHANGED_LINKS = ["open", "started", "completed", "key"] as const;

/** A link opens for its person alone. To others it says so and no more, in whatever state it is (contract 5.1). */
function linkPages(): Cell[] {
  const cells: Cell[] = [];
  for (const row of LINK_ROUTES) {
    const at = (token: string): string => row.route.split(" ")[1]?.replace(":token", token) ?? "";
    for (const who of ACTORS) {
      const base = { route: row.route, who, ...(row.form ? { form: row.form } : {}) };
      const nobody = row.changing ? startOver(/^\/connect\/[\w%-]+$/) : signIn;
      for (const holder of reachedBy(who)) {
        for (const state of row.changing || !isHere(who) ? CHANGED_LINKS : LINKS) {
          const fits = row.spare === null || row.route.startsWith("GET") || row.route.endsWith("/refuse") || (row.spare === "key") === (state === "key");
          const want = !isHere(who) ? nobody : !fits ? notFound : who === holder ? ownLink(row, state) : forbidden;
          if (want) cells.push(pageCell({ ...base, about: `${holder}'s ${state} link`, want, path: ({ links }) => at(links[holder][state].token) }));
        }
      }
      cells.push(pageCell({ ...base, about: "nobody's link", want: isHere(who) ? notFound : nobody, path: () => at("A".repeat(43)) }));
      cells.push(pageCell({ ...base, about: "a link's id in place of its token", want: isHere(who) ? notFound : nobody, path: ({ links }) => at(links.owner.open.id) }));
      if (!isHere(who) || row.spare === null) continue;
      const { spare } = row;
      if (row.changing) cells.push(...forgeries({ ...base, path: ({ spares }) => at(spares[who]?.[spare][0]?.token ?? "") }));
      cells.push(pageCell({ ...base, about: "own", want: row.own, changes: row.changing ? [PEOPLE[who].sub] : [], path: ({ spares }) => at((row.changing ? spares[who]?.[spare].pop() : spares[who]?.[spare][0])?.token ?? "") }));
    }
  }
  return cells;
}

/** One's own link that did its work opens nothing again; null: what a spare one is taken for. */
function ownLink(row: LinkRoute, state: LinkState): Want | null {
  if (state === "open" || state === "started" || state === "key") return row.changing ? null : shown;
  return state === "completed" || state === "expired" || state === "denied" || state === "failed" ? { ...gone, says: "used up" } : null;
}

/** A link that an app verifies is whose browser has it (contract 5.7): anybody's, and it names nobody. */
function appLinks(): Cell[] {
  const cells: Cell[] = [];
  for (const who of ACTORS) {
    for (const holder of reachedBy(who)) {
      for (const state of APP_LINKS) {
        const at = (path: string) => ({ links }: World): string => `/connect/${links[holder][state].token}${path}`;
        const used: Want = { says: "used up", status: 410, refuses: true };
        // The way back to the app, which whoever holds the link's token may go, names the link.
        const change = { who, about: `${holder}'s ${state} link`, knows: ({ links }: World) => links[holder][state].id };
        cells.push(pageCell({ ...change, route: "GET /connect/:token", want: state === "app" ? shown : used, path: at(""), also: namesNobody(holder, state) }));
        if (state === "held") for (const path of ["", "/refuse"]) cells.push(pageCell({ ...change, route: `POST /connect/:token${path}`, path: at(path), want: isHere(who) || who === "nobody" ? used : forbidden }));
        else for (const path of ["", "/refuse"]) cells.push(...forgeries({ ...change, route: `POST /connect/:token${path}`, path: at(path) }));
      }
    }
  }
  return cells;
}

function namesNobody(holder: Holder, state: AppLinkState): Cell["also"] {
  return (reply: Reply, world: World) => {
    const { id, token } = world.links[holder][state];
    const named = world.needles.find(({ sub, text }) => sub === PEOPLE[holder].sub && text !== token && text !== id && reply.text.includes(text));
    return named ? `names ${named.kind} of ${holder}` : null;
  };
}

export function pageCells(): Cell[] {
  return [...plainPages(), ...accountPages(), ...namingForms(), ...linkPages(), ...appLinks()];
}

export { HERE, isHere };
