// The tools of a Gmail connection, in the order of the contract (6.3).
import type { Tool } from "../connector.js";
import { summarizeInbox } from "./inbox.js";
import { getMessage, listMessages } from "./readTools.js";
import { sendMessage } from "./sendTool.js";

export const gmailTools: Tool[] = [summarizeInbox, listMessages, getMessage, sendMessage];
