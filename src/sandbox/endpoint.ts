// An endpoint of the sandbox as a row: what it answers to, and by what. Mounting counts every request under the row's name, so that a
// test can say what was never asked.
import express, { type Express, type Request, type RequestHandler, type Response } from "express";

export interface Endpoint {
  method: "GET" | "POST";
  /** As Express spells it: `/google/api/gmail/v1/users/:user/messages/:id`. */
  path: string;
  /** Gives the response back once it is answered: a path that forgets to answer does not compile. */
  run: (req: Request, res: Response) => Response | Promise<Response>;
}

/** 8 MiB holds the largest mail that is kept (5 MiB) in base64. */
const BODY_BYTES_MAX = 8 * 1024 * 1024;

/** `POST /google/token`, `GET /google/api/gmail/v1/users/{user}/messages/{id}`. */
export function endpointName(endpoint: Pick<Endpoint, "method" | "path">): string {
  return `${endpoint.method} ${endpoint.path.replace(/:(\w+)/g, "{$1}")}`;
}

export function mountEndpoints(
  app: Express,
  endpoints: readonly Endpoint[],
  options: { counts: Map<string, number>; around?: ((name: string) => RequestHandler) | undefined },
): void {
  const parsers: RequestHandler[] = [
    express.urlencoded({ extended: false, limit: BODY_BYTES_MAX }),
    express.json({ limit: BODY_BYTES_MAX }),
  ];
  for (const endpoint of endpoints) {
    const name = endpointName(endpoint);
    const count: RequestHandler = (_req, _res, next) => {
      options.counts.set(name, (options.counts.get(name) ?? 0) + 1);
      next();
    };
    const handlers = [count, ...(options.around ? [options.around(name)] : []), ...parsers, endpoint.run];
    if (endpoint.method === "GET") app.get(endpoint.path, ...handlers);
    else app.post(endpoint.path, ...handlers);
  }
}
