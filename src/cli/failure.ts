// Turns whatever a lower layer threw into one short sentence and an exit code. Must never happen: a stack, an error object
// printed whole (OAuth errors carry answers, and answers carry tokens), a server's text that was not made plain.
import {
  InsufficientScopeError,
  InsecureTokenEndpointError,
  IssuerMismatchError,
  OAuthError,
  ProtocolError,
  RegistrationRejectedError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  UnauthorizedError,
} from "@modelcontextprotocol/client";
import { CliError, EXIT } from "./exit.js";
import { plainLine } from "./plain.js";

/** Causes are chained (SdkError → TypeError "fetch failed" → ECONNREFUSED): the innermost system code says most. */
const NETWORK: Record<string, string> = {
  ECONNREFUSED: "nothing listens there",
  ENOTFOUND: "the name is not known",
  EAI_AGAIN: "the name could not be looked up",
  ECONNRESET: "the connection was cut",
  EPIPE: "the connection was cut",
  UND_ERR_SOCKET: "the connection was cut",
  ETIMEDOUT: "it does not answer",
  UND_ERR_CONNECT_TIMEOUT: "it does not answer",
  UND_ERR_HEADERS_TIMEOUT: "it does not answer in time",
  EHOSTUNREACH: "there is no way to it",
  ENETUNREACH: "there is no way to it",
  CERT_HAS_EXPIRED: "its certificate has expired",
  DEPTH_ZERO_SELF_SIGNED_CERT: "its certificate is self-signed",
  SELF_SIGNED_CERT_IN_CHAIN: "its certificate is self-signed",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "its certificate cannot be verified",
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another name",
};
const CAUSES_MAX = 6;

export function explain(error: unknown, server: string): CliError {
  if (error instanceof CliError) return error;
  if (error instanceof DOMException && error.name === "TimeoutError") return unreachable(server, "it does not answer in time", error);
  const network = networkReason(error);
  if (network !== null) return unreachable(server, network, error);
  return (
    explainAuthorization(error) ??
    explainProtocol(error, server) ??
    new CliError(EXIT.serverFault, "Something unexpected went wrong.", { hint: said(error), cause: error })
  );
}

function unreachable(server: string, reason: string, cause: unknown): CliError {
  return new CliError(EXIT.unreachable, `${server} cannot be reached: ${reason}.`, {
    hint: "Is it running? `outband doctor` looks; OUTBAND_URL or --url says where.",
    cause,
  });
}

function networkReason(error: unknown): string | null {
  let fetchFailed = false;
  for (let at = error, depth = 0; at instanceof Error && depth < CAUSES_MAX; at = at.cause ?? dataCause(at), depth += 1) {
    const code = (at as NodeJS.ErrnoException).code;
    if (typeof code === "string" && code in NETWORK) return NETWORK[code] ?? null;
    if (at instanceof TypeError && at.message === "fetch failed") fetchFailed = true;
  }
  return fetchFailed ? "the connection failed" : null;
}

/** The SDK keeps the cause of a failed negotiation in `data`. */
function dataCause(error: Error): unknown {
  const data = error instanceof SdkError ? error.data : undefined;
  return typeof data === "object" && data !== null && "cause" in data ? data.cause : undefined;
}

function explainAuthorization(error: unknown): CliError | null {
  const refused = (message: string): CliError => new CliError(EXIT.notAllowed, message, { cause: error });
  if (error instanceof InsufficientScopeError)
    return refused("This sign-in does not allow that: it was not given a permission that the tool needs.");
  if (error instanceof SdkHttpError && error.status === 403) {
    return refused(
      "The server does not allow that with this sign-in. If a permission was left out when you signed in, sign in again and give it.",
    );
  }
  if (error instanceof UnauthorizedError || (error instanceof SdkHttpError && error.status === 401))
    return refused("The server does not accept the sign-in.");
  if (error instanceof RegistrationRejectedError)
    return refused(`The server does not register this program as a client (status ${error.status}).`);
  if (error instanceof IssuerMismatchError)
    return refused("The sign-in server's description is not its own (RFC 8414); nothing was sent to it.");
  if (error instanceof InsecureTokenEndpointError) return refused("The sign-in server is not reached by https; nothing was sent to it.");
  if (error instanceof OAuthError) return refused(`The sign-in server refused: ${plainLine(error.code, 60)}.`);
  return null;
}

function explainProtocol(error: unknown, server: string): CliError | null {
  if (error instanceof SdkHttpError) {
    const what = error.status === 404 ? "there is no MCP endpoint at that address" : `status ${error.status}`;
    return new CliError(EXIT.serverFault, `${server} answered with an error: ${what}.`, { cause: error });
  }
  if (error instanceof SdkError) {
    switch (error.code) {
      case SdkErrorCode.RequestTimeout:
        return unreachable(server, "it does not answer in time", error);
      case SdkErrorCode.ConnectionClosed:
        return unreachable(server, "the connection was cut", error);
      case SdkErrorCode.EraNegotiationFailed:
        return new CliError(EXIT.serverFault, `${server} does not speak MCP 2026-07-28.`, { cause: error });
      case SdkErrorCode.InputRequiredRoundsExceeded:
        return new CliError(EXIT.serverFault, "The server went on asking; the call was given up.", { cause: error });
      default:
        return new CliError(EXIT.serverFault, "The server's answer is not what the protocol allows.", { hint: said(error), cause: error });
    }
  }
  if (error instanceof ProtocolError)
    return new CliError(EXIT.serverFault, `The server answered with error ${error.code}.`, { hint: said(error), cause: error });
  return null;
}

/** The message may hold the server's words: on a line of its own, made plain and short. */
function said(error: unknown): string | undefined {
  return error instanceof Error ? plainLine(error.message, 300) : undefined;
}
