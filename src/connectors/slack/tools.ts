// The tools of a Slack connection, in the order of the contract (6.3).
import type { Tool } from "../connector.js";
import { listChannels } from "./listTool.js";
import { postMessage } from "./postTool.js";

export const slackTools: Tool[] = [listChannels, postMessage];
