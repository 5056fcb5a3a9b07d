// Where a person's browser may be sent back to. Must never happen: an address outside the origins of the API key that asks.
import { OutbandError } from "../errors.js";
import type { ApiKeyPrincipal } from "../identity/principal.js";
import type { Verification } from "../vault/types.js";

/** An address may grow when it is written out, and a session token carries it in a header. */
const CHARACTERS_MAX = 2048;

/** Null: none was asked for. The app's check has no other way to reach the app (contract 5.7). */
export function returnToOf(actor: ApiKeyPrincipal, body: { return_to?: string | undefined; verification?: Verification | undefined }): string | null {
  if (body.return_to !== undefined) return allowed(actor, body.return_to);
  if (body.verification === "app") throw invalid("A link that the app verifies needs it.");
  return null;
}

/** Contract 5.6: only to the origins allowed for that API key; compared as origins, never by prefix, and kept as it was compared. */
function allowed(actor: ApiKeyPrincipal, text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  const isWeb = url?.protocol === "https:" || url?.protocol === "http:";
  if (!url || !isWeb || url.username !== "" || url.password !== "" || !actor.returnToOrigins.includes(url.origin)) {
    throw invalid("Its origin is not among those allowed for this API key.");
  }
  if (url.href.length > CHARACTERS_MAX) throw invalid(`At most ${CHARACTERS_MAX} characters, written out as browsers do.`);
  return url.href;
}

function invalid(message: string): OutbandError {
  return new OutbandError("invalid_request", { problems: [{ path: "return_to", message }] });
}
