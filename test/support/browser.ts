// A browser for tests on real HTTP: keeps cookies by path, follows no redirect unless told, reads forms out of pages.
export interface Page {
  status: number;
  headers: Headers;
  text: string;
  url: string;
  /** The Location header, absolute. */
  location: string | null;
}

export interface Browser {
  get(url: string, headers?: Record<string, string>): Promise<Page>;
  /** Sends a form; the page's own hidden fields come along when `from` is given. */
  post(url: string, fields: Record<string, string>, options?: { from?: Page; headers?: Record<string, string> }): Promise<Page>;
  /** Follows redirects that stay on the origin; gives back the first page, or the redirect that leads away. */
  follow(page: Page): Promise<Page>;
  cookies(): Map<string, string>;
  /** The value of the cookie of that name, wherever its path is. */
  cookie(name: string): string | undefined;
  setCookie(name: string, value: string, path?: string): void;
}

interface Cookie {
  name: string;
  value: string;
  path: string;
}

export function createBrowser(origin: string): Browser {
  const jar: Cookie[] = [];

  function cookieHeader(path: string): string {
    return jar
      .filter((cookie) => path === cookie.path || path.startsWith(cookie.path.endsWith("/") ? cookie.path : `${cookie.path}/`))
      .map(({ name, value }) => `${name}=${value}`)
      .join("; ");
  }

  function keep(line: string): void {
    const [pair = "", ...attributes] = line.split(";").map((part) => part.trim());
    const name = pair.slice(0, pair.indexOf("="));
    const value = pair.slice(pair.indexOf("=") + 1);
    const attribute = (key: string): string | undefined => attributes.find((part) => part.toLowerCase().startsWith(`${key}=`))?.slice(key.length + 1);
    const path = attribute("path") ?? "/";
    const index = jar.findIndex((cookie) => cookie.name === name && cookie.path === path);
    if (index !== -1) jar.splice(index, 1);
    const expires = attribute("expires");
    const isGone = attribute("max-age") === "0" || (expires !== undefined && Date.parse(expires) <= Date.now());
    if (!isGone) jar.push({ name, value, path });
  }

  async function send(url: string, init: RequestInit): Promise<Page> {
    const absolute = new URL(url, origin);
    const headers = new Headers({ accept: "text/html", ...Object.fromEntries(new Headers(init.headers)) });
    const cookie = cookieHeader(absolute.pathname);
    if (cookie !== "") headers.set("cookie", cookie);
    const answer = await fetch(absolute, { ...init, headers, redirect: "manual" });
    for (const line of answer.headers.getSetCookie()) keep(line);
    const location = answer.headers.get("location");
    return {
      status: answer.status,
      headers: answer.headers,
      text: await answer.text(),
      url: absolute.href,
      location: location === null ? null : new URL(location, absolute).href,
    };
  }

  const browser: Browser = {
    get: (url, headers = {}) => send(url, { headers }),
    post: (url, fields, { from, headers = {} } = {}) => {
      return send(url, { method: "POST", headers, body: new URLSearchParams({ ...(from ? hiddenFields(from.text) : {}), ...fields }) });
    },
    follow: async (page) => {
      let current = page;
      for (let hops = 0; hops < 12; hops++) {
        if (current.location === null || !current.location.startsWith(`${origin}/`)) return current;
        current = await browser.get(current.location);
      }
      throw new Error("too many redirects");
    },
    cookies: () => new Map(jar.map(({ name, value }) => [name, value])),
    cookie: (name) => jar.find((cookie) => cookie.name === name)?.value,
    setCookie: (name, value, path = "/") => {
      keep(`${name}=${value}; path=${path}`);
    },
  };
  return browser;
}

/** The CSRF token of the page's first form. */
export function hiddenFields(html: string): Record<string, string> {
  const match = /name="_csrf" value="([^"]*)"/.exec(html);
  return match?.[1] === undefined ? {} : { _csrf: match[1] };
}

/** The action of the first form whose action begins so. */
export function formAction(html: string, prefix: string): string {
  const found = [...html.matchAll(/action="([^"]+)"/g)].map((match) => match[1] ?? "").find((action) => action.startsWith(prefix));
  if (found === undefined) throw new Error(`no form for ${prefix}`);
  return found;
}
