// Making and editing a connection: choose a connector, fill in the form, and confirm where credentials would be erased.
// Must never happen: a client secret in a page, also after an error or on the confirm page; a form that quietly undoes what
// somebody else changed meanwhile.
import { type Request, type Response, Router } from "express";
import type { Connector } from "../connectors/connector.js";
import { OutbandError } from "../errors.js";
import type { ConnectionView } from "../vault/types.js";
import { countsOf, httpsGap, needsHttps } from "./attention.js";
import { carried, newValues, sectionsOf, valuesOf } from "./connectionFields.js";
import { fieldProblems, type FormSpec, type Problems, readForm, type Values } from "./connectionInput.js";
import { type AdminDeps, actorOf, adminsOnly, changing, formValues, pathText, seeOther, showScreen } from "./page.js";

const NO_PROBLEMS: Problems = new Map();
const SEEN_OLD: Problems = new Map([["", "Somebody changed this connection while you had the form open. What you typed is still here: look at the connection, then save again."]]);
const SECRET_AGAIN: Problems = new Map([["client_secret", "Type the client secret once more: it was not kept while you were asked."]]);

/** What the connectors that ship for any service are for. */
const GENERIC_WORDS: Readonly<Record<string, string>> = {
  "generic-oauth": "Any other service where people sign in and agree (OAuth 2 or OpenID Connect). You give its addresses and scopes.",
  "generic-api-key": "Any other service that takes an API key. You give its address and where the key goes.",
};

export function connectionForms(deps: AdminDeps): Router {
  const { vault, registry, session, publicUrl } = deps;
  const admins = adminsOnly(session);
  const router = Router();

  router.get("/admin/new-connection", admins, (req, res) => {
    const connectors = registry.list().map(({ name, title, tools }) => ({ name, title, sentence: GENERIC_WORDS[name] ?? tools.map((tool) => tool.title).join(" · ") }));
    showScreen(deps, req, res, { view: "connectionNew", tab: "connections", title: "New connection", connectors });
  });

  router.get("/admin/new-connection/:connector", admins, async (req, res) => {
    const spec = newSpec(req);
    const taken = (await vault.connections.list()).map(({ name }) => name);
    showForm(req, res, spec, newValues(spec, taken));
  });

  router.post("/admin/new-connection/:connector", ...changing(session), async (req, res) => {
    const spec = newSpec(req);
    const values = formValues(req);
    const { name, change, problems } = readForm(values, spec, registry.check);
    if (problems.size > 0) return showForm(req, res, spec, values, problems);
    try {
      const made = await vault.connections.create(actorOf(session, req), { ...change, name, connector: spec.connector.name });
      seeOther(res, `/admin/connections/${made.name}`, { done: "created" });
    } catch (thrown) {
      showForm(req, res, spec, values, problemsOf(thrown, values, spec));
    }
  });

  router.get("/admin/connections/:name/edit", admins, async (req, res) => {
    const spec = await oldSpec(req);
    showForm(req, res, spec, valuesOf(spec));
  });

  router.post("/admin/connections/:name/edit", ...changing(session), async (req, res) => {
    const spec = await oldSpec(req);
    const values = formValues(req);
    const { before } = spec;
    const { change, problems } = readForm(values, spec, registry.check);
    const isReset = values["reset"] === "1";
    if (problems.size > 0) return showForm(req, res, spec, values, problems);
    if (values["seen"] !== stampOf(before)) return showForm(req, res, spec, values, SEEN_OLD);
    if (values["secret_again"] === "1" && change.clientSecret === undefined) return showReset(req, res, spec, values, SECRET_AGAIN);
    if (Object.keys(change).length === 0) return seeOther(res, `/admin/connections/${before.name}`, { done: "unchanged" });
    try {
      await vault.connections.update(actorOf(session, req), before.name, change, { reset: isReset });
      seeOther(res, `/admin/connections/${before.name}`, { done: isReset ? "reset" : "saved" });
    } catch (thrown) {
      if (thrown instanceof OutbandError && thrown.code === "connection_in_use") return showReset(req, res, spec, values);
      showForm(req, res, spec, values, problemsOf(thrown, values, spec));
    }
  });

  return router;

  function newSpec(req: Request): FormSpec {
    return { connector: connectorNamed(pathText(req, "connector")), before: null };
  }

  async function oldSpec(req: Request): Promise<FormSpec & { before: ConnectionView }> {
    const before = await vault.connections.get(pathText(req, "name"));
    if (!before) throw new OutbandError("not_found");
    return { connector: connectorNamed(before.connector), before };
  }

  function connectorNamed(name: string): Connector {
    const connector = registry.get(name);
    if (!connector) throw new OutbandError("not_found");
    return connector;
  }

  function showForm(req: Request, res: Response, spec: FormSpec, values: Values, problems: Problems = NO_PROBLEMS): void {
    const { connector, before } = spec;
    const isOAuth = connector.method.kind === "oauth";
    const https = needsHttps(before ?? { connector: connector.name, sandbox: false }, publicUrl);
    showScreen(deps, req, res, {
      view: "connectionForm",
      tab: "connections",
      title: before === null ? `New ${connector.title} connection` : `Edit ${before.title}`,
      status: problems.size > 0 ? 400 : 200,
      connector: { name: connector.name, title: connector.title },
      name: before?.name ?? null,
      origin: before?.origin ?? "operator",
      seen: before === null ? null : stampOf(before),
      // The name is part of it, and a new connection has none yet but the suggested one.
      redirectUri: isOAuth ? (before?.redirectUri ?? `${publicUrl}/connect/callback/${values["name"] || "NAME"}`) : null,
      httpsWarning: isOAuth && https ? httpsGap(connector.title, publicUrl).sentence : null,
      sections: sectionsOf(spec, values, problems),
      whole: problems.get("") ?? null,
      wrong: [...problems.keys()].filter((name) => name !== "").length,
    });
  }

  async function showReset(req: Request, res: Response, spec: FormSpec & { before: ConnectionView }, values: Values, problems: Problems = NO_PROBLEMS): Promise<void> {
    const { before } = spec;
    const tally = (await vault.accounts.tally()).filter(({ connectionName }) => connectionName === before.name);
    const counts = countsOf(tally);
    const held = counts.filter(({ status }) => status === "ACTIVE" || status === "ERROR").reduce((sum, { count }) => sum + count, 0);
    const asksSecret = values["secret_again"] === "1" || (values["client_secret"] ?? "").trim() !== "";
    showScreen(deps, req, res, {
      view: "connectionReset",
      tab: "connections",
      title: `Change ${before.title}`,
      status: problems.size > 0 ? 400 : 409,
      connection: { name: before.name, title: before.title, connector: before.connector, sandbox: before.sandbox },
      held,
      asksSecret,
      problem: problems.get("client_secret") ?? null,
      carried: [{ name: "seen", value: stampOf(before) }, ...carried(sectionsOf(spec, values, NO_PROBLEMS))],
    });
  }
}

function stampOf(view: ConnectionView): string {
  return view.updatedAt.toISOString();
}

/** Problems of the form; whatever else was thrown is thrown on. */
function problemsOf(thrown: unknown, values: Values, spec: FormSpec): Problems {
  if (!(thrown instanceof OutbandError)) throw thrown;
  if (thrown.code === "already_exists") return new Map([["name", "There is a connection of this name."]]);
  if (thrown.code !== "invalid_request" || !thrown.problems) throw thrown;
  return fieldProblems(thrown.problems, values, spec);
}
