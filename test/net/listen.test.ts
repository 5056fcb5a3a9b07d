// An address that cannot be had is told in one sentence, and before anything is made.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { ListenRefusal, listenAt, listenRefusal, requireAddress } from "../../src/net/listen.js";
import { freshEmptyDir } from "../support/database.js";

/** As it is run: compiled. */
const PROGRAM = fileURLToPath(new URL("../../dist/server.js", import.meta.url));

const holder = createServer();
let taken = 0;
let cwd = "";
before(async () => {
  cwd = await freshEmptyDir();
  await listenAt(holder, { host: "127.0.0.1", port: 0 });
  taken = (holder.address() as { port: number }).port;
});
after(() => holder.close());

function start(settings: Record<string, string>): Promise<{ code: number | null; text: string }> {
  return new Promise((resolve) => {
    const env = { PATH: process.env.PATH ?? "", PORT: String(taken), PUBLIC_URL: `http://localhost:${taken}`, DATA_DIR: join(cwd, "data"), ...settings };
    const child = spawn(process.execPath, [PROGRAM], { cwd, env, stdio: ["ignore", "pipe", "pipe"], timeout: 30_000 });
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes: Buffer) => (text += bytes.toString("utf8")));
    child.once("close", (code) => resolve({ code, text }));
  });
}

test("the program refuses a taken port, a name that nobody knows and a foreign address with 78 and one line, before it makes anything", async () => {
  for (const [settings, line] of [
    [{}, `outband: Port ${taken} is taken by another program. Stop it, or set PORT to another one.\n`],
    [{ HOST: "nonsense.invalid" }, "outband: HOST (nonsense.invalid) is not a name that this machine knows. Set it to an address of this machine, such as 127.0.0.1 or 0.0.0.0.\n"],
    [{ HOST: "192.0.2.1" }, "outband: HOST (192.0.2.1) is not an address of this machine. Set it to one, such as 127.0.0.1 or 0.0.0.0.\n"],
  ] as const) {
    assert.deepEqual(await start(settings), { code: 78, text: line });
  }
  assert.equal(existsSync(join(cwd, "data")), false);
});

test("an address that was looked at is free again", async () => {
  const server = createServer();
  await listenAt(server, { host: "127.0.0.1", port: 0 });
  const { port } = server.address() as { port: number };
  await assert.rejects(requireAddress({ host: "127.0.0.1", port }), ListenRefusal);
  await new Promise((resolve) => server.close(resolve));
  await requireAddress({ host: "127.0.0.1", port });
  await listenAt(server, { host: "127.0.0.1", port });
  await new Promise((resolve) => server.close(resolve));
});

test("every error of listening becomes a sentence; anything else stays what it was", () => {
  const said = (syscall: string, code: string): unknown => {
    const error = Object.assign(new Error(`${syscall} ${code}`), { syscall, code });
    const refusal = listenRefusal(error, { host: "127.0.0.1", port: 80 });
    return refusal === error ? null : (refusal as Error).message;
  };
  assert.equal(said("listen", "EACCES"), "This user may not listen on port 80. Set PORT to another one; below 1024 most systems want a privilege.");
  assert.equal(said("listen", "EMFILE"), "Nothing can listen at HOST 127.0.0.1, port 80 (EMFILE). Set HOST or PORT to another one.");
  assert.equal(said("getaddrinfo", "EAI_AGAIN"), said("getaddrinfo", "ENOTFOUND"));
  assert.equal(said("mkdir", "EACCES"), null);
});
