// The typed confirmation that an operator may ask for before mail leaves (`settings.confirm_sends`). Must never happen: a
// send past a confirmation that did not match.
import { CallEnded, type ToolContext } from "../connector.js";
import { listAt } from "../json.js";
import { cleanLine } from "../untrusted.js";
import { mapBounded } from "../bounded.js";
import type { Recipient } from "./addresses.js";
import { gmailCall, MESSAGES } from "./api.js";
import { GMAIL_READ } from "./scopes.js";

const AT_ONCE_MAX = 5;
const SHOWN_MAX = 10;

export async function confirmSend(context: ToolContext, recipients: readonly Recipient[]): Promise<void> {
  const asked = await toConfirm(context, recipients);
  const first = asked[0];
  if (!first) return;
  const shown = asked.slice(0, SHOWN_MAX).map((one) => cleanLine(one.address, 100));
  const more = asked.length > shown.length ? ` and ${asked.length - shown.length} more` : "";
  const answer = context.ask({
    key: "confirm_send",
    message: `A message is about to be sent from your Gmail to: ${shown.join(", ")}${more}. To allow it, type the first address.`,
    fields: [{ name: "address", title: "First address", description: "Type it as shown above.", required: true }],
    otherwise: {
      outcome: "not_allowed",
      text: "This connection wants each such message confirmed by the person, and this client cannot show the form for it. Nothing was sent.",
    },
  });
  if ((answer["address"] ?? "").trim().toLowerCase() === first.address.toLowerCase()) return;
  throw new CallEnded("cancelled", "confirmation_mismatch", "The typed address is not the one that was asked for. Nothing was sent.");
}

async function toConfirm(context: ToolContext, recipients: readonly Recipient[]): Promise<readonly Recipient[]> {
  switch (context.account.settings["confirm_sends"]) {
    case undefined:
    case "off":
      return [];
    case "new_recipients":
      return strangers(context, recipients);
    default:
      return recipients;
  }
}

/** Those to whom nothing was ever sent from this mailbox. */
async function strangers(context: ToolContext, recipients: readonly Recipient[]): Promise<Recipient[]> {
  const known = await mapBounded(recipients, AT_ONCE_MAX, async (one) => {
    const q = `in:sent to:"${one.address.replace(/["\\]/g, "")}"`;
    const body = await gmailCall(context, {
      method: "GET",
      path: MESSAGES,
      query: { q, maxResults: 1, fields: "messages(id)" },
      scopes: [GMAIL_READ],
    });
    return listAt(body, "messages").length > 0;
  });
  return recipients.filter((_one, index) => !known[index]);
}
