// Starts the person's browser. Must never happen: a shell that reads the address, or anything but http(s) handed to a
// program that opens whatever it is given (file:, custom schemes).
import { spawn } from "node:child_process";
import type { Clock } from "../clock.js";

/** True: a browser was started, as far as the system says. */
export type OpenBrowser = (url: URL) => Promise<boolean>;

/** By platform. On Windows not `start`: that is cmd.exe, which would read `&` in the query as a second command. */
const OPENERS: Record<string, { file: string; args: string[] }> = {
  darwin: { file: "open", args: [] },
  win32: { file: "rundll32", args: ["url.dll,FileProtocolHandler"] },
};
const OPENER_ELSE = { file: "xdg-open", args: [] };

/** xdg-open stays as long as a browser that it started itself; what lasts this long has worked. */
const OPENER_WAIT_MS = 1500;

export function createBrowserOpener(deps: { platform: string; clock: Clock }): OpenBrowser {
  return async (url) => {
    if (url.protocol !== "https:" && url.protocol !== "http:") return false;
    const opener = OPENERS[deps.platform] ?? OPENER_ELSE;
    return new Promise<boolean>((resolve) => {
      const child = spawn(opener.file, [...opener.args, url.href], { stdio: "ignore", detached: true, shell: false });
      child.once("error", () => resolve(false));
      child.once("exit", (code) => resolve(code === 0));
      child.unref();
      void deps.clock.sleep(OPENER_WAIT_MS).then(() => resolve(true));
    });
  };
}
