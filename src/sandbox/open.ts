// Puts the sandbox together: state, grants, endpoints, one Express app on loopback. How tokens are dealt out, and what stands
// around each endpoint, are arguments.
import express, { type RequestHandler } from "express";
import type { JWK } from "jose";
import type { Clock } from "../clock.js";
import { secret } from "../crypto/secret.js";
import type { Log } from "../log.js";
import { mountEndpoints } from "./endpoint.js";
import { mountFailures } from "./failure.js";
import { googleEndpoints } from "./google/google.js";
import { makeSigningKey } from "./google/signingKey.js";
import { createGrants, type Grants, type TokenPolicy } from "./grants.js";
import { homeEndpoints } from "./home.js";
import { listenOnLoopback, loopbackHostsOnly } from "./listen.js";
import { stylesheetEndpoint } from "./page.js";
import type { Sandbox } from "./sandbox.js";
import { slackEndpoints } from "./slack/slack.js";
import { openStore } from "./state.js";

export interface OpenOptions {
  port: number;
  publicUrl: () => string;
  file: string | null;
  clock: Clock;
  log: Log;
  policies: { google: TokenPolicy; slack: TokenPolicy };
  /** How the practice Google's key is made when the state has none. */
  makeKey?: () => Promise<JWK>;
  /** Stands between the count of an endpoint and its work. */
  around?: (endpoint: string) => RequestHandler;
}

export interface OpenSandbox extends Sandbox {
  grants: { google: Grants; slack: Grants };
}

export async function openSandbox(options: OpenOptions): Promise<OpenSandbox> {
  const { clock, log, publicUrl, policies } = options;
  const store = await openStore({ file: options.file, clock, log });
  const { state } = store;
  const google = createGrants({
    records: state.google.grants,
    policy: policies.google,
    clock,
    prefixes: { access: { google: "ya29.sandbox-", user: "", bot: "" }, refresh: "1//sandbox-" },
  });
  const slack = createGrants({
    records: state.slack.grants,
    policy: policies.slack,
    clock,
    prefixes: { access: { google: "", user: "xoxp-sandbox-", bot: "xoxb-sandbox-" }, refresh: "xoxe-sandbox-" },
  });

  const counts = new Map<string, number>();
  const app = express();
  let port = options.port;
  const origin = (): string => `http://localhost:${port}`;
  app.disable("x-powered-by");
  app.disable("etag");
  app.use(loopbackHostsOnly(() => port));
  const endpoints = [
    stylesheetEndpoint(),
    ...homeEndpoints({ google, slack, publicUrl, store }),
    ...googleEndpoints({
      issuer: () => `${origin()}/google`,
      publicUrl,
      client: state.google.client,
      grants: google,
      makeKey: options.makeKey ?? makeSigningKey,
      store,
      clock,
    }),
    ...slackEndpoints({ publicUrl, client: state.slack.client, grants: slack, policy: policies.slack, store, clock }),
  ];
  mountEndpoints(app, endpoints, { counts, around: options.around });
  mountFailures(app, log);

  const listening = await listenOnLoopback(app, options.port);
  port = listening.port;
  const clientOf = (client: { clientId: string; clientSecret: string }) => ({
    clientId: client.clientId,
    clientSecret: secret(client.clientSecret),
  });
  return {
    origin: origin(),
    google: {
      ...clientOf(state.google.client),
      endpoints: {
        issuer: `${origin()}/google`,
        authorization: `${origin()}/google/authorize`,
        token: `${origin()}/google/token`,
        revocation: `${origin()}/google/revoke`,
        userinfo: `${origin()}/google/userinfo`,
        jwks: `${origin()}/google/jwks`,
        api: `${origin()}/google/api`,
      },
    },
    slack: {
      ...clientOf(state.slack.client),
      endpoints: {
        authorization: `${origin()}/slack/oauth/v2/authorize`,
        token: `${origin()}/slack/api/oauth.v2.access`,
        api: `${origin()}/slack/api`,
      },
    },
    counts: () => Object.fromEntries(counts),
    close: listening.close,
    grants: { google, slack },
  };
}
