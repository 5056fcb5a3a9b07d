// Listening at an address, and why it cannot be had, in one sentence for the operator. Must never happen: a raw error of the
// system on the terminal.
import { createServer, type ListenOptions, type Server } from "node:net";

export interface ListenAddress {
  host: string;
  port: number;
}

/** The address cannot be had. The message is one sentence for the operator. */
export class ListenRefusal extends Error {
  override readonly name = "ListenRefusal";
}

/** Rejects with what the system said. */
export function listenAt(server: Server, options: ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(options, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

/** Throws a ListenRefusal. To be asked before anything that takes long: the address may be gone again when it is wanted. */
export async function requireAddress(address: ListenAddress): Promise<void> {
  const server = createServer();
  await listenAt(server, { ...address }).catch((error: unknown) => {
    throw listenRefusal(error, address);
  });
  await new Promise((resolve) => server.close(resolve));
}

/** What to throw instead. `use`: what listens there, where that is not the whole program. */
export function listenRefusal(error: unknown, address: ListenAddress, use?: string): unknown {
  const { syscall, code } = error as NodeJS.ErrnoException;
  if (syscall === undefined || !LISTEN_CALLS.has(syscall)) return error;
  return new ListenRefusal((SENTENCES[code ?? ""] ?? otherwise(code ?? "unknown"))(address) + (use === undefined ? "" : ` ${use}`), { cause: error });
}

/** Looking the name up is the first step of listening. */
const LISTEN_CALLS = new Set(["listen", "bind", "getaddrinfo"]);

type Sentence = (address: ListenAddress) => string;

const unknownName: Sentence = ({ host }) => `HOST (${host}) is not a name that this machine knows. Set it to an address of this machine, such as 127.0.0.1 or 0.0.0.0.`;
const notOurs: Sentence = ({ host }) => `HOST (${host}) is not an address of this machine. Set it to one, such as 127.0.0.1 or 0.0.0.0.`;
const notAllowed: Sentence = ({ port }) => `This user may not listen on port ${port}. Set PORT to another one; below 1024 most systems want a privilege.`;

const SENTENCES: Partial<Record<string, Sentence>> = {
  EADDRINUSE: ({ port }) => `Port ${port} is taken by another program. Stop it, or set PORT to another one.`,
  ENOTFOUND: unknownName,
  EAI_AGAIN: unknownName,
  EADDRNOTAVAIL: notOurs,
  EAFNOSUPPORT: notOurs,
  EINVAL: notOurs,
  EACCES: notAllowed,
  EPERM: notAllowed,
};

function otherwise(code: string): Sentence {
  return ({ host, port }) => `Nothing can listen at HOST ${host}, port ${port} (${code}). Set HOST or PORT to another one.`;
}
