// The dashboard by role: administrators change things, viewers read, for everybody else the address leads nowhere.
import { type Cell, done, forbidden, notFound, type Reply, shown, signIn, startOver, type Want } from "./cell.js";
import { forgeries, pageCell } from "./pages.js";
import { ACTORS, type Actor, HOLDERS, PEOPLE, standingOf } from "./people.js";
import type { World } from "./world.js";

type Kind = "read" | "form" | "change";

interface Screen {
  route: string;
  kind: Kind;
  about?: string;
  /** The thing named in the address, where there is one. */
  thing: "account" | "connection" | null;
  path(world: World, thing: string): string;
  form?: Record<string, string>;
  /** A change that an administrator's form makes. Null: what comes of it is looked at elsewhere. */
  done?: Want;
  changes?: readonly string[];
}

const OWNER = PEOPLE.owner.sub;
const SCREENS: readonly Screen[] = [
  { route: "GET /admin", kind: "read", thing: null, path: () => "/admin" },
  { route: "GET /admin/accounts", kind: "read", thing: null, path: () => "/admin/accounts" },
  { route: "GET /admin/accounts", kind: "read", about: "of the owner", thing: null, path: () => `/admin/accounts?person=${encodeURIComponent(OWNER)}` },
  { route: "GET /admin/audit", kind: "read", thing: null, path: () => "/admin/audit" },
  { route: "GET /admin/audit", kind: "read", about: "of the owner", thing: null, path: () => `/admin/audit?person=${encodeURIComponent(OWNER)}` },
  { route: "GET /admin/connections", kind: "read", thing: null, path: () => "/admin/connections" },
  { route: "GET /admin/connections/:name", kind: "read", thing: "connection", path: (_world, name) => `/admin/connections/${name}` },
  { route: "GET /admin/accounts/:id", kind: "read", thing: "account", path: (_world, id) => `/admin/accounts/${id}` },
  { route: "GET /admin/new-connection", kind: "form", thing: null, path: () => "/admin/new-connection" },
  { route: "GET /admin/new-connection/:connector", kind: "form", thing: null, path: () => "/admin/new-connection/gmail" },
  { route: "GET /admin/connections/:name/edit", kind: "form", thing: "connection", path: (_world, name) => `/admin/connections/${name}/edit` },
  { route: "GET /admin/connections/:name/delete", kind: "form", thing: "connection", path: (_world, name) => `/admin/connections/${name}/delete` },
  { route: "GET /admin/accounts/:id/disconnect", kind: "form", thing: "account", path: (_world, id) => `/admin/accounts/${id}/disconnect` },
  { route: "POST /admin/new-connection/:connector", kind: "change", thing: null, path: () => "/admin/new-connection/generic-api-key", form: { name: "made-by-form", title: "Made", "endpoint.api": "https://api.example" }, done: done("/admin/connections/made-by-form?done=created"), changes: [""] },
  { route: "POST /admin/connections/:name/enabled", kind: "change", thing: "connection", path: (_world, name) => `/admin/connections/${name}/enabled`, form: { enabled: "true" }, done: done(/^\/admin\/connections\/\w+\?done=on$/), changes: [""] },
  // A form of before the last change: it is shown again, and nothing is written.
  { route: "POST /admin/connections/:name/edit", kind: "change", thing: "connection", path: (_world, name) => `/admin/connections/${name}/edit`, form: { title: "Sneaked", seen: "long ago" }, done: { says: "the form again", status: 400, refuses: false } },
  { route: "POST /admin/connections/:name/delete", kind: "change", thing: "connection", path: (_world, name) => `/admin/connections/${name}/delete`, form: { typed: "sneaked", accounts: "0" }, done: { says: "the question again", status: 409, refuses: false } },
  { route: "POST /admin/accounts/:id/disconnect", kind: "change", thing: "account", path: (_world, id) => `/admin/accounts/${id}/disconnect`, form: { what: "disconnect" }, done: done(/^\/admin\/accounts\/ca_\w+\?done=disconnected$/), changes: [OWNER] },
];

const THINGS: Record<"account" | "connection", [about: string, of: (world: World) => string, isThere: boolean][]> = {
  account: [
    ...HOLDERS.flatMap((holder) => (["ACTIVE", "EXPIRED", "REVOKED"] as const).map((status): [string, (world: World) => string, boolean] => [`${holder}'s ${status} account`, ({ accounts }) => accounts[holder][status], true])),
    ["no account", () => "ca_none", false],
  ],
  connection: [
    ["a connection", () => "gmail", true],
    ["no connection", () => "none", false],
  ],
};

function wantOf(screen: Screen, who: Actor, isThere: boolean): Want {
  const { kind } = screen;
  switch (standingOf(who)) {
    case "nobody":
      return kind === "change" ? startOver("/admin") : signIn;
    case "user":
      return notFound;
    case "viewer":
      return kind === "read" ? (isThere ? shown : notFound) : forbidden;
    case "admin":
      return isThere ? (screen.done ?? shown) : notFound;
  }
}

/** For those without a role the page is the one of an address that was never there. */
const asNowhere: Cell["also"] = (reply: Reply) => (/admin|dashboard/i.test(reply.text.replace(/"\/admin[^"]*"/g, "")) ? "tells of a dashboard" : null);

export function adminCells(): Cell[] {
  const cells: Cell[] = [];
  for (const screen of SCREENS) {
    for (const who of ACTORS) {
      const standing = standingOf(who);
      const shows = standing === "admin" || standing === "viewer" ? null : undefined;
      const base = { route: screen.route, who, ...(screen.form ? { form: screen.form } : {}), ...(shows === null ? { shows } : {}) };
      const things = screen.thing === null ? [[screen.about ?? "the page", () => "", true] as const] : THINGS[screen.thing];
      const isChanging = standing === "admin" && screen.kind === "change";
      for (const [about, of, isThere] of things) {
        // What an administrator disconnects is used up: a spare one is.
        if (isChanging && screen.thing === "account" && isThere) continue;
        const also = standing === "user" ? { also: asNowhere } : {};
        cells.push(pageCell({ ...base, about, want: wantOf(screen, who, isThere), path: (world) => screen.path(world, of(world)), ...also, changes: isChanging && isThere ? (screen.changes ?? []) : [] }));
      }
      if (!isChanging) continue;
      const spare = (world: World): string => (screen.thing === "account" ? (world.spares["owner"]?.accounts[0] ?? "") : "gmail");
      cells.push(...forgeries({ ...base, path: (world) => screen.path(world, spare(world)) }));
      if (screen.thing === "account") cells.push(pageCell({ ...base, about: "a person's account", want: wantOf(screen, who, true), path: (world) => screen.path(world, world.takeAccount("owner")), changes: screen.changes ?? [] }));
    }
  }
  return cells;
}
