// Somebody's app with people of its own, who have no sign-in at Outband: `/in?user=` signs in, `/back` is its return page,
// whose server asks Outband to verify for the person who is signed in there, and for nobody else.
import { createServer } from "node:http";
import { after } from "node:test";
import type { Answer } from "./outband.js";

export interface VerifyingApp {
  origin: string;
  returnTo: string;
  /** What Outband answered to its verifications, in order. */
  verified: Answer[];
  /** Queries that its return page was opened with. */
  returns: URLSearchParams[];
  /** How its server asks. */
  verify: (linkId: string, body: { verification_code: string; identifier: string }) => Promise<Answer>;
  /** Opens its return page at a browser in which `user` is signed in; null: nobody is. */
  open(url: string, user: string | null): Promise<{ status: number; text: string }>;
}

const closing = new Set<() => Promise<void>>();
after(async () => {
  for (const close of closing) await close();
});

export async function startVerifyingApp(): Promise<VerifyingApp> {
  const app: VerifyingApp = {
    origin: "",
    returnTo: "",
    verified: [],
    returns: [],
    verify: () => Promise.reject(new Error("the app has no key yet")),
    async open(url, user) {
      const answer = await fetch(url, { headers: user === null ? {} : { cookie: `app_user=${encodeURIComponent(user)}` } });
      return { status: answer.status, text: await answer.text() };
    },
  };
  const server = createServer((req, res) => {
    const url = new URL(req.url ?? "/", app.origin);
    const say = (status: number, sentence: string, headers = {}): void => {
      res.writeHead(status, { "content-type": "text/html; charset=utf-8", ...headers });
      res.end(`<!doctype html><title>App</title><h1>${sentence}</h1>`);
    };
    if (url.pathname === "/in") return say(200, "Signed in", { "set-cookie": `app_user=${encodeURIComponent(url.searchParams.get("user") ?? "")}; Path=/; HttpOnly; SameSite=Lax` });
    if (url.pathname !== "/back") return say(404, "Nothing here");
    app.returns.push(url.searchParams);
    const user = /(?:^|; )app_user=([^;]+)/.exec(req.headers.cookie ?? "")?.[1];
    const code = url.searchParams.get("verification_code");
    if (code === null) return say(200, "Back without a connection");
    if (user === undefined) return say(401, "Sign in first");
    app.verify(url.searchParams.get("link_id") ?? "", { verification_code: code, identifier: decodeURIComponent(user) }).then(
      (answer) => {
        app.verified.push(answer);
        say(answer.status === 200 ? 200 : 409, answer.status === 200 ? "Connected" : "Not connected");
      },
      () => say(500, "Trouble"),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  app.origin = `http://localhost:${address !== null && typeof address === "object" ? address.port : 0}`;
  app.returnTo = `${app.origin}/back?tab=2`;
  closing.add(async () => {
    server.closeAllConnections();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  });
  return app;
}
