// The tools that are about the accounts themselves: list_my_connections and disconnect_account.
// Must never happen: another person's account in an answer; an account disconnected without the typed confirmation.
import { z } from "zod";
import type { FormQuestion, ToolResult } from "../connectors/connector.js";
import type { Vault } from "../vault/front.js";
import type { AccountView } from "../vault/types.js";
import { connectionsOf, connectionsOutput } from "./connectionsList.js";
import { type EndDeps, endOf, ownTool } from "./ownTool.js";
import type { McpTool, Try } from "./tools.js";
import { connectPageOf } from "./words.js";

export interface OwnToolsDeps extends EndDeps {
  vault: Pick<Vault, "connections" | "accounts">;
  publicUrl: string;
}

const disconnectInput = z.object({
  connection_name: z.string().min(1).max(32).describe("The connection, as in list_my_connections."),
  account: z
    .string()
    .min(1)
    .max(320)
    .optional()
    .describe("Which account: its label, else its e-mail address. Needed when there are several."),
});
const disconnectOutput = z.object({ connection_name: z.string(), label: z.string(), status: z.literal("REVOKED") });

export function createOwnTools(deps: OwnToolsDeps): McpTool[] {
  return [listMyConnections(deps), disconnectAccount(deps)];
}

function listMyConnections(deps: OwnToolsDeps): McpTool {
  return ownTool({
    name: "list_my_connections",
    title: "List my connections",
    description: "Lists the services that can be connected here, and which accounts of this person are connected and usable.",
    effect: "read",
    hints: { destructive: false, idempotent: true, openWorld: false },
    input: z.object({}),
    output: connectionsOutput,
    run: async (one) => endOf(deps, one, "list_my_connections").done(await connectionsOf(deps.vault, one.principal.sub)),
  });
}

function disconnectAccount(deps: OwnToolsDeps): McpTool {
  return ownTool({
    name: "disconnect_account",
    title: "Disconnect an account",
    description:
      "Disconnects one of this person's accounts: takes the access back at the provider and erases it here. The person confirms by typing the connection's name.",
    effect: "write",
    hints: { destructive: true, idempotent: true, openWorld: true },
    input: disconnectInput,
    output: disconnectOutput,
    async run(one) {
      const { connection_name: name, account } = disconnectInput.parse(one.checked.args);
      const connection = await deps.vault.connections.get(name);
      const found = connection && (await deps.vault.accounts.find(one.principal.sub, name, account));
      const end = endOf(deps, one, "disconnect_account", connection?.name ?? null);
      if (found === "ambiguous")
        return end.failed(
          "ambiguous_account",
          null,
          `Several accounts are connected. Say which one with "account": ${await labels(deps, one, name)}.`,
        );
      // The same words for a connection that is not there: which ones exist is told by list_my_connections alone.
      if (!connection || !found || found.status === "PENDING")
        return end.failed("not_connected", "not_connected", "There is no such connected account.");
      if (found.status === "REVOKED") return end.done(disconnected(found));

      const question = confirmDisconnect(found, connectPageOf(deps.publicUrl, one.principal));
      const answer = one.answers[question.key];
      if (!answer) return { kind: "needs_answer", question };
      if (answer["connection_name"] !== name)
        return end.failed("cancelled", "name_mismatch", "The name that was typed is another one, so nothing was disconnected.", found);
      return end.done(disconnected(await deps.vault.accounts.disconnect(one.principal, found.id)));
    },
  });
}

async function labels(deps: OwnToolsDeps, one: Try, connectionName: string): Promise<string> {
  const accounts = await deps.vault.accounts.ofPerson(one.principal.sub);
  return accounts
    .filter((account) => account.connectionName === connectionName)
    .map(({ label }) => JSON.stringify(label || "default"))
    .join(", ");
}

/** The key names the account, so that a confirmation is never used for another one that took its place meanwhile. */
function confirmDisconnect(account: AccountView, connectPage: string): FormQuestion {
  return {
    key: `confirm_disconnect_${account.id}`,
    message: `Disconnect the account "${account.label || "default"}" of ${titleOf(account)}? The access is taken back and erased. Type ${account.connectionName} to confirm.`,
    fields: [{ name: "connection_name", title: `Type "${account.connectionName}"`, required: true }],
    otherwise: {
      outcome: "not_allowed",
      text: `An account is only disconnected after the person has confirmed it, and this client cannot ask them. They can do it themselves at ${connectPage}.`,
    },
  };
}

function disconnected(account: AccountView): ToolResult {
  return {
    text: `The account "${account.label || "default"}" of ${titleOf(account)} is disconnected, and its access is erased here.`,
    structured: { connection_name: account.connectionName, label: account.label || "default", status: "REVOKED" },
  };
}

function titleOf(account: AccountView): string {
  return account.sandbox ? `${account.connectionTitle} (sandbox)` : account.connectionTitle;
}
